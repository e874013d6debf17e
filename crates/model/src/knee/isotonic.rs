//! The nearest curve that never falls.

/// The weighted least-squares fit to `values` among sequences that never fall, by pooling adjacent violators (Barlow et al.
/// 1972): neighbours that fall are replaced by their common mean until none falls. Weights are positive.
pub(super) fn fit(values: &[f64], weights: &[f64]) -> Vec<f64> {
    /// Neighbours that share one mean.
    struct Pool {
        mean: f64,
        weight: f64,
        length: usize,
    }
    let mut pools: Vec<Pool> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut last = Pool { mean: *value, weight: *weight, length: 1 };
        while let Some(before) = pools.pop_if(|before| before.mean >= last.mean) {
            let weight = before.weight + last.weight;
            let mean = (before.mean * before.weight + last.mean * last.weight) / weight;
            last = Pool { mean, weight, length: before.length + last.length };
        }
        pools.push(last);
    }
    pools.iter().flat_map(|pool| std::iter::repeat_n(pool.mean, pool.length)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[f64], weights: &[f64], expect: &[f64]) {
        assert_eq!(fit(values, weights), expect, "{values:?} {weights:?}");
    }

    #[test]
    fn falling_neighbours_are_pooled() {
        check(&[], &[], &[]);
        check(&[1.0, 2.0, 3.0], &[1.0; 3], &[1.0, 2.0, 3.0]);
        check(&[3.0, 1.0], &[1.0; 2], &[2.0, 2.0]);
        check(&[3.0, 1.0], &[1.0, 3.0], &[1.5, 1.5]);
        check(&[1.0, 4.0, 3.0, 2.0, 5.0], &[1.0; 5], &[1.0, 3.0, 3.0, 3.0, 5.0]);
        check(&[4.0, 3.0, 2.0], &[1.0; 3], &[3.0; 3]);
    }

    proptest! {
        /// It never falls, keeps the weighted mean, and leaves rising sequences alone.
        #[test]
        fn it_is_a_projection(points in prop::collection::vec((0.0..100.0_f64, 1.0..5.0_f64), 1..20)) {
            let (values, weights): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            let fitted = fit(&values, &weights);
            prop_assert_eq!(fitted.len(), values.len());
            prop_assert!(fitted.windows(2).all(|pair| pair[0] <= pair[1]));
            let sum = |values: &[f64]| values.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>();
            prop_assert!((sum(&fitted) - sum(&values)).abs() < 1e-9 * sum(&values).max(1.0));
            let again = fit(&fitted, &weights);
            prop_assert!(again.iter().zip(&fitted).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}
