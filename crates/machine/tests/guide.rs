//! The lists in `docs/machine.md` match the code.

use plimsoll_machine::control::CONTROLS;
use plimsoll_machine::hog::HOGS;
use plimsoll_machine::sensor::{SENSORS, Scope};
use plimsoll_machine::top_down::Family;
use plimsoll_machine::top_down::method::{Counts, MemoryReads};

const GUIDE: &str = include_str!("../../../docs/machine.md");

/// The rows of the table whose first column has this heading, without the heading and the line below it.
fn rows(head: &str) -> Vec<Vec<&'static str>> {
    let lines = GUIDE.lines().skip_while(|line| !line.starts_with(&format!("| {head} |")));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let rows: Vec<Vec<&str>> = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert!(!rows.is_empty(), "docs/machine.md has no table of each {head}");
    rows
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Thread => "thread",
        Scope::ProcessTree => "tree",
        Scope::ControlGroup => "group",
        Scope::Device => "disk",
        Scope::Machine => "machine",
    }
}

#[test]
fn the_guide_lists_every_sensor_with_its_scope_and_figures() {
    let told: Vec<Vec<String>> =
        rows("sensor").iter().map(|row| row[..3].iter().map(|cell| (*cell).to_owned()).collect()).collect();
    let there = SENSORS.iter().map(|sensor| {
        let scopes: Vec<&str> = sensor.scopes().iter().map(|scope| word(*scope)).collect();
        vec![sensor.name().to_owned(), scopes.join(", "), sensor.figures().to_owned()]
    });
    assert_eq!(told, there.collect::<Vec<_>>());
}

#[test]
fn the_guide_lists_every_control() {
    let told: Vec<&str> = rows("control").iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(told, CONTROLS.iter().map(|control| control.key()).collect::<Vec<_>>());
}

#[test]
fn the_guide_lists_every_hog() {
    let told: Vec<(String, &str)> =
        rows("hog").iter().map(|row| (row[0].trim_matches('`').to_owned(), row[1])).collect();
    let there = HOGS.iter().map(|kind| (format!("{}:{}", kind.key(), kind.unit()), kind.meaning()));
    assert_eq!(told, there.collect::<Vec<_>>());
}

/// The last level to which the backend's share is split. One family has level 2 among its fixed counters.
fn backend_level(family: Family) -> u32 {
    let has_level_2 = family == Family::SapphireRapids || family.table().memory.is_some();
    match family.table().memory_levels {
        Some(_) => 3,
        None if has_level_2 => 2,
        None => 1,
    }
}

/// The last level to which the front end's share is split. One family has level 2 among its fixed counters.
fn front_end_level(family: Family) -> u32 {
    let counts = ["cycles"]
        .into_iter()
        .chain(family.table().front_end.iter().flat_map(|split| split.events).map(|event| event.name));
    let counts = counts.map(|name| (name, 1.0)).collect();
    let shares = family
        .table()
        .front_end
        .first()
        .map(|split| (split.evaluate)(&Counts { counts: &counts, slots_per_cycle: 0.0 }));
    match shares {
        None => 1,
        Some(shares) if shares.waits.is_none() => 2,
        Some(_) => 3,
    }
}

#[test]
fn the_guide_lists_every_family_with_its_methods_and_badge() {
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    let there = Family::ALL.iter().map(|family| {
        let table = family.table();
        let methods: Vec<&str> = table.methods.iter().map(|method| method.name).collect();
        let badge = if table.methods.iter().all(|method| method.approximate) { "approximate" } else { "" };
        let level = front_end_level(*family);
        let reads = matches!(table.memory_reads, MemoryReads::Events(..));
        vec![
            family.to_string(),
            methods.join("; "),
            badge.to_owned(),
            level.to_string(),
            backend_level(*family).to_string(),
            yes(table.served.is_some()).to_owned(),
            yes(reads).to_owned(),
        ]
    });
    assert_eq!(rows("family"), there.collect::<Vec<_>>());
}
