//! The meaning of a query: what it means in PostgreSQL, or a refusal.
//!
//! DataFusion reads most of PostgreSQL's SQL but gives some of it another meaning: integers wrap, literals with a point are floats, a
//! cast to an integer cuts digits off, a quotient has four more digits than its dividend. Nothing tells the user. So a query passes an
//! allow-list twice before it is optimized: [`syntax`] refuses what DataFusion's planner would skip or lose, and [`plans`] walks the logical
//! plan and gives each expression the type that it has in PostgreSQL ([`kinds`]), with explicit casts and with functions of our own
//! ([`arithmetic`], [`quotient`], [`exact_cast`]) where DataFusion's compute something else. A form that is not on the list is refused.
//!
//! What is refused, and what still differs, is in the guide (`docs/embedded-sql.md`). `crates/target/tests/sql_meaning` compares random queries with
//! PostgreSQL servers.

mod aggregates;
mod arithmetic;
mod casts;
mod checked_sum;
mod exact_cast;
mod expressions;
mod functions;
mod kinds;
mod literals;
mod operators;
mod plans;
mod quotient;
mod subqueries;
mod syntax;
mod windows;

use std::fmt::Display;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{AggregateUDF, LogicalPlan, ScalarUDF};

use crate::query::QueryError;

type Result<T> = std::result::Result<T, QueryError>;

/// Sets how the parser reads SQL.
pub fn configure(options: &mut ConfigOptions) {
    options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.support_varchar_with_length = false;
}

/// Functions that DataFusion lacks, so that its planner finds their names.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    functions::named()
}

/// The functions that replace DataFusion's in a plan, by name, for a process that runs plans made elsewhere.
pub fn planned_functions() -> (Vec<Arc<ScalarUDF>>, Arc<AggregateUDF>) {
    let scalar = arithmetic::planned_functions().into_iter().chain(quotient::planned_functions());
    let scalar = scalar.chain([exact_cast::planned_function()]);
    (scalar.map(Arc::new).collect(), checked_sum::planned_function())
}

/// The logical plan of a query, with PostgreSQL's meaning.
pub async fn plan(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect).map_err(fault)?;
    syntax::check(&statement)?;
    let plan = state.statement_to_plan(statement).await.map_err(fault)?;
    plans::translate(plan)
}

/// Refuses a construct, and says what to write instead.
fn refused<T>(construct: impl Display, remedy: impl Display) -> Result<T> {
    Err(QueryError::Refused { construct: construct.to_string(), remedy: remedy.to_string() })
}

fn fault(error: DataFusionError) -> QueryError {
    QueryError::Plan(error.strip_backtrace())
}
