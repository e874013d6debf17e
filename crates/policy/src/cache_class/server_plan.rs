//! The cache class of a query of PostgreSQL, by the plan that EXPLAIN shows: the same rule as for operators of the embedded engine.
//!
//! A server gives a whole query one class, because one process runs all of it. The class is that of the most sensitive node. A query is
//! confined only if its plan shows that it reads far more than it uses again. In every other case it keeps the whole cache:
//! a node, a function or a size that the rule does not know is sensitive.
//!
//! | node | class |
//! |---|---|
//! | `Seq Scan` | polluting if all of them together may read more than the cache holds; else it has no say |
//! | `Bitmap Heap Scan` | polluting if its rows alone exceed the cache and its bitmap is small; else sensitive, as an access by index |
//! | `Hash` | by size: small has no say, comparable with the cache depends, larger is polluting if the server's limit allows a table of that size |
//! | `Aggregate` (`Hashed`, `Mixed`), `Sort` | by size: small has no say, else sensitive |
//! | `Hash Join`, `Gather`, `Gather Merge`, `Limit`, `Append`, `Result`, `Subquery Scan`, `Aggregate` (`Plain`,
//! `Sorted`), `Group`, `Unique` | no say; their inputs decide |
//! | a `SubPlan`, which is run for each row or kept in a table of unknown size, and every other node | sensitive |
//!
//! A plan in which no node has a say is sensitive: the query reads too little to evict anything.
//!
//! Sizes are the planner's estimates:
//! - A hash table takes 32 bytes and the width for each row (the header of an entry and of its tuple), and 8 bytes for a bucket. Buckets
//!   are a power of two. Each process below a `Gather` has a table of its own, or a part of a shared one; either way the plan's
//!   rows count once per process. A join has one batch at a time, which the server limits to `work_mem` times
//!   `hash_mem_multiplier`. Without that limit, a table that seems larger than the cache could be one of any size.
//! - EXPLAIN does not show how many pages a sequential scan reads. Its cost has a page of 8 KiB as its unit, so the
//!   cost bounds the pages. A `Limit` above it stops the scan, so the limit's cost bounds it too.
//! - Numbers of groups are estimated worst. A table of groups is small only if one ten times as large were. A multiple
//!   of 200 groups is not an estimate: the planner assumes 200 for a column without statistics.

use super::{COMPARABLE_LEAST, COMPARABLE_MOST, CacheClass, CacheOperator};

#[cfg(test)]
mod tests;

/// Bytes of a row in a hash table beside its columns: the entry's header and the tuple's.
const HASH_ROW_BYTES: f64 = 32.0;
/// Bytes of a bucket: a pointer.
const BUCKET_BYTES: f64 = 8.0;
/// Fewer buckets are never made.
const BUCKETS_LEAST: f64 = 1024.0;
/// Bytes of a group beside its columns: entry and tuple headers, and the states of a few aggregates.
const GROUP_BYTES: f64 = 96.0;
/// Bytes of a row that is sorted, beside its columns.
const SORTED_ROW_BYTES: f64 = 40.0;
/// Bytes of a row in a table beside its columns.
const HEAP_ROW_BYTES: f64 = 28.0;
const PAGE_BYTES: f64 = 8192.0;
/// Bytes of a bitmap for a page.
const BITMAP_PAGE_BYTES: f64 = 48.0;
/// By how much estimates of groups and of sorted rows may be too low.
const ESTIMATE_ERROR: f64 = 10.0;
/// Groups that the planner assumes where it has no statistics.
const GROUPS_ASSUMED: f64 = 200.0;

/// Functions that keep at most a few values between rows, and read nothing else. Any other function may do anything.
const SMALL_FUNCTIONS: [&[&str]; 8] = [
    &[
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "corr",
        "count",
        "covar_pop",
        "covar_samp",
        "every",
    ],
    &["max", "min", "stddev", "stddev_pop", "stddev_samp", "sum", "var_pop", "var_samp", "variance"],
    &["abs", "ceil", "floor", "mod", "round", "sign", "sqrt", "trunc"],
    &["btrim", "char_length", "left", "length", "lower", "ltrim", "position", "replace", "right", "rtrim"],
    &["split_part", "strpos", "substr", "substring", "upper"],
    &["date_part", "date_trunc", "extract"],
    &["coalesce", "greatest", "least", "nullif", "row"],
    // Types, as casts have them.
    &["bpchar", "character", "decimal", "interval", "numeric", "time", "timestamp", "varchar", "varying"],
];

/// A node of a plan as EXPLAIN shows it, with costs and output columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanNode {
    /// `Node Type`, such as `Seq Scan`.
    pub node_type: String,
    /// `Strategy` of an aggregate, such as `Hashed`.
    pub strategy: Option<String>,
    /// Whether an expression of its parent looks it up (`Parent Relationship` is `SubPlan`).
    pub is_subplan: bool,
    /// `Plan Rows`; `None` if EXPLAIN did not show costs.
    pub rows: Option<f64>,
    /// `Plan Width`, bytes of a row.
    pub width: Option<f64>,
    /// `Total Cost`.
    pub cost: Option<f64>,
    /// `Workers Planned` of a `Gather`.
    pub workers: u32,
    /// Names of functions that its expressions call.
    pub functions: Vec<String>,
    /// Whether an aggregate keeps all of its rows, to sort them or to tell them apart (`DISTINCT`, `ORDER BY` within its call).
    pub keeps_rows: bool,
    /// The nodes that it reads from.
    pub children: Vec<PlanNode>,
}

impl PlanNode {
    /// Whether parallel workers are planned.
    pub fn has_workers(&self) -> bool {
        self.workers > 0 || self.children.iter().any(PlanNode::has_workers)
    }
}

/// Memory that sizes are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanMemory {
    /// Bytes of the cache that may be used.
    pub cache_bytes: u64,
    /// The most that a hash table of one process may take (`work_mem` times `hash_mem_multiplier`); `None` if it is not known.
    pub hash_bytes: Option<u64>,
}

/// The class of a query, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanVerdict {
    /// The class.
    pub class: CacheClass,
    /// The node that decided and its size, for a reader.
    pub because: String,
}

impl PlanVerdict {
    fn new(class: CacheClass, because: impl Into<String>) -> PlanVerdict {
        PlanVerdict { class, because: because.into() }
    }
}

/// The class of a query with this plan.
pub fn plan_class(plan: &PlanNode, memory: PlanMemory) -> PlanVerdict {
    let mut survey = Survey { memory, scanned: 0.0, found: None };
    survey.visit(plan, 1.0, f64::INFINITY);
    if survey.scanned >= survey.cache() {
        let pages = mebibytes(survey.scanned);
        survey.say(CacheClass::Polluting, || format!("its sequential scans read up to {pages}"));
    }
    survey.found.unwrap_or_else(|| {
        PlanVerdict::new(
            CacheClass::Sensitive,
            "it reads less than the cache holds, so that confining it helps no other query",
        )
    })
}

/// The findings of a walk over a plan so far.
struct Survey {
    memory: PlanMemory,
    /// Bytes that sequential scans may read.
    scanned: f64,
    /// The most sensitive verdict, the first of equal ones.
    found: Option<PlanVerdict>,
}

impl Survey {
    fn cache(&self) -> f64 {
        self.memory.cache_bytes as f64
    }

    fn say(&mut self, class: CacheClass, because: impl FnOnce() -> String) {
        if self.found.as_ref().is_none_or(|found| found.class < class) {
            self.found = Some(PlanVerdict::new(class, because()));
        }
    }

    /// Visits a node that `processes` processes run at once. The strictest limit above it costs `cost_most`.
    fn visit(&mut self, node: &PlanNode, processes: f64, cost_most: f64) {
        self.visit_expressions(node);
        let mut below = (processes, cost_most);
        match node.node_type.as_str() {
            _ if node.is_subplan => {
                self.say(CacheClass::Sensitive, || {
                    "it has a subplan, which runs for each row or is kept in a table of unknown size".to_owned()
                });
            }
            "Seq Scan" => self.visit_scan(node, cost_most),
            // The scans of indexes below it are parts of it.
            "Bitmap Heap Scan" => return self.visit_bitmap_scan(node),
            "Hash" => self.visit_hash(node, processes),
            "Aggregate" => match node.strategy.as_deref() {
                Some("Plain" | "Sorted") => {}
                Some("Hashed" | "Mixed") => self.visit_groups(node, processes),
                _ => self.visit_other(node),
            },
            "Sort" => self.visit_held(node, processes, SORTED_ROW_BYTES),
            "Gather" | "Gather Merge" => below.0 = processes * f64::from(1 + node.workers),
            "Limit" => below.1 = cost_most.min(node.cost.unwrap_or(f64::INFINITY)),
            "Hash Join" | "Append" | "Result" | "Subquery Scan" | "Group" | "Unique" => {}
            _ => self.visit_other(node),
        }
        node.children.iter().for_each(|child| self.visit(child, below.0, below.1));
    }

    fn visit_other(&mut self, node: &PlanNode) {
        let name = &node.node_type;
        self.say(CacheClass::Sensitive, || format!("{name} is not known to need little of the cache"));
    }

    fn visit_expressions(&mut self, node: &PlanNode) {
        let name = &node.node_type;
        if let Some(function) = node.functions.iter().find(|function| !is_small(function)) {
            self.say(CacheClass::Sensitive, || format!("{name} calls {function}, which may use any memory"));
        }
        if node.keeps_rows {
            self.say(CacheClass::Sensitive, || format!("{name} keeps its rows to sort them or to tell them apart"));
        }
    }

    fn visit_scan(&mut self, node: &PlanNode, cost_most: f64) {
        match node.cost {
            Some(cost) => self.scanned += cost.min(cost_most) * PAGE_BYTES,
            None => self.unknown(node),
        }
    }

    /// Its rows are those that it finds, so they are a lower bound of the rows that it reads.
    fn visit_bitmap_scan(&mut self, node: &PlanNode) {
        let (Some(rows), Some(width), Some(cost)) = (node.rows, node.width, node.cost) else {
            return self.unknown(node);
        };
        let (read, bitmap) = (rows * (HEAP_ROW_BYTES + width), cost * BITMAP_PAGE_BYTES);
        if read >= self.cache() && bitmap < self.small() {
            self.say(CacheClass::Polluting, || format!("Bitmap Heap Scan reads at least {}", mebibytes(read)));
        } else {
            self.say(CacheClass::Sensitive, || "Bitmap Heap Scan reads part of a table by an index".to_owned());
        }
    }

    fn visit_hash(&mut self, node: &PlanNode, processes: f64) {
        let Some(all) = rows_bytes(node, HASH_ROW_BYTES) else { return self.unknown(node) };
        let buckets = node.rows.unwrap_or_default().max(BUCKETS_LEAST).log2().ceil().exp2();
        let all = (all + buckets * BUCKET_BYTES) * processes;
        let batch = self.memory.hash_bytes.map(|limit| all.min(limit as f64 * processes));
        let size = batch.or(Some(all).filter(|all| *all <= self.cache() * COMPARABLE_MOST));
        let class = CacheOperator::Join.class(size.map(|size| size as u64), self.memory.cache_bytes);
        match size {
            Some(size) if class == CacheClass::Polluting && size < self.small() => {}
            Some(size) => self.say(class, || format!("Hash has a table of about {}", mebibytes(size))),
            None => self.say(class, || {
                format!("Hash has {} of rows in batches, and how large these may be is not known", mebibytes(all))
            }),
        }
    }

    fn visit_groups(&mut self, node: &PlanNode, processes: f64) {
        let is_assumed = node.rows.is_some_and(|groups| groups > 0.0 && groups % GROUPS_ASSUMED == 0.0);
        if is_assumed {
            let groups = node.rows.unwrap_or_default();
            self.say(CacheClass::Sensitive, || {
                format!("Aggregate has {groups} groups, which the planner assumes without statistics; run ANALYZE")
            });
        }
        self.visit_held(node, processes, GROUP_BYTES);
    }

    /// A node that holds its rows and looks them up in any order.
    fn visit_held(&mut self, node: &PlanNode, processes: f64, row_bytes: f64) {
        let Some(size) = rows_bytes(node, row_bytes).map(|size| size * processes) else { return self.unknown(node) };
        if size * ESTIMATE_ERROR >= self.small() {
            let name = &node.node_type;
            self.say(CacheClass::Sensitive, || format!("{name} holds about {}", mebibytes(size)));
        }
    }

    fn unknown(&mut self, node: &PlanNode) {
        let name = &node.node_type;
        self.say(CacheClass::Sensitive, || format!("the size of {name} is not known"));
    }

    /// The largest size that fits the ways of the polluting class beside a stream of rows.
    fn small(&self) -> f64 {
        self.cache() * COMPARABLE_LEAST
    }
}

fn is_small(function: &str) -> bool {
    SMALL_FUNCTIONS.iter().any(|functions| functions.contains(&function))
}

/// Bytes of a node's rows, with `row_bytes` for each beside its columns.
fn rows_bytes(node: &PlanNode, row_bytes: f64) -> Option<f64> {
    Some(node.rows? * (row_bytes + node.width?))
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}
