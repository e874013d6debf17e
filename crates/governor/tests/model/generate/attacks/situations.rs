//! The situations in which transactions are replayed, or rolled back and not replayed.

use rand::RngExt;

use super::super::super::script::{
    CopyPart, Injection, PROBE, Request, SHAPES, ScriptStep, Settles, Transaction, Unit,
};
use super::super::{Writer, one_shot, run};
use super::forms::{alone, plain, query, with};

/// A block of harmless units of which some are hit.
pub fn with_hits(writer: &mut Writer, count: usize) -> Vec<Transaction> {
    let mut steps = vec![writer.begin()];
    for _ in 0..writer.random.random_range(1..=count) {
        steps.extend(writer.harmless(2));
        let hit = writer.hit();
        steps.push(writer.hit_by(hit));
    }
    steps.push(writer.end());
    vec![alone(steps)]
}

/// A transaction, and once more with all that happens to it: by then its texts are known.
fn twice(mut transaction: Transaction) -> Vec<Transaction> {
    let second = transaction.clone();
    transaction.steps.iter_mut().for_each(|step| step.injections.clear());
    vec![transaction, second]
}

/// A block that is cancelled, whose answers are the same again. Its texts are few, so that they are soon known.
pub fn cancelled(writer: &mut Writer) -> Vec<Transaction> {
    let sql = "UPDATE accounts SET v = v + 1 WHERE id = 1";
    let steps =
        vec![query("BEGIN"), query(sql), with(writer.cancel(), Unit::Query(vec![sql.to_owned()])), query("COMMIT")];
    twice(alone(steps))
}

/// Values that a second run would generate again, and differently, have reached the client.
pub fn values(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.cancel();
    let any = &[
        "INSERT INTO orders (what) VALUES ('o') RETURNING id AS gen_order",
        "INSERT INTO orders (what) VALUES ('o'), ('p') RETURNING id AS gen_order, made AS gen_made",
        "INSERT INTO orders (what) VALUES ('r') RETURNING ref AS gen_ref",
        "INSERT INTO items (what) VALUES ('i') RETURNING id AS gen_item",
        "UPDATE accounts SET v = v + 1 WHERE id = 4 RETURNING xmin AS gen_xmin",
        "SELECT nextval('numbers') AS gen_number",
        "SELECT now() AS gen_made",
        "SELECT txid_current() AS gen_txid",
        "SELECT random() AS gen_random",
        "SELECT last_value AS gen_number FROM numbers",
        "SELECT count(*) AS gen_locks FROM pg_locks",
        "SELECT max(query_start) AS gen_made FROM pg_stat_activity",
        // Of a table, both sides may have another plan.
        "EXPLAIN (COSTS OFF) SELECT 1",
    ];
    let (sql, last) = (writer.one(any), writer.harmless_sql());
    let sql = writer.written(&sql);
    let steps = vec![query("BEGIN"), query(&sql), with(hit, Unit::Query(vec![last])), query("COMMIT")];
    twice(alone(steps))
}

/// Rows in an order that depends on where their table has them, after the transaction has written to it.
pub fn rearranged(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.cancel();
    let any = &[
        "SELECT id, v FROM accounts ORDER BY id",
        "SELECT array_agg(v ORDER BY id) FROM accounts",
        "SELECT v FROM accounts ORDER BY id LIMIT 1",
        "SELECT row_number() OVER (ORDER BY id) FROM accounts WHERE id = 2",
    ];
    let (change, sql, last) = (writer.change(), writer.one(any), writer.harmless_sql());
    let sql = writer.written(&sql);
    let steps = vec![query("BEGIN"), query(&change), query(&sql), with(hit, Unit::Query(vec![last])), query("COMMIT")];
    twice(alone(steps))
}

/// Random numbers of a session that has chosen their seed: a second run would take the next ones, and both sides have the
/// same.
pub fn random(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.hit();
    let seed =
        writer.one(&["SELECT setseed(0.5)", "SET seed = 0.25", "SELECT v, setseed(0.1) FROM accounts WHERE id = 1"]);
    let any = &["SELECT random() AS chosen", "UPDATE accounts SET v = (random() * 1000)::int WHERE id = 3"];
    let last = query("SELECT random() AS chosen");
    vec![alone(vec![query(&seed)]), writer.block_that_runs(any, hit), alone(vec![last])]
}

/// A statement that has used up more of its timeout than a replay may begin anew, or that may have.
pub fn timed(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.cancel();
    let set = writer.one(&[
        "SET statement_timeout = '1h 1s'",
        "SELECT set_config('lock_timeout', (50 * 1000)::text, true)",
        "SELECT set_config(lower('LOCK_TIMEOUT'), '50s', false)",
    ]);
    let last = writer.harmless_sql();
    let steps = vec![query("BEGIN"), query(&set), with(hit, Unit::Query(vec![last])), query("COMMIT")];
    vec![alone(steps)]
}

/// A text that no session has run before.
pub fn unknown(writer: &mut Writer) -> Vec<Transaction> {
    let (hit, name) = (writer.cancel(), writer.random.random_range(0..u32::MAX));
    vec![writer.block_that_runs(&[&format!("SELECT v AS v{name} FROM accounts WHERE id = 1")], hit)]
}

/// A block whose client is hit again and again while it thinks.
pub fn too_often(writer: &mut Writer) -> Vec<Transaction> {
    let mut steps = vec![writer.begin(), query("SELECT v FROM accounts WHERE id = 1")];
    for _ in 0..7 {
        steps.push(writer.hit_by(vec![Injection::Idle]));
    }
    steps.push(writer.end());
    vec![alone(steps)]
}

/// Another session changes what was read.
pub fn changed_answer(writer: &mut Writer) -> Vec<Transaction> {
    let account = writer.account();
    let sql = writer.one(&[
        &format!("SELECT v FROM accounts WHERE id = {account}"),
        "SELECT sum(v) FROM accounts",
        "SELECT id, v FROM accounts ORDER BY id",
        &format!("UPDATE accounts SET v = v + 1 WHERE id = {account} RETURNING v"),
    ]);
    let mut steps = vec![writer.begin()];
    steps.extend(writer.in_some_form(&sql));
    let mut hit = writer.hit();
    hit.push(Injection::Change { account });
    steps.push(writer.hit_by(hit));
    steps.push(writer.end());
    vec![alone(steps)]
}

/// A unit outside of a block, cancelled at its end or in its commit.
pub fn one_unit(writer: &mut Writer) -> Vec<Transaction> {
    let sql = writer.harmless_sql();
    let mut steps = writer.in_some_form(&sql);
    let last = steps.last_mut().expect("it has a unit");
    last.injections = vec![Injection::Cancel { at: 3, after: 0, settles: Settles::Before }];
    vec![alone(steps)]
}

/// Statements that were prepared before the transaction, within it and without a name.
pub fn prepared(writer: &mut Writer) -> Vec<Transaction> {
    let (older, own) = (writer.some_name(), writer.some_name());
    let parse = |name: &str| {
        let sql = "UPDATE accounts SET v = v + 3 WHERE id = $1 RETURNING v".to_owned();
        plain(Unit::Extended(vec![Request::Parse { name: name.to_owned(), sql }]))
    };
    let mut situation = Vec::new();
    for name in [&older, &own, &older, &own] {
        if name == &own && situation.len() == 1 {
            situation.push(parse(name));
        }
        let values = vec![Some(writer.account().to_string())];
        situation.push(plain(Unit::Extended(run("", name, values).into())));
    }
    let hit = writer.hit();
    vec![alone(vec![parse(&older)]), writer.block_with(situation, hit), alone(vec![query(PROBE)])]
}

pub fn savepoints(writer: &mut Writer) -> Vec<Transaction> {
    let name = writer.one(&["a", "A1", "a@name@1", "\"odd name\""]);
    let mut situation = writer.in_some_form(&format!("SAVEPOINT {name}"));
    situation.extend(writer.harmless(1));
    let next = writer.one(&["ROLLBACK TO", "RELEASE", "ROLLBACK TO SAVEPOINT"]);
    if writer.sometimes(60) {
        situation.extend(writer.in_some_form(&format!("{next} {name}")));
    }
    let hit = writer.hit();
    vec![writer.block_with(situation, hit)]
}

/// What follows a ROLLBACK AND CHAIN is like the transaction before.
pub fn chained(writer: &mut Writer) -> Vec<Transaction> {
    let mode = writer.one(&["", " ISOLATION LEVEL REPEATABLE READ", " ISOLATION LEVEL SERIALIZABLE", " READ ONLY"]);
    let begin = writer.control("b", format!("BEGIN{mode}"));
    let chain = writer.control("k", "ROLLBACK AND CHAIN".to_owned());
    let mut steps = vec![plain(begin), query("SELECT v FROM accounts WHERE id = 1")];
    steps.push(with(vec![Injection::Idle], chain));
    steps.push(query(PROBE));
    steps.push(writer.end());
    vec![alone(steps)]
}

/// A unit outside of a block whose client has had a part of the answer.
pub fn answered(writer: &mut Writer) -> Vec<Transaction> {
    let mut requests = one_shot("", "SELECT v FROM accounts WHERE id = 1", Vec::new());
    requests.push(Request::Flush);
    let sql = writer.change();
    requests.extend(one_shot("", &sql, Vec::new()));
    let cancel = Injection::Cancel { at: writer.random.random_range(0..3), after: 1, settles: Settles::Before };
    vec![alone(vec![with(vec![cancel], Unit::Extended(requests))])]
}

/// The server aborts a transaction that could go on from a savepoint.
pub fn savepoint_aborted(writer: &mut Writer) -> Vec<Transaction> {
    let abort = vec![Injection::Abort { at: writer.random.random_range(0..2), after: 0 }];
    vec![writer.block_that_runs(&["SAVEPOINT a", "SAVEPOINT a@name@1", "SAVEPOINT \"A b\""], abort)]
}

/// Two units of one write.
pub fn pair(writer: &mut Writer, injections: Vec<Injection>) -> Vec<ScriptStep> {
    let mut one = || {
        let sql = writer.harmless_sql();
        if writer.sometimes(50) { Unit::Query(vec![sql]) } else { Unit::Extended(one_shot("", &sql, Vec::new())) }
    };
    vec![ScriptStep { injections, unit: one(), ahead: true }, plain(one())]
}

pub fn after_pipeline(writer: &mut Writer) -> Vec<Transaction> {
    let (situation, hit) = (pair(writer, Vec::new()), writer.hit());
    vec![writer.block_with(situation, hit)]
}

pub fn too_long(writer: &mut Writer) -> Vec<Transaction> {
    let mut situation = Vec::new();
    for _ in 0..4 {
        situation.push(query(&writer.one(&["SELECT length('@big@')", "SELECT 1 /* @big@ */", "/* @big@ */ SELECT 2"])));
    }
    let hit = writer.hit();
    vec![writer.block_with(situation, hit)]
}

/// A COPY from the client, with messages that the server ignores.
pub fn copy_unit(writer: &mut Writer) -> Unit {
    let mut parts = Vec::new();
    for _ in 0..writer.random.random_range(0..4) {
        let line = CopyPart::Line(format!("copied,{}", writer.number()));
        parts.push(match writer.random.random_range(0..4) {
            0 => CopyPart::Sync,
            1 => CopyPart::Flush,
            _ => line,
        });
    }
    let sql = writer.written("COPY log (who, n) FROM STDIN WITH (FORMAT csv)");
    let name = if writer.sometimes(40) { Some(writer.some_name()) } else { None };
    Unit::Copy { sql, name, parts, fails: false }
}

pub fn copied(writer: &mut Writer) -> Vec<Transaction> {
    let (copy, hit) = (copy_unit(writer), writer.hit());
    vec![writer.block_with(vec![plain(copy)], hit)]
}

pub fn listening(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.hit();
    vec![writer.block_that_runs(&["LISTEN news", "UNLISTEN news", "UNLISTEN *", "LISTEN \"News\""], hit)]
}

pub fn temporary_table(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.hit();
    let any = &[
        "CREATE TEMP TABLE scratch (a int)",
        "CREATE LOCAL TEMPORARY TABLE scratch AS SELECT 1 AS a",
        "SELECT id INTO TEMP scratch FROM accounts",
        "CREATE TABLE pg_temp.scratch (a int)",
        "CREATE TEMP VIEW glance AS SELECT id FROM accounts",
    ];
    vec![writer.block_that_runs(any, hit)]
}

pub fn session_lock(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.cancel();
    let any = &[
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(6)",
        "SELECT pg_advisory_lock_shared(7, 8)",
        "SELECT pg_advisory_unlock_all()",
    ];
    vec![writer.block_that_runs(any, hit)]
}

/// An advisory lock of the transaction is taken.
pub fn advisory_lock(writer: &mut Writer, injections: Vec<Injection>) -> Vec<Transaction> {
    let any = &[
        "SELECT pg_advisory_xact_lock(2)",
        "SELECT pg_try_advisory_xact_lock(3)",
        "SELECT pg_advisory_xact_lock_shared(4)",
        "SELECT v FROM accounts, pg_advisory_xact_lock(5) WHERE id = 1",
    ];
    vec![writer.block_that_runs(any, injections)]
}

/// A cursor of an earlier transaction is moved.
pub fn held_cursor(writer: &mut Writer) -> Vec<Transaction> {
    let declare = "DECLARE h1 SCROLL CURSOR WITH HOLD FOR SELECT id FROM accounts ORDER BY id";
    let hit = writer.hit();
    let any = &["FETCH 1 FROM h1", "MOVE 2 IN h1", "FETCH BACKWARD 1 FROM H1", "CLOSE h1", "FETCH ALL IN h1"];
    vec![alone(vec![query(declare)]), writer.block_that_runs(any, hit)]
}

/// Effects that a rollback does not undo, hidden in a function, a trigger, a view or a foreign table.
pub fn function(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.hit();
    let any = &[
        "SELECT mail('now')",
        "INSERT INTO mailed VALUES (1)",
        "SELECT v FROM accounts WHERE id = mail('in a condition')",
        "INSERT INTO remote VALUES (1, 'far')",
        "INSERT INTO beyond VALUES (2, 'farther')",
        "WITH sent AS (INSERT INTO remote VALUES (3, 'with') RETURNING n) SELECT n FROM sent",
    ];
    vec![writer.block_that_runs(any, hit)]
}

/// Statements that act before PostgreSQL decides about their commit.
const BEFORE_THE_COMMIT: &[&str] = &[
    "INSERT INTO remote VALUES (1, 'far')",
    "INSERT INTO beyond VALUES (2, 'farther')",
    "UPDATE remote SET n = n + 1",
    "WITH sent AS (INSERT INTO remote VALUES (3, 'with') RETURNING n) SELECT n FROM sent",
    "INSERT INTO mailed VALUES (1)",
];

/// A COMMIT that the server aborts after a foreign server has committed, or a deferred trigger has acted.
pub fn acts_in_commit(writer: &mut Writer) -> Vec<Transaction> {
    let sql = writer.one(BEFORE_THE_COMMIT);
    let mut steps = vec![writer.begin()];
    steps.extend(writer.harmless(2));
    steps.extend(writer.in_some_form(&sql));
    steps.extend(writer.harmless(1));
    let end = writer.one(&["COMMIT", "END"]);
    steps.push(with(vec![Injection::Abort { at: 0, after: 0 }], Unit::Query(vec![end])));
    vec![alone(steps)]
}

/// The same outside of a block, cancelled during the commit.
pub fn commits_by_itself(writer: &mut Writer) -> Vec<Transaction> {
    let (sql, change) = (writer.one(BEFORE_THE_COMMIT), writer.change());
    let sql = writer.written(&sql);
    let statements = match writer.random.random_range(0..3) {
        0 => vec![sql],
        1 => vec![change, sql],
        _ => vec![sql, change],
    };
    let cancel = Injection::Cancel { at: 3, after: 0, settles: Settles::Before };
    vec![alone(vec![with(vec![cancel], Unit::Query(statements))])]
}

/// Another session replaces a function that the transaction has called.
pub fn replaced_code(writer: &mut Writer) -> Vec<Transaction> {
    let (versions, account) = (SHAPES.len(), writer.account());
    let sql = writer.one(&[
        &format!("SELECT shape({account})"),
        &format!("SELECT v FROM accounts WHERE v > shape({account}) ORDER BY id"),
    ]);
    let mut steps = vec![writer.begin()];
    steps.extend(writer.in_some_form(&sql));
    let mut hit = vec![Injection::Replace { version: writer.random.random_range(0..versions) }];
    hit.extend(writer.hit());
    steps.push(writer.hit_by(hit));
    steps.push(writer.end());
    let older = Injection::Replace { version: writer.random.random_range(0..versions) };
    vec![alone(vec![with(vec![older], Unit::Query(vec!["SELECT 1".to_owned()]))]), alone(steps)]
}

pub fn sql_prepared(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.hit();
    let any = &[
        "PREPARE q1 AS SELECT v FROM accounts WHERE id = 2",
        "PREPARE q@name@1 AS SELECT v FROM accounts WHERE id = 2",
        "DEALLOCATE ALL",
        "DEALLOCATE PREPARE older",
    ];
    vec![alone(vec![query("PREPARE older AS SELECT 1")]), writer.block_that_runs(any, hit)]
}

pub fn outside_effect(writer: &mut Writer) -> Vec<Transaction> {
    let (hit, number) = (writer.hit(), writer.number());
    let any = &[&format!("SELECT setval('numbers', {number})")[..], "SELECT pg_cancel_backend(0)"];
    vec![writer.block_that_runs(any, hit)]
}

pub fn function_call(writer: &mut Writer) -> Vec<Transaction> {
    let (hit, value) = (writer.hit(), writer.account() as i32);
    vec![writer.block_with(vec![plain(Unit::Call(-value))], hit)]
}

pub fn unread(writer: &mut Writer) -> Vec<Transaction> {
    let hit = writer.hit();
    let sql = writer.one(&[
        "SELECT length('@long@')",
        "SELECT 1 /* @long@ */",
        "UPDATE accounts SET v = v + length('@long@') WHERE id = 2",
    ]);
    vec![writer.block_with(vec![query(&sql)], hit)]
}
