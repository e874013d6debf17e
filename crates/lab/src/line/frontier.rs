//! The settings at which no other one lets both sides keep more.

/// The positions of the points that no other one exceeds in both coordinates, from the smallest first coordinate on. Of
/// equal points the first.
pub(crate) fn frontier(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|at| is_number(points[*at])).collect();
    // From the right, the larger second coordinate first: a point belongs to it if it is higher than all before.
    order.sort_by(|a, b| {
        let (a, b) = (points[*a], points[*b]);
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let mut highest = f64::NEG_INFINITY;
    let mut found: Vec<usize> = Vec::new();
    for at in order {
        if points[at].1 > highest {
            highest = points[at].1;
            found.push(at);
        }
    }
    found.reverse();
    found
}

fn is_number((x, y): (f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_nothing_exceeds_belongs_to_the_frontier() {
        assert_eq!(frontier(&[(0.6, 0.4), (0.9, 0.2), (0.5, 0.3), (0.95, 0.05)]), [0, 1, 3]);
        assert_eq!(frontier(&[(0.5, 0.5), (0.5, 0.5)]).len(), 1, "equal points count once");
        assert!(frontier(&[]).is_empty() && frontier(&[(f64::NAN, 1.0)]).is_empty());
    }

    proptest! {
        #[test]
        fn every_point_is_on_the_frontier_or_below_it(
            points in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 0..20),
        ) {
            let found = frontier(&points);
            let exceeds = |one: (f64, f64), other: (f64, f64)| one.0 >= other.0 && one.1 >= other.1 && one != other;
            for (at, point) in points.iter().enumerate() {
                let is_exceeded = points.iter().any(|other| exceeds(*other, *point));
                prop_assert_eq!(found.contains(&at), !is_exceeded, "{:?} of {:?}", point, points);
            }
            prop_assert!(found.windows(2).all(|two| points[two[0]].0 < points[two[1]].0));
        }
    }
}
