//! In words: what a stopping governor still waits for, and why a transaction was refused.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_policy::RefusalReason;

use super::Governor;
use crate::registry::{Phase, SessionCard};

/// `2 sessions: 1 active, 1 idle in transaction; the longest is session 7 (bob, database shop, idle in transaction for 61 s)`;
/// `nothing` once there is none.
pub fn waits_for(governor: &Governor, now: Instant) -> String {
    let is_awaited = |card: &Arc<SessionCard>| !card.is_direct() && card.state().phase != Phase::Ungoverned;
    let cards: Vec<_> = governor.registry.all().into_iter().filter(is_awaited).collect();
    let mut phases: Vec<(Phase, usize)> = Vec::new();
    let mut longest = None;
    for card in &cards {
        let (phase, since) = {
            let state = card.state();
            let is_between = matches!(state.phase, Phase::Starting | Phase::Idle);
            (state.phase, if is_between { state.since } else { state.transaction_since })
        };
        match phases.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, count)) => *count += 1,
            None => phases.push((phase, 1)),
        }
        if longest.is_none_or(|(_, _, oldest)| since < oldest) {
            longest = Some((card, phase, since));
        }
    }
    let Some((card, phase, since)) = longest else { return "nothing".to_owned() };
    let phases: Vec<String> = phases.iter().map(|(phase, count)| format!("{count} {}", phase.name())).collect();
    format!(
        "{} session{}: {}; the longest is session {} ({}, database {}, {} for {} s)",
        cards.len(),
        if cards.len() == 1 { "" } else { "s" },
        phases.join(", "),
        card.id.0,
        card.login.user,
        card.login.database,
        phase.name(),
        now.saturating_duration_since(since).as_secs(),
    )
}

/// Why a transaction was refused, as reported to its client.
pub fn refusal_message(reason: &RefusalReason, class: &str) -> String {
    match reason {
        RefusalReason::QueueFull { queued, queue_max } => format!(
            "class \"{class}\" has {queued} transactions waiting to be admitted, and its queue takes {queue_max}"
        ),
        #[allow(unreachable_patterns, reason = "reasons may be added")]
        _ => format!("class \"{class}\" takes no more transactions"),
    }
}
