//! Another instance of a benchmark in the same database, with its own tables under its own schema name.
//!
//! Two shops of different sizes in one server are two databases to their clients, as in McWherter's study of
//! federations (4.3), but share the server's memory, disk and cores. `Instance` is the benchmark with another schema
//! name; while it loads and checks, its tables are found under that name, too.

use arrow::record_batch::RecordBatch;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError, Login, Session};
use crate::driver::PriorityRule;
use crate::file::WorkloadFile;
use crate::schema::{DeclaredTable, Schema, TableId};

/// The parameter that names an instance; every benchmark has it.
pub const INSTANCE: &str = "instance";

/// Names of instances are at most this long, so that names of schemas stay within PostgreSQL's 63 bytes.
const NAME_LENGTH_MAX: usize = 20;

/// The fault in the name of an instance; `None` if it is valid.
pub fn fault(name: &str) -> Option<String> {
    let is_good = (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (!is_good).then(|| {
        format!(
            "`{name}` is not a name of an instance; write 1 to {NAME_LENGTH_MAX} lower-case letters, digits and `_`"
        )
    })
}

/// A benchmark with tables of its own.
pub(crate) struct Instance {
    inner: Box<dyn Benchmark>,
    schema: Schema,
}

impl Instance {
    pub(crate) fn new(inner: Box<dyn Benchmark>, name: &str) -> Self {
        let own = inner.schema();
        let schema = Schema { name: format!("{}_{name}", own.name).into(), tables: own.tables };
        Instance { inner, schema }
    }

    fn seen<'a>(&'a self, database: &'a dyn Database) -> InstanceView<'a> {
        InstanceView { database, schema: &self.schema }
    }
}

impl Benchmark for Instance {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn data(&self) -> String {
        self.inner.data()
    }

    fn writes(&self) -> Writes {
        self.inner.writes()
    }

    fn transactions(&self) -> Vec<&str> {
        self.inner.transactions()
    }

    fn priorities(&self) -> Vec<Option<PriorityRule>> {
        self.inner.priorities()
    }

    fn is_analytical(&self) -> bool {
        self.inner.is_analytical()
    }

    fn estimated_bytes(&self) -> u64 {
        self.inner.estimated_bytes()
    }

    fn client_count_max(&self) -> Option<usize> {
        self.inner.client_count_max()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        self.inner.load(&self.seen(database), progress)
    }

    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        self.inner.prepare(&self.seen(database))
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        self.inner.client(number, seed)
    }

    fn recorded_clients(&self) -> Option<usize> {
        self.inner.recorded_clients()
    }

    fn recorded_client(&self, number: usize) -> Box<dyn Client> {
        self.inner.recorded_client(number)
    }

    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }

    fn queries(&self) -> Vec<(String, String)> {
        self.inner.queries()
    }

    fn files(&self) -> Vec<WorkloadFile> {
        self.inner.files()
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        self.inner.check(&self.seen(database))
    }
}

/// A database in which the tables of a benchmark are found under the schema of one of its instances. It has the methods
/// that a benchmark needs to load, to prepare and to check; everything else uses the database itself.
struct InstanceView<'a> {
    database: &'a dyn Database,
    schema: &'a Schema,
}

impl Database for InstanceView<'_> {
    fn runs_sql(&self) -> bool {
        self.database.runs_sql()
    }

    fn is_of_user(&self) -> bool {
        self.database.is_of_user()
    }

    fn declare(&self, _: &Schema, tables: &[DeclaredTable]) -> Result<(), DatabaseError> {
        self.database.declare(self.schema, tables)
    }

    fn create(&self, _: &Schema) -> Result<(), DatabaseError> {
        self.database.create(self.schema)
    }

    fn drop_tables(&self, _: &Schema) -> Result<(), DatabaseError> {
        self.database.drop_tables(self.schema)
    }

    fn load(&self, _: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.database.load(self.schema, table, batch)
    }

    fn finish_load(&self, _: &Schema) -> Result<(), DatabaseError> {
        self.database.finish_load(self.schema)
    }

    fn session(&self, _: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        self.database.session(self.schema)
    }

    fn session_as(&self, _: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        self.database.session_as(self.schema, login)
    }

    fn query_session(&self, _: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        self.database.query_session(self.schema, login)
    }

    fn refresh(&self, _: &Schema) -> Result<(), DatabaseError> {
        self.database.refresh(self.schema)
    }

    fn run_script(&self, _: &Schema, sql: &str) -> Result<(), DatabaseError> {
        self.database.run_script(self.schema, sql)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fixture::load_into;
    use crate::memory::MemoryDatabase;
    use crate::registry::Catalog;

    #[test]
    fn two_instances_in_one_database_have_tables_and_data_of_their_own() {
        let (catalog, database) = (Catalog::new(7), MemoryDatabase::new());
        let get = |scale: f64, instance: Option<&str>| {
            let parameters: BTreeMap<_, _> =
                instance.map(|name| (INSTANCE.to_owned(), name.into())).into_iter().collect();
            let (benchmark, _) = catalog.get("tpcb", Some(scale), &parameters).expect("known");
            load_into(&*benchmark, &database);
            benchmark
        };
        let (own, other) = (get(1.0, None), get(2.0, Some("fed")));
        assert_eq!((&*own.schema().name, &*other.schema().name), ("tpcb", "tpcb_fed"));
        assert_ne!(own.data(), other.data());
        let rows = |schema: &Schema, table: TableId| {
            let mut count = 0;
            database.scan(schema, table, &mut |_| count += 1).expect("loaded");
            count
        };
        let [branch, history] = ["branch", "history"]
            .map(|name| own.schema().tables.iter().position(|table| table.name == name).expect("a table of TPC-B"));
        assert_eq!(rows(other.schema(), branch), 2 * rows(own.schema(), branch));
        for benchmark in [&own, &other] {
            assert_eq!(rows(benchmark.schema(), history), 0, "what the other instance did is not here");
            let mut client = benchmark.client(0, 1);
            let mut session = database.session(benchmark.schema()).expect("loaded");
            client.draw();
            assert_eq!(client.run(session.as_mut()).expect("no other client"), crate::benchmark::Outcome::Committed);
            assert_eq!(rows(benchmark.schema(), history), 1);
        }
    }

    #[test]
    fn names_of_instances_are_those_of_schemas() {
        assert_eq!(fault("fed_2"), None);
        for wrong in ["", "Fed", "fed-2", "f e d", "a_name_that_is_far_too_long"] {
            assert!(fault(wrong).is_some_and(|why| why.contains("lower-case letters")), "{wrong}");
        }
    }
}
