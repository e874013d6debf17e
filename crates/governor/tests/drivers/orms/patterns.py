"""Transactions as SQLAlchemy's unit of work and Rails' ActiveRecord send them, while others hold the same rows. See ../README.md.

Rails itself would need Ruby: its statements are sent by libpq's calls, in the order in which its PostgreSQL adapter sends them.
"""

import os
import threading

from psycopg import errors, pq
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
    engine.dispose()


class Adapter:
    """The calls of ActiveRecord's PostgreSQL adapter."""

    def __init__(self):
        self.connection = pq.PGconn.connect(b"")
        assert self.connection.status == pq.ConnStatus.OK, self.connection.get_error_message()
        self.prepared = {}
        for sql in (
            "SET client_min_messages TO 'warning'",
            "SET standard_conforming_strings = on",
            "SET intervalstyle = iso_8601",
            "SET SESSION timezone TO 'UTC'",
            "SELECT t.oid, t.typname FROM pg_type as t WHERE t.typname IN ('int2', 'int4', 'int8', 'text')",
        ):
            self.query(sql)

    def done(self, result):
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return result
        raise errors.lookup(result.error_field(pq.DiagnosticField.SQLSTATE).decode())(result.get_error_message())

    def query(self, sql):
        return self.done(self.connection.exec_(sql.encode()))

    def prepared_query(self, sql, *values):
        if sql not in self.prepared:
            name = f"a{len(self.prepared) + 1}".encode()
            self.done(self.connection.prepare(name, sql.encode()))
            self.prepared[sql] = name
        values = [str(value).encode() for value in values]
        return self.done(self.connection.exec_prepared(self.prepared[sql], values))

    def transaction(self, work):
        self.query("BEGIN")
        try:
            work()
        except BaseException:
            self.query("ROLLBACK")
            raise
        self.query("COMMIT")


def rails_work(adapter):
    # with_lock, an optimistic lock, and a nested transaction (requires_new) that fails.
    for row in (1, 2, 3):
        adapter.prepared_query('SELECT "hot".* FROM "hot" WHERE "hot"."id" = $1 LIMIT 1 FOR UPDATE', row)
        adapter.prepared_query('UPDATE "hot" SET "low" = "low" + $1 WHERE "hot"."id" = $2', 1, row)
    adapter.query("SAVEPOINT active_record_1")
    try:
        adapter.prepared_query('INSERT INTO "pattern_items" ("name", "count", "version") VALUES ($1, 0, 1) RETURNING "id"', "counted")
        raise AssertionError("the name was there already")
    except errors.UniqueViolation:
        adapter.query("ROLLBACK TO SAVEPOINT active_record_1")
        adapter.query("RELEASE SAVEPOINT active_record_1")
    version = adapter.prepared_query('SELECT "version" FROM "pattern_items" WHERE "name" = $1', "counted").get_value(0, 0)
    sql = 'UPDATE "pattern_items" SET "count" = "count" + 3, "version" = "version" + 1 WHERE "name" = $1 AND "version" = $2'
    if adapter.prepared_query(sql, "counted", version.decode()).command_tuples != 1:
        raise errors.SerializationFailure("ActiveRecord::StaleObjectError")


def rails(_):
    adapter = Adapter()
    for _ in range(ROUNDS):
        while True:
            try:
                adapter.transaction(lambda: rails_work(adapter))
                break
            except RETRIED:
                pass
    adapter.connection.finish()


def check_activerecord():
    before = sums()
    in_threads(rails)
    after = sums()
    assert [a - b for a, b in zip(after, before)] == [3 * CONTENDERS * ROUNDS] * 2, (before, after)
    # A migration takes a session lock, and its statements are one transaction.
    migration = Adapter()
    assert migration.query("SELECT pg_try_advisory_lock(4711)").get_value(0, 0) == b"t"
    migration.transaction(lambda: migration.query('DROP TABLE "pattern_items"'))
    assert migration.query("SELECT pg_advisory_unlock(4711)").get_value(0, 0) == b"t"
    migration.query("DISCARD ALL")
    engine.dispose()


for check in (check_sqlalchemy, check_activerecord):
    check()
    print("ok", check.__name__.removeprefix("check_"), flush=True)
