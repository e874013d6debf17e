//! `sum` of numerics whose sum may have too many digits: that is an error where DataFusion's wraps.
//!
//! A total that has left its range stays at the largest number, whatever is added later, also between partitions. No numeric
//! has that value, so the result shows that it happened.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, DecimalType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// A sum that is right or an error, of a numeric. It has the name and the type of DataFusion's.
pub fn checked_sum() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(CheckedSum { plain: sum_udaf(), takes_all: false }))
}

/// The function of calls that were planned elsewhere, where a checked sum and DataFusion's have one name: checked wherever it
/// can be, and otherwise DataFusion's.
pub fn planned_function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(CheckedSum { plain: sum_udaf(), takes_all: true }))
}

const DISTINCT: &str = "a checked sum is never of distinct values";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CheckedSum {
    plain: Arc<AggregateUDF>,
    /// Whether a sum that cannot be checked is DataFusion's; otherwise it is refused.
    takes_all: bool,
}

impl CheckedSum {
    fn is_plain(&self, arguments: &AccumulatorArgs<'_>) -> bool {
        let is_numeric =
            matches!(arguments.return_field.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..));
        self.takes_all && (arguments.is_distinct || !is_numeric)
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if self.is_plain(&arguments) {
            return self.plain.accumulator(arguments);
        }
        match arguments.return_field.data_type() {
            _ if arguments.is_distinct => exec_err!("{DISTINCT}"),
            of_type @ DataType::Decimal128(..) => Ok(Total::<Decimal128Type>::boxed(of_type)),
            of_type @ DataType::Decimal256(..) => Ok(Total::<Decimal256Type>::boxed(of_type)),
            other => exec_err!("a checked sum of {other}"),
        }
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        match self.is_plain(&arguments) {
            true => self.plain.groups_accumulator_supported(arguments),
            false => !arguments.is_distinct,
        }
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if self.is_plain(&arguments) {
            return self.plain.create_groups_accumulator(arguments);
        }
        match arguments.return_field.data_type() {
            _ if arguments.is_distinct => exec_err!("{DISTINCT}"),
            of_type @ DataType::Decimal128(..) => Ok(Totals::<Decimal128Type>::boxed(of_type)),
            of_type @ DataType::Decimal256(..) => Ok(Totals::<Decimal256Type>::boxed(of_type)),
            other => exec_err!("a checked sum of {other}"),
        }
    }
}

type Native<T> = <T as ArrowPrimitiveType>::Native;
type Adding<T> = fn(&mut Native<T>, Native<T>);

/// Adds, or notes for good that the total has left its range.
fn add<T: DecimalType>(total: &mut Native<T>, value: Native<T>) {
    let has_left = *total == Native::<T>::MAX_TOTAL_ORDER || value == Native::<T>::MAX_TOTAL_ORDER;
    *total = match total.add_checked(value) {
        Ok(sum) if !has_left => sum,
        _ => Native::<T>::MAX_TOTAL_ORDER,
    };
}

/// Refuses totals that no numeric has.
fn check<T: DecimalType>(totals: &ArrayRef) -> Result<()> {
    let digits = T::MAX_PRECISION;
    let too_large = |_| DataFusionError::Execution(format!("a sum has more than {digits} digits (SQLSTATE 22003)"));
    totals.as_primitive::<T>().validate_decimal_precision(digits).map_err(too_large)
}

/// A total for each group.
struct Totals<T: DecimalType>(PrimitiveGroupsAccumulator<T, Adding<T>>);

impl<T: DecimalType + Send> Totals<T> {
    fn boxed(of_type: &DataType) -> Box<dyn GroupsAccumulator> {
        Box::new(Totals::<T>(PrimitiveGroupsAccumulator::new(of_type, add::<T>)))
    }
}

impl<T: DecimalType + Send> GroupsAccumulator for Totals<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, group_count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.0.merge_batch(states, groups, group_count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = self.0.evaluate(emit_to)?;
        check::<T>(&totals)?;
        Ok(totals)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// The total of all rows.
#[derive(Debug)]
struct Total<T: DecimalType> {
    of_type: DataType,
    total: Option<Native<T>>,
}

impl<T: DecimalType + Debug> Total<T> {
    fn boxed(of_type: &DataType) -> Box<dyn Accumulator> {
        Box::new(Total::<T> { of_type: of_type.clone(), total: None })
    }
}

impl<T: DecimalType + Debug> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            add::<T>(self.total.get_or_insert_default(), value);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = ScalarValue::new_primitive::<T>(self.total, &self.of_type)?;
        check::<T>(&total.to_array()?)?;
        Ok(total)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::new_primitive::<T>(self.total, &self.of_type)?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
