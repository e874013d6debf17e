//! The cores that each class of threads gets from a scheduler that divides them by weight: a fluid model, without queues.
//!
//! Each class can use at most as many cores as it used alone. If the classes together could use more cores than there
//! are, each gets its share by weight, and cores that a class leaves unused go to the others, again by weight (weighted
//! max-min fairness; Demers, Keshav and Shenker 1989, generalised by Parekh and Gallager 1993). The kernel's fair
//! scheduler does the same with threads of different nice values, over times much longer than a slice. The model
//! ignores waits for a slice, caches and locks.

/// A class of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Cores that it would use without the others, at least 0.
    pub cores: f64,
    /// Its weight against the others: runnable threads times the weight of each, above 0.
    pub weight: f64,
}

/// The cores that each class gets of `cores`.
pub fn divided(cores: f64, demands: &[Demand]) -> Vec<f64> {
    let mut got = vec![0.0; demands.len()];
    let mut hungry: Vec<usize> = (0..demands.len()).collect();
    let mut left = cores.max(0.0);
    loop {
        let weight: f64 = hungry.iter().map(|at| demands[*at].weight).sum();
        let part = |at: usize| left * demands[at].weight / weight;
        let (sated, rest): (Vec<usize>, Vec<usize>) = hungry.iter().partition(|at| demands[**at].cores <= part(**at));
        if sated.is_empty() {
            rest.iter().for_each(|at| got[*at] = part(*at));
            return got;
        }
        for at in sated {
            got[at] = demands[at].cores;
            left -= got[at];
        }
        left = left.max(0.0);
        hungry = rest;
    }
}

/// The weight of a thread with a nice value from -20 to 19 over one with 0: each step is a factor of 1.25 (Linux,
/// `sched_prio_to_weight`, whose table rounds it).
pub fn weight_of_nice(nice: i32) -> f64 {
    1.25_f64.powi(-nice)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demand(cores: f64, weight: f64) -> Demand {
        Demand { cores, weight }
    }

    #[test]
    fn cores_are_divided_by_weight_and_what_is_left_goes_to_others() {
        assert_eq!(divided(2.0, &[demand(2.0, 2.0), demand(2.0, 2.0)]), [1.0, 1.0]);
        assert_eq!(divided(2.0, &[demand(0.5, 1.0), demand(2.0, 1.0)]), [0.5, 1.5]);
        assert_eq!(divided(2.0, &[demand(2.0, 3.0), demand(2.0, 1.0)]), [1.5, 0.5]);
        assert_eq!(divided(4.0, &[demand(1.0, 1.0), demand(2.0, 1.0)]), [1.0, 2.0]);
        assert!(divided(2.0, &[]).is_empty());
        // Linux has 110 for nice 10 and 1024 for 0.
        assert!((weight_of_nice(10) / (110.0 / 1024.0) - 1.0).abs() < 0.01);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_it_can_use_and_no_core_idles_while_somebody_wants_it(
            cores in 0.5..16.0_f64, demands in prop::collection::vec((0.0..8.0_f64, 0.01..50.0_f64), 1..6),
        ) {
            let demands: Vec<Demand> = demands.into_iter().map(|(cores, weight)| demand(cores, weight)).collect();
            let got = divided(cores, &demands);
            let wanted: f64 = demands.iter().map(|demand| demand.cores).sum();
            prop_assert!((got.iter().sum::<f64>() - wanted.min(cores)).abs() < 1e-9);
            prop_assert!(got.iter().zip(&demands).all(|(got, demand)| *got <= demand.cores + 1e-9));
            // A class that lacks cores has no less for its weight than any other.
            let lacking = got.iter().zip(&demands).filter(|(got, demand)| **got < demand.cores - 1e-9);
            let least = lacking.map(|(got, demand)| got / demand.weight).fold(f64::INFINITY, f64::min);
            prop_assert!(got.iter().zip(&demands).all(|(got, demand)| got / demand.weight <= least + 1e-9));
        }
    }
}
