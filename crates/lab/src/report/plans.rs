//! The plans of queries at each setting, and the settings where a plan changes.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::page::{Page, Setting, setting_label};
use plimsoll_display::page::{section, table, text};

/// The plans of a query, in the order in which they first occur, each with its settings.
type OfQuery<'a> = Vec<(&'a str, Vec<&'a Setting>)>;

/// The section; nothing if the target reported no plan.
pub(super) fn section_of(page: &Page) -> Markup {
    let queries = by_query(page);
    if queries.is_empty() {
        return html! {};
    }
    let several = page.settings().len() > 1;
    let changing = queries.values().filter(|plans| plans.len() > 1).count();
    let lead = match (several, changing) {
        (false, _) => "The shape of each query's plan: operators, tables and indexes.".to_owned(),
        (true, 0) => "Every query runs by the same plan at all settings.".to_owned(),
        (true, _) => format!(
            "{changing} of {} queries run by another plan at some settings: they differ in speed for that reason too.",
            queries.len()
        ),
    };
    section(
        &page.id("plans"),
        "Plans",
        html! {
            p class="lead" { (lead) }
            (table("Plans", &[text("workload"), text("query"), text("settings"), text("plan")], html! {
                @for ((workload, query), plans) in &queries {
                    @for (shape, settings) in plans {
                        tr {
                            td { (workload) }
                            td { (query) }
                            td { (settings_of(page, settings, plans.len())) }
                            td { code { (shape) } }
                        }
                    }
                }
            }))
        },
    )
}

fn by_query<'a>(page: &Page<'a>) -> BTreeMap<(&'a str, &'a str), OfQuery<'a>> {
    let mut points: Vec<_> = page.results.points.iter().collect();
    points.sort_by_cached_key(|point| page.position(&point.setting));
    let mut queries: BTreeMap<(&str, &str), OfQuery<'_>> = BTreeMap::new();
    for point in points {
        for plan in &point.plans {
            let plans = queries.entry((&plan.workload, &plan.query)).or_default();
            match plans.iter_mut().find(|(shape, _)| *shape == plan.shape) {
                Some((_, settings)) if settings.contains(&&point.setting) => {}
                Some((_, settings)) => settings.push(&point.setting),
                None => plans.push((&plan.shape, vec![&point.setting])),
            }
        }
    }
    queries
}

fn settings_of(page: &Page, settings: &[&Setting], plans: usize) -> String {
    if plans == 1 {
        return "all".to_owned();
    }
    let labels: Vec<String> = settings.iter().map(|setting| setting_label(setting, &page.keys(), None)).collect();
    labels.join("; ")
}
