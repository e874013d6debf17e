//! Sizes: speed over each resource with the bracket of its least sufficient amount, and the machines of a catalogue.

use maud::{Markup, html};
use serde_json::Value;

use super::chart::{
    Chart, CurvePanel, CurvePoint, Ends, Figure, Flag, Reference, Series, Unit, figure, numbers, short,
};
use super::layout::interval_cell;
use super::page::Page;
use crate::amounts::{AmountKind, Amounts};
use crate::results::{CatalogueChoice, Interval, SizeStanding, SizedLevel, SizedResource, Sizes};
use crate::size::words;
use plimsoll_display::page::{number, section, table, text};
use plimsoll_display::{distinct, percent, plain, ratio, significant, value};

/// The section; nothing if no sizes were searched for.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(sizes) = &page.results.sizes else { return html! {} };
    section(
        &page.id("sizes"),
        "The least that is enough",
        html! {
            p class="lead" {
                "Speed with less of one resource and all of the others, over speed with everything in the same block, with 95 % intervals. A \
                 flag is the smallest amount that is known to be enough for a goal; its foot reaches down to the largest that is known not to be."
            }
            @for resource in &sizes.resources { (drawn(page, sizes, resource)) }
            (numbers("The numbers of sizes", numbers_table(sizes)))
            @if !sizes.slow_downs.is_empty() { (slow_downs(sizes)) }
            @if !sizes.not_tried.is_empty() { (not_tried(sizes)) }
            @if let Some(choice) = &sizes.catalogue { (catalogue(choice)) }
        },
    )
}

/// Where amounts stand on the axis of a resource.
struct Places<'a> {
    resource: &'a SizedResource,
    amounts: Amounts,
}

impl Places<'_> {
    fn of(resource: &SizedResource) -> Places<'_> {
        let of_levels = resource.levels.iter().flat_map(|level| [&level.more_than, &level.at_most]).flatten();
        let values: Vec<Value> = resource.trials.iter().map(|trial| &trial.amount).chain(of_levels).cloned().collect();
        Places { resource, amounts: Amounts::of(&values) }
    }

    fn at(&self, amount: &Value) -> Option<f64> {
        let full = self.resource.full_amount.filter(|_| *amount == self.resource.full);
        full.or_else(|| self.amounts.position(amount)).map(short)
    }

    fn unit(&self) -> Option<Unit> {
        (self.amounts.kind() == Some(AmountKind::Bytes)).then_some(Unit::Bytes)
    }
}

fn drawn(page: &Page, sizes: &Sizes, resource: &SizedResource) -> Markup {
    let places = Places::of(resource);
    let point = |trial: &crate::results::SizeTrial| {
        let whole = Interval { value: 1.0, low: None, high: None };
        let ratio = if trial.amount == resource.full { Some(whole) } else { trial.ratio };
        Some(CurvePoint { at: places.at(&trial.amount)?, figure: Figure::new(ratio?, Vec::new())? })
    };
    let points: Vec<CurvePoint> = resource.trials.iter().filter_map(point).collect();
    if points.len() < 2 {
        return html! { p class="note" { (resource.sentence) "." } };
    }
    let promise = sizes.promise.as_ref().map(|promise| promise.text.as_str());
    let flag = |level: &SizedLevel| {
        let at = places.at(level.at_most.as_ref()?)?;
        let low = level.more_than.as_ref().and_then(|low| places.at(low));
        Some(Flag {
            at,
            low,
            high: Some(at),
            label: level.share.map_or_else(|| promise.unwrap_or("promise").to_owned(), percent),
        })
    };
    let series = Series { name: sizes.workload.clone(), colour: 1, points, ..Series::default() };
    let panel = CurvePanel {
        title: resource.name.clone(),
        series: vec![series],
        flags: resource.levels.iter().filter_map(flag).collect(),
        ..CurvePanel::default()
    };
    let x = if resource.unit.is_empty() || resource.unit == resource.name {
        resource.name.clone()
    } else {
        format!("{}, {}", resource.name, resource.unit)
    };
    let chart = Chart::Curve {
        label: format!("Speed of {} over {}", sizes.workload, resource.name),
        x,
        x_unit: places.unit(),
        y: "of full speed".to_owned(),
        unit: Unit::Ratio,
        ends: Ends::Interval,
        reference: Some(Reference { value: 0.95, floor: None, label: "dashed: 95 % of full speed".to_owned() }),
        panels: vec![panel],
    };
    figure(&page.run(), &resource.name, &resource.sentence, &chart, html! {})
}

fn numbers_table(sizes: &Sizes) -> Markup {
    let columns = [
        text("Resource"),
        number("Amount"),
        number("Of full speed"),
        number("Promised percentile, ms"),
        number("Runs"),
    ];
    let rows = sizes.resources.iter().flat_map(|resource| resource.trials.iter().map(move |trial| (resource, trial)));
    table(
        "Speed with each amount over speed with everything, with 95 % intervals",
        &columns,
        html! {
            @for (resource, trial) in rows {
                tr {
                    th scope="row" { (resource.name) }
                    td class="n" { (words::amount(&trial.amount, &resource.unit)) }
                    (interval_cell(trial.ratio, ratio))
                    (interval_cell(trial.latency_ms, significant))
                    td class="n" { (trial.runs) }
                }
            }
        },
    )
}

/// A row for each kind of request, a column for each resource.
fn slow_downs(sizes: &Sizes) -> Markup {
    let requests = distinct(sizes.slow_downs.iter().map(|one| one.request.as_str()));
    let tried = distinct(sizes.slow_downs.iter().map(|one| one.key.as_str()));
    let of = |request: &str, key: &str| sizes.slow_downs.iter().find(|one| one.request == request && one.key == key);
    let head = |key: &&str| {
        let one = sizes.slow_downs.iter().find(|one| one.key == *key);
        one.map_or_else(String::new, |one| format!("{} {}", one.resource, words::amount(&one.amount, words::unit(key))))
    };
    let heads: Vec<String> = tried.iter().map(head).collect();
    let columns: Vec<_> = std::iter::once(text("Request")).chain(heads.iter().map(|head| number(head))).collect();
    html! {
        h3 { "Which request is hurt by what" }
        (table("Mean latency with the least amount that was tried, over that with everything, with 95 % intervals", &columns, html! {
            @for request in &requests {
                tr {
                    th scope="row" { (request) }
                    @for key in &tried { (interval_cell(of(request, key).map(|one| one.times), ratio)) }
                }
            }
        }))
        @for one in sizes.slow_downs.iter().filter(|one| one.plan_changed == Some(true)) {
            p class="note" { (one.request) " has another plan with " (one.resource) " " (words::amount(&one.amount, words::unit(&one.key))) "." }
        }
    }
}

fn not_tried(sizes: &Sizes) -> Markup {
    html! {
        h3 { "Not tried" }
        ul {
            @for one in &sizes.not_tried {
                li { (one.resource) ": " (one.why) @if let Some(remedy) = &one.remedy { "; remedy: " (remedy) } }
            }
        }
    }
}

fn catalogue(choice: &CatalogueChoice) -> Markup {
    let standing = |standing: SizeStanding| match standing {
        SizeStanding::Kept => "enough",
        SizeStanding::Broken => "too little",
        SizeStanding::Undecided => "undecided",
    };
    let columns = [text("Machine"), number("Price"), text("For the goal"), text("Why")];
    html! {
        h3 { "Machines" }
        p { (choice.sentence) "." }
        (table(&format!("Machines by price, judged by {}", value(&choice.goal.as_str().into())), &columns, html! {
            @for machine in &choice.machines {
                tr {
                    th scope="row" { (machine.name) }
                    td class="n" { (plain(machine.price)) }
                    td { (standing(machine.standing)) }
                    td class="words" { (machine.why_not.join("; ")) }
                }
            }
        }))
    }
}
