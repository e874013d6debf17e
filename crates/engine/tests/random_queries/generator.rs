//! Queries by chance, whose answers do not depend on the order in which rows come.
//!
//! Every relation has the columns `k`, `m`, `t` and `n`, so that each can be used wherever one is read. Limits are used
//! only after an order of all columns.

use rand::RngExt;
use rand_pcg::Pcg64;

const ALL: &str = "k, m, t, n";

/// The tables. The last one has no rows.
pub const TABLES: [&str; 4] = ["ship", "port", "crew", "none"];

/// Joins of one query: each multiplies its rows.
const JOINS_MAX: u32 = 3;

pub struct Generator<'a> {
    random: &'a mut Pcg64,
    joins: u32,
}

/// A query, and whether it says the order of its rows.
pub struct Query {
    pub sql: String,
    pub is_ordered: bool,
}

impl Generator<'_> {
    pub fn query(random: &mut Pcg64) -> Query {
        let mut generator = Generator { random, joins: 0 };
        let depth = generator.below(4);
        let from = generator.relation(depth);
        let order = format!(
            "order by k desc nulls last, {} n nulls last, m nulls first, t nulls last",
            generator.one_of(&["", "t desc nulls first,"])
        );
        let (sql, is_ordered) = match generator.below(5) {
            0 => (format!("select {ALL} from ({from}) r {order}"), true),
            1 => {
                let (rows, skipped) = (generator.below(40), generator.one_of(&["", " offset 3"]));
                (format!("select {ALL} from ({from}) r {order} limit {rows}{skipped}"), true)
            }
            2 => {
                let totals = "count(*), count(k), count(distinct t), sum(n), min(t), max(m), avg(n)";
                (format!("select {totals} from ({from}) r"), true)
            }
            _ => (from, false),
        };
        Query { sql, is_ordered }
    }

    fn below(&mut self, end: u32) -> u32 {
        self.random.random_range(0..end)
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.random.random_range(0..texts.len())]
    }

    /// A select with operators of up to `depth` kinds.
    fn relation(&mut self, depth: u32) -> String {
        if depth == 0 {
            // An empty table now and then.
            let table = match self.below(12) {
                0 => "none",
                other => TABLES[other as usize % 3],
            };
            let condition = self.condition("");
            let filter = if self.below(2) == 0 { format!(" where {condition}") } else { String::new() };
            return format!("select {ALL} from {table}{filter}");
        }
        match self.below(10) {
            0 | 1 => self.join(depth - 1),
            2 => self.subquery(depth - 1),
            3 | 4 => self.groups(depth - 1),
            5 => format!("select distinct {ALL} from ({}) d", self.relation(depth - 1)),
            6 => {
                let order = self.one_of(&[
                    "n nulls last, k nulls last, m nulls last, t nulls last",
                    "t desc nulls first, k nulls last, n nulls last, m nulls last",
                    "k nulls first, m desc nulls first, n nulls last, t nulls first",
                ]);
                let rows = 1 + self.below(60);
                format!("select {ALL} from ({}) l order by {order} limit {rows}", self.relation(depth - 1))
            }
            7 => {
                let all = self.one_of(&["union all", "union all", "union", "except", "intersect"]);
                let (left, right) = (self.relation(depth - 1), self.relation(depth - 1));
                format!("select {ALL} from ({left}) u {all} select {ALL} from ({right}) v")
            }
            8 => {
                let window = self.one_of(&[
                    "row_number() over (order by k nulls last, n nulls last, m nulls last, t nulls last)",
                    "sum(n) over (partition by k)",
                    "count(*) over (partition by t order by n nulls last, k nulls last, m nulls last)",
                ]);
                format!("select k, m, t, {window} as n from ({}) w", self.relation(depth - 1))
            }
            _ => {
                let condition = self.condition("");
                format!("select {ALL} from ({}) f where {condition}", self.relation(depth - 1))
            }
        }
    }

    fn join(&mut self, depth: u32) -> String {
        if self.joins == JOINS_MAX {
            return self.relation(depth);
        }
        self.joins += 1;
        let (left, right) = (self.relation(depth), self.relation(depth));
        let kind = self.one_of(&["join", "join", "left join", "right join", "full join"]);
        let more = self.one_of(&["", "", " and l.n < r.n", " and l.t = r.t", " and r.m > 3"]);
        let columns =
            self.one_of(&["l.k as k, r.m as m, l.t as t, r.n as n", "r.k as k, l.m as m, r.t as t, l.n as n"]);
        let condition = self.condition("l.");
        let filter = if self.below(3) == 0 { format!(" where {condition}") } else { String::new() };
        format!("select {columns} from ({left}) l {kind} ({right}) r on l.k = r.k{more}{filter}")
    }

    fn subquery(&mut self, depth: u32) -> String {
        let (outer, inner) = (self.relation(depth), self.relation(depth));
        let test = match self.below(6) {
            0 => format!("o.k in (select k from ({inner}) i)"),
            1 => format!("o.k not in (select k from ({inner}) i)"),
            2 => format!("exists (select 1 from ({inner}) i where i.k = o.k)"),
            3 => format!("not exists (select 1 from ({inner}) i where i.k = o.k)"),
            4 => format!("o.n > (select avg(n) from ({inner}) i)"),
            _ => format!("o.m <= (select max(m) - 2 from ({inner}) i)"),
        };
        format!("select {ALL} from ({outer}) o where {test}")
    }

    fn groups(&mut self, depth: u32) -> String {
        let from = self.relation(depth);
        let having = self.one_of(&["", "", " having count(*) > 1", " having sum(n) > 40"]);
        let (columns, keys) = match self.below(5) {
            0 => ("k, count(*) as m, min(t) as t, sum(n) as n", "k"),
            1 => ("max(k) as k, count(distinct m) as m, t, sum(n) as n", "t"),
            2 => ("k, min(m) as m, t, count(*) as n", "k, t"),
            3 => ("m as k, m, max(t) as t, sum(n + 1) as n", "m"),
            _ => ("count(k) as k, sum(m) as m, min(t) as t, n % 5 as n", "n % 5"),
        };
        format!("select {columns} from ({from}) g group by {keys}{having}")
    }

    /// Over the columns with this prefix.
    fn condition(&mut self, of: &str) -> String {
        let number = self.below(120);
        let one = match self.below(9) {
            0 => format!("{of}k < {number}"),
            1 => format!("{of}k between {number} and {}", number + 30),
            2 => format!("{of}m % 3 = {}", number % 3),
            3 => format!("{of}t like 'h%'"),
            4 => format!("{of}t in ('hull', 'mast', 'sail')"),
            5 => format!("{of}k is null"),
            6 => format!("{of}t is not null"),
            7 => format!("{of}n <> {of}m"),
            _ => format!("{of}n >= {}", number % 50),
        };
        match self.below(5) {
            0 => format!("({one} or {})", self.condition(of)),
            1 => format!("{one} and {}", self.condition(of)),
            2 => format!("not ({one})"),
            _ => one,
        }
    }
}
