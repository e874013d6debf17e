//! The sections of the report.

use maud::{Markup, html};

use crate::results::{Blocker, Chain, HolderState, Observation, Part, Share, Who};
use crate::words::{MISSING, named, percent, rate, seconds};

/// The parts of response time: a word, the style sheet's colour, and the figure.
type Told = (&'static str, usize, fn(&Share) -> Option<f64>);
const PARTS: [Told; 6] = [
    ("on a core", 0, |share| Some(share.running)),
    ("waiting for a core", 1, |share| share.core_wait),
    ("lock", 3, |share| Some(share.lock)),
    ("disk", 2, |share| Some(share.disk)),
    ("client", 6, |share| Some(share.client)),
    ("other", 4, |share| Some(share.other)),
];

fn table(caption: &str, columns: &[(&str, bool)], rows: Markup) -> Markup {
    html! {
        div class="scroll tall" role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr { @for (name, is_number) in columns { th scope="col" class=[is_number.then_some("n")] { (name) } } } }
                tbody { (rows) }
            }
        }
    }
}

fn figure(value: Option<String>) -> Markup {
    html! { @match value { Some(value) => td class="n" { (value) }, None => td class="n missing" { (MISSING) } } }
}

/// A bar without a script: the widths are parts of 1.
fn bar(share: &Share) -> Markup {
    html! {
        div class="share" aria-hidden="true" {
            @for (name, tone, of) in &PARTS {
                @if let Some(part) = of(share).filter(|part| *part > 0.0) {
                    span class={ "part" (tone) } style={ "width:" (format!("{:.2}", part * 100.0)) "%" } title=(name) {}
                }
            }
        }
    }
}

const TIME_COLUMNS: [(&str, bool); 10] = [
    ("of all", true),
    ("in progress", true),
    ("on a core", true),
    ("for a core", true),
    ("lock", true),
    ("disk", true),
    ("client", true),
    ("other", true),
    ("response time", true),
    ("", false),
];

fn time_cells(part: &Part) -> Markup {
    html! {
        (figure(Some(percent(part.of_all))))
        (figure(Some(format!("{:.2}", part.in_progress))))
        @for (_, _, of) in &PARTS { (figure(part.share.as_ref().and_then(of).map(percent))) }
        (figure(Some(seconds(part.response_s))))
        td { @if let Some(share) = &part.share { (bar(share)) } }
    }
}

fn time_table(caption: &str, first: &str, nothing: &str, parts: &[Part]) -> Markup {
    let columns: Vec<(&str, bool)> = std::iter::once((first, false)).chain(TIME_COLUMNS).collect();
    let rows =
        html! { @for part in parts { tr { th scope="row" { (named(&part.name, nothing)) } (time_cells(part)) } } };
    table(caption, &columns, rows)
}

/// Where response time goes.
pub(super) fn times(observation: &Observation) -> Markup {
    let columns: Vec<(&str, bool)> =
        [("Statement", false), ("calls", true), ("mean", true)].into_iter().chain(TIME_COLUMNS).collect();
    let statements = html! {
        @for statement in &observation.statements {
            tr {
                td class="words" { code { (named(&statement.part.name, "(text not visible)")) } }
                (figure(statement.calls_per_s.map(rate)))
                (figure(statement.mean_s.map(seconds)))
                (time_cells(&statement.part))
            }
        }
    };
    html! {
        p class="lead" {
            "Time of sessions in a statement or a transaction, from looks at all of them. In progress is their mean number. Client is time
             within a transaction without a statement, or while data went to or from the client."
        }
        ul class="legend" {
            @for (name, tone, _) in &PARTS { li { span class={ "swatch part" (tone) } {} (name) } }
        }
        (time_table("All sessions", "", "", std::slice::from_ref(&observation.time)))
        (time_table("By user", "User", "(no name)", &observation.users))
        (time_table("By application", "Application", "(no name)", &observation.applications))
        (time_table("By database", "Database", "(none)", &observation.databases))
        (table("By statement", &columns, statements))
    }
}

fn who(who: &Who) -> Markup {
    let login = &who.login;
    html! {
        (login.user)
        @if !login.application.is_empty() { " (" (login.application) ")" }
        @if !login.database.is_empty() { " in " (login.database) }
        @if !who.statement.is_empty() { " " div { code { (who.statement) } } }
    }
}

fn did(state: HolderState) -> &'static str {
    match state {
        HolderState::Ran => "ran or waited for a core",
        HolderState::Waited => "waited for a lock",
        HolderState::Thought => "waited for its client",
        HolderState::Disk => "waited for the disk",
        HolderState::Other => "waited for something else",
        HolderState::Prepared => "was prepared for two-phase commit",
        HolderState::Idle => "was idle, with a lock of its session (such as an advisory lock)",
        HolderState::Untracked => "was not recorded: track_activities is off for it",
        HolderState::Unseen => "was not visible",
    }
}

fn blocker(blocker: &Blocker) -> Markup {
    let words = |(state, share): &(HolderState, f64)| format!("{} {}", did(*state), percent(*share));
    let words: Vec<String> = blocker.did.iter().map(words).collect();
    html! {
        tr {
            td class="words" { (who(&blocker.who)) }
            (figure(Some(seconds(blocker.blocked_s))))
            (figure(Some(percent(blocker.of_explained))))
            (figure(Some(blocker.depth.to_string())))
            td { (words.join(", ")) }
        }
    }
}

fn chain(chain: &Chain) -> Markup {
    html! {
        tr {
            td class="words" { ol { @for (member, state) in &chain.links { li { (who(member)) " " em { (did(*state)) } } } } }
            (figure(Some(seconds(chain.waited_s))))
        }
    }
}

/// Which sessions wait behind which.
pub(super) fn locks(observation: &Observation) -> Markup {
    let locks = &observation.locks;
    let share = if locks.waited_s > 0.0 { locks.explained_s / locks.waited_s } else { 0.0 };
    html! {
        @if locks.waits == 0 {
            p { "No session was seen waiting for a lock." }
        } @else {
            p class="lead" {
                "Sessions waited " (seconds(locks.waited_s)) " in " (locks.waits) " waits that were seen, the longest "
                (seconds(locks.longest_s)) ". Of " (percent(share)) " of that time it was seen behind whom."
            }
            (table(
                "Sessions that the others waited for, at the ends of chains",
                &[("Who, and its statement", false), ("blocked", true), ("of all", true), ("behind it", true), ("meanwhile it", false)],
                html! { @for it in &locks.blockers { (blocker(it)) } },
            ))
            (table("Chains, the first member waits", &[("Chain", false), ("waited", true)], html! { @for it in &locks.chains { (chain(it)) } }))
            (table(
                "What was waited for",
                &[("Kind", false), ("Table", false), ("waited", true)],
                html! {
                    @for it in &locks.objects {
                        tr { td { (it.kind) } td { (it.table.as_deref().unwrap_or(MISSING)) } (figure(Some(seconds(it.waited_s)))) }
                    }
                },
            ))
        }
        @if !observation.idle_in_transaction.is_empty() {
            (table(
                "Transactions idle in transaction: they wait for their clients",
                &[("User", false), ("Application", false), ("in all", true), ("longest", true), ("at once", true), ("others waited", true)],
                html! {
                    @for it in &observation.idle_in_transaction {
                        tr {
                            td { (it.login.user) } td { (it.login.application) }
                            (figure(Some(seconds(it.time_s)))) (figure(Some(seconds(it.longest_s))))
                            (figure(Some(it.most.to_string()))) (figure(Some(seconds(it.blocked_s))))
                        }
                    }
                },
            ))
        }
    }
}

/// The server's own counts.
pub(super) fn counted(observation: &Observation) -> Markup {
    let upkeep = &observation.upkeep;
    let count = |count: Option<u64>| count.map_or(MISSING.to_owned(), |count| count.to_string());
    html! {
        (table(
            "Databases",
            &[("Database", false), ("commits", true), ("rollbacks", true), ("deadlocks", true), ("pages read", true)],
            html! {
                @for it in &observation.throughput {
                    tr {
                        th scope="row" { (it.database) }
                        (figure(Some(rate(it.commits_per_s)))) (figure(Some(rate(it.rollbacks_per_s))))
                        (figure(Some(it.deadlocks.to_string()))) (figure(Some(rate(it.pages_read_per_s))))
                    }
                }
            },
        ))
        p {
            "Checkpoints: " (count(upkeep.checkpoints_timed)) " scheduled, " (count(upkeep.checkpoints_requested)) " requested, writing took "
            (upkeep.checkpoint_write_s.map_or(MISSING.to_owned(), seconds)) ". "
            @if upkeep.vacuums.is_empty() { "No vacuum was seen." } @else { "Vacuum was seen of " (upkeep.vacuums.join(", ")) "." }
        }
        @match &observation.plan_changes {
            None => p class="note" { "Changes of plans show only with pg_stat_statements." },
            Some(changes) if changes.is_empty() => p { "No statement seems to have changed its plan." },
            Some(changes) => (table(
                "Statements whose plan seems to have changed: other pages for as many rows",
                &[("Statement", false), ("at", true), ("pages per call", true), ("became", true), ("mean", true), ("became", true)],
                html! {
                    @for it in changes {
                        tr {
                            td class="words" { code { (named(&it.statement, "(text not visible)")) } }
                            (figure(Some(seconds(it.at_s))))
                            (figure(Some(format!("{:.0}", it.pages_per_call.0)))) (figure(Some(format!("{:.0}", it.pages_per_call.1))))
                            (figure(Some(seconds(it.mean_s.0)))) (figure(Some(seconds(it.mean_s.1))))
                        }
                    }
                },
            )),
        }
    }
}

/// What a governor would change.
pub(super) fn governor(observation: &Observation) -> Markup {
    let effect = &observation.governor;
    html! {
        ul class="advice" { @for words in &effect.summary { li { (words) } } }
        (table(
            "Time that important work lost, by the lever that would save it; upper bounds",
            &[("Important work was", false), ("Lever", false), ("time", true), ("of its response time", true)],
            html! {
                @for lever in &effect.levers {
                    tr {
                        td { (lever.what) } td { code { (lever.lever) } }
                        (figure(lever.upper_bound_s.map(seconds))) (figure(lever.of_important.map(percent)))
                    }
                }
            },
        ))
        p class="note" {
            "Upper bounds, since work that waits less for one thing may wait for the next. Time behind a holder counts once: for the first
             less important one in the chain. plimsoll observe --write plimsoll.toml turns the classes below into a governor's settings."
        }
    }
}

/// The proposed classes.
pub(super) fn classes(observation: &Observation) -> Markup {
    table(
        "Groups of work",
        &[
            ("User", false),
            ("Database", false),
            ("Application", false),
            ("Class", false),
            ("in progress", true),
            ("response time", true),
            ("Why", false),
        ],
        html! {
            @for class in &observation.classes {
                tr {
                    td { (class.login.user) } td { (class.login.database) }
                    td class="words" {
                        (class.login.application)
                        @if let Some(statement) = &class.statement { div { code { (statement) } } }
                    }
                    td { (class.standing) }
                    (figure(Some(format!("{:.2}", class.in_progress)))) (figure(Some(seconds(class.response_s))))
                    td class="words" { (class.reason) }
                }
            }
        },
    )
}

/// The data that were not visible, and the remedy.
pub(super) fn missing(observation: &Observation) -> Markup {
    html! {
        @if observation.missing.is_empty() { p { "Nothing is missing." } } @else {
            (table(
                "What could not be seen",
                &[("What", false), ("Why", false), ("Still works", false), ("Remedy", false)],
                html! {
                    @for it in &observation.missing {
                        tr {
                            td class="words" { (it.what) } td class="words" { (it.why) } td class="words" { (it.works) }
                            td class="words" { (it.remedy.as_deref().unwrap_or(MISSING)) }
                        }
                    }
                },
            ))
        }
    }
}
