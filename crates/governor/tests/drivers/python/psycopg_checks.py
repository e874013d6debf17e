"""psycopg 3 (libpq): see ../README.md."""

import os
import threading

import psycopg
from psycopg import errors

CONTENDERS = 6
ROUNDS = 12


def connect(**options):
    # Everything else comes from libpq's variables.
    return psycopg.connect(autocommit=True, **options)


def one(connection, sql, parameters=None, **options):
    return connection.execute(sql, parameters, **options).fetchone()[0]


def check_connect():
    with connect(application_name="psycopg checks") as connection:
        assert connection.info.server_version >= 130000
        assert one(connection, "show application_name") == "psycopg checks"
        assert connection.info.parameter_status("client_encoding") == "UTF8"


def check_simple():
    with connect() as connection:
        assert one(connection, "select 6 * 7") == 42
        cursor = connection.execute("select 1; select 'zwei'; select null")
        rows = [cursor.fetchone()]
        while cursor.nextset():
            rows.append(cursor.fetchone())
        assert rows == [(1,), ("zwei",), (None,)], rows
        assert connection.execute("").statusmessage is None


def check_prepared():
    with connect() as connection:
        for number in range(50):
            row = connection.execute(
                "select %s::int + 1, %s::text, %s::bytea, %s::int[]",
                (number, None, bytes([0, 255, number]), [number, 2]),
                prepare=True,
                binary=number % 2 == 1,
            ).fetchone()
            assert row == (number + 1, None, bytes([0, 255, number]), [number, 2]), row
        statements = one(connection, "select count(*) from pg_prepared_statements")
        assert statements == 1 or "PLIMSOLL_SHARED" in os.environ, statements
        with connection.cursor(name="portal") as cursor, connection.transaction():
            cursor.itersize = 7
            cursor.execute("select generate_series(1, 100)")
            assert sum(number for (number,) in cursor) == 5050


def check_pipeline():
    with connect() as connection:
        connection.execute("create temp table piped (number int check (number <> 13))")
        with connection.pipeline():
            cursors = [connection.execute("select %s::int", (number,)) for number in range(200)]
            assert [cursor.fetchone()[0] for cursor in cursors] == list(range(200))
        with connection.cursor() as cursor:
            cursor.executemany("insert into piped values (%s) returning number", [(n,) for n in range(10)], returning=True)
        failed = 0
        with connection.pipeline() as pipeline:
            connection.execute("insert into piped values (100)")
            pipeline.sync()
            connection.execute("insert into piped values (13)")
            skipped = connection.execute("insert into piped values (101)")
            try:
                pipeline.sync()
            except errors.CheckViolation:
                failed += 1
            try:
                skipped.fetchall()
            except (errors.PipelineAborted, psycopg.ProgrammingError):
                failed += 1
            connection.execute("insert into piped values (102)")
        assert failed == 2, failed
        rows = [number for (number,) in connection.execute("select number from piped where number >= 13 order by 1")]
        assert rows == [100, 102], rows


def check_copy():
    with connect() as connection:
        connection.execute("create temp table copied (id int primary key, text text)")
        with connection.cursor() as cursor, cursor.copy("copy copied from stdin") as copy:
            for number in range(20_000):
                copy.write_row((number, f"row {number}"))
        with connection.cursor() as cursor, cursor.copy("copy (select * from copied order by id) to stdout") as copy:
            rows = [row for row in copy.rows()]
        assert len(rows) == 20_000 and rows[-1] == ("19999", "row 19999")
        try:
            with connection.cursor() as cursor, cursor.copy("copy copied from stdin") as copy:
                for number in range(20_000):
                    copy.write_row((7, "again"))
            raise AssertionError("a duplicate key was copied in")
        except errors.UniqueViolation:
            pass
        try:
            with connection.cursor() as cursor, cursor.copy("copy copied from stdin") as copy:
                copy.write_row((20_000, "not to be"))
                raise RuntimeError("the client gives up")
        except (RuntimeError, errors.QueryCanceled):
            pass
        assert one(connection, "select count(*) from copied") == 20_000


def check_cancel():
    with connect() as connection:
        for cancel in (connection.cancel, connection.cancel_safe):
            timer = threading.Timer(0.2, cancel)
            timer.start()
            try:
                connection.execute("select pg_sleep(60)")
                raise AssertionError("it was not cancelled")
            except errors.QueryCanceled:
                pass
            timer.join()
            assert one(connection, "select 1") == 1


def check_notify():
    with connect() as listener, connect() as speaker:
        listener.execute("listen psycopg_news")
        speaker.execute("notify psycopg_news, 'first'")
        speaker.execute("select pg_notify('psycopg_news', 'second')")
        heard = [notify.payload for notify in listener.notifies(timeout=20, stop_after=2)]
        assert heard == ["first", "second"], heard
        listener.execute("unlisten *")


def check_rollback():
    with connect() as connection:
        connection.execute("drop table if exists psycopg_kept; create table psycopg_kept (id int primary key)")
        connection.execute("begin")
        connection.execute("insert into psycopg_kept values (1)")
        try:
            connection.execute("select 1 / 0")
            raise AssertionError("division by zero")
        except errors.DivisionByZero:
            pass
        try:
            connection.execute("select 1")
            raise AssertionError("the transaction goes on after an error")
        except errors.InFailedSqlTransaction:
            pass
        connection.execute("rollback")
        assert one(connection, "select count(*) from psycopg_kept") == 0
        with connection.transaction():
            connection.execute("insert into psycopg_kept values (2)")
            try:
                with connection.transaction():
                    connection.execute("insert into psycopg_kept values (2)")
            except errors.UniqueViolation:
                pass
            connection.execute("insert into psycopg_kept values (3)")
        assert one(connection, "select array_agg(id order by id) from psycopg_kept") == [2, 3]
        connection.execute("drop table psycopg_kept")


def check_large():
    with connect() as connection:
        total = sum(len(text) for (text,) in connection.execute("select repeat('x', 1000) from generate_series(1, 10000)"))
        assert total == 10_000_000
        assert len(one(connection, "select repeat('y', 10000000)")) == 10_000_000
        assert one(connection, "select length(%s)", ("z" * 5_000_000,)) == 5_000_000


def check_notice():
    with connect() as connection:
        heard = []
        connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
        connection.execute("do $$ begin raise notice 'hear %', 'me'; end $$")
        assert heard == ["hear me"], heard


def contend(name, failures):
    try:
        with connect() as connection:
            for _ in range(ROUNDS):
                while True:
                    try:
                        with connection.transaction():
                            for row in (1, 2, 3):
                                before = one(connection, "select low from hot where id = %s for update", (row,))
                                after = one(
                                    connection, "update hot set low = low + 1 where id = %s returning low", (row,)
                                )
                                assert after == before + 1, f"{name}: {before} and then {after}"
                        break
                    except (errors.SerializationFailure, errors.DeadlockDetected):
                        pass
    except BaseException as error:
        failures.append(error)


def check_contended():
    with connect() as connection:
        before = one(connection, "select array_agg(low order by id) from hot where id <= 3")
        failures = []
        threads = [threading.Thread(target=contend, args=(n, failures)) for n in range(CONTENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        after = one(connection, "select array_agg(low order by id) from hot where id <= 3")
        assert [a - b for a, b in zip(after, before)] == [CONTENDERS * ROUNDS] * 3, (before, after)


for check in (
    check_connect,
    check_simple,
    check_prepared,
    check_pipeline,
    check_copy,
    check_cancel,
    check_notify,
    check_rollback,
    check_large,
    check_notice,
    check_contended,
):
    check()
    print("ok", check.__name__.removeprefix("check_"), flush=True)
