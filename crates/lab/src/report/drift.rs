//! How the machine drifted while the experiment ran: each run beside the mean of its setting, block by block.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{Chart, Line, LinePanel, LineStyle, Reference, Scale, Span, Unit, figure, numbers, short};
use super::page::{Page, arm_label};
use plimsoll_display::page::{number, section, table, text};
use plimsoll_display::ratio;

/// The number of runs of a workload that are drawn; beyond it, only the means of blocks are.
const RUNS_MAX: usize = 600;

/// A run's throughput over the mean of the runs of its setting and arm.
struct RelativeThroughput<'a> {
    arm: &'a str,
    block: u32,
    run: usize,
    ratio: f64,
}

/// The section; nothing with one block, which cannot show drift.
pub(super) fn section_of(page: &Page) -> Markup {
    let all: Vec<(&str, Vec<RelativeThroughput<'_>>)> =
        page.workloads().into_iter().map(|workload| (workload, beside_mean(page, workload))).collect();
    let shown = all.iter().filter(|(_, runs)| !runs.is_empty());
    let panels: Vec<LinePanel> = shown.clone().map(|(workload, runs)| panel(page, workload, runs)).collect();
    if panels.is_empty() {
        return html! {};
    }
    let floors = shown.clone().filter_map(|(workload, _)| page.floor(workload));
    let chart = Chart::Lines {
        label: "Throughput of each run over the mean of its setting, by block".to_owned(),
        x: Scale { name: "block".to_owned(), unit: None, span: Span::Close },
        y: Scale { name: "of the setting's mean".to_owned(), unit: Some(Unit::Ratio), span: Span::Close },
        reference: Some(Reference {
            value: 1.0,
            floor: floors.reduce(f64::max).map(short),
            label: "mean of all blocks".to_owned(),
        }),
        panels,
    };
    section(
        &page.id("drift"),
        "Drift by block",
        html! {
            p class="lead" {
                "Throughput of each run over the mean of all runs of its setting and arm. A block in which all runs lie on one side was \
                 a faster or slower time of the machine; comparisons within a block are free of it. The line is the mean of the block, the shade the noise floor."
            }
            (figure(&page.run(), "Each run beside its setting's mean", "", &chart, numbers("The numbers of blocks", numbers_table(&all))))
        },
    )
}

fn beside_mean<'a>(page: &Page<'a>, workload: &str) -> Vec<RelativeThroughput<'a>> {
    let of_cell =
        page.estimates(workload).into_iter().filter(|estimate| estimate.runs.len() > 1).flat_map(|estimate| {
            let samples = page.samples(estimate, |result| Some(result.all.throughput_per_s));
            let mean = samples.iter().map(|(_, value, _)| value).sum::<f64>() / samples.len() as f64;
            let beside = samples.into_iter().filter_map(move |(run, value, _)| {
                let block = page.results.points.get(run)?.repeat;
                (mean > 0.0).then(|| RelativeThroughput { arm: &estimate.arm, block, run, ratio: value / mean })
            });
            beside.collect::<Vec<_>>()
        });
    let runs: Vec<RelativeThroughput<'_>> = of_cell.collect();
    let blocks = by_block(&runs).len();
    if blocks > 1 { runs } else { Vec::new() }
}

fn by_block<'a>(runs: &'a [RelativeThroughput<'_>]) -> BTreeMap<u32, Vec<&'a RelativeThroughput<'a>>> {
    let mut blocks: BTreeMap<u32, Vec<&RelativeThroughput<'_>>> = BTreeMap::new();
    runs.iter().for_each(|run| blocks.entry(run.block).or_default().push(run));
    blocks
}

fn mean(runs: &[&RelativeThroughput]) -> f64 {
    runs.iter().map(|run| run.ratio).sum::<f64>() / runs.len() as f64
}

fn panel(page: &Page, workload: &str, runs: &[RelativeThroughput]) -> LinePanel {
    let means = by_block(runs).iter().map(|(block, runs)| (f64::from(*block), short(mean(runs)))).collect();
    let line =
        |name: &str, colour, style, points| Line { name: name.to_owned(), colour, style, points, ..Line::default() };
    let mut lines = vec![line("mean of the block", 5, LineStyle::Straight, means)];
    // A line for each run, linked to its row.
    let drawn = runs.iter().filter(|_| runs.len() <= RUNS_MAX);
    lines.extend(drawn.map(|run| Line {
        detail: format!("run {}", run.run),
        run: Some(run.run),
        ..line(
            &arm_label(run.arm, workload),
            page.colour(run.arm, workload),
            LineStyle::Dots,
            vec![(f64::from(run.block), short(run.ratio))],
        )
    }));
    LinePanel { title: workload.to_owned(), lines, ..LinePanel::default() }
}

fn numbers_table(all: &[(&str, Vec<RelativeThroughput>)]) -> Markup {
    let columns = [
        text("Workload"),
        number("Block"),
        number("Mean"),
        number("Lowest run"),
        number("Highest run"),
        number("Runs"),
    ];
    table(
        "Throughput over the mean of the setting, by block",
        &columns,
        html! {
            @for (workload, runs) in all {
                @for (block, runs) in by_block(runs) {
                    @let ratios = || runs.iter().map(|run| run.ratio);
                    tr {
                        th scope="row" { (workload) }
                        td class="n" { (block) }
                        td class="n" { (ratio(mean(&runs))) }
                        td class="n" { (ratio(ratios().fold(f64::INFINITY, f64::min))) }
                        td class="n" { (ratio(ratios().fold(0.0, f64::max))) }
                        td class="n" { (runs.len()) }
                    }
                }
            }
        },
    )
}
