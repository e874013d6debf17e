//! How evenly something is shared.

/// Jain's index of some shares, none below 0: the square of their sum, divided by their number times the sum of their
/// squares. It is 1 if all are equal, and 1/n if one of n has everything. `None` without shares, or if all are 0.
///
/// R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared
/// Computer Systems. DEC Research Report TR-301, 1984.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_have_1_and_a_monopoly_has_a_part_for_each() {
        let check = |shares: &[f64], expect: Option<f64>| {
            let found = jain_index(shares);
            assert!(found == expect || (found.unwrap() - expect.unwrap()).abs() < 1e-12, "{shares:?}: {found:?}");
        };
        check(&[7.0], Some(1.0));
        check(&[0.3; 5], Some(1.0));
        check(&[0.0, 0.0, 9.0, 0.0], Some(0.25));
        // As much as a queue without turns gives to tenants with 1, 2, 4, 8 and 16 clients.
        check(&[1.0, 2.0, 4.0, 8.0, 16.0], Some(961.0 / (5.0 * 341.0)));
        check(&[0.0, 0.0], None);
        check(&[], None);
    }
}
