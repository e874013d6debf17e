//! The throughput frontier of two workloads over the clients of both, as HATtrick draws it (Milkai and others, "How Good is My
//! HTAP System?", SIGMOD 2022): how much of the most that each has alone a system gives both at once.

use maud::{Markup, html};

use super::chart::{Chart, Line, LinePanel, LineStyle, Scale, Span, Unit, figure, numbers, short};
use super::layout::interval_cell;
use super::page::{Page, Setting, setting_label};
use crate::line::frontier;
use crate::results::{Estimate, Interval};
use crate::summary::TOGETHER;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::{duration_us, ratio};

/// The end of the key of an axis over the clients of a workload.
const CLIENTS: &str = ".clients";

/// The colours of systems: those of the palette but the grey of runs alone.
const COLOURS: usize = 6;

/// Both workloads together at a setting.
struct Both<'a> {
    setting: &'a Setting,
    /// Throughput over the most that the workload has alone in the same system, with the interval of the first.
    shares: [Interval; 2],
    /// The age that answers did not exceed for 95 % of the time, microseconds; `None` if queries read no copy.
    staleness_us: Option<f64>,
}

/// The section; nothing unless two workloads ran alone and together over numbers of clients.
pub(super) fn section_of(page: &Page) -> Markup {
    let (Some([first, second]), true) = (two(page), page.keys().iter().any(|key| key.ends_with(CLIENTS))) else {
        return html! {};
    };
    let systems = systems(page, [first, second]);
    if systems.is_empty() {
        return html! {};
    }
    section(
        &page.id("frontier"),
        "Frontier",
        html! {
            p class="lead" {
                "How much of the most that each workload has alone it has beside the other. Each point is a pair of numbers of clients; the \
                 line joins those that no other one exceeds in both. What lies above the dashed line is more than taking turns gives."
            }
            (figure(&page.run(), "Throughput frontier", "", &drawn(page, [first, second], &systems), html! {}))
            (numbers("The numbers of the frontier", numbers_table(page, [first, second], &systems)))
        },
    )
}

fn two<'a>(page: &Page<'a>) -> Option<[&'a str; 2]> {
    page.workloads().try_into().ok()
}

/// The points of each system, which is what a setting has beside numbers of clients.
fn systems<'a>(page: &Page<'a>, names: [&str; 2]) -> Vec<(Setting, Vec<Both<'a>>)> {
    let mut systems: Vec<(Setting, Vec<Both<'a>>)> = Vec::new();
    for setting in page.settings() {
        let mut system = setting.clone();
        system.retain(|key, _| !key.ends_with(CLIENTS));
        let Some(both) = both(page, setting, &system, names) else { continue };
        match systems.iter_mut().find(|(known, _)| *known == system) {
            Some((_, points)) => points.push(both),
            None => systems.push((system, vec![both])),
        }
    }
    systems
}

fn both<'a>(page: &Page<'a>, setting: &'a Setting, system: &Setting, names: [&str; 2]) -> Option<Both<'a>> {
    let share = |name: &str| {
        let together = page.estimate(setting, TOGETHER, name)?;
        let most = most_alone(page, system, name)?;
        Some((together, together.throughput_per_s.times(1.0 / most)))
    };
    let ((one, first), (_, second)) = (share(names[0])?, share(names[1])?);
    Some(Both { setting, shares: [first, second], staleness_us: staleness_us(one) })
}

/// The greatest throughput of a workload alone in a system, per second.
fn most_alone(page: &Page, system: &Setting, name: &str) -> Option<f64> {
    let arm = format!("alone:{name}");
    let is_of =
        |one: &&Estimate| one.arm == arm && system.iter().all(|(key, value)| one.setting.get(key) == Some(value));
    let alone = page.estimates(name).into_iter().filter(is_of).map(|one| one.throughput_per_s.value);
    alone.filter(|per_s| *per_s > 0.0).reduce(f64::max)
}

fn staleness_us(estimate: &Estimate) -> Option<f64> {
    let age = estimate.device.freshness?.staleness_us?;
    age.p95.or(age.max)
}

fn drawn(page: &Page, [first, second]: [&str; 2], systems: &[(Setting, Vec<Both<'_>>)]) -> Chart {
    let keys = page.keys();
    let mut lines = Vec::new();
    for (at, (system, points)) in systems.iter().enumerate() {
        let (name, colour) = (setting_label(system, &keys, None), 1 + at % COLOURS);
        let line = |style, detail: String, points: Vec<(f64, f64)>| Line {
            name: name.clone(),
            detail,
            colour,
            style,
            points: points.into_iter().map(|(x, y)| (short(x), short(y))).collect(),
            ..Line::default()
        };
        let places: Vec<(f64, f64)> = points.iter().map(|one| (one.shares[0].value, one.shares[1].value)).collect();
        for (one, place) in points.iter().zip(&places) {
            let age = one.staleness_us.map_or_else(String::new, |age| format!(", answers {} old", duration_us(age)));
            lines.push(line(
                LineStyle::Dots,
                format!("{}{age}", setting_label(one.setting, &keys, None)),
                vec![*place],
            ));
        }
        let joined: Vec<(f64, f64)> = frontier(&places).into_iter().map(|at| places[at]).collect();
        if joined.len() > 1 {
            lines.push(line(LineStyle::Straight, "the frontier".to_owned(), joined));
        }
    }
    let turns = vec![(0.0, 1.0), (1.0, 0.0)];
    lines.push(Line { name: "taking turns".to_owned(), style: LineStyle::Bound, points: turns, ..Line::default() });
    let scale = |name: &str| Scale {
        name: format!("{name}, of the most that it has alone"),
        unit: Some(Unit::Ratio),
        span: Span::Zero,
    };
    Chart::Lines {
        label: format!("Throughput of {first} and {second} at once, over the most of each alone"),
        x: scale(first),
        y: scale(second),
        reference: None,
        panels: vec![LinePanel { lines, ..LinePanel::default() }],
    }
}

fn numbers_table(page: &Page, [first, second]: [&str; 2], systems: &[(Setting, Vec<Both<'_>>)]) -> Markup {
    let mut columns: Vec<_> = page.keys().into_iter().map(text).collect();
    columns.extend([number(first), number(second), number("Both"), number("Answers are younger than")]);
    table(
        "Throughput together over the most of each workload alone in the same system, with the 95 % interval of the first; the age \
         of answers for 95 % of the time",
        &columns,
        html! {
            @for one in systems.iter().flat_map(|(_, points)| points) {
                tr {
                    (page.setting_cells(one.setting))
                    (interval_cell(Some(one.shares[0]), ratio))
                    (interval_cell(Some(one.shares[1]), ratio))
                    (figure_cell(Some(ratio(one.shares[0].value + one.shares[1].value))))
                    (figure_cell(one.staleness_us.map(duration_us)))
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use crate::analysis::made_up::{measure, plan, results};
    use crate::plan::option_text;

    /// With `dop` 1 a client has 100 requests a second, with 2 it has 200, up to two clients' worth; beside each other both
    /// have half of what the same clients have alone.
    #[test]
    fn shares_are_of_the_most_that_a_workload_has_alone_in_its_system() {
        let plan = plan(
            "name = \"made-up\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[[workload]]\nname = \"olap\"\nkind = \"tpch\"\n\
             clients = 2\n[sweep]\ndop = [1, 2]\n\"oltp.clients\" = [1, 2]\n[run]\nrepeats = 3\n",
        );
        let alone: Vec<bool> = plan.arms.iter().map(|arm| arm.members.len() == 1).collect();
        let records = measure(&plan, |id, setting, name| {
            let number = |key: &str| option_text(&setting.swept[key]).parse::<f64>().expect("a number");
            let clients = if name == "oltp" { number("oltp.clients") } else { 2.0 };
            clients * 100.0 * number("dop") * if alone[id.arm] { 1.0 } else { 0.5 }
        });
        let page = render(&results(&plan, &records));
        let (_, section) =
            page.split_once("Throughput together over the most of each workload alone").expect("a table");
        let (table, _) = section.split_once("</table>").expect("its end");
        let rows: Vec<Vec<&str>> = table
            .split("<tr>")
            .skip(2)
            .map(|row| {
                row.split("<td")
                    .skip(1)
                    .filter_map(|cell| cell.split_once('>')?.1.split_once('<'))
                    .map(|(value, _)| value)
                    .collect()
            })
            .collect();
        assert_eq!(rows.len(), 4, "{table}");
        for (row, oltp) in rows.iter().zip(["0.25", "0.50", "0.25", "0.50"]) {
            assert_eq!(row[2..4], [oltp, "0.50"], "{row:?}");
        }
        assert!(page.contains("taking turns"));
    }
}
