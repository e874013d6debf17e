//! Cancels statements and ends sessions that do not pass through the governor.
//!
//! The governor cannot hold such a session back. One statement therefore has the server check whether the session is
//! still in the state by which it was judged, and signal it. A gap remains: between that check and the signal's
//! arrival, the session may begin something else.

use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_pg::connection::{Prepared, WireError};

use super::Observing;
use super::cards::Cards;
use crate::governor::{Governor, Outcome};
use crate::registry::Phase;
use crate::settings::Settings;
use crate::statistics::count;
use crate::watch::act::{INSUFFICIENT_PRIVILEGE, LEASE, LookedAt, Target};
use crate::watch::control::{Signals, Up};
use crate::watch::look::array;

/// Cancels the statements of targets that still block their waiters; returns for each target whether it did.
pub(in crate::watch) fn cancel(
    up: &mut Up,
    governor: &Governor,
    targets: &[Target],
    looked_at: LookedAt,
) -> Result<Vec<bool>, WireError> {
    let mut done = Vec::new();
    for target in targets {
        let is_aimed = match target.exceeds {
            Some(limit) => target.card.aim_at_runaway(target.transaction, target.unit, limit),
            None => target.card.aim_preemption(target.transaction, target.unit),
        };
        if !is_aimed {
            governor.settle(target.event, Outcome::TooLate);
            done.push(false);
            continue;
        }
        let signalled = match governor.health.lock().commits_may_wait(Instant::now()) {
            true => Ok(false),
            false => cancel_one(up, target, looked_at),
        };
        let is_done = *signalled.as_ref().unwrap_or(&false);
        target.card.cancel_arrived(is_done, true);
        governor.settle(target.event, if is_done { Outcome::Cancelled } else { Outcome::TooLate });
        if is_done && target.exceeds.is_none() {
            let index = target.card.state().class;
            let class = governor.statistics.class(index);
            count(if target.if_waiting { &class.preempted_waiting } else { &class.preempted_running });
            governor.statistics.count_stake(index, &target.stake, Instant::now());
        }
        done.push(is_done);
        signalled?;
    }
    Ok(done)
}

fn cancel_one(up: &mut Up, target: &Target, looked_at: LookedAt) -> Result<bool, WireError> {
    let Some(observed) = target.card.state().observed else { return Ok(false) };
    let (Some(transaction), Some(statement)) = (observed.transaction_began, observed.statement_began) else {
        return Ok(false);
    };
    let of_links = |of: fn(&(i32, i32)) -> i32| array(&target.chain.iter().map(of).collect::<Vec<i32>>());
    let parameters = [
        target.process.to_string(),
        observed.process_began.to_string(),
        transaction.to_string(),
        statement.to_string(),
        target.if_waiting.to_string(),
        of_links(|link| link.0),
        of_links(|link| link.1),
        format!("{:.6}", looked_at.server + LEASE.as_secs_f64()),
    ];
    signal(up, |observing| &observing.cancel, parameters, &target.card.login.user)
}

/// Runs a statement that signals a process of that user; returns whether it did. A missing privilege to signal is not
/// an error: there is no second attempt.
fn signal<const PARAMETERS: usize>(
    up: &mut Up,
    statement: fn(&Observing) -> &Prepared,
    parameters: [String; PARAMETERS],
    user: &str,
) -> Result<bool, WireError> {
    let Some(observing) = &up.observing else { return Ok(false) };
    let mut is_done = false;
    let parameters = parameters.each_ref().map(String::as_str);
    let outcome = up.connection.prepared_text_rows(statement(observing), &parameters, &mut |row| {
        is_done |= row == [Some("t")];
    });
    match outcome {
        Err(error) if error.server().is_some_and(|error| error.code == INSUFFICIENT_PRIVILEGE) => {
            tracing::warn!(user, %error, "sessions of this user are left alone: the control role may not signal them");
            up.unsignallable.insert(user.to_owned());
            Ok(is_done)
        }
        outcome => outcome.map(|()| is_done),
    }
}

impl Cards {
    /// Ends sessions whose transactions have waited for their clients for longer than their classes allow.
    pub(super) fn end_idle(&mut self, up: &mut Up, settings: &Settings, now: Instant) -> Result<(), WireError> {
        for (process, known) in &mut self.known {
            let card = &known.card;
            let (class, observed, waited) = {
                let state = card.state();
                if state.phase != Phase::IdleInTransaction || !state.is_class_certain {
                    continue;
                }
                (state.class, state.observed, now.saturating_duration_since(state.since))
            };
            let bound = settings.class(class).idle_in_transaction_timeout;
            let (Some(_), Some(observed)) = (bound.filter(|bound| waited >= *bound), observed) else { continue };
            let user = &card.login.user;
            let may_signal = up.signals == Signals::ByRight || *user == up.role;
            let is_out_of_reach = !may_signal || up.unsignallable.contains(user);
            if is_out_of_reach || known.asked_to_end.replace(observed.state_since) == Some(observed.state_since) {
                continue;
            }
            let Some(transaction) = observed.transaction_began else { continue };
            let parameters = [
                process.to_string(),
                observed.process_began.to_string(),
                transaction.to_string(),
                observed.state_since.to_string(),
            ];
            if signal(up, |observing| &observing.end, parameters, user)? {
                // Relaxed: a counter for operators.
                self.governor.statistics.class(class).idle_ended.fetch_add(1, Ordering::Relaxed);
                let class = &settings.class(class).name;
                let waited_ms = waited.as_millis() as u64;
                tracing::info!(
                    session = card.id.0,
                    process,
                    class,
                    waited_ms,
                    "ended: its transaction waited for its client"
                );
            }
        }
        Ok(())
    }
}
