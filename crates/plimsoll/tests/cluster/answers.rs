//! A cluster answers as one process does.

use plimsoll_testing::says;
use plimsoll_workload::database::Database;
use plimsoll_workload::tpch::queries::QUERIES;
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::pair::Pair;
use crate::random_query::random_query;

const SCALE: f64 = 0.05;

/// Also with one partition on each worker, and with one worker: once all of such a query ran in the coordinator, whose cores
/// nobody limits, and throughput did not depend on the number of workers.
#[test]
fn the_22_queries_of_tpch_have_the_answers_of_one_process() {
    for (workers, dop, tasks) in [("3", "2", 3), ("3", "1", 3), ("1", "1", 2)] {
        let pair = Pair::new(&[("workers", workers), ("dop", dop)]);
        let mut distributed = 0;
        for query in QUERIES.iter() {
            let sql = query.validation_sql(SCALE);
            pair.assert_same(&sql);
            assert!(pair.alone(&sql).is_ok(), "{}", query.name);
            let plan = pair.cluster.explain(pair.benchmark.schema(), &sql).unwrap();
            distributed += usize::from(plan.contains(&format!("tasks={tasks}")));
        }
        assert_eq!(distributed, QUERIES.len(), "with workers={workers} and dop={dop} every query has work for all");
        assert_eq!(pair.cluster.warnings(), [""; 0]);
    }
}

#[test]
fn stages_whose_workers_are_decided_while_a_query_runs_have_the_same_answers() {
    let pair = Pair::new(&[("workers", "3"), ("parallelism", "adaptive")]);
    for query in QUERIES.iter() {
        pair.assert_same(&query.validation_sql(SCALE));
    }
    for seed in 100..130 {
        pair.assert_same(&random_query(&mut Pcg64::seed_from_u64(seed)));
    }
    // A task that is asked for no rows sends no counts.
    let mut faults = pair.cluster.warnings();
    faults.retain(|fault| !fault.starts_with("the bytes between processes are unknown"));
    assert_eq!(faults, [""; 0]);
}

/// In the order of its text this joins all suppliers with all lines. A query of CH-benCHmark like it took minutes.
#[test]
fn joins_go_by_the_rows_of_tables_and_not_by_the_text() {
    let pair = Pair::new(&[]);
    let sql = "select count(*), sum(l_quantity) from supplier, lineitem l1, orders, part, nation where l_partkey = p_partkey \
               and l_orderkey = o_orderkey and cast(p_partkey as bigint) * p_size % 500 = s_suppkey \
               and s_nationkey = n_nationkey and n_name = 'FRANCE' and not exists (select * from lineitem l2 \
               where l2.l_orderkey = l1.l_orderkey and l2.l_shipdate > l1.l_shipdate)";
    pair.assert_same(sql);
    let plan = pair.cluster.explain(pair.benchmark.schema(), sql).unwrap();
    assert!(!plan.contains("CrossJoin") && !plan.contains("NestedLoop"), "{plan}");
}

/// A limit below a join lost rows in versions of datafusion-distributed whose joins were broadcast.
#[test]
fn a_limit_under_a_join_counts_once() {
    for broadcast in ["off", "on"] {
        let pair = Pair::new(&[("broadcast_joins", broadcast)]);
        for (limit, join) in [(1, "join"), (7, "left join"), (3000, "join"), (9, "right join"), (40, "full join")] {
            pair.assert_same_in_order(&format!(
                "select o_orderkey, l_linenumber, l_quantity from (select * from orders order by o_orderkey limit {limit}) o \
                 {join} lineitem on l_orderkey = o_orderkey order by o_orderkey, l_linenumber, l_quantity, l_orderkey limit 500"
            ));
            pair.assert_same(&format!(
                "select count(*), sum(l_quantity) from lineitem {join} \
                 (select o_orderkey from orders order by o_totalprice desc, o_orderkey limit {limit} offset 2) o \
                 on l_orderkey = o_orderkey"
            ));
        }
        // Without an order the rows are any, and their number is not.
        pair.assert_same("select count(*) from (select o_orderkey from orders limit 17) o");
        pair.assert_same(
            "select count(*) from (select c_custkey from customer limit 100) c cross join (select s_suppkey from supplier limit 11) s",
        );
        pair.assert_same("select count(*) from (select o_orderkey from orders union all select l_orderkey from lineitem limit 70001) a");
        pair.assert_same(
            "select count(*) from orders where o_custkey in (select c_custkey from customer order by c_acctbal, c_custkey limit 50)",
        );
        pair.assert_same(
            "select count(*) from customer where not exists (select 1 from orders where o_custkey = c_custkey and o_totalprice > 1000)",
        );
    }
}

/// Sets take two nulls for the same value, and joins do not.
#[test]
fn sets_take_nulls_for_equal() {
    let pair = Pair::new(&[("workers", "3")]);
    let clerks =
        "select o_clerk as name, c_mktsegment as segment from customer left join orders on o_custkey = c_custkey";
    let few = "select o_clerk, c_mktsegment from customer left join orders on o_custkey = c_custkey and o_totalprice > 400000";
    for set in ["intersect", "except", "union"] {
        pair.assert_same(&format!("{clerks} {set} {few}"));
        pair.assert_same(&format!("{few} {set} {clerks}"));
        pair.assert_same(&format!(
            "select count(*), count(name) from (({clerks} where c_nationkey < 12) {set} ({few} where c_nationkey > 7)) a"
        ));
    }
    pair.assert_same(&format!("select name, count(*), count(distinct segment) from ({clerks}) a group by name"));
    let null_keys = "select count(*) from customer left join orders on o_custkey = c_custkey";
    pair.assert_same(&format!(
        "{null_keys} where o_orderkey not in (select l_orderkey from lineitem where l_quantity > 49)"
    ));
}

/// Functions that give SQL its meaning in PostgreSQL have parameters, and run in processes that did not plan them.
#[test]
fn numbers_mean_what_they_mean_in_one_process() {
    let pair = Pair::new(&[]);
    pair.assert_same(
        "select l_returnflag, avg(l_quantity), sum(l_tax) / sum(l_discount), count(*) / 7 from lineitem group by 1",
    );
    pair.assert_same("select o_custkey % 7, round(avg(o_totalprice), 3), max(o_orderkey / 3) from orders group by 1");
    pair.assert_same("select sum(cast(l_extendedprice as integer)), sum(cast(l_tax as numeric(12, 1))) from lineitem");
    pair.assert_same(
        "select sum(l_extendedprice * l_extendedprice * l_quantity * 1000), sum(distinct l_linenumber) from lineitem",
    );
    pair.assert_same(
        "select o_orderkey, rank() over (partition by o_custkey order by o_totalprice desc), sum(o_totalprice) over (order by o_orderkey) \
         from orders where o_custkey < 900",
    );
    let overflow = "select sum(l_orderkey * 4000000000000000) from lineitem";
    says("overflow", &pair.distributed(overflow).unwrap_err().to_string(), "bigint out of range (SQLSTATE 22003)");
    says("overflow alone", &pair.alone(overflow).unwrap_err().to_string(), "bigint out of range (SQLSTATE 22003)");
}

/// Seeded, so that a failure comes again.
#[test]
fn random_queries_have_the_answers_of_one_process() {
    let pair = Pair::new(&[("workers", "3")]);
    let mut answered = 0;
    for seed in 0..80 {
        let sql = random_query(&mut Pcg64::seed_from_u64(seed));
        pair.assert_same(&sql);
        answered += usize::from(pair.alone(&sql).is_ok());
    }
    assert!(answered >= 75, "only {answered} of 80 queries are understood");
}

#[test]
fn a_table_that_was_not_exported_is_named() {
    let pair = Pair::new(&[]);
    let error = pair.distributed("select count(*) from sales").unwrap_err().to_string();
    says("no such table", &error, "sales");
    says("the tables there are", &error, "the export has the tables customer, lineitem, nation, orders");
    assert!(pair.distributed("delete from nation").is_err());
    assert!(pair.distributed("create table sales (id integer)").is_err());
    pair.assert_same("select count(*) from nation");
}

/// A sort can spill; what must be kept as a whole is refused with the remedy.
#[test]
fn memory_is_bounded_for_each_worker() {
    let pair = Pair::new(&[("memory_mib", "8")]);
    let sorted =
        "select l_orderkey, l_comment, row_number() over (order by l_comment, l_orderkey, l_linenumber) from lineitem";
    pair.assert_same(&format!("select count(*), max(l_comment) from ({sorted}) a"));
    let kept = "select count(*) from (select array_agg(l_comment) over () from lineitem) a";
    assert!(pair.distributed(kept).is_err());
    let joined = "select count(*) from lineitem a join lineitem b on a.l_comment = b.l_comment and a.l_shipinstruct = b.l_shipinstruct";
    let error = pair.distributed(joined).unwrap_err().to_string();
    says("a join", &error, "the query needs more memory than a worker has (memory_mib=8)");
    says("a join", &error, "raise memory_mib");
    pair.assert_same("select count(*) from lineitem");
}
