//! Our objects and those of others; roles with few rights.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use arrow::record_batch::RecordBatch;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::ServerSettings;
use plimsoll_workload::benchmark::Writes;
use plimsoll_workload::database::{Database, LoadedData};
use plimsoll_workload::schema::{ColumnKind, Schema, SecondaryIndex, Storage, Table, column, nullable};
use plimsoll_workload::statement::{Rows, Statement};

use super::shared::{connection, database};

macro_rules! kinds {
    ($name:expr) => {{
        static SCHEMA: Schema = Schema {
            name: Cow::Borrowed($name),
            tables: &[Table {
                name: "every",
                columns: &[
                    column("int", ColumnKind::Int),
                    nullable("big", ColumnKind::BigInt),
                    nullable("decimal", ColumnKind::Decimal { precision: 18, scale: 4 }),
                    nullable("text", ColumnKind::Text(20)),
                    nullable("day", ColumnKind::Date),
                    nullable("time", ColumnKind::Timestamp),
                ],
                primary_key: &[0],
                secondary: &[SecondaryIndex { name: "every_by_text", columns: &[3, 0] }],
                storage: Storage::RowsAndColumns,
                has_key_ranges: false,
            }],
        };
        &SCHEMA
    }};
}

/// Rows `from..to`, every third value of the columns that allow it null.
fn batch(schema: &Schema, from: i32, to: i32) -> RecordBatch {
    let rows = || from..to;
    fn third<T>(row: i32, value: T) -> Option<T> {
        (row % 3 != 0).then_some(value)
    }
    let decimals = rows().map(|row| third(row, i128::from(row) * 12_345 - 999_999)).collect::<Decimal128Array>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows().collect::<Int32Array>()),
        Arc::new(rows().map(|row| third(row, i64::from(row) << 33)).collect::<Int64Array>()),
        Arc::new(decimals.with_precision_and_scale(18, 4).unwrap()),
        Arc::new(rows().map(|row| third(row, format!("row {row} ä"))).collect::<StringViewArray>()),
        Arc::new(rows().map(|row| third(row, row - 500)).collect::<Date32Array>()),
        Arc::new(rows().map(|row| third(row, i64::from(row) * 1_000_001)).collect::<TimestampMicrosecondArray>()),
    ];
    RecordBatch::try_new(schema.tables[0].arrow(), columns).unwrap()
}

#[test]
fn rows_of_every_kind_are_loaded_from_several_threads() {
    let database = database();
    let schema = kinds!("kinds");
    database.create(schema).unwrap();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let database = &database;
            scope.spawn(move || database.load(schema, 0, batch(schema, part * 5_000, (part + 1) * 5_000)).unwrap());
        }
    });
    database.finish_load(schema).unwrap();
    let mut connection = connection(&database);
    let mut ask = |sql: &str| connection.text(sql).unwrap().unwrap();
    let wrong = "SELECT count(*) FROM plimsoll_kinds.every WHERE (big, \"decimal\", \"text\", day, \"time\") IS DISTINCT FROM \
                 (CASE WHEN int % 3 <> 0 THEN int::bigint << 33 END, CASE WHEN int % 3 <> 0 THEN (int * 12345 - 999999) / \
                 10000.0 END, CASE WHEN int % 3 <> 0 THEN 'row ' || int || ' ä' END, CASE WHEN int % 3 <> 0 THEN date \
                 '1970-01-01' + int - 500 END, CASE WHEN int % 3 <> 0 THEN timestamp '1970-01-01' + int * interval \
                 '1.000001 s' END)";
    assert_eq!(ask(wrong), "0");
    assert_eq!(ask("SELECT count(*) || ' ' || sum(int) FROM plimsoll_kinds.every"), "20000 199990000");
    assert_eq!(ask("SELECT count(*) FROM pg_indexes WHERE schemaname = 'plimsoll_kinds'"), "2");
    assert_eq!(ask("SELECT reltuples::int FROM pg_class WHERE oid = 'plimsoll_kinds.every'::regclass"), "20000");
    // A batch with an invalid row is refused as a whole.
    let error = database.load(schema, 0, batch(schema, 19_999, 20_010)).unwrap_err().to_string();
    assert!(error.contains("loading every: ERROR 23505"), "{error}");
    database.load(schema, 0, batch(schema, 20_000, 20_010)).unwrap();
    assert_eq!(ask("SELECT count(*) FROM plimsoll_kinds.every"), "20010");
    database.drop_tables(schema).unwrap();
    assert_eq!(ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'plimsoll_kinds'"), "0");
}

#[test]
fn what_is_ours_is_marked_and_nothing_else_is_touched() {
    let database = database();
    let schema = kinds!("owned");
    let told =
        |result: Result<(), _>| result.map_err(|error: plimsoll_workload::database::DatabaseError| error.to_string());
    database.drop_tables(schema).unwrap();
    let missing = database.session(schema).err().expect("there are no tables").to_string();
    assert!(missing.contains("load them first"), "{missing}");
    database.create(schema).unwrap();
    assert!(told(database.create(schema)).unwrap_err().contains("exist already"));
    assert_eq!(database.data(schema).unwrap(), None);
    let noted = LoadedData { data: "owned:2; written=no'thing:seed=7".to_owned(), written: Writes::Grows };
    database.note_data(schema, &noted).unwrap();
    assert_eq!(database.data(schema).unwrap(), Some(noted));
    database.run_script(schema, "CREATE TABLE beside (a int); INSERT INTO beside VALUES (1), (2)").unwrap();
    database.run_script(schema, "VACUUM ANALYZE beside").unwrap();
    let wrong = told(database.run_script(schema, "SELECT 1; SELEC 2")).unwrap_err();
    assert!(wrong.contains("42601") && wrong.contains("at `SELEC 2`"), "{wrong}");
    let copying = told(database.run_script(schema, "COPY beside FROM STDIN")).unwrap_err();
    assert!(copying.contains("COPY … FROM STDIN cannot be run here"), "{copying}");
    let mut connection = connection(&database);
    assert_eq!(connection.text("SELECT sum(a) FROM plimsoll_owned.beside").unwrap().as_deref(), Some("3"));

    for comment in ["NULL", "'mine'"] {
        connection.run(&format!("COMMENT ON SCHEMA plimsoll_owned IS {comment}")).unwrap();
        for refused in [database.create(schema), database.drop_tables(schema), database.session(schema).map(drop)] {
            let error = told(refused).unwrap_err();
            assert!(error.contains("was not made by Plimsoll; rename it"), "{error}");
        }
    }
    assert_eq!(connection.text("SELECT sum(a) FROM plimsoll_owned.beside").unwrap().as_deref(), Some("3"));
    connection.run("SET client_min_messages = warning; DROP SCHEMA plimsoll_owned CASCADE").unwrap();
}

#[test]
fn a_role_that_may_little_is_told_what_it_needs() {
    let private = database();
    let schema = kinds!("humble");
    let mut connection = connection(&private);
    connection.run("CREATE ROLE humble LOGIN").unwrap();
    connection.run("CREATE DATABASE humble").unwrap();
    let url = ServerUrl { user: "humble".to_owned(), database: "humble".to_owned(), ..private.url().clone() };
    {
        let database = PostgresDatabase::connect(url, ServerSettings::for_this_machine()).unwrap();
        let error = database.create(schema).unwrap_err().to_string();
        assert!(error.contains("GRANT CREATE ON DATABASE humble TO humble"), "{error}");
        connection.run("GRANT CREATE ON DATABASE humble TO humble").unwrap();
        database.create(schema).unwrap();
        database.load(schema, 0, batch(schema, 0, 100)).unwrap();
        database.finish_load(schema).unwrap();
        let warnings = database.warnings();
        assert!(warnings.iter().any(|warning| warning.contains("pg_checkpoint")), "{warnings:?}");
        assert!(warnings.iter().any(|warning| warning.contains("pg_read_all_settings")), "{warnings:?}");
        let footprint = database.footprint();
        assert_eq!((footprint.processes, footprint.folder), (private.footprint().processes, None));
        let mut session = database.session(schema).unwrap();
        let error = session.query("SELECT * FROM pg_authid").unwrap_err().to_string();
        assert!(error.contains("the role needs a privilege on table pg_authid"), "{error}");
        let error = database.set_option("shared_buffers", "64MB").unwrap_err().to_string();
        assert!(error.contains("use `--target postgres:`"), "{error}");
        database.set_option("work_mem", "8MB").unwrap();
        assert!(database.activity().unwrap().is_some());
        drop(session);
        database.drop_tables(schema).unwrap();
    }
    connection.run("DROP DATABASE humble").unwrap();
    connection.run("DROP ROLE humble").unwrap();
}

static EVERY: Statement =
    Statement { name: "every", sql: "SELECT int FROM every", native: &plimsoll_workload::statement::sql_only };

/// Story: the tables belonged to another role, and the role of the bench read `relation "every" does not exist` of tables that
/// its operator saw.
#[test]
fn tables_of_another_role_are_told_from_none() {
    let private = database();
    let schema = kinds!("theirs");
    let mut connection = connection(&private);
    connection.run("CREATE ROLE keeper; CREATE ROLE guest LOGIN").unwrap();
    private.create(schema).unwrap();
    connection
        .run("ALTER SCHEMA plimsoll_theirs OWNER TO keeper; ALTER TABLE plimsoll_theirs.every OWNER TO keeper")
        .unwrap();
    let url = ServerUrl { user: "guest".to_owned(), ..private.url().clone() };
    {
        let guest = PostgresDatabase::connect(url, ServerSettings::for_this_machine()).unwrap();
        let mut session = guest.session(schema).unwrap();
        let of_query = session.query("SELECT * FROM every").unwrap_err().to_string();
        session.begin().unwrap();
        let of_statement = session.execute(&EVERY, &[], &mut Rows::new()).unwrap_err().to_string();
        let of_setup = guest.run_script(schema, "SELECT 1; INSERT INTO every VALUES (1)").unwrap_err().to_string();
        for error in [of_query, of_statement, of_setup] {
            assert!(
                error.contains("relation \"every\" does not exist")
                    && error.contains(
                        "the schema plimsoll_theirs has a table of this name, which belongs to the role keeper"
                    )
                    && error.contains("GRANT USAGE ON SCHEMA plimsoll_theirs TO guest"),
                "{error}"
            );
        }
        connection.run("GRANT USAGE ON SCHEMA plimsoll_theirs TO guest").unwrap();
        let error = session.query("SELECT * FROM every").unwrap_err().to_string();
        assert!(error.contains("the role needs a privilege on table every"), "{error}");
        let mut elsewhere = guest.session(kinds!("theirs")).unwrap();
        elsewhere.query("SET search_path = public").unwrap();
        let error = elsewhere.query("SELECT * FROM every").unwrap_err().to_string();
        assert!(error.contains("is not searched: write plimsoll_theirs.every"), "{error}");
        let error = elsewhere.query("SELECT * FROM nowhere").unwrap_err().to_string();
        assert!(error.contains("does not exist") && !error.contains("hint"), "{error}");
        drop((session, elsewhere));
        let error = guest.drop_tables(schema).unwrap_err().to_string();
        assert!(error.contains("which belongs to the role keeper: drop it as that role"), "{error}");
    }
    private.drop_tables(schema).unwrap();
    connection.run("DROP ROLE guest; DROP ROLE keeper").unwrap();
}

/// Two benches on one server: the second dropped the tables that the first was using.
#[test]
fn tables_that_another_process_uses_are_not_taken_away() {
    let (private, schema) = (database(), kinds!("claimed"));
    let open = || PostgresDatabase::connect(private.url().clone(), ServerSettings::for_this_machine()).unwrap();
    let load = |database: &PostgresDatabase| {
        database.drop_tables(schema)?;
        database.create(schema)?;
        database.load(schema, 0, batch(schema, 0, 100))?;
        database.finish_load(schema)
    };
    let (first, second) = (open(), open());
    load(&first).unwrap();
    // Both find the data as they want it, and work beside each other.
    assert!(first.data(schema).is_ok() && second.data(schema).is_ok());
    let refused = load(&second).unwrap_err().to_string();
    assert!(refused.contains("another plimsoll uses the tables in plimsoll_claimed"), "{refused}");
    assert!(refused.contains("(the server's process "), "{refused}");
    assert!(first.session(schema).is_ok(), "the tables are still there");
    drop(first);
    plimsoll_testing::until("the first to be gone", || load(&second).is_ok());
    second.drop_tables(schema).unwrap();
    // No other process may use them while they are loaded.
    let refused = open().data(schema).unwrap_err().to_string();
    assert!(refused.contains("another plimsoll uses"), "{refused}");
}
