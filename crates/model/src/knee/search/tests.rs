//! The search against the full grid, on published and on made-up curves.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::super::tests::{Mock, shapes};
use super::super::{SHARES, WhyNot};
use super::*;

/// Sufficient LLC in MB for 90 % and 95 % of the performance with 40 MB, as published (SR table 4).
const PUBLISHED: [(&str, f64, f64); 10] = [
    ("ASDB 2000", 8.0, 8.0),
    ("ASDB 6000", 8.0, 10.0),
    ("TPC-E 5000", 6.0, 8.0),
    ("TPC-E 15000", 12.0, 14.0),
    ("HTAP 5000", 16.0, 18.0),
    ("HTAP 15000", 10.0, 14.0),
    ("TPC-H 10", 10.0, 14.0),
    ("TPC-H 30", 10.0, 16.0),
    ("TPC-H 100", 16.0, 22.0),
    ("TPC-H 300", 12.0, 12.0),
];

/// A published curve over 2, 4, ... 40 MB. Published are the two knees and, of TPC-H 100 alone, two more points: 10 MB is 3.4
/// times 2 MB, and 40 MB is 1.26 times 10 MB. Everything else is interpolated: 2 % on either side of each share at its knee
/// and the step before, half of full performance at 2 MB, lines between.
fn published((name, knee_90, knee_95): (&'static str, f64, f64)) -> Mock {
    let mut knots =
        if name == "TPC-H 100" { vec![(2.0, 1.0 / 1.26 / 3.4), (10.0, 1.0 / 1.26)] } else { vec![(2.0, 0.5)] };
    knots.push((knee_90 - 2.0, 0.88));
    if knee_95 > knee_90 {
        knots.push((knee_90, 0.92));
        if knee_95 > knee_90 + 2.0 {
            knots.push((knee_95 - 2.0, 0.935));
        }
    }
    knots.extend([(knee_95, 0.97), (40.0, 1.0)]);
    let at = |x: f64| {
        let after = knots.iter().position(|knot| knot.0 >= x).expect("40 is the last");
        let ((x1, y1), (x0, y0)) = (knots[after], knots[after.saturating_sub(1)]);
        if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 }
    };
    let allocations: Vec<f64> = (1..=20).map(|way| 2.0 * f64::from(way)).collect();
    let truth = allocations.iter().map(|mb| 1_000.0 * at(*mb)).collect();
    Mock { name, allocations, truth }
}

/// Searches `mock` to the end.
fn search(mock: &Mock, repeats: usize, noise: f64, random: &mut Pcg64) -> (Knee, KneeSearch) {
    let mut search = KneeSearch::new(mock.allocations.clone(), repeats, SHARES.to_vec(), None, 1);
    while let Some(batch) = search.next() {
        for index in batch {
            search.record(index, &[mock.run(index, noise, random)]);
        }
    }
    (search.answer(), search)
}

#[test]
fn published_knees_are_found_with_two_fifths_of_the_runs() {
    for row in PUBLISHED {
        let mock = published(row);
        assert_eq!([mock.knee(0.9), mock.knee(0.95)], [mock.position(row.1), mock.position(row.2)], "{}", mock.name);
        let (answer, search) = search(&mock, 3, 0.0, &mut Pcg64::seed_from_u64(1));
        for level in &answer.levels {
            let found = mock.position(level.allocation.expect("without noise it is determined"));
            assert!(found.abs_diff(mock.knee(level.share)) <= 1, "{}: {level:?}", mock.name);
        }
        assert!(search.spent() <= 24, "{}: {} of 60 runs", mock.name, search.spent());
    }
}

/// With noise: the answer is that of the full grid, within one step, in at least 95 % of seeds.
#[test]
fn the_search_agrees_with_the_full_grid() {
    let mocks = PUBLISHED.map(published).into_iter().chain(shapes());
    for mock in mocks {
        let mut agreed = [0_usize; 2];
        let seeds = 40;
        for seed in 0..seeds {
            let mut random = Pcg64::seed_from_u64(seed);
            let grid = mock.blocks(3, 0.005, &mut random);
            let grid = knee(&mock.allocations, &grid, Noise::of(&grid).as_ref(), &SHARES, seed);
            let (answer, search) = search(&mock, 3, 0.005, &mut random);
            assert!(5 * search.spent() <= 2 * 3 * mock.truth.len(), "{}: {} runs", mock.name, search.spent());
            for (agreed, (ours, theirs)) in agreed.iter_mut().zip(answer.levels.iter().zip(&grid.levels)) {
                let position = |level: &super::super::Level| mock.position(level.allocation.expect("determined"));
                *agreed += usize::from(position(ours).abs_diff(position(theirs)) <= 1);
            }
        }
        assert!(agreed.iter().all(|agreed| 20 * agreed >= 19 * seeds as usize), "{}: {agreed:?} of {seeds}", mock.name);
    }
}

/// For any noise and shape the search ends, keeps its budget, and runs no allocation more than twice its repeats.
#[test]
fn the_search_ends_within_its_budget() {
    for mock in shapes() {
        for repeats in [1, 2, 3, 5, 10] {
            for noise in [0.0, 0.02, 0.3] {
                let (_, search) = search(&mock, repeats, noise, &mut Pcg64::seed_from_u64(5));
                assert!(search.spent() <= search.budget(), "{}: {}", mock.name, search.spent());
                assert!(search.runs.iter().all(|runs| runs.len() <= 2 * repeats), "{}", mock.name);
            }
        }
    }
}

/// Queries that do not react to the degree of parallelism, as 2, 6, 14, 15 and 20 at scale factor 10 (SR figure 6), over 1, 2,
/// 4 ... 32: a small grid, run in full. One worker suffices.
#[test]
fn small_grids_run_in_full_and_in_blocks() {
    let mock = Mock { name: "flat", allocations: [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].to_vec(), truth: vec![7.0; 6] };
    let mut first = KneeSearch::new(mock.allocations.clone(), 2, SHARES.to_vec(), None, 1);
    assert_eq!(first.next(), Some(vec![0, 1, 2, 3, 4, 5]));
    first.record(3, &[7.0]);
    assert_eq!(first.next(), Some(vec![0, 1, 2, 4, 5]), "the block goes on");
    let (answer, search) = search(&mock, 2, 0.005, &mut Pcg64::seed_from_u64(1));
    assert_eq!((search.spent(), search.budget()), (12, 12));
    assert!(answer.levels.iter().all(|level| level.allocation == Some(1.0)), "{answer:?}");
}

#[test]
fn a_target_that_completes_nothing_ends_the_search() {
    let mock = Mock::new("dead", 10, |_| 0.0);
    let (answer, search) = search(&mock, 3, 0.0, &mut Pcg64::seed_from_u64(1));
    assert_eq!(search.spent(), 4);
    assert_eq!(answer.levels[0].why_not, Some(WhyNot::NothingCompleted(10.0)));
    assert_eq!(KneeSearch::new(Vec::new(), 3, SHARES.to_vec(), None, 1).next(), None);
}
