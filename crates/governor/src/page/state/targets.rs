//! Targets in `/state.json`.

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{moment, seconds};
use crate::governor::Governor;
use crate::targets::since;

/// The maximum number of moves shown, latest first.
const MOVES_MAX: usize = 20;

/// Targets, and what is moved for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetsState {
    /// The targets, of the highest priority first.
    pub promises: Vec<TargetState>,
    /// What of classes below can be limited for them.
    pub levers: Vec<TargetLever>,
    /// The last moves, latest first, 20 at most.
    pub moves: Vec<TargetMove>,
}

/// A target and how it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetState {
    /// The class.
    pub class: String,
    /// The promise: `p95 < 20ms`.
    pub target: String,
    /// `learning`, `idle`, `too few`, `held`, `limiting` or `cannot hold`.
    pub state: String,
    /// Why it is so, in words.
    pub why: String,
    /// For how long.
    pub since_s: f64,
    /// What the percentile is to stay below; null while it is not known how the class is alone.
    pub bound_s: Option<f64>,
    /// The percentile while no class below is at work; null for targets that do not need it, and until it was seen.
    pub alone_s: Option<f64>,
    /// The percentile of the last 10 seconds; null if there were too few transactions.
    pub now_s: Option<f64>,
    /// Transactions that ended in the last 10 seconds.
    pub transactions: u64,
    /// The percentile before classes below were limited; null if they were not, or too few transactions ended.
    pub before_s: Option<f64>,
    /// The lowest percentile since then; likewise.
    pub best_s: Option<f64>,
}

/// A lever by which a class can be limited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetLever {
    /// The class.
    pub class: String,
    /// `mpl`, `disk bandwidth`, `parallel workers` or `cpu`.
    pub lever: String,
    /// How much the class has of it now: a number or `any`, or a nice value.
    pub now: String,
    /// How much it has by the settings.
    pub set: String,
    /// Whether it is limited now.
    pub is_limited: bool,
}

/// A lever that was moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetMove {
    /// When.
    pub at: String,
    /// The class.
    pub class: String,
    /// Which.
    pub lever: String,
    /// How much the class had of it.
    pub from: String,
    /// How much it has.
    pub to: String,
    /// For the target of which class.
    pub promised_to: String,
    /// Why.
    pub why: String,
}

impl TargetsState {
    /// The present state of all targets.
    pub(super) fn of(governor: &Governor, now: Instant) -> Self {
        let settings = governor.settings();
        let targets = governor.targets.lock();
        let name = |class| settings.class(class).name.clone();
        let promises = targets.views().into_iter().map(|view| TargetState {
            class: name(view.class),
            target: view.target.to_string(),
            state: view.phase.name().to_owned(),
            since_s: seconds(since(governor, &view, now)),
            why: view.why,
            bound_s: view.bound.map(seconds),
            alone_s: view.alone.map(seconds),
            now_s: view.now.map(seconds),
            transactions: view.count,
            before_s: view.before.map(seconds),
            best_s: view.best.map(seconds),
        });
        let levers = targets.levers().map(|(bounds, amount)| TargetLever {
            class: name(bounds.class),
            lever: bounds.kind.to_string(),
            now: bounds.kind.written(amount),
            set: bounds.kind.written(bounds.open),
            is_limited: amount != bounds.open,
        });
        let moves = targets.moves().rev().take(MOVES_MAX).map(|(at, moved)| TargetMove {
            at: moment(*at),
            class: name(moved.class),
            lever: moved.kind.to_string(),
            from: moved.kind.written(moved.from),
            to: moved.kind.written(moved.to),
            promised_to: name(moved.target),
            why: moved.why.to_string(),
        });
        TargetsState { promises: promises.collect(), levers: levers.collect(), moves: moves.collect() }
    }
}
