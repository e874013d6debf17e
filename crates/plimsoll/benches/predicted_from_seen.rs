//! How far predictions from a look at a live server are off: mixes are observed with none to two reports, and predicted and
//! measured with 10 and 25.
//!
//! In each round a shop of four clients runs beside zero, one or two reports in turns while `plimsoll observe` looks. Then
//! `plimsoll predict` says the mean response of a transaction and of a report beside more reports, and both are measured at
//! the clients. The errors of all rounds are printed by class, and whether the interval contains what was measured. A
//! prediction that is refused counts as none, with its reason.
//!
//! `cargo bench -p plimsoll --bench predicted_from_seen`, with `-- --rounds 2 --observe 60 --measure 40` to change the
//! defaults, which take five minutes. Nothing else may run on the machine; it needs PostgreSQL's server programs.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

#[path = "../tests/common/program.rs"]
mod program;
#[path = "../tests/common/shop.rs"]
mod shop;

use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plimsoll_postgres::server::PrivateServer;
use program::{plimsoll, run, said};
use serde_json::Value;
use shop::{Clients, REPORTS, Request, SHOP, server, url};

/// The clients of the shop, and their pause between transactions.
const SHOP_CLIENTS: (usize, Duration) = (4, Duration::from_millis(40));

/// The pause of a client of reports.
const REPORT_PAUSE: Duration = Duration::from_millis(20);

/// The reports that run at once while the server is observed, in turns.
const SEEN: [usize; 10] = [0, 1, 2, 0, 2, 1, 0, 1, 2, 1];

/// The reports at once that are predicted and measured.
const PREDICTED: [usize; 2] = [10, 25];

/// Requests that begin this long after the clients are not measured: the mix has settled by then.
const WARM_UP: Duration = Duration::from_secs(3);

/// A class in a mix, predicted and measured.
struct Outcome {
    class: &'static str,
    reports: usize,
    /// The mean response with its interval, in milliseconds; otherwise why there is none.
    predicted: Result<[f64; 3], String>,
    /// The mean response at the clients, in milliseconds.
    measured_ms: f64,
}

impl Outcome {
    /// Predicted over measured, less 1.
    fn error(&self) -> Option<f64> {
        self.predicted.as_ref().ok().map(|[value, _, _]| value / self.measured_ms - 1.0)
    }

    fn is_covered(&self) -> bool {
        self.predicted.as_ref().is_ok_and(|[_, low, high]| (*low..=*high).contains(&self.measured_ms))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, usual: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(usual)
    };
    let (rounds, observe_s) = (number("--rounds", 2), number("--observe", 60));
    let measure = Duration::from_secs(number("--measure", 40));
    let server = server();
    let mut outcomes = Vec::new();
    for round in 1..=rounds {
        let folder = tempfile::tempdir().unwrap();
        eprintln!("round {round} of {rounds}: observing for {observe_s} s");
        look(&server, folder.path(), observe_s);
        for reports in PREDICTED {
            eprintln!("round {round} of {rounds}: measuring with {reports} reports");
            outcomes.extend(compare(&server, folder.path(), reports, measure));
        }
    }
    print(&outcomes);
}

/// Observes the server while the mix changes.
fn look(server: &PrivateServer, folder: &Path, seconds: u64) {
    let shop = Clients::start(server, "shop", SHOP_CLIENTS.0, SHOP, SHOP_CLIENTS.1);
    let (monitor, seconds_text) = (url(server, "monitor").to_string(), seconds.to_string());
    let command = ["observe", &monitor, "--seconds", &seconds_text, "--out", "seen"];
    let mut observing = plimsoll(&command, folder).stdout(Stdio::null()).spawn().unwrap();
    let (began, turn) = (Instant::now(), Duration::from_secs(seconds) / SEEN.len() as u32);
    for (at, reports) in (1..).zip(SEEN) {
        let running = Clients::start(server, "reports", reports, REPORTS, REPORT_PAUSE);
        sleep((turn * at).saturating_sub(began.elapsed()));
        drop(running);
    }
    assert!(observing.wait().unwrap().success());
    drop(shop);
}

/// Predicts and measures a mix.
fn compare(server: &PrivateServer, folder: &Path, reports: usize, measure: Duration) -> [Outcome; 2] {
    let output = run(&["predict", "seen", "--vary", &format!("reports.clients={reports}"), "--json"], folder);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let shop = Clients::start(server, "shop", SHOP_CLIENTS.0, SHOP, SHOP_CLIENTS.1);
    let others = Clients::start(server, "reports", reports, REPORTS, REPORT_PAUSE);
    sleep(WARM_UP + measure);
    [("shop", shop.end()), ("reports", others.end())].map(|(class, requests)| {
        let predicted = predicted(&document, class).ok_or_else(|| match document["mixes"][0]["refused"].as_str() {
            Some(why) => why.to_owned(),
            None => said(&output),
        });
        Outcome { class, reports, predicted, measured_ms: mean_ms(&requests) }
    })
}

/// The mean response of requests after the warm-up, in milliseconds.
fn mean_ms(requests: &[Request]) -> f64 {
    let counted = requests.iter().filter(|request| request.at >= WARM_UP);
    let (sum, count) = counted.fold((Duration::ZERO, 0), |(sum, count), one| (sum + one.response, count + 1));
    sum.as_secs_f64() * 1e3 / f64::from(count)
}

/// The mean response of a class in the only mix of a document with its interval, in milliseconds.
fn predicted(document: &Value, class: &str) -> Option<[f64; 3]> {
    let workloads = document["mixes"][0]["workloads"].as_array()?;
    let response = &workloads.iter().find(|one| one["name"] == class)?["response_ms"];
    Some([response["value"].as_f64()?, response["low"].as_f64()?, response["high"].as_f64()?])
}

fn print(outcomes: &[Outcome]) {
    println!("class    reports  measured, ms  predicted (95 % interval), ms  error  in the interval");
    for outcome in outcomes {
        let Outcome { class, reports, predicted, measured_ms } = outcome;
        let told = match (predicted, outcome.error()) {
            (Ok([value, low, high]), Some(error)) => {
                let is_in = if outcome.is_covered() { "yes" } else { "no" };
                format!("{value:.1} ({low:.1} to {high:.1})  {:+.0} %  {is_in}", 100.0 * error)
            }
            (Err(why), _) => format!("none: {}", why.trim()),
            (Ok(_), None) => unreachable!("what is predicted has an error"),
        };
        println!("{class:<8} {reports:>7}  {measured_ms:>12.1}  {told}");
    }
    for class in ["shop", "reports"] {
        let own = || outcomes.iter().filter(|outcome| outcome.class == class);
        let errors: Vec<f64> = own().filter_map(Outcome::error).map(f64::abs).collect();
        let (all, predicted) = (own().count(), errors.len());
        let covered = own().filter(|outcome| outcome.is_covered()).count();
        let mean = match predicted {
            0 => "null (nothing was predicted)".to_owned(),
            count => format!("{:.0} %", 100.0 * errors.iter().sum::<f64>() / count as f64),
        };
        println!(
            "{class}: mean absolute error {mean}; {covered} of {predicted} intervals contain it; {predicted} of {all} predicted"
        );
    }
}
