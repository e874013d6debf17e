//! Pauses between two looks, without a server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::governor::Heard;
use crate::testing;
use crate::watch::Watch;

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
