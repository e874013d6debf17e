//! A cluster and the embedded engine with the same data.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_cluster::ClusterDatabase;
use plimsoll_cluster::options::ClusterOptions;
use plimsoll_target::Target;
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, DatabaseError, Login};
use plimsoll_workload::registry::Catalog;
use plimsoll_workload::tpch::cells::{TextRow, text_rows};
use tempfile::TempDir;

use crate::program::{assert_ended, run};

/// Enough for several files of `lineitem` and two of `orders`, so that several workers have rows.
pub const WORKLOAD: &str = "tpch:0.05";

/// Both, over TPC-H.
pub struct Pair {
    pub cluster: ClusterDatabase,
    single: Box<dyn Database>,
    pub benchmark: std::sync::Arc<dyn Benchmark>,
    /// The folder of the export.
    _folder: TempDir,
}

/// An export of a workload.
pub fn exported(workload: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert_ended(&run(&["export", "out", "--workload", workload], folder.path()), 0);
    folder
}

/// A cluster over the export in a folder.
pub fn cluster(export: &Path, options: &[(&str, &str)]) -> ClusterDatabase {
    let mut all = ClusterOptions::of_url("cluster:").unwrap();
    let data = export.display().to_string();
    let common = [("data", data.as_str()), ("dop", "2"), ("partition_kib", "64")];
    common.iter().chain(options).for_each(|(name, value)| all.set(name, value).unwrap());
    ClusterDatabase::open(&all, Path::new(env!("CARGO_BIN_EXE_plimsoll")), |_, _| unreachable!("the data are given"))
        .unwrap()
}

impl Pair {
    /// Both, the cluster with these options.
    pub fn new(options: &[(&str, &str)]) -> Pair {
        let folder = exported(WORKLOAD);
        let cluster = cluster(&folder.path().join("out"), options);
        let (benchmark, _) = Catalog::new(7).of_spec(WORKLOAD, &Default::default()).unwrap();
        let single = Target::parse("embedded:", []).unwrap().open().unwrap();
        benchmark.load(&*single, &LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) }).unwrap();
        Pair { cluster, single, benchmark, _folder: folder }
    }

    /// The answer of the cluster.
    pub fn distributed(&self, sql: &str) -> Result<Vec<TextRow>, DatabaseError> {
        rows(&self.cluster, &*self.benchmark, sql)
    }

    /// The answer of the embedded engine.
    pub fn alone(&self, sql: &str) -> Result<Vec<TextRow>, DatabaseError> {
        rows(&*self.single, &*self.benchmark, sql)
    }

    /// Both must have the same rows, whatever their order.
    #[track_caller]
    pub fn assert_same(&self, sql: &str) {
        self.assert_same_but(sql, |rows| rows.sort());
    }

    /// Both must have the same rows in the same order.
    #[track_caller]
    pub fn assert_same_in_order(&self, sql: &str) {
        self.assert_same_but(sql, |_| ());
    }

    #[track_caller]
    fn assert_same_but(&self, sql: &str, prepare: impl Fn(&mut Vec<TextRow>)) {
        let (mut found, mut expect) = match (self.distributed(sql), self.alone(sql)) {
            (Ok(found), Ok(expect)) => (found, expect),
            // Both refuse it, or fail at the same value.
            (Err(_), Err(_)) => return,
            (found, expect) => panic!("{sql}\ncluster: {found:?}\nalone: {expect:?}"),
        };
        prepare(&mut found);
        prepare(&mut expect);
        let first = found.iter().zip(&expect).position(|(one, other)| one != other);
        let plan = || self.cluster.explain(self.benchmark.schema(), sql).unwrap();
        assert_eq!(found.len(), expect.len(), "rows of {sql}\n{}", plan());
        assert_eq!(first.map(|at| (&found[at], &expect[at])), None, "{sql}\n{}", plan());
    }
}

fn rows(database: &dyn Database, benchmark: &dyn Benchmark, sql: &str) -> Result<Vec<TextRow>, DatabaseError> {
    let answer = database.query_session(benchmark.schema(), Login::default())?.query(sql)?;
    Ok(text_rows(&answer.batches).unwrap())
}
