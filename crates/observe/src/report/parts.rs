//! The sections of the report.

use maud::{Markup, html};
use plimsoll_display::page::{Column, figure_cell, number, table, text};
use plimsoll_display::{MISSING, named, percent, rate, seconds};

use crate::parts::PARTS;
use crate::results::{Blocker, Chain, ChainMember, GroupTime, HolderState, Observation, Share};
use crate::summary::machine as told;

/// A bar without a script: the widths are parts of 1.
fn bar(share: &Share) -> Markup {
    html! {
        div class="share" aria-hidden="true" {
            @for shown in &PARTS {
                @if let Some(part) = (shown.of)(share).filter(|part| *part > 0.0) {
                    span class={ "part" (shown.tone) } style={ "width:" (format!("{:.2}", part * 100.0)) "%" } title=(shown.long) {}
                }
            }
        }
    }
}

fn time_columns() -> impl Iterator<Item = Column> {
    let parts = PARTS.iter().map(|part| part.long);
    let figures = ["of all", "in progress"].into_iter().chain(parts).chain(["response time"]);
    figures.map(number).chain([text("")])
}

fn time_cells(part: &GroupTime) -> Markup {
    html! {
        (figure_cell(Some(percent(part.of_all))))
        (figure_cell(Some(format!("{:.2}", part.in_progress))))
        @for shown in &PARTS { (figure_cell(part.share.as_ref().and_then(shown.of).map(percent))) }
        (figure_cell(Some(seconds(part.response_s))))
        td { @if let Some(share) = &part.share { (bar(share)) } }
    }
}

fn time_table(caption: &str, first: &str, nothing: &str, parts: &[GroupTime]) -> Markup {
    let columns: Vec<Column> = std::iter::once(text(first)).chain(time_columns()).collect();
    let rows =
        html! { @for part in parts { tr { th scope="row" { (named(&part.name, nothing)) } (time_cells(part)) } } };
    table(caption, &columns, rows)
}

/// Where response time goes.
pub(super) fn times(observation: &Observation) -> Markup {
    let columns: Vec<Column> =
        [text("Statement"), number("calls"), number("mean")].into_iter().chain(time_columns()).collect();
    let statements = html! {
        @for statement in &observation.statements {
            tr {
                td class="words" { code { (named(&statement.part.name, "(text not visible)")) } }
                (figure_cell(statement.calls_per_s.map(rate)))
                (figure_cell(statement.mean_s.map(seconds)))
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
            @for part in &PARTS { li { span class={ "swatch part" (part.tone) } {} (part.long) } }
        }
        (time_table("All sessions", "", "", std::slice::from_ref(&observation.time)))
        (time_table("By user", "User", "(no name)", &observation.users))
        (time_table("By application", "Application", "(no name)", &observation.applications))
        (time_table("By database", "Database", "(none)", &observation.databases))
        (table("By statement", &columns, statements))
    }
}

fn who(who: &ChainMember) -> Markup {
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
            (figure_cell(Some(seconds(blocker.blocked_s))))
            (figure_cell(Some(percent(blocker.of_explained))))
            (figure_cell(Some(blocker.depth.to_string())))
            td { (words.join(", ")) }
        }
    }
}

fn chain(chain: &Chain) -> Markup {
    html! {
        tr {
            td class="words" { ol { @for (member, state) in &chain.links { li { (who(member)) " " em { (did(*state)) } } } } }
            (figure_cell(Some(seconds(chain.waited_s))))
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
                &[text("Who, and its statement"), number("blocked"), number("of all"), number("behind it"), text("meanwhile it")],
                html! { @for it in &locks.blockers { (blocker(it)) } },
            ))
            (table("Chains, the first member waits", &[text("Chain"), number("waited")], html! { @for it in &locks.chains { (chain(it)) } }))
            (table(
                "What was waited for",
                &[text("Kind"), text("Table"), number("waited")],
                html! {
                    @for it in &locks.objects {
                        tr { td { (it.kind) } td { (it.table.as_deref().unwrap_or(MISSING)) } (figure_cell(Some(seconds(it.waited_s)))) }
                    }
                },
            ))
        }
        @if !observation.idle_in_transaction.is_empty() {
            (table(
                "Transactions idle in transaction: they wait for their clients",
                &[text("User"), text("Application"), number("in all"), number("longest"), number("at once"), number("others waited")],
                html! {
                    @for it in &observation.idle_in_transaction {
                        tr {
                            td { (it.login.user) } td { (it.login.application) }
                            (figure_cell(Some(seconds(it.time_s)))) (figure_cell(Some(seconds(it.longest_s))))
                            (figure_cell(Some(it.most.to_string()))) (figure_cell(Some(seconds(it.blocked_s))))
                        }
                    }
                },
            ))
        }
    }
}

/// The machine, and replication.
pub(super) fn machine(observation: &Observation) -> Markup {
    let host = &observation.host;
    let disk = host.disk.as_ref();
    let sentences: Vec<String> =
        [host.cores.as_ref().map(told::cores), disk.map(told::disk), disk.and_then(told::against_probe)]
            .into_iter()
            .flatten()
            .chain(told::sentences(observation))
            .collect();
    html! {
        @if sentences.is_empty() { p { "The machine under the server is another one, and there is no replication." } }
        ul { @for sentence in &sentences { li { (sentence) } } }
        @if let Some(cores) = host.cores.as_ref().filter(|cores| !cores.named.is_empty()) {
            (table(
                "Other programs on the cores",
                &[text("Program"), number("processes"), number("cores")],
                html! {
                    @for one in &cores.named {
                        tr {
                            th scope="row" { (one.name) }
                            (figure_cell(Some(one.count.to_string()))) (figure_cell(Some(format!("{:.2}", one.cores))))
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
            &[text("Database"), number("commits"), number("rollbacks"), number("deadlocks"), number("pages read")],
            html! {
                @for it in &observation.throughput {
                    tr {
                        th scope="row" { (it.database) }
                        (figure_cell(Some(rate(it.commits_per_s)))) (figure_cell(Some(rate(it.rollbacks_per_s))))
                        (figure_cell(Some(it.deadlocks.to_string()))) (figure_cell(Some(rate(it.pages_read_per_s))))
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
                &[text("Statement"), number("at"), number("pages per call"), number("became"), number("mean"), number("became")],
                html! {
                    @for it in changes {
                        tr {
                            td class="words" { code { (named(&it.statement, "(text not visible)")) } }
                            (figure_cell(Some(seconds(it.at_s))))
                            (figure_cell(Some(format!("{:.0}", it.pages_per_call.0)))) (figure_cell(Some(format!("{:.0}", it.pages_per_call.1))))
                            (figure_cell(Some(seconds(it.mean_s.0)))) (figure_cell(Some(seconds(it.mean_s.1))))
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
            &[text("Important work was"), text("Lever"), number("time"), number("of its response time")],
            html! {
                @for lever in &effect.levers {
                    tr {
                        td { (lever.what) } td { code { (lever.lever) } }
                        (figure_cell(lever.upper_bound_s.map(seconds))) (figure_cell(lever.of_important.map(percent)))
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
            text("Name"),
            text("User"),
            text("Database"),
            text("Application"),
            text("Class"),
            number("in progress"),
            number("response time"),
            text("Why"),
        ],
        html! {
            @for class in &observation.classes {
                tr {
                    th scope="row" { (class.name) }
                    td { (class.login.user) } td { (class.login.database) }
                    td class="words" {
                        (class.login.application)
                        @if let Some(statement) = &class.statement { div { code { (statement) } } }
                    }
                    td { (class.standing) }
                    (figure_cell(Some(format!("{:.2}", class.in_progress)))) (figure_cell(Some(seconds(class.response_s))))
                    td class="words" { (class.reason) }
                }
            }
        },
    )
}

/// The data that were not visible, and the remedy.
pub(super) fn missing(observation: &Observation) -> Markup {
    html! {
        @if observation.missing.is_empty() && observation.host.missing.is_empty() { p { "Nothing is missing." } } @else {
            (table(
                "What could not be seen",
                &[text("What"), text("Why"), text("Still works"), text("Remedy")],
                html! {
                    @for it in observation.missing.iter().chain(&observation.host.missing) {
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
