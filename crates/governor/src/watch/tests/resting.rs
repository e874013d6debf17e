//! Pauses between two looks, without a server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use plimsoll_policy::GuardMode;

use crate::governor::Heard;
use crate::testing;
use crate::watch::{SLEEP_LEAST, Watch};

/// A session that changed its class woke the thread like a late one: the next look came earlier, and the shares came
/// after it, a tenth of a second later if looks had no budget.
#[test]
fn shares_are_given_during_a_pause_and_only_lateness_ends_it() {
    let governor = testing::governor(|_| {});
    let mut watch = Watch::new(governor.clone(), Arc::new(AtomicBool::new(false)));
    let (began, pause) = (Instant::now(), Duration::from_millis(20));
    governor.change_shares();
    assert!(!watch.rest(pause), "nobody is late");
    assert!(began.elapsed() >= pause);
    assert!(!governor.take_changed_shares(), "the agent has seen to it");

    governor.change_shares();
    governor.bell.ring();
    let began = Instant::now();
    assert!(watch.rest(Duration::from_secs(10)), "somebody is late");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_better_reason_is_heard_and_each_once() {
    let governor = testing::governor(|_| {});
    governor.bell.ring();
    governor.change_shares();
    assert_eq!(governor.bell.wait(Duration::ZERO), Heard::Late);
    assert_eq!(governor.bell.wait(Duration::ZERO), Heard::Nothing);
    assert!(governor.take_changed_shares());
    governor.change_shares();
    assert_eq!(governor.bell.wait(Duration::ZERO), Heard::Shares);
}

/// A guard that could not look, because there was no control connection, stayed due, and the thread took a whole core.
/// Whatever a part does, the loop itself sleeps now.
#[test]
fn a_part_that_stays_due_takes_no_whole_core() {
    let governor = testing::governor(|settings| settings.guards.idle = GuardMode::Warn);
    let watch = Watch::new(governor.clone(), Arc::new(AtomicBool::new(false)));
    let later = Instant::now() + Duration::from_secs(60);
    assert_eq!(watch.guards.due(&governor.settings(), later), Some(Duration::ZERO), "it has never looked");
    assert_eq!(watch.sleep(later), SLEEP_LEAST);
}
