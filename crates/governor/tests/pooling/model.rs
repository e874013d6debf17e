//! Random scripts of several clients, on a plain server and through a pool.

use std::env;
use std::fmt::Write;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Answer, Client};
use super::requests::{bind, close, describe, execute, parse, query, sync};
use super::world::World;

/// How many clients play, how many units a script has, and how many scripts are played.
const CLIENTS: usize = 3;
const STEPS: usize = 40;
const SCRIPTS: u64 = 60;
const SCRIPTS_LONG: u64 = 5000;

/// In each of the two databases.
const SCHEMA: &str = "
    CREATE SCHEMA a; CREATE SCHEMA b;
    CREATE TABLE a.place (name text); INSERT INTO a.place VALUES ('a');
    CREATE TABLE b.place (name text); INSERT INTO b.place VALUES ('b');
    CREATE TABLE journal (who int);
    CREATE SEQUENCE numbers;
    CREATE FUNCTION sets(value text) RETURNS text LANGUAGE plpgsql AS
      $$ BEGIN RETURN set_config('work_mem', value, false); END $$;
    CREATE FUNCTION locks(key int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(key); END $$;
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM set_config('app.noted', NEW.who::text, false); RETURN NEW; END $$;
    CREATE TRIGGER noted BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION noted();
    CREATE VIEW locking AS SELECT pg_try_advisory_lock(77) AS got;
    CREATE FUNCTION typed() RETURNS int LANGUAGE plpgsql AS
      $$ BEGIN EXECUTE 'SET extra_float_digits = 0'; RETURN 1; END $$;
    GRANT ALL ON SCHEMA public, a, b TO public;
    GRANT ALL ON ALL TABLES IN SCHEMA public, a, b TO public;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO public";

/// Texts of simple queries; `#` is the client's number.
const TEXTS: &[&str] = &[
    "SELECT 1",
    "BEGIN",
    "BEGIN",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "SELECT 1/0",
    "SELECT name FROM place",
    "SELECT name FROM place",
    "SET search_path = a, public",
    "SET search_path = b",
    "SET LOCAL search_path = b",
    "RESET search_path",
    "SHOW search_path",
    "SET application_name = 'app #'",
    "SHOW application_name",
    "RESET ALL",
    "SELECT set_config('app.tenant', '#', false)",
    "SELECT set_config('app.tenant', 'local #', true)",
    "RESET app.tenant",
    "SELECT coalesce(nullif(current_setting('app.tenant', true), ''), 'none')",
    "SELECT coalesce(nullif(current_setting('app.noted', true), ''), 'none')",
    "SELECT coalesce(nullif(current_setting('app.done', true), ''), 'none')",
    "INSERT INTO journal VALUES (#)",
    "DO $$ BEGIN PERFORM set_config('app.done', '#', false); END $$",
    "SET ROLE ben",
    "SET LOCAL ROLE ben",
    "RESET ROLE",
    "SELECT current_user",
    "SET TIME ZONE 'Asia/Tokyo'",
    "SHOW TimeZone",
    "SET DateStyle = German",
    "SELECT date '2026-01-31'",
    "SET statement_timeout = '1#s'",
    "SHOW statement_timeout",
    "SELECT public.sets('1#MB')",
    "SHOW work_mem",
    "SELECT public.typed()",
    "SHOW extra_float_digits",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SHOW transaction_isolation",
    "CREATE TEMP TABLE mine (a int)",
    "INSERT INTO mine VALUES (#)",
    "SELECT count(*) FROM mine",
    "DROP TABLE mine",
    "SELECT pg_advisory_lock(10#)",
    "SELECT public.locks(20#)",
    "SELECT got FROM public.locking",
    "SELECT pg_advisory_unlock_all()",
    "SELECT pg_advisory_xact_lock(30#)",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 3)",
    "FETCH c",
    "CLOSE c",
    "PREPARE p AS SELECT 4#",
    "EXECUTE p",
    "DEALLOCATE p",
    "DEALLOCATE t1",
    "DEALLOCATE ALL",
    "LISTEN l#",
    "UNLISTEN *",
    "SELECT count(*) FROM pg_listening_channels()",
    "DISCARD ALL",
    "DISCARD TEMP",
    "SELECT nextval('public.numbers') > 0",
    "SET work_mem = '2#MB'; SELECT 1",
    "BEGIN; SET work_mem = '3#MB'; ROLLBACK",
    "SELECT name FROM pg_prepared_statements WHERE from_sql",
];

/// Texts of prepared statements.
const PREPARED: &[&str] = &[
    "SELECT 1",
    "SELECT 2",
    "SELECT name FROM place",
    "SELECT 'x'::text",
    "SELEC",
    "SELECT * FROM missing",
    "SET search_path = a",
    "BEGIN",
    "COMMIT",
    "INSERT INTO journal VALUES (9)",
    "DEALLOCATE t0",
    "DEALLOCATE t1",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "RESET ALL",
    "SET application_name = 'prepared'",
    "SHOW application_name",
    "SHOW work_mem",
];

/// What a client says at once, for people and on the wire.
struct Saying {
    text: String,
    bytes: Vec<u8>,
    /// How many `ReadyForQuery` answer it.
    answers: usize,
}

fn saying(rng: &mut Pcg64Mcg, client: usize) -> Saying {
    let pick = |rng: &mut Pcg64Mcg, from: &[&'static str]| from[rng.random_range(0..from.len())];
    if rng.random_bool(0.6) {
        let text = pick(rng, TEXTS).replace('#', &client.to_string());
        return Saying { bytes: query(&text), text, answers: 1 };
    }
    let sql = pick(rng, PREPARED);
    let name = ["t0", "t1", "t2", ""][rng.random_range(0..4)];
    let (text, bytes, answers) = match rng.random_range(0..9) {
        0 | 1 => (format!("parse {name:?} {sql}"), [parse(name, sql), sync()].concat(), 1),
        2 | 3 => (format!("run {name:?}"), [bind(name, &[]), execute(), sync()].concat(), 1),
        4 => (
            format!("parse and run {name:?} {sql}"),
            [parse(name, sql), bind(name, &[]), execute(), sync()].concat(),
            1,
        ),
        5 => (format!("describe {name:?}"), [describe(name), sync()].concat(), 1),
        6 => (format!("close {name:?}"), [close(name), sync()].concat(), 1),
        7 => {
            // The first part fails or not; the second follows without waiting.
            let first = [parse(name, sql), bind(name, &[]), execute(), sync()].concat();
            let second = [bind(name, &[]), execute(), describe(name), sync()].concat();
            (format!("pipeline {name:?} {sql}"), [first, second].concat(), 2)
        }
        _ => {
            let unit = [close(name), parse(name, sql), describe(name), bind(name, &[]), execute(), sync()].concat();
            (format!("close, parse and run {name:?} {sql}"), unit, 1)
        }
    };
    Saying { text, bytes, answers }
}

/// All that a client sees of an answer.
fn seen(answer: &Answer) -> String {
    let tags: String = answer.tags.iter().filter(|tag| !b"SN".contains(tag)).map(|tag| char::from(*tag)).collect();
    let refusal = answer.refusal.as_ref().map(|refusal| format!(" {} {}", refusal.state, refusal.message));
    format!(
        "{tags} {:?} {:?}{} {}",
        answer.rows,
        answer.commands,
        refusal.unwrap_or_default(),
        char::from(answer.status)
    )
}

fn say(client: &mut Client, saying: &Saying) -> Vec<String> {
    client.send(&saying.bytes).unwrap();
    (0..saying.answers).map(|_| client.answer().map_or_else(|error| format!("lost: {error}"), |it| seen(&it))).collect()
}

/// Whether the client sees the same. Nothing can be prepared in a block that has failed: a statement that the connection
/// lacks cannot be described there.
fn is_same(saying: &Saying, plain: &str, pooled: &str) -> bool {
    let is_lacking = saying.text.starts_with("describe") && plain.ends_with(" E") && pooled.contains("25P02");
    plain == pooled || is_lacking
}

/// Plays a script; returns what was different.
fn play(world: &World, seed: u64, databases: [&str; 2]) -> Result<(), String> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let places = [world.direct(), world.place()];
    let mut sides: Vec<Vec<Client>> = (0..2)
        .map(|side| {
            let log_in = |client: usize| {
                let application = format!("app {client}");
                let parameters = [("user", "ann"), ("database", databases[side]), ("application_name", &application)];
                Client::log_in(places[side].clone(), &parameters, super::client::PASSWORD)
            };
            (0..CLIENTS).map(|client| log_in(client).unwrap_or_else(|failure| panic!("{failure}"))).collect()
        })
        .collect();
    let mut script = format!("seed {seed}\n");
    for _ in 0..STEPS {
        let client = rng.random_range(0..CLIENTS);
        let saying = saying(&mut rng, client);
        writeln!(script, "{client}: {}", saying.text).unwrap();
        let [plain, pooled] = [0, 1].map(|side| say(&mut sides[side][client], &saying));
        let parameters = [0, 1].map(|side| sides[side][client].parameters.clone());
        let is_same = plain.iter().zip(&pooled).all(|(plain, pooled)| is_same(&saying, plain, pooled));
        if !is_same || parameters[0] != parameters[1] {
            let [plain_parameters, pooled_parameters] = parameters;
            return Err(format!(
                "{script}\nplain:  {plain:?}\npooled: {pooled:?}\nplain:  {plain_parameters:?}\npooled: {pooled_parameters:?}"
            ));
        }
    }
    Ok(())
}

/// Locks that sessions have left.
const LEFT: &str = "
    SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS s USING (pid)
    WHERE l.locktype = 'advisory' AND s.datname = 'pooled'";

#[test]
fn shared_connections_answer_as_own_ones_do() {
    let world = World::new(CLIENTS as u32, false, |_| {});
    let mut connection = world.connection();
    connection.run("GRANT ben TO ann").unwrap();
    for database in ["plain", "pooled"] {
        connection.run(&format!("CREATE DATABASE {database}")).unwrap();
        let mut client = Client::connect(world.direct(), world.server.user(), database).unwrap();
        client.query(SCHEMA).unwrap();
    }
    let only = env::var("PLIMSOLL_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let count = if env::var_os("PLIMSOLL_LONG").is_some() { SCRIPTS_LONG } else { SCRIPTS };
    let seeds = only.map_or(1..count + 1, |seed| seed..seed + 1);
    let mut failures = Vec::new();
    for seed in seeds {
        if let Err(difference) = play(&world, seed, ["plain", "pooled"]) {
            eprintln!("{difference}\n");
            failures.push(seed);
        }
        if failures.len() >= 5 {
            break;
        }
    }
    assert!(failures.is_empty(), "scripts with differences: {failures:?}");
    // All clients have left: what they had locked is free.
    plimsoll_testing::until("nothing is left of the clients", || {
        connection.text(LEFT).unwrap().as_deref() == Some("0")
    });
}
