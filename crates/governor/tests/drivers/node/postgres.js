// postgres.js, which describes statements with Flush and pipelines by itself: see ../README.md.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { pipeline as stream } from "node:stream/promises";

import postgres from "postgres";

import { AGAIN, CONTENDERS, ROUNDS, refused, run, within } from "./checks.js";

// Runs `work` with a pool; where to is in libpq's variables, but for the database, which the driver does not read there.
async function connected(work, options = {}) {
    const sql = postgres({ max: 1, database: process.env.PGDATABASE, onnotice: () => {}, ...options });
    try {
        return await work(sql);
    } finally {
        await sql.end({ timeout: 5 });
    }
}

const one = async (query) => Object.values((await query)[0])[0];

async function connect() {
    await connected(
        async (sql) => assert.equal(await one(sql`show application_name`), "postgres.js checks"),
        { connection: { application_name: "postgres.js checks" } },
    );
}

async function simple() {
    await connected(async (sql) => {
        assert.equal(await one(sql`select 6 * 7`.simple()), 42);
        const results = await sql`select 1 as n; select 'zwei' as n; select null as n`.simple();
        assert.deepEqual(results.map((rows) => rows[0].n), [1, "zwei", null]);
    });
}

async function prepared() {
    await connected(async (sql) => {
        for (let number = 0; number < 50; number++) {
            const bytes = Buffer.from([0, 255, number]);
            const [row] = await sql`
                select ${number}::int + 1 as a, ${null}::text as b, ${bytes}::bytea as c, ${[number, 2]}::int[] as d`;
            assert.deepEqual({ ...row }, { a: number + 1, b: null, c: bytes, d: [number, 2] });
        }
        // The one above, this one, and the driver's own, which asks for the types of arrays.
        const statements = await one(sql`select count(*)::int from pg_prepared_statements`);
        assert.ok(process.env.PLIMSOLL_SHARED ? statements >= 3 : statements === 3, `${statements} statements`);
        let total = 0;
        await sql`select generate_series(1, ${100}::int) as n`.cursor(7, (rows) => {
            for (const row of rows) total += row.n;
        });
        assert.equal(total, 5050);
    });
}

async function pipeline() {
    await connected(async (sql) => {
        await sql`create temp table piped (number int check (number <> 13))`;
        // All of them are on their way at once.
        const insert = (number) => sql`insert into piped values (${number}) returning number`;
        const results = await Promise.allSettled(Array.from({ length: 200 }, (_, number) => insert(number)));
        results.forEach((result, number) => {
            if (number === 13) assert.equal(result.reason.code, "23514");
            else assert.equal(result.value[0].number, number);
        });
        assert.equal(await one(sql`select count(*)::int from piped`), 199);
        const [first, second] = await sql.begin((sql) => [sql`select ${1}::int as n`, sql`select ${2}::int as n`]);
        assert.deepEqual([first[0].n, second[0].n], [1, 2]);
    });
}

async function copy() {
    await connected(async (sql) => {
        await sql`create temp table copied (id int primary key, text text)`;
        const rows = function* () {
            for (let number = 0; number < 20000; number++) yield `${number}\trow ${number}\n`;
        };
        // When the stream is done the driver sends CopyFail after CopyDone, which the server passes over.
        await stream(Readable.from(rows()), await sql`copy copied from stdin`.writable());
        // The driver loses the end of what is more than its stream keeps (16 kB), from a server directly, too.
        let text = "";
        const few = await sql`copy (select * from copied order by id limit 700) to stdout`.readable();
        for await (const chunk of few) text += chunk;
        assert.equal(text.split("\n").length, 701);
        assert.ok(text.endsWith("699\trow 699\n"));
        assert.equal(await one(sql`select count(*)::int from copied`), 20000);
    });
}

async function cancel() {
    await connected(async (sql) => {
        for (let time = 0; time < 3; time++) {
            const query = sql`select pg_sleep(60)`;
            setTimeout(() => query.cancel(), 200);
            await refused("57014", within(30, "cancel", query.execute()));
            assert.equal(await one(sql`select 1`), 1);
        }
    });
}

async function notify() {
    await connected((listener) =>
        connected(async (speaker) => {
            const heard = [];
            let wake;
            const both = new Promise((resolve) => (wake = resolve));
            await listener.listen("postgres_js_news", (payload) => heard.push(payload) === 2 && wake());
            await speaker.notify("postgres_js_news", "first");
            await speaker`select pg_notify('postgres_js_news', ${"second"})`;
            await within(20, "notification", both);
            assert.deepEqual(heard, ["first", "second"]);
        }),
    );
}

async function rollback() {
    await connected(async (sql) => {
        await sql`drop table if exists postgres_js_kept; create table postgres_js_kept (id int primary key)`.simple();
        await refused(
            // The driver rolls back, and tells of the first error.
            "22012",
            sql.begin(async (sql) => {
                await sql`insert into postgres_js_kept values (${1})`;
                await refused("22012", sql`select 1 / ${0}::int`);
                await refused("25P02", sql`select 1`);
            }),
        );
        assert.equal(await one(sql`select count(*)::int from postgres_js_kept`), 0);
        await sql.begin(async (sql) => {
            await sql`insert into postgres_js_kept values (2)`;
            await refused("23505", sql.savepoint((sql) => sql`insert into postgres_js_kept values (2)`));
            await sql`insert into postgres_js_kept values (3)`;
        });
        assert.deepEqual(await one(sql`select array_agg(id order by id) from postgres_js_kept`), [2, 3]);
        await sql`drop table postgres_js_kept`;
    });
}

async function large() {
    await connected(async (sql) => {
        const rows = await sql`select repeat('x', 1000) as text from generate_series(1, 10000)`;
        assert.equal(rows.reduce((sum, row) => sum + row.text.length, 0), 10000000);
        assert.equal((await one(sql`select repeat('y', 10000000)`)).length, 10000000);
        assert.equal(await one(sql`select length(${"z".repeat(5000000)})`), 5000000);
    });
}

async function notice() {
    const heard = [];
    await connected(
        async (sql) => {
            await sql.unsafe("do $$ begin raise notice 'hear %', 'me'; end $$");
            assert.deepEqual(heard, ["hear me"]);
        },
        { onnotice: (message) => heard.push(message.message) },
    );
}

const counts = (sql) => one(sql`select array_agg(low::int order by id) from hot where id <= 3`);

async function transfer(sql) {
    for (const row of [1, 2, 3]) {
        const before = await one(sql`select low::int from hot where id = ${row} for update`);
        const after = await one(sql`update hot set low = low + 1 where id = ${row} returning low::int`);
        assert.equal(after, before + 1);
    }
}

async function contend(sql) {
    for (let round = 0; round < ROUNDS; ) {
        try {
            await sql.begin(transfer);
            round++;
        } catch (error) {
            if (!AGAIN.includes(error.code)) throw error;
        }
    }
}

async function contended() {
    await connected(
        async (sql) => {
            const before = await counts(sql);
            await Promise.all(Array.from({ length: CONTENDERS }, () => contend(sql)));
            const after = await counts(sql);
            assert.deepEqual(after.map((count, row) => count - before[row]), Array(3).fill(CONTENDERS * ROUNDS));
        },
        { max: CONTENDERS },
    );
}

await run(connect, simple, prepared, pipeline, copy, cancel, notify, rollback, large, notice, contended);
