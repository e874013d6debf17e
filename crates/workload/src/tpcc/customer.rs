//! How a customer is given: by number, or by last name and then the one in the middle (TPC-C 2.5.2.2, 2.6.2.2).

use super::schema::CUSTOMER_BY_NAME;
use crate::database::DatabaseError;
use crate::statement::{Intent, RowAccess, RowRef, Value};

/// A customer of a district, as the terminal's user types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CustomerChoice {
    /// The customer of that number.
    ById(i64),
    /// Of the customers of that last name (a number in 0..=999), ordered by first name, the one at half their count,
    /// rounded up.
    ByLastName(i64),
}

/// The SQL for the number of the customer in the middle of those with a last name; the arguments are parameters. First
/// names may be equal, and then the number decides, as it does in the index.
macro_rules! middle_customer {
    ($warehouse:literal, $district:literal, $last_name:literal) => {
        concat!(
            "(SELECT c_id FROM (SELECT c_id, row_number() OVER (ORDER BY c_first, c_id) AS place, ",
            "count(*) OVER () AS places FROM customer WHERE c_w_id = ",
            $warehouse,
            " AND c_d_id = ",
            $district,
            " AND c_last = ",
            $last_name,
            ") AS namesakes WHERE place = (places + 1) / 2)"
        )
    };
}
pub(super) use middle_customer;

/// Finds the middle customer of (warehouse, district, last name). All customers with the name are locked as intended,
/// because the middle one depends on each of them.
pub(super) fn find_by_name(
    access: &mut dyn RowAccess,
    key: &[Value<'_>],
    intent: Intent,
) -> Result<Option<RowRef>, DatabaseError> {
    const NAMESAKES_USUALLY_MAX: usize = 16;
    let mut namesakes = Vec::with_capacity(NAMESAKES_USUALLY_MAX);
    access.find_all(CUSTOMER_BY_NAME, key, key, intent, &mut namesakes)?;
    Ok(namesakes.len().checked_sub(1).map(|last| namesakes[last / 2]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_middle_of_n_is_at_half_n_rounded_up() {
        for count in 1usize..100 {
            let position = count.div_ceil(2);
            assert_eq!((count - 1) / 2, position - 1, "of {count}");
        }
    }
}
