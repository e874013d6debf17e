"""Transactions as SQLAlchemy's unit of work sends them, while others hold the same rows. See ../README.md."""

import os
import threading

from psycopg import errors
from sqlalchemy import URL, create_engine, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.orm.exc import StaleDataError

CONTENDERS = 4
ROUNDS = 10
RETRIED = (errors.SerializationFailure, errors.DeadlockDetected)

engine = create_engine(
    URL.create(
        "postgresql+psycopg",
        username=os.environ["PGUSER"],
        password=os.environ["PGPASSWORD"],
        host=os.environ["PGHOST"],
        port=int(os.environ["PGPORT"]),
        database=os.environ["PGDATABASE"],
    ),
    pool_size=CONTENDERS,
    # Asks before each use whether the connection is still good.
    pool_pre_ping=True,
)


class Base(DeclarativeBase):
    pass


class Hot(Base):
    __tablename__ = "hot"
    id: Mapped[int] = mapped_column(primary_key=True)
    low: Mapped[int]
    high: Mapped[int]


class Item(Base):
    __tablename__ = "pattern_items"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    count: Mapped[int] = mapped_column(default=0)
    version: Mapped[int] = mapped_column()
    # An update of a row that another transaction has changed finds none, and is an error.
    __mapper_args__ = {"version_id_col": version}


def in_threads(work):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(CONTENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def retried(work):
    """Runs a unit of work until it is through, as applications do that expect 40001."""
    while True:
        try:
            with Session(engine) as session, session.begin():
                return work(session)
        except StaleDataError:
            pass
        except DBAPIError as error:
            if not isinstance(error.orig, RETRIED):
                raise


def sums():
    with engine.connect() as connection:
        return connection.execute(text("select sum(low), (select sum(count) from pattern_items) from hot where id <= 3")).one()


def unit_of_work(session):
    # Objects are locked, changed in memory, and written at the flush.
    rows = session.scalars(select(Hot).where(Hot.id <= 3).order_by(Hot.id).with_for_update()).all()
    for row in rows:
        row.low += 1
    session.flush()
    # A part that fails is undone by a savepoint, and the rest goes on.
    try:
        with session.begin_nested():
            session.add(Item(name="counted"))
            session.flush()
        raise AssertionError("the name was there already")
    except IntegrityError:
        pass
    item = session.scalars(select(Item).where(Item.name == "counted")).one()
    item.count += 3


def check_sqlalchemy():
    Base.metadata.drop_all(engine, tables=[Item.__table__])
    Base.metadata.create_all(engine, tables=[Item.__table__])
    with Session(engine) as session, session.begin():
        session.add(Item(name="counted"))
    before = sums()
    in_threads(lambda _: [retried(unit_of_work) for _ in range(ROUNDS)])
    after = sums()
    assert [a - b for a, b in zip(after, before)] == [3 * CONTENDERS * ROUNDS] * 2, (before, after)
    # Stricter isolation is set on the connection, for one transaction, before BEGIN.
    strict = engine.execution_options(isolation_level="REPEATABLE READ")
    with strict.connect() as connection, connection.begin():
        assert connection.execute(text("show transaction_isolation")).scalar() == "repeatable read"
    Base.metadata.drop_all(engine, tables=[Item.__table__])
    engine.dispose()


check_sqlalchemy()
print("ok sqlalchemy")
