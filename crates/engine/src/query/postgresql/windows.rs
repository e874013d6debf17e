//! Window functions, with the frames that they have if none is written.

use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, WindowFrame, WindowFunctionDefinition};

use super::aggregates::sum_of;
use super::expressions::{Scope, value};
use super::kinds::Kind;
use super::{Result, casts, refused};

/// A window function.
pub fn window(of: &WindowFunction, scope: Scope) -> Result<Expr> {
    let params = &of.params;
    let is_plain = params.null_treatment.is_none() && params.filter.is_none() && !params.distinct;
    // Where keys tell rows apart, DataFusion counts rows instead of ranges, which is the same.
    let has_default_frame = match params.order_by.is_empty() {
        true => params.window_frame == WindowFrame::new(None),
        false => [false, true].iter().any(|is_strict| params.window_frame == WindowFrame::new(Some(*is_strict))),
    };
    let name = of.fun.name().to_owned();
    let numbers = matches!(of.fun, WindowFunctionDefinition::WindowUDF(_))
        && matches!(name.as_str(), "row_number" | "rank" | "dense_rank");
    let mut fun = of.fun.clone();
    let args = match (&params.args[..], numbers, name.as_str()) {
        ([], true, _) => Vec::new(),
        ([Expr::Literal(_, _)], false, "count") => params.args.clone(),
        ([argument], false, "count" | "sum" | "min" | "max") => {
            let argument = value(argument, scope)?;
            match (name.as_str(), argument.kind) {
                ("sum", Kind::Bigint) => vec![casts::widened(argument, Kind::Numeric(19, 0)).expr],
                ("sum", kind) if !kind.is_number() => return refused(format_args!("sum({kind})"), "give a number"),
                (_, Kind::Other | Kind::Boolean | Kind::Unknown) if name != "count" => {
                    return refused(format_args!("{name}({})", argument.kind), "give another type");
                }
                ("sum", kind) => {
                    fun = WindowFunctionDefinition::AggregateUDF(sum_of(kind, false)?);
                    vec![argument.expr]
                }
                _ => vec![argument.expr],
            }
        }
        _ => return refused(format_args!("the window function {name}"), "see the list of window functions"),
    };
    if !is_plain || !has_default_frame {
        return refused("a window function with a frame, FILTER, DISTINCT or IGNORE NULLS", "leave it out");
    }
    let partition_by = params.partition_by.iter().map(|key| Ok(value(key, scope)?.expr)).collect::<Result<Vec<_>>>()?;
    let order_by = params.order_by.iter().map(|key| sort(key, scope)).collect::<Result<Vec<_>>>()?;
    let params = WindowFunctionParams { args, partition_by, order_by, ..params.clone() };
    Ok(Expr::WindowFunction(Box::new(WindowFunction { fun, params })))
}

/// A key of ORDER BY.
pub fn sort(key: &Sort, scope: Scope) -> Result<Sort> {
    let value = value(&key.expr, scope)?;
    match value.kind {
        Kind::Other => refused("ORDER BY of this type", "order by another column"),
        _ => Ok(Sort { expr: value.expr, ..key.clone() }),
    }
}
