// node-postgres: see ../README.md.

import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable } from "node:stream";
import { pipeline as stream } from "node:stream/promises";

import postgres from "pg";
import copyStreams from "pg-copy-streams";
import Cursor from "pg-cursor";

import { AGAIN, CONTENDERS, ROUNDS, refused, run, within } from "./checks.js";

// Runs `work` with a connection; where to is in libpq's variables.
async function connected(work, options = {}) {
    const client = new postgres.Client(options);
    await client.connect();
    try {
        return await work(client);
    } finally {
        await client.end();
    }
}

const one = async (client, ...query) => Object.values((await client.query(...query)).rows[0])[0];

async function connect() {
    await connected(
        async (client) => assert.equal(await one(client, "show application_name"), "pg checks"),
        { application_name: "pg checks" },
    );
}

async function simple() {
    await connected(async (client) => {
        assert.equal(await one(client, "select 6 * 7"), 42);
        const results = await client.query("select 1 as n; select 'zwei' as n; select null as n");
        assert.deepEqual(results.map((result) => result.rows[0].n), [1, "zwei", null]);
        await client.query("");
    });
}

async function prepared() {
    await connected(async (client) => {
        const text = "select $1::int + 1 as a, $2::text as b, $3::bytea as c, $4::int[] as d";
        for (let number = 0; number < 50; number++) {
            const bytes = Buffer.from([0, 255, number]);
            const result = await client.query({ name: "named", text, values: [number, null, bytes, [number, 2]] });
            assert.deepEqual(result.rows[0], { a: number + 1, b: null, c: bytes, d: [number, 2] });
        }
        const statements = await one(client, "select count(*)::int from pg_prepared_statements");
        assert.ok(process.env.PLIMSOLL_SHARED ? statements >= 1 : statements === 1, `${statements} statements`);
        for (let number = 0; number < 50; number++) {
            assert.equal(await one(client, "select $1::int * 2", [number]), number * 2);
        }
        // A portal read in pieces, with Flush between them.
        const cursor = client.query(new Cursor("select generate_series(1, $1::int) as n", [100]));
        let total = 0;
        for (let rows = await cursor.read(7); rows.length > 0; rows = await cursor.read(7)) {
            total += rows.reduce((sum, row) => sum + row.n, 0);
        }
        await cursor.close();
        assert.equal(total, 5050);
        // One that is closed before its end.
        const unread = client.query(new Cursor("select generate_series(1, 1000000)"));
        await unread.read(3);
        await unread.close();
        assert.equal(await one(client, "select 1"), 1);
    });
}

async function pipeline() {
    await connected(async (client) => {
        await client.query("create temp table piped (number int check (number <> 13))");
        // The driver queues them; all answers must come in order, with errors where they belong.
        const insert = (number) => client.query("insert into piped values ($1) returning number", [number]);
        const results = await Promise.allSettled(Array.from({ length: 200 }, (_, number) => insert(number)));
        results.forEach((result, number) => {
            if (number === 13) assert.equal(result.reason.code, "23514");
            else assert.equal(result.value.rows[0].number, number);
        });
        assert.equal(await one(client, "select count(*)::int from piped"), 199);
    });
}

async function copy() {
    await connected(async (client) => {
        await client.query("create temp table copied (id int primary key, text text)");
        const rows = function* () {
            for (let number = 0; number < 20000; number++) yield `${number}\trow ${number}\n`;
        };
        await stream(Readable.from(rows()), client.query(copyStreams.from("copy copied from stdin")));
        const out = client.query(copyStreams.to("copy (select * from copied order by id) to stdout"));
        let text = "";
        for await (const chunk of out) text += chunk;
        assert.equal(text.split("\n").length, 20001);
        assert.ok(text.endsWith("19999\trow 19999\n"));
        await refused("23505", stream(Readable.from(rows()), client.query(copyStreams.from("copy copied from stdin"))));
        assert.equal(await one(client, "select count(*)::int from copied"), 20000);
    });
}

async function cancel() {
    await connected(async (client) => {
        for (let time = 0; time < 3; time++) {
            const query = new postgres.Query("select pg_sleep(60)");
            const ended = new Promise((resolve, reject) => query.on("error", reject).on("end", resolve));
            client.query(query);
            // The driver's own way: a second client, not connected, sends the request with the key of the first.
            setTimeout(() => new postgres.Client().cancel(client, query), 200);
            await refused("57014", within(30, "cancel", ended));
            assert.equal(await one(client, "select 1"), 1);
        }
    });
}

async function notify() {
    await connected((listener) =>
        connected(async (speaker) => {
            const heard = [];
            listener.on("notification", (message) => heard.push(message.payload));
            await listener.query("listen pg_news");
            await speaker.query("notify pg_news, 'first'");
            await speaker.query("select pg_notify('pg_news', $1)", ["second"]);
            while (heard.length < 2) await within(20, "notification", once(listener, "notification"));
            assert.deepEqual(heard, ["first", "second"]);
        }),
    );
}

async function rollback() {
    await connected(async (client) => {
        await client.query("drop table if exists pg_kept; create table pg_kept (id int primary key)");
        await client.query("begin");
        await client.query("insert into pg_kept values ($1)", [1]);
        await refused("22012", client.query("select 1 / $1::int", [0]));
        await refused("25P02", client.query("select 1"));
        await client.query("rollback");
        assert.equal(await one(client, "select count(*)::int from pg_kept"), 0);
        await client.query("begin");
        await client.query("insert into pg_kept values (2)");
        await client.query("savepoint here");
        await refused("23505", client.query("insert into pg_kept values (2)"));
        await client.query("rollback to here");
        await client.query("insert into pg_kept values (3)");
        await client.query("commit");
        assert.deepEqual(await one(client, "select array_agg(id order by id) from pg_kept"), [2, 3]);
        await client.query("drop table pg_kept");
    });
}

async function large() {
    await connected(async (client) => {
        const result = await client.query("select repeat('x', 1000) as text from generate_series(1, 10000)");
        assert.equal(result.rows.reduce((sum, row) => sum + row.text.length, 0), 10000000);
        assert.equal((await one(client, "select repeat('y', 10000000)")).length, 10000000);
        assert.equal(await one(client, "select length($1)", ["z".repeat(5000000)]), 5000000);
    });
}

async function notice() {
    await connected(async (client) => {
        const heard = [];
        client.on("notice", (message) => heard.push(message.message));
        await client.query("do $$ begin raise notice 'hear %', 'me'; end $$");
        assert.deepEqual(heard, ["hear me"]);
    });
}

const counts = (client) => one(client, "select array_agg(low::int order by id) from hot where id <= 3");

async function transfer(client) {
    await client.query("begin");
    for (const row of [1, 2, 3]) {
        const before = await one(client, "select low::int from hot where id = $1 for update", [row]);
        const after = await one(client, "update hot set low = low + 1 where id = $1 returning low::int", [row]);
        assert.equal(after, before + 1);
    }
    await client.query("commit");
}

function contend() {
    return connected(async (client) => {
        for (let round = 0; round < ROUNDS; ) {
            try {
                await transfer(client);
                round++;
            } catch (error) {
                if (!AGAIN.includes(error.code)) throw error;
                await client.query("rollback");
            }
        }
    });
}

async function contended() {
    await connected(async (client) => {
        const before = await counts(client);
        await Promise.all(Array.from({ length: CONTENDERS }, contend));
        const after = await counts(client);
        assert.deepEqual(after.map((count, row) => count - before[row]), Array(3).fill(CONTENDERS * ROUNDS));
    });
}

await run(connect, simple, prepared, pipeline, copy, cancel, notify, rollback, large, notice, contended);
