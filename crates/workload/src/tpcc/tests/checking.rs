//! Checking, over a database whose queries give prepared answers.

use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::*;

/// Answers the queries that contain `marked` with one row, and all others with none.
#[derive(Default)]
struct Answering {
    marked: Option<&'static str>,
    queries: Arc<Mutex<Vec<String>>>,
    refreshes: Mutex<u32>,
}

struct AnsweringSession {
    marked: Option<&'static str>,
    queries: Arc<Mutex<Vec<String>>>,
}

impl Database for Answering {
    fn create(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn drop_tables(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn load(&self, _schema: &Schema, _table: usize, _batch: RecordBatch) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn finish_load(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn session(&self, _schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Ok(Box::new(AnsweringSession { marked: self.marked, queries: self.queries.clone() }))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        *self.refreshes.lock().unwrap() += 1;
        Ok(())
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }
}

impl Session for AnsweringSession {
    fn set_priority(&mut self, _priority: Priority) {}

    fn begin(&mut self) -> Result<(), DatabaseError> {
        panic!("queries run outside transactions")
    }

    fn execute(
        &mut self,
        _statement: &Statement<'_>,
        _parameters: &[Value<'_>],
        _rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        panic!("checking executes no statement")
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        panic!("queries run outside transactions")
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        panic!("queries run outside transactions")
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.queries.lock().unwrap().push(sql.to_owned());
        let is_marked = self.marked.is_some_and(|marked| sql.contains(marked));
        let rows = Arc::new(Int64Array::from(vec![17; usize::from(is_marked)])) as ArrayRef;
        let batches = vec![RecordBatch::try_from_iter([("culprit", rows)]).unwrap()];
        Ok(QueryAnswer { batches, snapshot: "now".to_owned() })
    }

    fn usage(&self) -> SessionUsage {
        SessionUsage::default()
    }
}

fn holds(lines: &[CheckLine], start: &str) -> Option<Option<bool>> {
    lines.iter().find(|line| line.what.starts_with(start)).map(|line| line.holds)
}

#[test]
fn untouched_data_are_checked_for_the_initial_population_too() {
    let database = Answering::default();
    let lines = Tpcc::new(2, 1).check(&database).unwrap();
    assert!(lines.iter().all(|line| line.holds == Some(true)), "{lines:?}");
    for condition in 1..=12 {
        assert!(holds(&lines, &format!("{condition}: ")).is_some(), "condition {condition} is checked");
    }
    assert!(holds(&lines, "load: ").is_some() && holds(&lines, "NURand").is_some());
    assert!(holds(&lines, "input: ").is_none(), "no client has run");
    assert_eq!(*database.refreshes.lock().unwrap(), 1);
    let queries = database.queries.lock().unwrap();
    assert!(queries.iter().any(|sql| sql.contains("60000 AS expected FROM customer")), "the scale is looked at");
}

#[test]
fn data_that_clients_have_touched_are_not_checked_for_it() {
    let check = |tpcc: &Tpcc, database: &Answering| {
        let lines = tpcc.check(database).unwrap();
        assert_eq!(holds(&lines, "11: "), Some(None));
        assert_eq!(holds(&lines, "load: "), None);
        assert_eq!(holds(&lines, "12: "), Some(Some(true)));
        lines
    };
    let before = Answering { marked: Some("AS payments"), ..Answering::default() };
    let lines = check(&Tpcc::new(1, 1), &before);
    assert!(lines.iter().any(|line| line.found.contains("clients have run before")), "{lines:?}");

    let tpcc = Tpcc::new(1, 1);
    tpcc.audit.tally(0).stock_level();
    let lines = check(&tpcc, &Answering::default());
    assert_eq!(holds(&lines, "input: remote payments"), Some(Some(true)));
    assert_eq!(holds(&lines, "mix: payment"), Some(None));
}

#[test]
fn a_violation_is_shown() {
    let database = Answering { marked: Some("FULL JOIN new_order"), ..Answering::default() };
    let lines = Tpcc::new(1, 1).check(&database).unwrap();
    let wrong = lines.iter().filter(|line| line.holds == Some(false)).collect::<Vec<_>>();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].what.starts_with("5: ") && wrong[0].found == "violated by culprit 17", "{wrong:?}");
    let alone = Tpcc::new(1, 1).check_population(&database).unwrap();
    assert!(alone.iter().all(|line| line.what.starts_with("load: ") && line.holds == Some(true)), "{alone:?}");
}
