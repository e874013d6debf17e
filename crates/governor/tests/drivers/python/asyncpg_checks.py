"""asyncpg, which sends Flush where others send Sync: see ../README.md."""

import asyncio
import io

import asyncpg

CONTENDERS = 6
ROUNDS = 12


async def connect(**options):
    # Everything else comes from libpq's variables.
    return await asyncpg.connect(**options)


async def check_connect():
    connection = await connect(server_settings={"application_name": "asyncpg checks"})
    assert connection.get_server_version().major >= 13
    assert await connection.fetchval("show application_name") == "asyncpg checks"
    await connection.close()


async def check_simple():
    connection = await connect()
    # Without parameters these go as one simple query.
    assert await connection.execute("select 1; select 2; select 3 where false") == "SELECT 0"
    assert await connection.fetchval("select 6 * 7") == 42
    await connection.close()


async def check_prepared():
    connection = await connect()
    statement = await connection.prepare("select $1::int + 1, $2::text, $3::bytea, $4::int[]")
    for number in range(50):
        row = await statement.fetchrow(number, None, bytes([0, 255, number]), [number, 2])
        assert tuple(row) == (number + 1, None, bytes([0, 255, number]), [number, 2]), row
    # More statements than its cache keeps: old ones are closed on the way.
    for number in range(150):
        assert await connection.fetchval(f"select $1::int + {number}", 1) == number + 1
    async with connection.transaction():
        total = 0
        async for (number,) in connection.cursor("select generate_series(1, $1::int)", 100, prefetch=7):
            total += number
        assert total == 5050
    # A statement whose result has changed its type is prepared anew.
    await connection.execute("create temp table changing (a int); insert into changing values (1)")
    assert tuple(await connection.fetchrow("select * from changing")) == (1,)
    await connection.execute("alter table changing add column b text default 'new'")
    try:
        row = await connection.fetchrow("select * from changing")
    except asyncpg.exceptions.InvalidCachedStatementError:
        row = await connection.fetchrow("select * from changing")
    assert tuple(row) == (1, "new"), row
    await connection.close()


async def check_pipeline():
    connection = await connect()
    await connection.execute("create temp table piped (number int check (number <> 13))")
    await connection.executemany("insert into piped values ($1)", [(number + 100,) for number in range(1000)])
    assert await connection.fetchval("select count(*) from piped") == 1000
    try:
        await connection.executemany("insert into piped values ($1)", [(number,) for number in range(100)])
        raise AssertionError("13 was inserted")
    except asyncpg.CheckViolationError:
        pass
    assert await connection.fetchval("select count(*) from piped") == 1000
    rows = await connection.fetchmany("insert into piped values ($1) returning number", [(n,) for n in (1, 2, 3)])
    assert [row[0] for row in rows] == [1, 2, 3]
    await connection.close()


async def check_copy():
    connection = await connect()
    await connection.execute("create temp table copied (id int primary key, text text)")
    records = [(number, f"row {number}") for number in range(20_000)]
    assert await connection.copy_records_to_table("copied", records=records) == "COPY 20000"
    out = io.BytesIO()
    await connection.copy_from_query("select * from copied order by id", output=out)
    lines = out.getvalue().decode().splitlines()
    assert len(lines) == 20_000 and lines[-1] == "19999\trow 19999"
    try:
        await connection.copy_records_to_table("copied", records=[(7, "again")] * 20_000)
        raise AssertionError("a duplicate key was copied in")
    except asyncpg.UniqueViolationError:
        pass
    assert await connection.fetchval("select count(*) from copied") == 20_000
    await connection.close()


async def check_cancel():
    connection = await connect()
    for _ in range(3):
        try:
            # When the time is over the driver sends a cancel request and waits for the answer to it.
            await connection.fetchval("select pg_sleep($1)", 60.0, timeout=0.2)
            raise AssertionError("it was not cancelled")
        except asyncio.TimeoutError:
            pass
        assert await connection.fetchval("select 1") == 1
    await connection.close()


async def check_notify():
    listener, speaker = await connect(), await connect()
    heard = asyncio.Queue()
    await listener.add_listener("asyncpg_news", lambda _connection, _process, _channel, payload: heard.put_nowait(payload))
    await speaker.execute("notify asyncpg_news, 'first'")
    await speaker.execute("select pg_notify('asyncpg_news', $1)", "second")
    assert [await asyncio.wait_for(heard.get(), 20) for _ in range(2)] == ["first", "second"]
    await listener.reset()
    await listener.close()
    await speaker.close()


async def check_rollback():
    connection = await connect()
    await connection.execute("drop table if exists asyncpg_kept; create table asyncpg_kept (id int primary key)")
    try:
        async with connection.transaction():
            await connection.execute("insert into asyncpg_kept values ($1)", 1)
            try:
                await connection.fetchval("select 1 / $1::int", 0)
                raise AssertionError("division by zero")
            except asyncpg.DivisionByZeroError:
                pass
            await connection.fetchval("select 1")
        raise AssertionError("the transaction goes on after an error")
    except asyncpg.InFailedSQLTransactionError:
        pass
    assert await connection.fetchval("select count(*) from asyncpg_kept") == 0
    async with connection.transaction():
        await connection.execute("insert into asyncpg_kept values (2)")
        try:
            async with connection.transaction():
                await connection.execute("insert into asyncpg_kept values (2)")
        except asyncpg.UniqueViolationError:
            pass
        await connection.execute("insert into asyncpg_kept values (3)")
    assert await connection.fetchval("select array_agg(id order by id) from asyncpg_kept") == [2, 3]
    await connection.execute("drop table asyncpg_kept")
    await connection.close()


async def check_large():
    connection = await connect()
    rows = await connection.fetch("select repeat('x', 1000) from generate_series(1, 10000)")
    assert sum(len(row[0]) for row in rows) == 10_000_000
    assert len(await connection.fetchval("select repeat('y', 10000000)")) == 10_000_000
    assert await connection.fetchval("select length($1)", "z" * 5_000_000) == 5_000_000
    await connection.close()


async def check_notice():
    connection = await connect()
    heard = []
    connection.add_log_listener(lambda _connection, message: heard.append(message.message))
    await connection.execute("do $$ begin raise notice 'hear %', 'me'; end $$")
    await asyncio.sleep(0)
    assert heard == ["hear me"], heard
    await connection.close()


async def contend():
    connection = await connect()
    for _ in range(ROUNDS):
        while True:
            try:
                async with connection.transaction():
                    for row in (1, 2, 3):
                        before = await connection.fetchval("select low from hot where id = $1 for update", row)
                        sql = "update hot set low = low + 1 where id = $1 returning low"
                        after = await connection.fetchval(sql, row)
                        assert after == before + 1, f"{before} and then {after}"
                break
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
                pass
    await connection.close()


async def check_contended():
    connection = await connect()
    counts = "select array_agg(low order by id) from hot where id <= 3"
    before = await connection.fetchval(counts)
    await asyncio.gather(*(contend() for _ in range(CONTENDERS)))
    after = await connection.fetchval(counts)
    assert [a - b for a, b in zip(after, before)] == [CONTENDERS * ROUNDS] * 3, (before, after)
    await connection.close()


async def main():
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
        await check()
        print("ok", check.__name__.removeprefix("check_"), flush=True)


asyncio.run(main())
