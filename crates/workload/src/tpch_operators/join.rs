//! A join of two of TPC-H's tables and a sum over its result.
//!
//! SI 5.2: "The small-sized join micro-benchmark joins the supplier and nation tables, it and does a SUM() over the addition
//! of s_acctbal and s_suppkey. The medium-sized join joins the partsupplier and supplier tables, and it does a SUM() over
//! the addition of ps_availqty and ps_supplycost. The large-sized join joins the lineitem and orders table, and it does a
//! SUM() over the addition of the four columns that the projection query with the degree of four uses."
//!
//! Every row of the larger table has exactly one partner in the other (TPC-H 1.4.2), so the sum is that over all its rows.

use arrow::array::AsArray;
use arrow::compute::sum;
use arrow::datatypes::{Int32Type, Int64Type};

use super::{OperatorQuery, PartialAnswer, SUMMED, sum_of, total};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::TableId;
use crate::tpch::tables::{
    LINEITEM, NATION, ORDERS, PARTSUPP, PS_AVAILQTY, PS_SUPPLYCOST, S_ACCTBAL, S_SUPPKEY, SUPPLIER,
};
use crate::tpch::{SCALE_POSSIBLE, SCALE_UNIT, Tpch};

pub(crate) const ENTRY: Entry = Entry {
    name: "join",
    about: "a sum over the join of two of TPC-H's tables",
    source: "SI 5.5",
    scale_unit: SCALE_UNIT,
    scale_default: 1.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[Parameter {
        name: "size",
        about: "supplier with nation, partsupp with supplier, or lineitem with orders",
        default: ParameterValue::Text("large"),
        possible: Possible::OneOf(&["small", "medium", "large"]),
    }],
    sides: &[],
    make: |scale, parameters, _| {
        let tpch = Tpch::new(scale).expect("the registry has checked the scale");
        Box::new(join(tpch, parameters.text("size")))
    },
};

pub(super) fn join(tpch: Tpch, size: &str) -> OperatorQuery {
    let (sql, tables, reckon): (String, &'static [TableId], PartialAnswer) = match size {
        "small" => (
            "select sum(s_acctbal + s_suppkey) as total from supplier, nation where s_nationkey = n_nationkey"
                .to_owned(),
            &[SUPPLIER, NATION],
            Box::new(|batch| {
                let keys = sum(batch.column(S_SUPPKEY).as_primitive::<Int64Type>()).unwrap_or(0);
                total(batch, &[S_ACCTBAL]) + 100 * i128::from(keys)
            }),
        ),
        "medium" => (
            "select sum(ps_availqty + ps_supplycost) as total from partsupp, supplier where ps_suppkey = s_suppkey"
                .to_owned(),
            &[PARTSUPP, SUPPLIER],
            Box::new(|batch| {
                let quantities = batch.column(PS_AVAILQTY).as_primitive::<Int32Type>().values();
                let available: i128 = quantities.iter().map(|&quantity| i128::from(quantity)).sum();
                total(batch, &[PS_SUPPLYCOST]) + 100 * available
            }),
        ),
        _ => (
            format!("select sum({}) as total from lineitem, orders where l_orderkey = o_orderkey", sum_of(&SUMMED)),
            &[LINEITEM, ORDERS],
            Box::new(|batch| total(batch, &SUMMED)),
        ),
    };
    OperatorQuery { name: ENTRY.name, tpch, sql, tables, summed: tables[0], reckon }
}
