//! DataFusion without our rules and operators, with whose answers tests compare ours.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use tokio::runtime::{Builder, Runtime};

use super::printed::sorted_rows;

pub(crate) struct Stock {
    context: SessionContext,
    runtime: Runtime,
}

impl Stock {
    pub(crate) fn new(context: SessionContext) -> Stock {
        Stock { context, runtime: Builder::new_current_thread().build().expect("threads can be started") }
    }

    pub(crate) fn register(&self, name: &str, batches: Vec<RecordBatch>) {
        let schema = batches.first().expect("a batch tells the columns").schema();
        let table = MemTable::try_new(schema, vec![batches]).expect("batches of one schema");
        self.context.register_table(name, Arc::new(table)).expect("a new name");
    }

    /// The rows of a query, each cell as text, in order of their texts.
    pub(crate) fn sorted_rows(&self, sql: &str) -> Vec<Vec<String>> {
        let answer = async { self.context.sql(sql).await?.collect().await };
        sorted_rows(&self.runtime.block_on(answer).expect(sql))
    }
}
