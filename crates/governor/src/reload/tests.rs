//! Settings that change while sessions run.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use plimsoll_policy::{Asked, Claim, ClassIndex, Priority, Ticket};

use super::*;
use crate::settings::for_tests;
use crate::testing::settings_file;

const LOW: ClassIndex = ClassIndex(1);

fn governor() -> Governor {
    Governor::new(for_tests(), Instant::now())
}

#[test]
fn what_changes_is_told_and_what_waits_for_a_restart_stays() {
    let governor = governor();
    let mut settings = for_tests();
    settings.classes[1].limits.mpl = Some(7);
    settings.listen.workers = 5;
    let reloaded = governor.reload(settings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reloaded.changed, ["class.low.mpl: 1 -> 7"]);
    assert_eq!(reloaded.after_restart, ["listen.workers: 1 -> 5"]);
    let now = governor.settings();
    assert_eq!((now.classes[1].limits.mpl, now.listen.workers), (Some(7), 1));
    assert_eq!(governor.generation(), 1);
}

#[test]
fn classes_can_come_and_cannot_go() {
    let governor = governor();
    let mut settings = for_tests();
    let mut another = settings.classes[1].clone();
    another.name = "another".to_owned();
    another.limits.priority = Priority::LOW;
    settings.classes.push(another);
    governor.reload(settings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(governor.statistics.class(ClassIndex(2)).name, "another");
    assert_eq!(
        governor.ask_admission(Claim { ticket: Ticket(1), class: ClassIndex(2), tenant: 0 }, Instant::now()),
        Asked::Enter
    );
    let error = governor.reload(for_tests()).expect_err("one has gone");
    assert_eq!(error, ReloadError::Classes("another".to_owned()));
    assert_eq!(governor.settings().classes.len(), 3, "what was set stays in force");
}

#[test]
fn a_wider_limit_lets_in_who_waits() {
    let governor = governor();
    let now = Instant::now();
    assert_eq!(governor.ask_admission(Claim { ticket: Ticket(1), class: LOW, tenant: 0 }, now), Asked::Enter);
    assert_eq!(governor.ask_admission(Claim { ticket: Ticket(2), class: LOW, tenant: 0 }, now), Asked::Wait);
    governor.change(|settings| settings.classes[1].limits.mpl = Some(2)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((governor.inside(LOW), governor.waiting().len()), (2, 0));
}

#[test]
fn a_pause_lets_nobody_in_and_outlives_a_reload() {
    let governor = governor();
    let now = Instant::now();
    governor.pause(&[ClassIndex(0), LOW], true);
    assert!(governor.settings().is_limited(ClassIndex(0)), "also where nothing is limited otherwise");
    assert_eq!(governor.ask_admission(Claim { ticket: Ticket(1), class: LOW, tenant: 0 }, now), Asked::Wait);
    governor.reload(for_tests()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((governor.inside(LOW), governor.waiting().len()), (0, 1));
    governor.pause(&[LOW], false);
    assert_eq!((governor.inside(LOW), governor.waiting().len()), (1, 0));
    assert!(governor.settings().classes[0].is_paused);
}

#[test]
fn a_file_that_is_wrong_changes_nothing_and_is_counted() {
    let (_folder, file) = settings_file("server = \"postgres://u@localhost:1/none\"\n[preemption]\npolicy = \"pow\"\n");
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    let settings = config::read(&file, &[]).unwrap_or_else(|error| panic!("{error}")).settings;
    let governor = Governor::new(settings, Instant::now());
    assert_eq!(governor.reload_file(), Err(ReloadError::NoFile));
    governor.config_file.set(file.clone()).expect("it is new");
    write("server = \"postgres://u@localhost:1/none\"\n[preemption]\npolicy = \"never\"\n");
    let reloaded = governor.reload_file().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reloaded.changed, ["preemption.policy: pow -> never"]);
    write("server = 5\n");
    let error = governor.reload_file().expect_err("it is wrong").to_string();
    assert!(error.contains("plimsoll.toml:1:10: "), "{error}");
    assert_eq!(governor.settings().preemption.policy.to_string(), "never");
    let counted = [&governor.statistics.reloads, &governor.statistics.reloads_failed].map(|count| count.load(Relaxed));
    assert_eq!(counted, [1, 2]);
}

/// A governor that changed its mode would have neither clients nor visible sessions.
#[test]
fn the_mode_is_changed_by_a_restart_only() {
    let governor = governor();
    let mut beside = for_tests();
    beside.is_beside = true;
    assert_eq!(governor.reload(beside), Err(ReloadError::Mode));
    let text = "server = \"postgres://u@localhost:1/none\"\ncontrol = \"postgres://u@localhost:1/none\"\n";
    let (_folder, file) = settings_file(text);
    let settings = config::read_for(&file, &[], true).unwrap_or_else(|error| panic!("{error}")).settings;
    assert!(settings.is_beside);
    let governor = Governor::new(settings, Instant::now());
    governor.config_file.set(file).expect("it is new");
    assert_eq!(governor.reload_file(), Err(ReloadError::Mode), "it was not asked to be beside, whatever its file says");
    governor.is_beside_asked.set(true).expect("it is new");
    assert!(governor.reload_file().is_ok());
}
