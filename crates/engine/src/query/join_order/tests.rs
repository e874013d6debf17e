//! Join orders as plans over small tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use crate::columns::{ColumnSnapshot, ColumnTable};
use crate::query::printed::rows;
use crate::query::{QueryEngine, QueryOptions};

/// A column of a test table: `row % modulus`, shifted by one where it is a reference.
fn numbers(rows: i64, modulus: i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % modulus)))
}

fn words(rows: i64, modulus: i64) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("word {}", row % modulus))))
}

fn table(name: &str, columns: Vec<(&str, ArrayRef)>) -> Arc<ColumnTable> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    Arc::new(ColumnTable::build(name, batch.schema(), vec![vec![0]], vec![batch]).unwrap())
}

/// Voyages refer to ships and ports, ships to flags; from the largest table to the smallest.
fn harbour() -> Arc<ColumnSnapshot> {
    let voyage = table(
        "voyage",
        vec![
            ("v_id", numbers(200_000, 200_000)),
            ("v_ship", numbers(200_000, 5_000)),
            ("v_port", numbers(200_000, 300)),
            ("v_days", numbers(200_000, 40)),
        ],
    );
    let ship = table(
        "ship",
        vec![("s_id", numbers(5_000, 5_000)), ("s_flag", numbers(5_000, 50)), ("s_name", words(5_000, 5_000))],
    );
    let port = table("port", vec![("p_id", numbers(300, 300)), ("p_name", words(300, 300))]);
    let flag = table("flag", vec![("f_id", numbers(50, 50)), ("f_name", words(50, 50))]);
    Arc::new(ColumnSnapshot::new("as loaded", [voyage, ship, port, flag]))
}

fn engine() -> QueryEngine {
    QueryEngine::new(QueryOptions { dop: 1, workers: 1, ..QueryOptions::default() }).unwrap()
}

/// The tables in the order in which the plan names its scans: build sides come before probe sides.
fn scans(sql: &str) -> Vec<String> {
    let plan = engine().explain(&harbour(), sql, None).unwrap();
    assert!(!plan.contains("CrossJoin") && !plan.contains("NestedLoop"), "{plan}");
    let scans = plan.lines().filter_map(|line| line.split("table=").nth(1));
    scans.map(|scan| scan.split(',').next().unwrap().to_string()).collect()
}

fn count(sql: &str) -> i64 {
    let output = engine().query(&harbour(), sql, None).unwrap();
    let column = output.batches[0].column(0);
    column.as_any().downcast_ref::<Int64Array>().unwrap().value(0)
}

#[test]
fn the_selective_table_is_joined_first_whatever_the_text_says() {
    for from in ["voyage, ship, flag", "flag, voyage, ship", "ship, voyage, flag"] {
        let sql = format!("select count(*) from {from} where v_ship = s_id and s_flag = f_id and f_name = 'word 7'");
        assert_eq!(scans(&sql), ["flag", "ship", "voyage"], "from {from}");
        assert_eq!(count(&sql), 4_000);
    }
}

#[test]
fn a_table_that_joins_two_others_does_not_make_them_a_product() {
    let sql = "select count(*) from port, ship, voyage where v_port = p_id and v_ship = s_id and s_name = 'word 11'";
    let order = scans(sql);
    assert!(order.iter().position(|t| t == "ship") < order.iter().position(|t| t == "voyage"), "{order:?}");
    assert_eq!(count(sql), 40);
}

#[test]
fn a_semi_join_moves_to_the_table_that_it_reduces() {
    let sql = "select count(*) from port, voyage, ship where v_port = p_id and v_ship = s_id \
               and s_flag in (select f_id from flag where f_name = 'word 3')";
    let plan = engine().explain(&harbour(), sql, None).unwrap();
    let depth =
        |needle: &str| plan.lines().find(|line| line.contains(needle)).map(|line| line.len() - line.trim_start().len());
    assert!(depth("Semi") > depth("join_type=Inner") || depth("join_type=Inner").is_none(), "{plan}");
    assert_eq!(count(sql), 4_000);
}

#[test]
fn equalities_by_way_of_another_table_are_kept() {
    // f_id = s_flag and f_id = s_id: within ship, both columns must be equal.
    let sql = "select count(*) from ship, flag, voyage where f_id = s_flag and f_id = s_id and v_ship = s_id";
    assert_eq!(count(sql), 50 * 40);
}

#[test]
fn unconnected_tables_are_multiplied_and_others_not() {
    let sql = "select count(*) from flag a, ship, flag b where s_flag = a.f_id and b.f_name = 'word 1'";
    assert_eq!(count(sql), 5_000);
}

#[test]
fn conditions_on_several_tables_and_anti_joins_survive() {
    let sql = "select count(*) from voyage, ship, port where v_ship = s_id and v_port = p_id and v_days + p_id > s_flag + 250 \
               and not exists (select 1 from flag where f_id = s_flag and f_name < 'word 2')";
    let naive = (0..200_000i64).filter(|row| {
        let (ship, port) = (row % 5_000, row % 300);
        let flag = ship % 50;
        row % 40 + port > flag + 250 && format!("word {flag}").as_str() >= "word 2"
    });
    assert_eq!(count(sql), naive.count() as i64);
}

#[test]
fn hash_tables_are_built_from_the_smaller_side_whatever_the_kind_of_join() {
    for (sql, build, expect) in [
        (
            "select count(*), sum(s_flag), sum(v_port) from voyage left join ship on v_ship = s_id and s_name <> 'word 7'",
            "ship",
            200_000,
        ),
        (
            "select count(*), sum(s_flag), sum(v_port) from ship right join voyage on v_ship = s_id and s_name <> 'word 7'",
            "ship",
            200_000,
        ),
        (
            "select count(*), sum(s_flag), sum(v_port) from ship left join voyage on v_ship = s_id and v_days < 39",
            "ship",
            195_125,
        ),
        ("select count(*), sum(s_flag), sum(v_port) from voyage full join ship on v_id = s_id", "ship", 200_000),
        ("select count(*) from voyage where v_ship in (select s_id from ship where s_flag = 3)", "ship", 4_000),
        ("select count(*) from voyage where not exists (select 1 from ship where s_id = v_ship)", "ship", 0),
        ("select count(*) from port where p_id in (select v_port from voyage where v_days < 39)", "port", 300),
    ] {
        assert_eq!(scans(sql)[0], build, "{sql}");
        assert_eq!(count(sql), expect, "{sql}");
    }
}

#[test]
fn an_outer_join_that_is_turned_returns_its_columns_in_order() {
    let sql =
        "select * from voyage left join ship on v_ship = s_id and s_id < 10 where v_days = 3 order by v_id limit 2";
    assert_eq!(scans(sql), ["ship", "voyage"]);
    let output = engine().query(&harbour(), sql, None).unwrap();
    let names: Vec<_> = output.batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["v_id", "v_ship", "v_port", "v_days", "s_id", "s_flag", "s_name"]);
    let rows: Vec<_> = rows(&output.batches).into_iter().map(|row| row.join(" ")).collect();
    assert_eq!(rows, ["3 3 3 3 3 3 word 3", "43 43 43 3   "]);
}
