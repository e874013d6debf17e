//! A sum over one to four columns of `lineitem`.
//!
//! SI 5.2: "The projection micro-benchmark does a single SUM() over a set of columns from the lineitem table. […] We use
//! l_extendedprice, l_discount, l_tax and l_quantity columns. We add the projected columns inside the SUM()."

use super::{OperatorQuery, SUMMED, sum_of, total};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::tpch::tables::LINEITEM;
use crate::tpch::{SCALE_POSSIBLE, SCALE_UNIT, Tpch};

pub(crate) const ENTRY: Entry = Entry {
    name: "projection",
    about: "a sum over columns of TPC-H's lineitem",
    source: "SI 5.3",
    scale_unit: SCALE_UNIT,
    scale_default: 1.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[Parameter {
        name: "columns",
        about: "how many columns are added up",
        default: ParameterValue::Number(4.0),
        possible: Possible::Whole { low: 1.0, high: SUMMED.len() as f64 },
    }],
    sides: &[],
    make: |scale, parameters, _| {
        let tpch = Tpch::new(scale).expect("the registry has checked the scale");
        Box::new(projection(tpch, parameters.number("columns") as usize))
    },
};

/// The sum over the first `columns` columns.
pub(super) fn projection(tpch: Tpch, columns: usize) -> OperatorQuery {
    let columns = &SUMMED[..columns];
    OperatorQuery {
        name: ENTRY.name,
        tpch,
        sql: format!("select sum({}) as total from lineitem", sum_of(columns)),
        tables: &[LINEITEM],
        summed: LINEITEM,
        reckon: Box::new(|batch| total(batch, columns)),
    }
}
