//! Observations of simulated servers whose truth is known.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::des::{self, WindowOfClass};
use crate::network::{Class, Network, Service, Station};
use crate::statistics::student::normal;

/// A shop and reports on a server, with what a model is not told.
#[derive(Debug, Clone)]
struct Truth {
    cores: u32,
    shop: Class,
    report: Class,
    /// How much more CPU time the shop needs beside reports that use all cores.
    inflation: f64,
    /// Seconds that a request of the shop waits for a turn beside each report per core.
    turn_s: f64,
    /// Cores of other programs.
    others: f64,
}

impl Truth {
    fn drawn(random: &mut Pcg64) -> Truth {
        let class = |name: &str, population, think_s, demands_s: Vec<f64>| Class {
            name: name.to_owned(),
            arrivals_per_s: None,
            population,
            think_s,
            demands_s,
        };
        let cores = random.random_range(2..=4);
        let cpu_s = random.random_range(0.002..0.01);
        Truth {
            cores,
            shop: class(
                "shop",
                random.random_range(4..=10),
                random.random_range(0.03..0.1),
                vec![cpu_s, random.random_range(0.0..0.003)],
            ),
            report: class("reports", 0, 0.1, vec![random.random_range(0.3..1.5), random.random_range(0.0..0.3)]),
            inflation: if random.random() { random.random_range(0.0..0.3) } else { 0.0 },
            turn_s: if random.random() { random.random_range(0.0..0.004) } else { 0.0 },
            others: random.random_range(0.01..0.3),
        }
    }

    fn network(&self, reports: u32) -> Network {
        let busy = f64::from(reports.min(self.cores)) / f64::from(self.cores);
        let mut shop = self.shop.clone();
        shop.demands_s[0] *= 1.0 + self.inflation * busy;
        shop.demands_s.push(self.turn_s * f64::from(reports) / f64::from(self.cores));
        let mut report = Class { population: reports, ..self.report.clone() };
        report.demands_s.push(0.0);
        let station = |name: &str, service| Station { name: name.to_owned(), service };
        let cores = Service::Processors { servers: self.cores };
        let stations = vec![
            station("cpu", cores),
            station("disk", Service::Processors { servers: 1 }),
            station("turns", Service::Delay),
        ];
        // Short work of other programs.
        let others = Class {
            name: "others".to_owned(),
            arrivals_per_s: None,
            population: 1,
            think_s: 0.01 * (1.0 / self.others - 1.0),
            demands_s: vec![0.01, 0.0, 0.0],
        };
        Network::new(stations, vec![shop, report, others]).unwrap()
    }

    fn settings(network: &Network, requests: u64, seed: u64) -> des::Settings {
        des::Settings { requests, runs: 4, ..des::Settings::plain(network, seed) }
    }

    /// Windows with 0, 1 and 2 reports in turn.
    fn seen(&self, phases: &[u32], windows: usize, random: &mut Pcg64) -> Seen {
        let mut all = Vec::new();
        for reports in phases {
            let network = self.network(*reports);
            let settings = Truth::settings(&network, 400, 1);
            let seed = Pcg64::seed_from_u64(random.random());
            let found = des::windows(&network, &settings, seed, (5.0, windows));
            all.extend(found.into_iter().map(|window| self.window(window, *reports, random)));
        }
        Seen { cores: self.cores, classes: vec!["shop".to_owned(), "reports".to_owned()], windows: all }
    }

    fn window(&self, (seconds, classes): (f64, Vec<WindowOfClass>), reports: u32, random: &mut Pcg64) -> Window {
        let sessions = [f64::from(self.shop.population), f64::from(reports)];
        // Looks are samples: some 50 in a second, each of a session by itself.
        let sampled = |mean_s: f64, random: &mut Pcg64| {
            (mean_s * (1.0 + normal(random) / (50.0 * mean_s).max(1.0).sqrt())).max(0.0)
        };
        let other_cpu_s = classes[2].service_s[0];
        let disk_s = classes.iter().map(|class| class.service_s[1]).sum::<f64>();
        let activity = |(class, sessions): (WindowOfClass, f64), random: &mut Pcg64| Activity {
            requests: class.requests,
            sessions,
            active_s: sampled(class.presence_s, random),
            disk_wait_s: sampled(class.service_s[1], random),
            cpu_s: class.service_s[0],
            counted_s: Some(class.responses_s),
            ..Activity::default()
        };
        let classes = classes.into_iter().zip(sessions).map(|class| activity(class, random)).collect();
        Window { seconds, classes, other_cpu_s, disk_s: Some(disk_s) }
    }

    /// The mean responses with that many reports.
    fn responses_s(&self, reports: u32) -> Vec<f64> {
        let network = self.network(reports);
        let found = des::simulate(&network, &Truth::settings(&network, 6_000, 3)).unwrap();
        found.into_iter().map(|class| class.response_s.unwrap().value).collect()
    }
}

fn asked(reports: u32) -> Asked {
    Asked { sessions: vec![None, Some(reports)], cores: None }
}

/// Seen with 0 to 2 reports at once, predicted with 5 and with 10, on 40 servers: on some, requests compute longer beside others or wait
/// for a turn at the cores, and on all of them other programs use the cores.
#[test]
fn mixes_that_were_not_seen_are_within_their_intervals() {
    let mut random = Pcg64::seed_from_u64(11);
    let (mut errors, mut covered, mut widths) = (Vec::new(), 0_usize, Vec::new());
    let mut refused = 0;
    for _ in 0..40 {
        let truth = Truth::drawn(&mut random);
        let lessons = truth.seen(&[0, 1, 2, 0, 2, 1], 4, &mut random).learn().unwrap();
        for reports in [5, 10] {
            let expect = truth.responses_s(reports);
            let Ok(found) = lessons.predict(&asked(reports)) else {
                refused += 1;
                continue;
            };
            for (class, expect) in found.classes.iter().zip(&expect) {
                let response = class.response_s.unwrap();
                covered += usize::from(response.contains(*expect));
                errors.push((response.value / expect).ln().abs());
                widths.push((response.high.unwrap() / response.value).ln());
            }
        }
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let coverage = covered as f64 / errors.len() as f64;
    println!(
        "{} figures: mean error {:.1} %, coverage {coverage:.3}, mean factor of intervals {:.2}, {refused} refused",
        errors.len(),
        (mean(&errors).exp() - 1.0) * 100.0,
        mean(&widths).exp()
    );
    assert!(refused <= 8, "{refused} of 80 mixes were refused");
    assert!(coverage >= 0.93, "{coverage}");
    assert!(mean(&errors) < 0.25, "{}", mean(&errors));
    // An interval that contains everything says nothing.
    assert!(mean(&widths).exp() < 4.0, "{}", mean(&widths).exp());
}

/// A server without anything that the model does not know, seen for long, is predicted closely.
#[test]
fn a_server_that_is_as_the_model_has_it_is_predicted_closely() {
    let mut random = Pcg64::seed_from_u64(5);
    let plain = Truth { inflation: 0.0, turn_s: 0.0, others: 0.01, ..Truth::drawn(&mut random) };
    let lessons = plain.seen(&[0, 1, 2, 0, 1, 2], 12, &mut random).learn().unwrap();
    let found = lessons.predict(&asked(5)).unwrap();
    for (class, expect) in found.classes.iter().zip(plain.responses_s(5)) {
        let error = class.response_s.unwrap().value / expect - 1.0;
        assert!(error.abs() < 0.1, "{error}");
    }
    let demands = lessons.demands();
    for (demand, class) in demands.iter().zip([&plain.shop, &plain.report]) {
        assert!((demand.cpu_s.value / class.demands_s[0] - 1.0).abs() < 0.1, "{demand:?} of {class:?}");
        assert!(demand.cpu_s.low.unwrap() <= demand.cpu_s.value && demand.cpu_s.value <= demand.cpu_s.high.unwrap());
    }
    assert_eq!(lessons.mixes().len(), 3);
    assert!(lessons.predict(&asked(2)).unwrap().doublings_beyond == 0.0);
    assert!((found.doublings_beyond - 2.5_f64.log2()).abs() < 1e-9);
}

fn class(requests: f64, sessions: f64, active_s: f64, cpu_s: f64) -> Activity {
    Activity { requests, sessions, active_s, cpu_s, counted_s: Some(active_s), ..Activity::default() }
}

fn seen(windows: usize, classes: &dyn Fn(usize) -> Vec<Activity>) -> Seen {
    let window = |at: usize| Window { seconds: 5.0, classes: classes(at), other_cpu_s: 0.0, disk_s: Some(0.0) };
    let names = ["shop", "reports"].iter().take(classes(0).len()).map(|name| (*name).to_owned()).collect();
    Seen { cores: 2, classes: names, windows: (0..windows).map(window).collect() }
}

#[test]
fn what_cannot_teach_is_refused_with_the_reason() {
    let check = |seen: Seen, expect: &str| {
        let error = seen.learn().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let shop = |_: usize| vec![class(100.0, 4.0, 1.0, 0.5)];
    check(
        seen(11, &shop),
        "the observation has 11 windows, and at least 12 are needed: observe for longer (--seconds)",
    );
    check(seen(12, &|_| vec![class(0.5, 4.0, 1.0, 0.5)]), "`shop` ended 6 requests, and at least 10");
    check(seen(12, &|_| vec![class(100.0, 4.0, 1.0, 0.0)]), "the CPU time of `shop` was not visible");
    let unseen = |_: usize| vec![Activity { counted_s: Some(3.0), ..class(100.0, 4.0, 1.0, 0.5) }];
    check(seen(12, &unseen), "3.0 times as much time for `shop`");
    check(seen(12, &|at| vec![class(100.0, 4.0 * 4.0_f64.powi(at as i32), 1.0, 0.5)]), "no mix lasted");
}

#[test]
fn one_workload_alone_and_one_mix_alone_are_predicted_with_cautions() {
    // 4 sessions, 20 requests per second of 10 ms each, of which 5 ms are at a core.
    let noise = |at: usize| 1.0 + 0.01 * (at % 3) as f64;
    let lessons = seen(12, &|at| vec![class(100.0, 4.0, 1.0 * noise(at), 0.5)]).learn().unwrap();
    let found = lessons.predict(&Asked { sessions: vec![Some(8)], cores: None }).unwrap();
    let response = found.classes[0].response_s.unwrap();
    assert!(response.value > 0.005 && response.low.unwrap() < response.value, "{response:?}");
    assert_eq!(found.doublings_beyond, 1.0);
    let fewer = lessons.predict(&Asked { sessions: vec![None], cores: Some(1) }).unwrap();
    assert!(fewer.classes[0].response_s.unwrap().value >= response.value * 0.9, "{fewer:?}");

    let both = seen(12, &|at| vec![class(100.0, 4.0, 0.52 * noise(at), 0.5), class(10.0, 1.0, 5.0, 4.9)]);
    let lessons = both.learn().unwrap();
    assert!(lessons.cautions().contains(&Caution::OneMix), "{:?}", lessons.cautions());
    assert!(lessons.cautions().contains(&Caution::NeverAlone("shop".to_owned())), "{:?}", lessons.cautions());
    let found = lessons.predict(&asked(2)).unwrap().classes[0].response_s.unwrap();
    assert!(found.high.unwrap() / found.value > 1.3, "one mix teaches little: {found:?}");
}

/// A class that waits for locks for most of its time is refused: how long locks are held in another mix is not known.
#[test]
fn work_that_waits_for_locks_is_refused() {
    let locked = |_: usize| vec![Activity { lock_s: 0.5, ..class(100.0, 4.0, 1.0, 0.5) }];
    let lessons = seen(12, &locked).learn().unwrap();
    let error = lessons.predict(&Asked { sessions: vec![Some(8)], cores: None }).unwrap_err();
    assert!(matches!(error, Refused::LockBound { .. }), "{error}");
}

#[test]
fn long_requests_are_counted_where_they_ran() {
    // Reports of 30 s, one at a time in every other phase: they end in few of the windows.
    let report = |at: usize| match at / 6 % 2 {
        0 => Activity::default(),
        _ => class(f64::from(u8::from(at % 12 >= 6 && at.is_multiple_of(4))), 1.0, 5.0, 4.0),
    };
    let of = |at: usize| vec![class(100.0, 4.0, 1.0 + 0.3 * (at / 6 % 2) as f64, 0.5), report(at)];
    let lessons = seen(144, &of).learn().unwrap();
    let mixes = lessons.mixes();
    assert_eq!(mixes.iter().map(|mix| mix.sessions.clone()).collect::<Vec<_>>(), [vec![4, 0], vec![4, 1]]);
    assert!((mixes[1].throughputs[1] - 12.0 / (72.0 * 5.0)).abs() < 1e-9, "{mixes:?}");
    assert!((mixes[1].responses_s[1].unwrap() - 30.0).abs() < 1e-6, "{mixes:?}");
    assert!((mixes[1].responses_s[0].unwrap() - 0.013).abs() < 1e-9, "{mixes:?}");
}
