//! `SHOW TARGETS`.

use std::time::Duration;

use plimsoll_policy::{ClassIndex, LeverBounds, Move, Why};

use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, text};
use crate::admin::command::Call;
use crate::targets::{Targets, since};

/// Times are in milliseconds, except `since_s`.
pub const COLUMNS: &[Column] = &[
    text("class"),
    text("target"),
    text("state"),
    float("since_s"),
    float("now_ms"),
    float("bound_ms"),
    float("alone_ms"),
    float("before_ms"),
    float("best_ms"),
    int("transactions"),
    text("limited"),
    text("last_move"),
    text("why"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let targets = call.governor.targets.lock();
    let name = |class| settings.class(class).name.as_str();
    let limited = |priority| {
        let is_limited =
            |(bounds, amount): &(LeverBounds, Option<u64>)| bounds.priority < priority && *amount != bounds.open;
        let written = |(bounds, amount): (LeverBounds, Option<u64>)| {
            let LeverBounds { class, kind, open, .. } = bounds;
            format!("{} {kind} {} of {}", name(class), kind.written(amount), kind.written(open))
        };
        targets.levers().filter(is_limited).map(written).collect::<Vec<_>>().join(", ")
    };
    let rows = targets.views().into_iter().map(|view| {
        vec![
            Cell::from(name(view.class)),
            view.target.to_string().into(),
            view.phase.name().into(),
            Cell::seconds(since(call.governor, &view, call.now)),
            millis(view.now),
            millis(view.bound),
            millis(view.alone),
            millis(view.before),
            millis(view.best),
            view.count.into(),
            limited(settings.class(view.class).limits.priority).into(),
            last_move(&targets, name, |moved| moved.target == view.class).into(),
            view.why.into(),
        ]
    });
    let mut rows: Vec<Vec<Cell>> = rows.collect();
    rows.extend(search(&targets, name));
    Ok(Answer::of(rows))
}

/// The class whose automatic `mpl` is being searched.
fn search<'a>(targets: &Targets, name: impl Fn(ClassIndex) -> &'a str) -> Option<Vec<Cell>> {
    let (class, search) = targets.search()?;
    let limited = search.mpl().map_or_else(String::new, |mpl| format!("{} mpl {mpl} of any", name(class)));
    let mut row = vec![Cell::from(name(class)), "auto_mpl".into(), search.state().into()];
    row.extend(std::iter::repeat_n(Cell::Null, 7));
    row.extend([
        Cell::from(limited),
        last_move(targets, name, |moved| matches!(moved.why, Why::Search(_))).into(),
        "the smallest mpl that costs no throughput".into(),
    ]);
    Some(row)
}

/// Describes the last of these moves.
fn last_move<'a>(
    targets: &Targets,
    name: impl Fn(ClassIndex) -> &'a str,
    is_it: impl Fn(&Move) -> bool,
) -> Option<String> {
    let (_, moved) = targets.moves().rev().find(|(_, moved)| is_it(moved))?;
    let (from, to) = (moved.kind.written(moved.from), moved.kind.written(moved.to));
    Some(format!("{} {}: {from} -> {to}: {}", name(moved.class), moved.kind, moved.why))
}

/// A duration in milliseconds, to a hundredth.
fn millis(length: Option<Duration>) -> Cell {
    length.map(|length| (length.as_secs_f64() * 1e5).round() / 100.0).into()
}
