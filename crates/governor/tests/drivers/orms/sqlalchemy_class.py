"""SQLAlchemy: an event adds the tag to each statement of an engine. See ../README.md."""

import os

from sqlalchemy import URL, create_engine, event, text

url = URL.create(
    "postgresql+psycopg",
    username=os.environ["PGUSER"],
    password=os.environ["PGPASSWORD"],
    host=os.environ["PGHOST"],
    port=int(os.environ["PGPORT"]),
    database=os.environ["PGDATABASE"],
)
reports = create_engine(url)
others = create_engine(url)


@event.listens_for(reports, "before_cursor_execute", retval=True)
def tag(connection, cursor, statement, parameters, context, executemany):
    return f"{statement} /*class='nightly'*/", parameters


for _ in range(2):
    with reports.begin() as connection:
        connection.execute(text("SELECT count(*) FROM hot WHERE id > :id"), {"id": 0})
        connection.execute(text("SELECT 1"))
with others.begin() as connection:
    connection.execute(text("SELECT 1"))

with reports.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    connection.execute(text("SELECT 1"))

reports.dispose()
others.dispose()
print("ok class")
