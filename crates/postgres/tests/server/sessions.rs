//! Sessions: transactions, their state after errors, and their names.

use std::borrow::Cow;
use std::sync::Barrier;
use std::thread;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int32Type};
use plimsoll_policy::Priority;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::schema::{ColumnKind, Schema, Storage, Table, column, nullable};
use plimsoll_workload::statement::{Rows, Statement, Value, sql_only};

use super::shared::{connection, database, new_server, wait_until_asleep};

macro_rules! statements {
    ($($name:ident: $sql:expr;)*) => {
        $(static $name: Statement = Statement { name: stringify!($name), sql: $sql, native: &sql_only };)*
    };
}

statements! {
    ADD: "INSERT INTO account VALUES ($1, $2)";
    READ: "SELECT balance FROM account WHERE id = $1";
    PAY: "UPDATE account SET balance = balance + $2 WHERE id = $1";
    COUNT: "SELECT count(*) FROM account";
    BROKEN: "SELECT 1 / ($1::int - $1)";
    MISSING: "SELECT * FROM no_such_table WHERE id = $1";
    LEVEL: "SELECT current_setting('transaction_isolation'), current_setting('work_mem')";
    SLEEP: "SELECT pg_sleep(60)";
}

/// A table for each test, so that they do not see each other's rows.
macro_rules! bank {
    ($name:expr) => {{
        static SCHEMA: Schema = Schema {
            name: Cow::Borrowed($name),
            tables: &[Table {
                name: "account",
                columns: &[column("id", ColumnKind::Int), nullable("balance", ColumnKind::BigInt)],
                primary_key: &[0],
                secondary: &[],
                storage: Storage::RowsAndColumns,
                has_key_ranges: false,
            }],
        };
        &SCHEMA
    }};
}

fn opened(database: &PostgresDatabase, schema: &Schema) -> Box<dyn Session> {
    database.create(schema).unwrap();
    database.finish_load(schema).unwrap();
    database.session(schema).unwrap()
}

fn count(session: &mut dyn Session) -> i64 {
    let mut rows = Rows::new();
    session.execute(&COUNT, &[], &mut rows).unwrap();
    rows.int(0, 0)
}

#[test]
fn transactions_begin_commit_and_roll_back() {
    let database = database();
    let schema = bank!("transactions");
    let mut session = opened(&database, schema);
    let mut rows = Rows::new();
    let mut add = |session: &mut dyn Session, id| session.execute(&ADD, &[Value::Int(id), Value::Int(10)], &mut rows);
    session.begin().unwrap();
    add(session.as_mut(), 1).unwrap();
    assert!(session.begin().unwrap_err().to_string().contains("open already"));
    session.rollback().unwrap();
    assert_eq!(count(session.as_mut()), 0);
    session.begin().unwrap();
    add(session.as_mut(), 1).unwrap();
    session.commit().unwrap();
    // Outside of a transaction each statement is one.
    add(session.as_mut(), 2).unwrap();
    assert_eq!(count(database.session(schema).unwrap().as_mut()), 2);
    for end in [Session::commit, Session::rollback] {
        assert!(end(session.as_mut()).unwrap_err().to_string().contains("no transaction is open"));
    }
    session.set_priority(Priority::HIGH);
    let process = session.server_process().expect("the server is on this machine");
    assert!(std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap().starts_with("postgres"));
    assert_eq!(session.usage().lock_wait, None);
    database.drop_tables(schema).unwrap();
}

#[test]
fn after_an_error_the_transaction_is_over_and_the_session_goes_on() {
    let database = database();
    let schema = bank!("errors");
    let mut session = opened(&database, schema);
    let mut rows = Rows::new();
    session.execute(&ADD, &[Value::Int(1), Value::Null], &mut rows).unwrap();
    let cases: [(&'static Statement, &[Value<'_>], &str); 5] = [
        (&ADD, &[Value::Int(1), Value::Int(5)], "duplicate key in account"),
        (&BROKEN, &[Value::Int(3)], "statement BROKEN: ERROR 22012: division by zero; parameters: $1 = 3"),
        (&MISSING, &[Value::Int(3)], "ERROR 42P01: relation \"no_such_table\" does not exist (at character 15)"),
        (&ADD, &[Value::Int(1 << 40), Value::Int(5)], "parameter $1: 1099511627776 is out of the range of integer"),
        (&ADD, &[Value::Null, Value::Int(5)], "ERROR 23502"),
    ];
    for (statement, parameters, expect) in cases {
        for is_within in [true, false] {
            if is_within {
                session.begin().unwrap();
                session.execute(&ADD, &[Value::Int(7), Value::Int(0)], &mut rows).unwrap();
            }
            let error = session.execute(statement, parameters, &mut rows).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}, expected {expect}");
            assert_eq!(count(session.as_mut()), 1, "what came before the error was rolled back");
            assert!(session.commit().is_err(), "the transaction is over");
        }
    }
    let error = session.query("SELECT *\nFROM nowhere").unwrap_err().to_string();
    assert!(error.contains("42P01") && error.ends_with("at `nowhere`"), "{error}");
    let error = session.query("SELECT 1; SELECT 2").unwrap_err().to_string();
    assert!(error.contains("42601"), "{error}");
    assert_eq!(count(session.as_mut()), 1);
    database.drop_tables(schema).unwrap();
}

#[test]
fn a_circle_of_waits_has_one_victim() {
    let database = database();
    let schema = bank!("deadlock");
    let mut session = opened(&database, schema);
    let mut rows = Rows::new();
    for id in 1..=2 {
        session.execute(&ADD, &[Value::Int(id), Value::Int(0)], &mut rows).unwrap();
    }
    let barrier = Barrier::new(2);
    let pay_both = |first, second| {
        let (mut session, mut rows) = (database.session(schema).unwrap(), Rows::new());
        session.begin().unwrap();
        session.execute(&PAY, &[Value::Int(first), Value::Int(1)], &mut rows).unwrap();
        barrier.wait();
        let paid = session.execute(&PAY, &[Value::Int(second), Value::Int(1)], &mut rows);
        paid.and_then(|()| session.commit())
    };
    let outcomes = thread::scope(|scope| {
        let other = scope.spawn(|| pay_both(1, 2));
        [pay_both(2, 1), other.join().unwrap()]
    });
    assert!(outcomes.contains(&Ok(())) && outcomes.contains(&Err(DatabaseError::Deadlock)), "{outcomes:?}");
    session.execute(&READ, &[Value::Int(1)], &mut rows).unwrap();
    assert_eq!(rows.int(0, 0), 1);
    database.drop_tables(schema).unwrap();
}

#[test]
fn isolation_and_settings_are_those_of_the_options() {
    let database = PostgresDatabase::private(new_server(&[("isolation", "repeatable read")]));
    let schema = bank!("isolation");
    let mut one = opened(&database, schema);
    let mut rows = Rows::new();
    one.execute(&ADD, &[Value::Int(1), Value::Int(0)], &mut rows).unwrap();
    let mut two = database.session(schema).unwrap();
    one.begin().unwrap();
    one.execute(&READ, &[Value::Int(1)], &mut rows).unwrap();
    two.execute(&PAY, &[Value::Int(1), Value::Int(1)], &mut rows).unwrap();
    let error = one.execute(&PAY, &[Value::Int(1), Value::Int(1)], &mut rows).unwrap_err();
    let told = "could not serialize access due to concurrent update";
    assert_eq!((&error, error.code()), (&DatabaseError::Conflict(told.to_owned()), Some("40001")));
    assert!(error.is_retryable());

    for (name, value) in [("isolation", "serializable"), ("work_mem", "7MB")] {
        database.set_option(name, value).unwrap();
    }
    let mut session = database.session(schema).unwrap();
    session.execute(&LEVEL, &[], &mut rows).unwrap();
    assert_eq!((rows.text(0, 0), rows.text(0, 1)), ("serializable", "7MB"));
    // A restart in between ends sessions; new ones find the data.
    drop((one, two, session));
    database.set_option("shared_buffers", "32MB").unwrap();
    assert_eq!(count(database.session(schema).unwrap().as_mut()), 1);
    let error = database.set_option("shared_bufers", "32MB").unwrap_err().to_string();
    assert!(error.contains("shared_buffers"), "{error}");
}

#[test]
fn a_cancelled_statement_fails_unless_the_governor_says_for_whose_sake() {
    let database = database();
    let schema = bank!("cancel");
    let mut session = opened(&database, schema);
    let mut other = connection(&database);
    let process = session.server_process().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            wait_until_asleep(&mut other, process);
            other.run(&format!("SELECT pg_cancel_backend({process})")).unwrap();
        });
        let error = session.execute(&SLEEP, &[], &mut Rows::new()).unwrap_err();
        assert!(matches!(&error, DatabaseError::Refused(why) if why.words.contains("57014")), "{error:?}");
    });
    let raise = "DO $$ BEGIN RAISE EXCEPTION 'preempted by high' USING ERRCODE = '57014'; END $$";
    assert_eq!(session.query(raise).unwrap_err(), DatabaseError::Preempted);
    database.drop_tables(schema).unwrap();
}

#[test]
fn a_connection_can_be_cancelled_by_its_key() {
    let database = database();
    let mut sleeper = connection(&database);
    let (cancel, process) = (sleeper.canceller(), sleeper.process_id());
    let mut other = connection(&database);
    thread::scope(|scope| {
        scope.spawn(move || {
            wait_until_asleep(&mut other, process);
            cancel.send().unwrap();
        });
        let error = sleeper.run("SELECT pg_sleep(60)").unwrap_err();
        assert_eq!(error.server().map(|error| error.code.as_str()), Some("57014"));
    });
    sleeper.run("SELECT 1").unwrap();
}

#[test]
fn queries_answer_in_batches_with_the_types_of_the_server() {
    let database = database();
    let schema = bank!("queries");
    let mut session = opened(&database, schema);
    let sql = "SELECT i::int2 AS small, i AS int, i::int8 AS big, i::float8 / 2 AS float, i::numeric / 4 AS numeric, \
               date '1970-01-01' + i AS day, timestamp '1970-01-01' + i * interval '1 second' AS time, i % 2 = 0 AS even, \
               CASE WHEN i % 3 > 0 THEN 'row ' || i END AS text FROM generate_series(1, 20000) i";
    let answer = session.query(sql).unwrap();
    assert_eq!(answer.snapshot, "now");
    assert!(answer.batches.len() > 1);
    assert_eq!(answer.batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 20_000);
    let first = &answer.batches[0];
    let types: Vec<String> = first.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    let expect =
        ["Int32", "Int32", "Int64", "Float64", "Utf8", "Date32", "Timestamp(µs)", "Boolean", "Utf8"].map(str::to_owned);
    assert_eq!(types, expect);
    let integers: Vec<i32> =
        answer.batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int32Type>().values().to_vec()).collect();
    assert!(integers.iter().copied().eq(1..=20_000));
    assert_eq!(first.column(4).as_string::<i32>().value(0), "0.25000000000000000000");
    assert_eq!(
        (first.column(8).null_count(), first.column(8).as_string::<i32>().value(0)),
        (first.num_rows() / 3, "row 1")
    );

    let empty = session.query("SELECT id, balance FROM account").unwrap();
    assert_eq!((empty.batches.len(), empty.batches[0].num_rows()), (1, 0));
    assert_eq!(empty.batches[0].schema().field(1).data_type(), &DataType::Int64);
    database.drop_tables(schema).unwrap();
}

#[test]
fn a_plan_has_a_shape_that_follows_the_settings() {
    let database = database();
    let schema = bank!("plans");
    let mut session = opened(&database, schema);
    let script = "INSERT INTO account SELECT i, i FROM generate_series(1, 10000) i; ANALYZE account";
    database.run_script(schema, script).unwrap();
    let sql = "SELECT count(*) FROM account a JOIN account b ON a.id = b.balance";
    let plan = session.plan(sql).unwrap().unwrap();
    assert!(plan.shape.starts_with("Aggregate(") && plan.shape.contains("Seq Scan account"), "{}", plan.shape);
    assert_eq!(session.plan(sql).unwrap(), Some(plan.clone()));
    let point = session.plan("SELECT * FROM account WHERE id = 1").unwrap().unwrap();
    assert!(point.shape.contains("account_pkey account"), "{}", point.shape);
    assert_ne!(plan.hash, point.hash);
    assert!(session.plan("SELECT * FROM nowhere").unwrap_err().to_string().contains("42P01"));
    // Only the first of two statements would be explained, and the second one run.
    assert!(session.plan("SELECT 1; DELETE FROM account").unwrap_err().to_string().contains("42601"));
    assert_eq!(count(session.as_mut()), 10_000);
    database.drop_tables(schema).unwrap();
}

/// The messages of a recorded client.
fn query(sql: &str) -> Vec<u8> {
    [b"Q".as_slice(), &(sql.len() as u32 + 5).to_be_bytes(), sql.as_bytes(), b"\0"].concat()
}

#[test]
fn recorded_messages_are_exchanged_and_leave_nothing_after_a_reset() {
    let database = database();
    assert!(!database.is_of_user(), "we have started it");
    let schema = bank!("exchanged");
    let mut session = opened(&database, schema);
    let first = |session: &mut dyn Session, sql: &str| {
        let mut tags = String::new();
        let is_open = session.exchange(&query(sql), &mut |tag, _| tags.push(tag as char)).unwrap();
        (tags, is_open)
    };
    assert_eq!(first(&mut *session, "prepare s0 as select 1"), ("CZ".to_owned(), false));
    assert_eq!(first(&mut *session, "set work_mem = '77kB'; begin"), ("CCZ".to_owned(), true));
    assert_eq!(first(&mut *session, "select 1 / 0"), ("EZ".to_owned(), true), "an error is part of the answer");
    assert_eq!(first(&mut *session, "rollback"), ("CZ".to_owned(), false));
    session.reset().unwrap();
    assert_eq!(first(&mut *session, "execute s0").0, "EZ", "it is forgotten");
    let mut rows = Rows::new();
    session.execute(&LEVEL, &[], &mut rows).unwrap();
    assert_ne!(rows.text(0, 1), "77kB");
    assert_eq!(count(&mut *session), 0, "its own statements and its search path are back");
    session.begin().unwrap();
    session.commit().unwrap();
}
