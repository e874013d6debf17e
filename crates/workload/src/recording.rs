//! A database that keeps the batches it is given; a test computes its answers to queries from those batches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;

use crate::database::{Database, DatabaseError, QueryAnswer, Session};
use crate::schema::{Schema, TableId};
use crate::statement::{Rows, Statement, Value};

/// Answers a query, given each table as one batch.
pub(crate) type Answer = fn(&str, &[RecordBatch]) -> ArrayRef;

/// As [`Answer`], with captured data.
type Answerer = Arc<dyn Fn(&str, &[RecordBatch]) -> Result<ArrayRef, DatabaseError> + Send + Sync>;

/// A database for the tests of analytical benchmarks and of checks.
pub(crate) struct Recording {
    schema: Schema,
    loaded: Mutex<Vec<Vec<RecordBatch>>>,
    answer: Answerer,
    /// Whether it counts rows itself.
    counts: bool,
    asked: Arc<Mutex<Vec<String>>>,
    refreshes: AtomicUsize,
    steps: Mutex<Vec<&'static str>>,
}

impl Recording {
    /// A database that answers with a single column, or with the columns of a struct, and counts the rows of its tables
    /// itself.
    pub(crate) fn new(
        schema: &Schema,
        answer: impl Fn(&str, &[RecordBatch]) -> ArrayRef + Send + Sync + 'static,
    ) -> Self {
        Recording { counts: true, ..Recording::answering(schema, answer) }
    }

    /// One that leaves every answer to the test.
    pub(crate) fn answering(
        schema: &Schema,
        answer: impl Fn(&str, &[RecordBatch]) -> ArrayRef + Send + Sync + 'static,
    ) -> Self {
        Recording {
            schema: schema.clone(),
            loaded: Mutex::new(vec![Vec::new(); schema.tables.len()]),
            answer: Arc::new(move |sql, tables| Ok(answer(sql, tables))),
            counts: false,
            asked: Arc::default(),
            refreshes: AtomicUsize::new(0),
            steps: Mutex::default(),
        }
    }

    /// One in which every query fails.
    pub(crate) fn failing(schema: &Schema, words: &'static str) -> Self {
        let answer: Answerer = Arc::new(|_, _| Err(DatabaseError::Failed(words.to_owned())));
        Recording { answer, ..Recording::answering(schema, |_, _| count(0)) }
    }

    /// The steps of loading so far; loads that follow each other are one.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        self.steps.lock().expect("no panic while held").clone()
    }

    fn step(&self, step: &'static str) {
        let mut steps = self.steps.lock().expect("no panic while held");
        if step != "load" || steps.last() != Some(&step) {
            steps.push(step);
        }
    }

    /// Every query so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic while held").clone()
    }

    /// How often it was refreshed.
    pub(crate) fn refreshes(&self) -> usize {
        self.refreshes.load(Ordering::Relaxed)
    }

    pub(crate) fn table(&self, table: TableId) -> RecordBatch {
        let loaded = self.loaded.lock().expect("no panic while held");
        concat_batches(&self.schema.tables[table].arrow(), &loaded[table]).expect("batches of one table")
    }

    /// Bytes of all tables as they were loaded.
    pub(crate) fn bytes(&self) -> usize {
        let loaded = self.loaded.lock().expect("no panic while held");
        loaded.iter().flatten().map(RecordBatch::get_array_memory_size).sum()
    }
}

impl Database for Recording {
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        assert_eq!(schema.name, self.schema.name);
        self.step("create");
        Ok(())
    }

    fn drop_tables(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        self.loaded.lock().expect("no panic while held").iter_mut().for_each(Vec::clear);
        Ok(())
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        assert_eq!(batch.schema(), schema.tables[table].arrow());
        self.step("load");
        self.loaded.lock().expect("no panic while held")[table].push(batch);
        Ok(())
    }

    fn finish_load(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        self.step("finish");
        Ok(())
    }

    fn session(&self, _schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let tables = (0..self.schema.tables.len()).map(|table| self.table(table)).collect();
        let (schema, counts) = (self.schema.clone(), self.counts);
        let (answer, asked) = (self.answer.clone(), self.asked.clone());
        Ok(Box::new(RecordingSession { schema, tables, answer, counts, asked }))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        self.refreshes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct RecordingSession {
    schema: Schema,
    tables: Vec<RecordBatch>,
    answer: Answerer,
    counts: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Session for RecordingSession {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        unreachable!("queries need no transaction")
    }

    fn execute(&mut self, _: &Statement<'_>, _: &[Value<'_>], _: &mut Rows) -> Result<(), DatabaseError> {
        unreachable!("there are no statements")
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        unreachable!("queries need no transaction")
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        unreachable!("queries need no transaction")
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.asked.lock().expect("no panic while held").push(sql.to_owned());
        let counted = self.schema.tables.iter().position(|table| sql == format!("select count(*) from {}", table.name));
        let answer = match counted.filter(|_| self.counts) {
            Some(table) => count(self.tables[table].num_rows()),
            None => (self.answer)(sql, &self.tables)?,
        };
        let batch = match answer.as_struct_opt() {
            Some(columns) => RecordBatch::from(columns.clone()),
            None => RecordBatch::try_from_iter_with_nullable([("answer", answer, true)]).expect("one column"),
        };
        Ok(QueryAnswer { batches: vec![batch], snapshot: "as loaded".to_owned() })
    }
}

pub(crate) fn count(rows: usize) -> ArrayRef {
    number(rows as i64)
}

pub(crate) fn number(number: i64) -> ArrayRef {
    Arc::new(arrow::array::Int64Array::from(vec![number]))
}

/// A column of a batch as integers.
pub(crate) fn ints(batch: &RecordBatch, column: usize) -> Vec<i64> {
    use arrow::datatypes::Int64Type;
    let numbers = arrow::compute::cast(batch.column(column), &arrow::datatypes::DataType::Int64).expect("integers");
    assert_eq!(numbers.null_count(), 0);
    numbers.as_primitive::<Int64Type>().values().to_vec()
}
