//! Against mean value analysis, closed forms, and Little's law.

use super::*;
use crate::mva::solve_exactly;
use crate::mva::tests::small_networks;
use crate::network::tests::{class, open, station};
use crate::network::{Class, Service};

fn cores(servers: u32, classes: Vec<Class>) -> Network {
    Network::new(vec![station("cpu", Service::Processors { servers })], classes).unwrap()
}

/// How many standard errors a figure is from its expectation.
fn errors(found: &Interval, expect: f64, runs: u32) -> f64 {
    let standard = (found.high.unwrap() - found.value) / student::quantile(0.975, f64::from(runs) - 1.0);
    (found.value - expect) / standard
}

/// Of correct figures, 92 % are within two standard errors of ten runs.
fn assert_within_two_errors(errors: &[f64]) {
    let beyond = errors.iter().filter(|errors| errors.abs() > 2.0).count();
    assert!(beyond * 100 <= errors.len() * 18, "{beyond} of {}: {errors:?}", errors.len());
    let bias = errors.iter().sum::<f64>() / (errors.len() as f64).sqrt();
    assert!(bias.abs() < 3.5, "{bias}: {errors:?}");
}

#[test]
fn means_are_those_of_mean_value_analysis() {
    let mut found = Vec::new();
    for network in small_networks() {
        let expect = solve_exactly(&network).unwrap();
        for seed in 0..3 {
            let settings = Settings { requests: 800, ..Settings::plain(&network, seed) };
            for (figures, expect) in simulate(&network, &settings).unwrap().iter().zip(&expect.classes) {
                found.push(errors(&figures.throughput, expect.throughput, settings.runs));
                found.push(errors(&figures.response_s.unwrap(), expect.response_s.unwrap(), settings.runs));
            }
        }
    }
    assert_within_two_errors(&found);
}

#[test]
fn means_of_open_and_mixed_networks_are_those_of_mean_value_analysis() {
    let mut found = Vec::new();
    for classes in [
        vec![open(1.0, &[0.5])],
        vec![open(3.0, &[0.2]), open(0.5, &[0.6])],
        vec![class(3, 0.5, &[0.3]), open(1.2, &[0.4])],
    ] {
        let network = cores(2, classes);
        let expect = solve_exactly(&network).unwrap();
        for seed in 0..3 {
            let settings = Settings::plain(&network, seed);
            for (figures, expect) in simulate(&network, &settings).unwrap().iter().zip(&expect.classes) {
                found.push(errors(&figures.throughput, expect.throughput, settings.runs));
                found.push(errors(&figures.response_s.unwrap(), expect.response_s.unwrap(), settings.runs));
            }
        }
    }
    assert_within_two_errors(&found);
    // A queue that changes slowly takes longer runs.
    let busy = cores(1, vec![open(0.95, &[1.0])]);
    assert_eq!(Settings::plain(&busy, 1).requests, 19_200);
    let response_s = |seed| simulate(&busy, &Settings::plain(&busy, seed)).unwrap()[0].response_s.unwrap();
    let covered = (0..20).filter(|seed| response_s(*seed).contains(20.0)).count();
    assert!(covered >= 17, "{covered} of 20 intervals of 95 % contain the truth");
    let busier = cores(1, vec![open(0.995, &[1.0])]);
    assert!(matches!(simulate(&busier, &Settings::plain(&busier, 1)), Err(Invalid::NearSaturation { .. })));
    let saturated = cores(2, vec![open(4.0, &[0.5])]);
    assert!(matches!(simulate(&saturated, &Settings::plain(&saturated, 1)), Err(Invalid::Saturated(_))));
}

#[test]
fn percentiles_of_arrivals_that_never_wait_are_those_of_their_demand() {
    let network = cores(1_000, vec![open(10.0, &[2.0])]);
    let figures = &simulate(&network, &Settings::plain(&network, 5)).unwrap()[0];
    for (share, found) in PERCENTILES.iter().zip(&figures.percentiles_s) {
        let expect = -2.0 * (1.0 - share).ln();
        assert!((found.unwrap().value / expect - 1.0).abs() < 0.04, "{found:?} is not {expect}");
    }
}

#[test]
fn percentiles_of_one_client_are_those_of_its_demand() {
    let network = cores(1, vec![class(1, 0.3, &[2.0])]);
    let figures = &simulate(&network, &Settings::plain(&network, 5)).unwrap()[0];
    for (share, found) in PERCENTILES.iter().zip(&figures.percentiles_s) {
        let expect = -2.0 * (1.0 - share).ln();
        assert!((found.unwrap().value / expect - 1.0).abs() < 0.04, "{found:?} is not {expect}");
    }
    assert_eq!(figures.requests, 20_000);
    let settings = Settings { requests: 500, ..Settings::plain(&network, 5) };
    let [_, p95, p99] = simulate(&network, &settings).unwrap()[0].percentiles_s;
    assert!(p95.is_some());
    assert_eq!(p99, None, "five of 500 requests are beyond the 99th percentile");
}

#[test]
fn the_most_important_class_is_served_as_if_it_were_alone() {
    let (important, other) = (class(3, 1.0, &[0.5]), class(6, 0.5, &[0.7]));
    let network = cores(2, vec![other.clone(), important.clone()]);
    let alone = solve_exactly(&cores(2, vec![important])).unwrap().classes[0].throughput;
    let even = solve_exactly(&network).unwrap().classes[0].throughput;
    let mut found = Vec::new();
    for seed in 0..6 {
        let mut settings = Settings { by_priority: vec![true], ..Settings::plain(&network, seed) };
        settings.behaviours[1].priority = 1;
        let figures = simulate(&network, &settings).unwrap();
        found.push(errors(&figures[1].throughput, alone, settings.runs));
        assert!(figures[0].throughput.high.unwrap() < even, "the others pay");
    }
    assert_within_two_errors(&found);
}

/// If every request holds the lock from beginning to end, eight cores are as good as one.
#[test]
fn one_lock_for_all_makes_one_server_of_many() {
    let classes = || vec![class(6, 2.0, &[0.4])];
    let expect = solve_exactly(&cores(1, classes())).unwrap().classes[0].throughput;
    let network = cores(8, classes());
    let mut found = Vec::new();
    for seed in 0..6 {
        let behaviour = Behaviour { holds_lock: true, ..Behaviour::default() };
        let settings = Settings { behaviours: vec![behaviour], ..Settings::plain(&network, seed) };
        let figures = simulate(&network, &settings).unwrap();
        found.push(errors(&figures[0].throughput, expect, settings.runs));
    }
    assert_within_two_errors(&found);
}

#[test]
fn littles_law_holds_with_a_lock_and_priorities() {
    let network = cores(2, vec![class(5, 0.5, &[0.2]), class(3, 1.0, &[0.3])]);
    let behaviours = vec![Behaviour { priority: 0, holds_lock: true }, Behaviour { priority: 1, holds_lock: false }];
    let settings = Settings { behaviours, by_priority: vec![true], requests: 20_000, ..Settings::plain(&network, 3) };
    let figures = simulate(&network, &settings).unwrap();
    for (class, figures) in network.classes().iter().zip(&figures) {
        let (throughput, response_s) = (figures.throughput.value, figures.response_s.unwrap().value);
        assert!((throughput * response_s / figures.present.value - 1.0).abs() < 0.01, "{figures:?}");
        let clients = figures.present.value + throughput * class.think_s;
        assert!((clients / f64::from(class.population) - 1.0).abs() < 0.01, "{clients} of {}", class.population);
    }
    assert_eq!(simulate(&network, &settings).unwrap(), figures, "equal seeds, equal figures");
    let other = simulate(&network, &Settings { seed: 4, ..settings }).unwrap();
    assert_ne!(other[0].throughput.value, figures[0].throughput.value);
}

#[test]
fn what_starves_has_no_response() {
    let network = cores(1, vec![class(1, 0.0, &[1.0]), class(1, 0.0, &[1.0])]);
    let mut settings = Settings { by_priority: vec![true], requests: 50, ..Settings::plain(&network, 1) };
    settings.behaviours[1].priority = 9;
    let figures = simulate(&network, &settings).unwrap();
    assert_eq!((figures[0].throughput.value, figures[0].response_s), (0.0, None));
    assert_eq!((figures[0].present.value, figures[1].requests), (1.0, 500));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let network = cores(1, vec![class(1, 0.0, &[1.0])]);
    let refuse = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::plain(&network, 1);
        change(&mut settings);
        simulate(&network, &settings).unwrap_err()
    };
    assert!(matches!(refuse(&|settings| settings.by_priority.clear()), Invalid::Count { found: 0, expect: 1, .. }));
    assert!(matches!(refuse(&|settings| settings.runs = 1), Invalid::Short { runs: 1, .. }));
    let nobody = cores(1, vec![class(0, 0.0, &[1.0])]);
    assert_eq!(simulate(&nobody, &Settings::plain(&nobody, 1)), Err(Invalid::NoRequests));
}
