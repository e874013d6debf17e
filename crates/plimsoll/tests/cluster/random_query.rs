//! Random queries over TPC-H whose answers do not depend on the order of rows.

use rand::RngExt;
use rand_pcg::Pcg64;

/// Tables with their numeric columns, a text column of few values, and the columns by which they are joined.
struct Table {
    name: &'static str,
    numbers: &'static [&'static str],
    text: &'static str,
}

const TABLES: [Table; 4] = [
    Table { name: "lineitem", numbers: &["l_quantity", "l_linenumber", "l_discount"], text: "l_shipmode" },
    Table { name: "orders", numbers: &["o_totalprice", "o_shippriority", "o_custkey"], text: "o_orderpriority" },
    Table { name: "customer", numbers: &["c_acctbal", "c_nationkey"], text: "c_mktsegment" },
    Table { name: "nation", numbers: &["n_regionkey", "n_nationkey"], text: "n_name" },
];

/// How a table is joined to the one before it.
const KEYS: [&str; 3] = ["l_orderkey = o_orderkey", "o_custkey = c_custkey", "c_nationkey = n_nationkey"];

/// A query.
pub fn random_query(random: &mut Pcg64) -> String {
    match random.random_range(0..10) {
        0..6 => block(random),
        6..8 => set(random),
        _ => limited(random),
    }
}

fn pick<'a, T: ?Sized>(random: &mut Pcg64, of: &[&'a T]) -> &'a T {
    of[random.random_range(0..of.len())]
}

/// A chain of joined tables, and the first and last position in it.
fn chain(random: &mut Pcg64) -> (String, usize, usize) {
    let first = random.random_range(0..TABLES.len());
    let last = random.random_range(first..TABLES.len());
    let mut from = TABLES[first].name.to_owned();
    for at in first..last {
        let join = pick(random, &["join", "join", "left join", "right join", "full join"]);
        from += &format!(" {join} {} on {}", TABLES[at + 1].name, KEYS[at]);
    }
    (from, first, last)
}

fn condition(random: &mut Pcg64, first: usize, last: usize) -> String {
    let table = &TABLES[random.random_range(first..=last)];
    let number = pick(random, table.numbers);
    let bound = random.random_range(0..40);
    match random.random_range(0..5) {
        0 => format!("{number} > {bound}"),
        1 => format!("{number} is null or {number} <= {bound}"),
        2 => format!("{} like '%{}%'", table.text, pick(random, &["A", "E", "R", "I"])),
        3 => format!("{number} between {bound} and {}", bound + 20),
        _ => format!("not ({number} = {bound})"),
    }
}

fn aggregate(random: &mut Pcg64, first: usize, last: usize) -> String {
    let table = &TABLES[random.random_range(first..=last)];
    let number = pick(random, table.numbers);
    match random.random_range(0..6) {
        0 => "count(*)".to_owned(),
        1 => format!("count(distinct {number})"),
        2 => format!("avg({number})"),
        3 => format!("sum({number})"),
        4 => format!("min({})", table.text),
        _ => format!("max({number} * 2 + 1)"),
    }
}

/// Groups of a chain.
fn block(random: &mut Pcg64) -> String {
    let (from, first, last) = chain(random);
    let (one, other) = (aggregate(random, first, last), aggregate(random, first, last));
    let key = match random.random_range(0..3) {
        0 => None,
        1 => Some(TABLES[random.random_range(first..=last)].text),
        _ => {
            let table = &TABLES[random.random_range(first..=last)];
            Some(pick(random, table.numbers))
        }
    };
    let condition = condition(random, first, last);
    let having = if random.random_bool(0.3) { " having count(*) > 2" } else { "" };
    match key {
        Some(key) => {
            format!("select {key}, {one} as a, {other} as b from {from} where {condition} group by {key}{having}")
        }
        None => format!("select {one} as a, {other} as b from {from} where {condition}"),
    }
}

/// Two lists of one text column as sets.
fn set(random: &mut Pcg64) -> String {
    let mut side = || {
        let (from, first, last) = chain(random);
        let text = TABLES[random.random_range(first..=last)].text;
        format!("select {text} as x from {from} where {}", condition(random, first, last))
    };
    let (one, other) = (side(), side());
    let set = pick(random, &["union", "union all", "intersect", "except"]);
    format!("select count(*), count(x), min(x), max(x) from ({one} {set} {other}) t")
}

/// The first groups by a total order.
fn limited(random: &mut Pcg64) -> String {
    let (from, first, last) = chain(random);
    let key = TABLES[random.random_range(first..=last)].text;
    let aggregate = aggregate(random, first, last);
    let (limit, offset) = (random.random_range(1..6), random.random_range(0..3));
    let descending = if random.random_bool(0.5) { " desc" } else { "" };
    format!(
        "select * from (select {key} as k, {aggregate} as a from {from} where {} group by {key} order by {key}{descending} \
         limit {limit} offset {offset}) g",
        condition(random, first, last)
    )
}
