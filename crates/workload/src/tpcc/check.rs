//! Checks invariants of the data, in SQL that PostgreSQL and DataFusion read alike.

mod consistency;
mod population;

use super::random::Constants;
use super::schema::{CUSTOMERS_PER_DISTRICT, DISTRICTS_PER_WAREHOUSE, ORDERS_LOADED};
use crate::benchmark::CheckLine;
use crate::condition::{Condition, judge, query};
use crate::database::{Database, DatabaseError, Session};
use crate::schema::Schema;

/// Checks the consistency conditions, and the initial population where no client has run. `completed` is how many
/// transactions the clients of this benchmark value have completed.
pub(super) fn check(
    database: &dyn Database,
    schema: &Schema,
    warehouses: i64,
    completed: u64,
) -> Result<Vec<CheckLine>, DatabaseError> {
    database.refresh(schema)?;
    let mut session = database.session(schema)?;
    let touched = why_touched(session.as_mut(), warehouses, completed)?;
    let mut lines = consistency::conditions()
        .iter()
        .map(|condition| judge(session.as_mut(), condition))
        .collect::<Result<Vec<_>, _>>()?;
    let at_load = consistency::at_load();
    lines.push(match &touched {
        None => judge(session.as_mut(), &at_load)?,
        Some(why) => CheckLine { what: at_load.what.to_owned(), holds: None, found: why.clone() },
    });
    if touched.is_none() {
        lines.extend(check_initial(session.as_mut(), warehouses)?);
    }
    Ok(lines)
}

/// Checks the initial population alone (TPC-C 4.3.3.1).
pub(super) fn check_population(
    database: &dyn Database,
    schema: &Schema,
    warehouses: i64,
) -> Result<Vec<CheckLine>, DatabaseError> {
    database.refresh(schema)?;
    check_initial(database.session(schema)?.as_mut(), warehouses)
}

fn check_initial(session: &mut dyn Session, warehouses: i64) -> Result<Vec<CheckLine>, DatabaseError> {
    population::conditions(warehouses).iter().map(|condition| judge(session, condition)).collect()
}

/// Whether the constants of NURand keep their distance (TPC-C 2.1.6.1).
pub(super) fn check_constants(constants: Constants) -> CheckLine {
    let Constants { last_name, customer, item } = constants;
    CheckLine {
        what: "NURand's C for last names differs between load and run by 65 to 119, not 96 nor 112".to_owned(),
        holds: Some(Constants::is_legal(last_name)),
        found: format!(
            "load {}, run {last_name}; for customers {customer}, for items {item}",
            Constants::LAST_NAME_LOAD
        ),
    }
}

/// Why the data are no longer as loaded; `None` if they are. Data may be older than this process, so its own count of
/// transactions is not enough. Fewer rows than were loaded do not indicate clients but a failed load, which the checks
/// must find.
pub(super) fn why_touched(
    session: &mut dyn Session,
    warehouses: i64,
    completed: u64,
) -> Result<Option<String>, DatabaseError> {
    if completed > 0 {
        return Ok(Some(format!("not judged: clients have completed {completed} transactions")));
    }
    let districts = warehouses * DISTRICTS_PER_WAREHOUSE;
    let touched = Condition {
        what: "no more orders and payments than were loaded",
        violations: format!(
            "SELECT orders, payments FROM (SELECT CAST(sum(d_next_o_id - 1) AS bigint) AS orders FROM district) AS d \
             CROSS JOIN (SELECT count(*) AS payments FROM history) AS h WHERE orders > {} OR payments > {}",
            districts * ORDERS_LOADED,
            districts * CUSTOMERS_PER_DISTRICT
        ),
    };
    let answer = query(session, &touched)?;
    Ok(answer
        .first()
        .map(|counts| format!("not judged: clients have run before, for there are more than loaded: {counts}")))
}

/// Every query that checking may send, for tests against real databases.
#[cfg(test)]
pub(super) fn all_conditions(warehouses: i64) -> Vec<Condition> {
    let mut all = consistency::conditions();
    all.push(consistency::at_load());
    all.extend(population::conditions(warehouses));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_names_of_their_own() {
        let conditions = all_conditions(3);
        let names = conditions.iter().map(|condition| condition.what).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(names.len(), conditions.len());
    }
}
