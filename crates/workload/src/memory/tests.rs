//! The reference database with a small table for the test.

use std::borrow::Cow;

use super::*;
use crate::database::OptionChange;
use crate::schema::{ColumnKind, Index, SecondaryIndex, Storage, Table, column, nullable};
use crate::statement::{End, Intent, RowRef};

static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("shelf"),
    tables: &[Table {
        name: "book",
        columns: &[
            column("shelf", ColumnKind::Int),
            column("place", ColumnKind::Int),
            column("author", ColumnKind::Text(8)),
            nullable("lent", ColumnKind::Decimal { precision: 3, scale: 1 }),
        ],
        primary_key: &[0, 1],
        secondary: &[SecondaryIndex { name: "book_by_author", columns: &[2] }],
        storage: Storage::RowsAndColumns,
        has_key_ranges: true,
    }],
};

const BY_PLACE: Index = Index { table: 0, number: 0 };
const BY_AUTHOR: Index = Index { table: 0, number: 1 };

static ADD: Statement = Statement {
    name: "add",
    sql: "INSERT INTO book VALUES ($1, $2, $3, NULL)",
    native: &|access, parameters, rows| {
        access.insert(0, &[parameters[0], parameters[1], parameters[2], Value::Null])?;
        rows.set_affected(1);
        Ok(())
    },
};

static REMOVE: Statement = Statement {
    name: "remove",
    sql: "DELETE FROM book WHERE shelf = $1 AND place = $2",
    native: &|access, parameters, rows| {
        if let Some(row) = access.find(BY_PLACE, parameters, Intent::Write)? {
            access.delete(row)?;
            rows.set_affected(1);
        }
        Ok(())
    },
};

static LEND: Statement = Statement {
    name: "lend",
    sql: "UPDATE book SET lent = $3 WHERE shelf = $1 AND place = $2",
    native: &|access, parameters, rows| {
        if let Some(row) = access.find(BY_PLACE, &parameters[..2], Intent::Write)? {
            access.set(row, 3, parameters[2])?;
            rows.set_affected(1);
        }
        Ok(())
    },
};

static WRITE_UNDECLARED: Statement = Statement {
    name: "write_undeclared",
    sql: "",
    native: &|access, parameters, _| {
        let row = access.find(BY_PLACE, parameters, Intent::Read)?.expect("the test added it");
        access.set(row, 3, Value::Int(1))
    },
};

static RENAME: Statement = Statement {
    name: "rename",
    sql: "",
    native: &|access, parameters, _| {
        let row = access.find(BY_PLACE, parameters, Intent::Write)?.expect("the test added it");
        access.set(row, 2, Value::Text("other"))
    },
};

/// Reads ranges: places from the first to the last parameter, then the ends of them, then by author.
static LOOK: Statement = Statement {
    name: "look",
    sql: "",
    native: &|access, parameters, rows| {
        let (low, high) = (&parameters[..1], &parameters[1..2]);
        let mut found: Vec<RowRef> = Vec::new();
        access.find_all(BY_PLACE, low, high, Intent::Read, &mut found)?;
        found.extend(access.find_end(BY_PLACE, low, high, End::First, Intent::Read)?);
        found.extend(access.find_end(BY_PLACE, low, high, End::Last, Intent::Read)?);
        access.find_all(BY_AUTHOR, &parameters[2..], &parameters[2..], Intent::Read, &mut found)?;
        for row in found {
            rows.start(2);
            rows.append_stored(access, &SCHEMA, row, &[1, 3]);
        }
        Ok(())
    },
};

fn shelf() -> (MemoryDatabase, Box<dyn Session>) {
    let database = MemoryDatabase::new();
    database.create(&SCHEMA).unwrap();
    let mut session = database.session(&SCHEMA).unwrap();
    let mut rows = Rows::new();
    session.begin().unwrap();
    for (shelf, place, author) in [(1, 1, "eco"), (1, 2, "borges"), (2, 3, "eco"), (3, 4, "calvino")] {
        let row = [Value::Int(shelf), Value::Int(place), Value::Text(author)];
        session.execute(&ADD, &row, &mut rows).unwrap();
    }
    session.commit().unwrap();
    (database, session)
}

fn contents(database: &MemoryDatabase) -> Vec<String> {
    let mut rows = Vec::new();
    database.scan(&SCHEMA, 0, &mut |row| rows.push(format!("{row:?}"))).unwrap();
    rows
}

#[test]
fn ranges_take_prefixes_at_both_ends() {
    let (_database, mut session) = shelf();
    let mut rows = Rows::new();
    session.begin().unwrap();
    session.execute(&LOOK, &[Value::Int(1), Value::Int(2), Value::Text("eco")], &mut rows).unwrap();
    let places = (0..rows.len()).map(|row| rows.int(row, 0)).collect::<Vec<_>>();
    assert_eq!(places, [1, 2, 3, 1, 3, 1, 3]);
    assert_eq!(rows.value(0, 1), Value::Null);
    session.execute(&LOOK, &[Value::Int(4), Value::Int(2), Value::Text("ec")], &mut rows).unwrap();
    assert!(rows.is_empty(), "an empty range, and text is no prefix of text");
}

#[test]
fn rollback_takes_everything_back() {
    let (database, mut session) = shelf();
    let before = contents(&database);
    let mut rows = Rows::new();
    session.begin().unwrap();
    session.execute(&LEND, &[Value::Int(1), Value::Int(1), Value::Int(25)], &mut rows).unwrap();
    session.execute(&REMOVE, &[Value::Int(1), Value::Int(1)], &mut rows).unwrap();
    session.execute(&ADD, &[Value::Int(1), Value::Int(1), Value::Text("levi")], &mut rows).unwrap();
    session.execute(&REMOVE, &[Value::Int(2), Value::Int(3)], &mut rows).unwrap();
    assert_ne!(contents(&database), before);
    session.rollback().unwrap();
    assert_eq!(contents(&database), before);
    session.begin().unwrap();
    session.execute(&LOOK, &[Value::Int(1), Value::Int(9), Value::Text("eco")], &mut rows).unwrap();
    assert_eq!(rows.len(), 4 + 2 + 2, "the indexes are as before, too");
}

#[test]
fn what_a_benchmark_must_not_do_fails_and_rolls_back() {
    let (database, mut session) = shelf();
    let before = contents(&database);
    let place = [Value::Int(1), Value::Int(1)];
    let mut check = |statement: &Statement<'_>, parameters: &[Value<'_>], expected: &str| {
        let mut rows = Rows::new();
        session.begin().unwrap();
        session.execute(&REMOVE, &[Value::Int(3), Value::Int(4)], &mut rows).unwrap();
        let error = session.execute(statement, parameters, &mut rows).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(session.commit().is_err(), "the transaction is over");
        assert_eq!(contents(&database), before);
    };
    check(&WRITE_UNDECLARED, &place, "found to Some(Read)");
    check(&RENAME, &place, "never changes");
    check(&ADD, &[place[0], place[1], Value::Text("twice")], "duplicate key in book");
    check(&ADD, &[Value::Int(9), Value::Int(9), Value::Text("ninechars")], "cannot hold");
    check(&ADD, &[Value::Int(9), Value::Null, Value::Text("null")], "cannot hold");
    check(&LEND, &[place[0], place[1], Value::Int(1_000)], "cannot hold");
    check(&LEND, &[place[0], place[1], Value::Text("1")], "cannot hold");
}

#[test]
fn transactions_run_one_at_a_time() {
    let (database, session) = shelf();
    drop(session);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = database.session(&SCHEMA).unwrap();
                let mut rows = Rows::new();
                for _ in 0..200 {
                    session.begin().unwrap();
                    session.execute(&LOOK, &[Value::Int(1), Value::Int(1), Value::Text("")], &mut rows).unwrap();
                    let lent = if rows.value(0, 1) == Value::Null { 0 } else { rows.int(0, 1) };
                    let lend = [Value::Int(1), Value::Int(1), Value::Int(lent + 1)];
                    session.execute(&LEND, &lend, &mut rows).unwrap();
                    session.commit().unwrap();
                }
            });
        }
    });
    assert!(contents(&database)[0].ends_with("Int(800)]"), "no update was lost: {}", contents(&database)[0]);
}

#[test]
fn dropped_tables_are_gone_and_can_be_created_anew() {
    let (database, session) = shelf();
    drop(session);
    database.drop_tables(&SCHEMA).unwrap();
    let error = database.session(&SCHEMA).err().unwrap();
    assert_eq!(error.to_string(), "there are no tables of shelf; create them first");
    database.drop_tables(&SCHEMA).unwrap();
    database.create(&SCHEMA).unwrap();
    assert!(contents(&database).is_empty());
}

#[test]
fn it_has_no_option_that_could_be_changed_while_it_is_open() {
    assert_eq!(MemoryDatabase::new().set_option("locks", "few"), Ok(OptionChange::NeedsReopening));
}

/// A statement outside of `begin` … `commit` is a transaction of its own: it commits, or leaves nothing behind.
#[test]
fn statements_by_themselves_are_transactions() {
    let database = MemoryDatabase::new();
    database.create(&SCHEMA).unwrap();
    let (mut one, mut other) = (database.session(&SCHEMA).unwrap(), database.session(&SCHEMA).unwrap());
    let mut rows = Rows::new();
    let book = |place| [Value::Int(1), Value::Int(place), Value::Text("woolf")];
    one.execute(&ADD, &book(1), &mut rows).unwrap();
    assert_eq!(rows.affected(), 1);
    other.execute(&ADD, &book(2), &mut rows).unwrap();
    assert_eq!(contents(&database).len(), 2);
    // It fails, and no session has to wait for it.
    assert!(matches!(one.execute(&ADD, &book(2), &mut rows), Err(DatabaseError::Duplicate { .. })));
    assert!(one.execute(&WRITE_UNDECLARED, &book(1)[..2], &mut rows).is_err());
    other.begin().unwrap();
    other.execute(&REMOVE, &book(1)[..2], &mut rows).unwrap();
    other.rollback().unwrap();
    assert_eq!(contents(&database).len(), 2);
    assert!(one.commit().is_err(), "none is open");
}
