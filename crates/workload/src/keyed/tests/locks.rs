//! Which rows and ranges statements lock, and how strongly.

use std::sync::Mutex;

use super::*;
use crate::schema::{ColumnId, Index, TableId};
use crate::statement::{End, Intent, RowRef, Statement};

struct Recorder<'a> {
    access: &'a mut dyn RowAccess,
    asked: &'a Mutex<Vec<String>>,
}

impl Recorder<'_> {
    fn note(&self, what: &str, index: Index, key: String, intent: Intent) {
        self.asked.lock().unwrap().push(format!("{what} of index {}: {key} {intent:?}", index.number));
    }
}

fn key(values: &[Value<'_>]) -> String {
    let part = |value: &Value<'_>| match value {
        Value::Int(number) => number.to_string(),
        Value::Text(text) => (*text).to_owned(),
        Value::Null => panic!("no key has a null"),
    };
    format!("({})", values.iter().map(part).collect::<Vec<_>>().join(", "))
}

fn range(low: &[Value<'_>], high: &[Value<'_>]) -> String {
    format!("{} to {}", key(low), key(high))
}

impl RowAccess for Recorder<'_> {
    fn find(&mut self, index: Index, wanted: &[Value<'_>], intent: Intent) -> Result<Option<RowRef>, DatabaseError> {
        self.note("row", index, key(wanted), intent);
        self.access.find(index, wanted, intent)
    }

    fn find_end(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
        intent: Intent,
    ) -> Result<Option<RowRef>, DatabaseError> {
        self.note(&format!("{end:?}"), index, range(low, high), intent);
        self.access.find_end(index, low, high, end, intent)
    }

    fn find_all(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        self.note("all", index, range(low, high), intent);
        self.access.find_all(index, low, high, intent, found)
    }

    fn find_some(
        &mut self,
        index: Index,
        (low, high): (&[Value<'_>], &[Value<'_>]),
        (end, limit): (End, usize),
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        self.note(&format!("{end:?} {limit}"), index, range(low, high), intent);
        self.access.find_some(index, (low, high), (end, limit), intent, found)
    }

    fn int(&self, row: RowRef, column: ColumnId) -> i64 {
        self.access.int(row, column)
    }

    fn is_null(&self, row: RowRef, column: ColumnId) -> bool {
        self.access.is_null(row, column)
    }

    fn text(&self, row: RowRef, column: ColumnId, into: &mut String) {
        self.access.text(row, column, into);
    }

    fn set(&mut self, row: RowRef, column: ColumnId, value: Value<'_>) -> Result<(), DatabaseError> {
        self.access.set(row, column, value)
    }

    fn insert(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), DatabaseError> {
        self.access.insert(table, row)
    }

    fn delete(&mut self, row: RowRef) -> Result<(), DatabaseError> {
        self.access.delete(row)
    }
}

#[test]
fn statements_lock_what_they_find_as_they_mean_to_use_it() {
    let mut sql = filled();
    for (text, expect) in [
        ("SELECT n FROM t WHERE a = 1 AND b = 2", "row of index 0: (1, 2) Read"),
        ("SELECT n FROM t WHERE a = 1 AND b = 2 FOR SHARE", "row of index 0: (1, 2) Read"),
        ("SELECT n FROM t WHERE a = 1 AND b = 2 FOR UPDATE", "row of index 0: (1, 2) Update"),
        // Also if it finds no row, or the filter excludes it.
        ("SELECT n FROM t WHERE a = 1 AND b = 9 AND n > 5 FOR UPDATE", "row of index 0: (1, 9) Update"),
        ("SELECT n FROM t WHERE a = 1 FOR UPDATE", "all of index 0: (1) to (1) Update"),
        ("SELECT n FROM t WHERE a = 1 AND b > 1 AND b <= 7", "all of index 0: (1, 2) to (1, 7) Read"),
        ("SELECT a FROM t WHERE name = 'ann' ORDER BY a DESC", "all of index 1: (ann) to (ann) Read"),
        ("SELECT n FROM t WHERE a = 1 ORDER BY b DESC LIMIT 2", "Last 2 of index 0: (1) to (1) Read"),
        ("SELECT sum(n), count(*) FROM t WHERE a = 1 AND b >= 2", "all of index 0: (1, 2) to (1) Read"),
        ("SELECT max(b) FROM t WHERE a = 1", "Last of index 0: (1) to (1) Read"),
        ("SELECT min(a) FROM t", "First of index 0: () to () Read"),
        ("UPDATE t SET n = n + 1 WHERE a = 1 AND b = 1 RETURNING n", "row of index 0: (1, 1) Write"),
        ("UPDATE t SET n = n + 1 WHERE a = 1 AND n > 5", "all of index 0: (1) to (1) Write"),
        ("DELETE FROM t WHERE a = 1 AND b < 3 RETURNING b", "all of index 0: (1) to (1, 2) Write"),
        ("INSERT INTO t VALUES (8, 8, '', 1, 1)", ""),
    ] {
        let program = Program::compile(&Catalog::of(&SCHEMA), text).unwrap();
        let asked = Mutex::new(Vec::new());
        let native = |access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows| {
            program.run(&mut Recorder { access, asked: &asked }, parameters, NOW_US, rows)
        };
        let statement = Statement { name: "test", sql: text, native: &native };
        sql.0.execute(&statement, &[], &mut Rows::new()).unwrap();
        assert_eq!(asked.into_inner().unwrap().join("; "), expect, "{text}");
    }
}
