//! The sum over four columns of the rows of `lineitem` that three predicates select.
//!
//! SI 5.2: "The selection micro-benchmark extends the projection query with the degree of four with a WHERE clause of three
//! predicates over three columns of the lineitem table: l_shipdate, l_commitdate and l_receiptdate. It varies the
//! selectivity of each individual predicate from 10% to 50% and 90%."
//!
//! The study does not print the predicates; here each keeps the rows before a date. The three dates of a line follow its
//! order's date within months while orders span years, so the rows that pass one predicate mostly pass all: the three
//! together select little less than each does, far more than the third power that independent dates would give.

use arrow::array::AsArray;
use arrow::datatypes::{Date32Type, Decimal128Type};
use arrow::record_batch::RecordBatch;

use super::dates::{Dates, literal};
use super::{OperatorQuery, SUMMED, sum_of};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::ColumnId;
use crate::tpch::tables::{L_COMMITDATE, L_RECEIPTDATE, L_SHIPDATE, LINEITEM};
use crate::tpch::{SCALE_POSSIBLE, SCALE_UNIT, Tpch};

pub(crate) const ENTRY: Entry = Entry {
    name: "selection",
    about: "a sum over the rows of TPC-H's lineitem that three predicates on dates select",
    source: "SI 5.4",
    scale_unit: SCALE_UNIT,
    scale_default: 1.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[Parameter {
        name: "selectivity",
        about: "share of the rows that each predicate alone selects",
        default: ParameterValue::Number(0.5),
        possible: Possible::Number { low: 0.01, high: 0.99 },
    }],
    sides: &[],
    make: |scale, parameters, _| {
        let tpch = Tpch::new(scale).expect("the registry has checked the scale");
        Box::new(selection(tpch, parameters.number("selectivity")))
    },
};

/// A column and the day before which its predicate selects.
pub(super) type DateBound = (ColumnId, i32);

/// The three predicates that each select such a share of all rows.
pub(super) fn predicates(selectivity: f64) -> [DateBound; 3] {
    let [ship, commit, receipt] = [Dates::shipped(), Dates::committed(), Dates::received()];
    [(L_SHIPDATE, ship), (L_COMMITDATE, commit), (L_RECEIPTDATE, receipt)]
        .map(|(column, dates)| (column, dates.day_with_share_before(selectivity)))
}

/// The sum over the rows selected by three predicates of such a selectivity.
pub(super) fn selection(tpch: Tpch, selectivity: f64) -> OperatorQuery {
    let predicates = predicates(selectivity);
    let columns = crate::tpch::tables::SCHEMA.tables[LINEITEM].columns;
    let terms = predicates.map(|(column, day)| format!("{} < {}", columns[column].name, literal(day)));
    OperatorQuery {
        name: ENTRY.name,
        tpch,
        sql: format!("select sum({}) as total from lineitem where {}", sum_of(&SUMMED), terms.join(" and ")),
        tables: &[LINEITEM],
        summed: LINEITEM,
        reckon: Box::new(move |batch| total_selected(batch, &predicates)),
    }
}

/// The sum over the selected rows of a batch, in hundredths.
fn total_selected(batch: &RecordBatch, predicates: &[DateBound]) -> i128 {
    let dates = predicates.iter().map(|(column, day)| (batch.column(*column).as_primitive::<Date32Type>(), *day));
    let dates: Vec<_> = dates.collect();
    let summed = SUMMED.map(|column| batch.column(column).as_primitive::<Decimal128Type>());
    let selected = (0..batch.num_rows()).filter(|&row| dates.iter().all(|(dates, day)| dates.value(row) < *day));
    selected.map(|row| summed.iter().map(|column| column.value(row)).sum::<i128>()).sum()
}
