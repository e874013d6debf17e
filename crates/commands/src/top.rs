//! `top`: a governor's state, refreshed continually.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plimsoll_governor::page::state::State;
use plimsoll_governor::top::table;

use crate::arguments::TopOptions;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{print, print_json};

/// The time between two refreshes.
const EVERY: Duration = Duration::from_secs(1);
/// How long the governor may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Moves the cursor to the upper left corner and clears the screen below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Polls and displays the state until Ctrl-C.
pub fn run(options: &TopOptions) -> Result<ExitCode, Failure> {
    let agent = ureq::Agent::new_with_config(
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build(),
    );
    // HOST:PORT is enough.
    let scheme = if options.url.contains("://") { "" } else { "http://" };
    let url = format!("{scheme}{}/state.json", options.url.trim_end_matches('/'));
    let first = ask(&agent, &url)?;
    if options.json {
        print_json(&first)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.once || !std::io::stdout().is_terminal() {
        print(&table(&first))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = interrupt::listen_quietly()?;
    let mut shown = table(&first);
    let mut heard = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        print(&format!("{CLEAR}{shown}"))?;
        sleep(EVERY);
        match ask(&agent, &url) {
            Ok(state) => {
                shown = table(&state);
                heard = Instant::now();
            }
            Err(Failure::World(error) | Failure::Input(error)) => {
                let lost = format!("\nconnection lost {} s ago: {error:#}\n", heard.elapsed().as_secs());
                let kept = shown.split("\nconnection lost").next().unwrap_or_default().to_owned();
                shown = kept + &lost;
            }
            Err(interrupted) => return Err(interrupted),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(agent: &ureq::Agent, url: &str) -> Result<State, Failure> {
    if !url.starts_with("http://") {
        return Err(Failure::Input(anyhow::anyhow!(
            "`{}` is not the address of a live page; write http://HOST:PORT",
            url.trim_end_matches("/state.json")
        )));
    }
    let unreachable = |error: ureq::Error| {
        Failure::World(anyhow::anyhow!(
            "no governor answers at {url}: {error}; is it running, and is this its [http] address?"
        ))
    };
    let mut answer = agent.get(url).call().map_err(unreachable)?;
    let status = answer.status();
    let text = answer.body_mut().read_to_string().map_err(unreachable)?;
    if !status.is_success() {
        return Err(Failure::World(anyhow::anyhow!("{url} answers {status}: {}", text.trim())));
    }
    let other = |error| anyhow::anyhow!("the answer of {url} is not a state of this version's governor: {error}");
    serde_json::from_str(&text).map_err(|error| Failure::World(other(error)))
}
