//! A server that records the statements it receives, and answers as a test prescribes.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, StringArray};
use arrow::record_batch::RecordBatch;

use crate::benchmark::{Benchmark, LoadError, LoadProgress};
use crate::database::{Database, DatabaseError, QueryAnswer, Session};
use crate::schema::{Schema, TableId};
use crate::statement::{Rows, Statement, Value};

/// The answers to queries, by query: one column of texts.
type Answers = Vec<(&'static str, &'static [&'static str])>;

/// The results or errors of the next statements, in turn; then none.
type Results = VecDeque<Result<Vec<Vec<Value<'static>>>, DatabaseError>>;

#[derive(Default)]
struct FakeState {
    said: Vec<String>,
    answers: Answers,
    /// Statements that begin with this fail.
    failing: Option<&'static str>,
    results: Results,
    is_open: bool,
}

#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<FakeState>>);

pub(super) fn load(benchmark: &dyn Benchmark, database: &dyn Database) -> Result<(), LoadError> {
    benchmark.load(database, &LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) })
}

impl Server {
    pub(super) fn answering(answers: &[(&'static str, &'static [&'static str])]) -> Self {
        let server = Server::default();
        server.0.lock().unwrap().answers = answers.to_vec();
        server
    }

    pub(super) fn failing(beginning: &'static str) -> Self {
        let server = Server::default();
        server.0.lock().unwrap().failing = Some(beginning);
        server
    }

    pub(super) fn returning(
        results: impl IntoIterator<Item = Result<Vec<Vec<Value<'static>>>, DatabaseError>>,
    ) -> Self {
        let server = Server::default();
        server.0.lock().unwrap().results = results.into_iter().collect();
        server
    }

    /// Sets the results of the next statements.
    pub(super) fn next(&self, results: impl IntoIterator<Item = Result<Vec<Vec<Value<'static>>>, DatabaseError>>) {
        self.0.lock().unwrap().results = results.into_iter().collect();
    }

    pub(super) fn load(&self, benchmark: &dyn Benchmark) -> Result<(), LoadError> {
        load(benchmark, self)
    }

    pub(super) fn prepare_error(&self, benchmark: &dyn Benchmark) -> String {
        benchmark.prepare(self).unwrap_err().to_string()
    }

    /// Takes the statements that were received since the last call.
    pub(super) fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().said)
    }

    fn say(&self, what: &str, text: &str) -> Result<(), DatabaseError> {
        let mut state = self.0.lock().unwrap();
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        state.said.push(format!("{what} {one_line}").trim_end().to_owned());
        match state.failing {
            Some(beginning) if text.starts_with(beginning) => Err(DatabaseError::Failed("no such thing".to_owned())),
            _ => Ok(()),
        }
    }
}

impl Database for Server {
    fn runs_sql(&self) -> bool {
        true
    }

    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.say("create", &schema.name)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.say("drop", &schema.name)
    }

    fn load(&self, _: &Schema, _: TableId, _: RecordBatch) -> Result<(), DatabaseError> {
        unreachable!("tables are filled by SQL")
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.say("finish", &schema.name)
    }

    fn session(&self, _: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Ok(Box::new(self.clone()))
    }

    fn refresh(&self, _: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn run_script(&self, _: &Schema, sql: &str) -> Result<(), DatabaseError> {
        self.say("script", sql)
    }
}

impl Session for Server {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        let was_open = std::mem::replace(&mut self.0.lock().unwrap().is_open, true);
        assert!(!was_open, "one transaction at a time");
        self.say("begin", "")
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        let shown = |value: &Value<'_>| match value {
            Value::Null => "null".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Text(text) => format!("'{text}'"),
        };
        let shown: Vec<String> = parameters.iter().map(shown).collect();
        let with = if shown.is_empty() { String::new() } else { format!(" <- {}", shown.join(", ")) };
        self.say("execute", &format!("{}{with}", statement.sql))?;
        let mut state = self.0.lock().unwrap();
        match state.results.pop_front().unwrap_or_else(|| Ok(Vec::new())) {
            Ok(result) => result.iter().for_each(|row| rows.push(row)),
            Err(error) => {
                state.is_open = false;
                return Err(error);
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.0.lock().unwrap().is_open = false;
        self.say("commit", "")
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.0.lock().unwrap().is_open = false;
        self.say("rollback", "")
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.say("query", sql)?;
        let state = self.0.lock().unwrap();
        let found = state.answers.iter().find(|(query, _)| *query == sql);
        let texts = found.map_or(Vec::new(), |(_, texts)| texts.to_vec());
        let column: ArrayRef = Arc::new(StringArray::from(texts));
        let batch = RecordBatch::try_from_iter_with_nullable([("column", column, true)]).unwrap();
        Ok(QueryAnswer { batches: vec![batch], snapshot: "now".to_owned() })
    }
}
