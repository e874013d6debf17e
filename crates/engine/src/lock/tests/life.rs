//! Waiting, deadlocks, commit points and ends.

use std::sync::mpsc;

use super::*;

#[test]
fn nobody_is_rolled_back_after_its_commit_point() {
    let locks = LockTable::new(options("pabort"));
    let [low, high] = Priority::USUAL.map(|priority| joined(&locks, priority));
    let name = LockName::row(0, 0);
    assert_eq!(locks.ask(&low, name, Mode::X), Ok(Answer::Granted));
    assert_eq!(locks.commit_point(&low), Ok(()));
    assert_eq!(locks.ask(&high, name, Mode::X), Ok(Answer::Wait));
    assert_eq!((low.state(), locks.statistics().preempted), (State::Ending, 0));
    locks.release(&low, name);
    locks.end(&low);
    assert_eq!(locks.wait(&high).outcome, Ok(Answer::Granted));
}

#[test]
fn the_starvation_bound_is_an_option() {
    let locks = LockTable::new(LockOptions { starvation_bound: StarvationBound::none(), ..options("pow") });
    let member = locks.join();
    locks.begin(&member, Priority::LOW, 1_000);
    assert_eq!(member.priority(), Priority::LOW);
}

#[test]
fn queue_time_and_wait_excess() {
    let clock = Arc::new(StoppedClock::default());
    let options = LockOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..options("standard") };
    let mut stage = Stage { locks: LockTable::new(options), clock, actors: BTreeMap::new() };
    for step in ["L1 a X", "+1ms", "L2 a X", "+1ms", "L3 a X", "+1ms"] {
        stage.perform(step);
    }
    let mut waits = Vec::new();
    for ending in ["L1", "L2", "L3"] {
        let actor = &stage.actors[ending];
        stage.locks.roll_back(&actor.member);
        stage.locks.release(&actor.member, LockName::row(0, u64::from(b'a')));
        stage.locks.end(&actor.member);
        for actor in stage.actors.values() {
            let decision = stage.locks.outcome(&actor.member);
            waits.extend(
                decision.map(|decision| (decision.wait.queue_time.as_millis(), decision.wait.excess.as_millis())),
            );
        }
        stage.pass(Duration::from_millis(10));
    }
    // L2 waited only for the holder, L3 for L2 as well.
    assert_eq!(waits, [(2, 2), (11, 1)]);
}

/// One waits for a holder that is preempted, then for one that is past its commit point.
#[test]
fn a_wait_knows_whether_a_holder_was_preempted() {
    let locks = LockTable::new(options("pabort"));
    let [victim, ending] = [(); 2].map(|()| joined(&locks, Priority::LOW));
    let high = joined(&locks, Priority::HIGH);
    let [x, y] = [0, 1].map(|row| LockName::row(0, row));
    assert_eq!(locks.ask(&victim, x, Mode::X), Ok(Answer::Granted));
    assert_eq!(locks.ask(&ending, y, Mode::X), Ok(Answer::Granted));
    assert_eq!(locks.commit_point(&ending), Ok(()));
    for (holder, name, was_preempted) in [(&victim, x, true), (&ending, y, false)] {
        assert_eq!(locks.ask(&high, name, Mode::X), Ok(Answer::Wait));
        if was_preempted {
            locks.roll_back(holder);
        }
        locks.release(holder, name);
        locks.end(holder);
        assert_eq!(locks.wait(&high).wait.preempted, was_preempted);
    }
}

#[test]
fn a_wait_that_nobody_will_see_the_end_of_is_given_up() {
    let locks = LockTable::new(options("standard"));
    let members = [(); 3].map(|()| joined(&locks, Priority::LOW));
    let name = LockName::row(0, 0);
    assert_eq!(locks.ask(&members[0], name, Mode::X), Ok(Answer::Granted));
    assert_eq!(locks.ask(&members[1], name, Mode::X), Ok(Answer::Wait));
    assert_eq!(locks.ask(&members[2], name, Mode::X), Ok(Answer::Wait));
    // One dies waiting.
    locks.roll_back(&members[1]);
    locks.end(&members[1]);
    // The other one is granted before it dies.
    locks.release(&members[0], name);
    locks.roll_back(&members[2]);
    locks.end(&members[2]);
    assert_eq!(locks.name_count(), 0);
}

/// The thread that makes a victim takes it out of its queue a moment later. A search that meets the victim before does
/// not wait for that thread, which may not be running.
#[test]
fn a_search_does_not_wait_for_whoever_has_made_a_victim() {
    let (send, receive) = mpsc::channel();
    let search = move || {
        let locks = LockTable::new(options("standard"));
        let [a, b] = [(); 2].map(|()| joined(&locks, Priority::LOW));
        let [x, y] = [0, 1].map(|row| LockName::row(0, row));
        assert_eq!(locks.ask(&a, x, Mode::X), Ok(Answer::Granted));
        assert_eq!(locks.ask(&b, y, Mode::X), Ok(Answer::Granted));
        assert_eq!(locks.ask(&a, y, Mode::X), Ok(Answer::Wait));
        a.doom(a.life().serial, &[State::Waiting], RequestError::Preempted).expect("it waits");
        // Closes a cycle with the victim, which is still in the queue.
        assert_eq!(locks.ask(&b, x, Mode::X), Ok(Answer::Wait));
        assert_eq!(locks.outcome(&a).map(|decision| decision.outcome), Some(Err(RequestError::Preempted)));
        locks.roll_back(&a);
        locks.release(&a, x);
        locks.end(&a);
        assert_eq!(locks.wait(&b).outcome, Ok(Answer::Granted));
        assert_eq!((b.state(), locks.statistics().deadlocks), (State::Running, 0));
        send.send(()).expect("the test waits");
    };
    std::thread::spawn(search);
    receive.recv_timeout(Duration::from_secs(30)).expect("the search goes on for ever, or a check has failed");
}

/// A commit and a preemption that meet: exactly one of them wins, under any timing.
#[test]
fn a_commit_point_loses_against_a_preemption_exactly_once_or_wins() {
    let locks = LockTable::new(options("pabort"));
    let name = LockName::row(0, 0);
    let (low, high) = (locks.join(), locks.join());
    let mut preempted = 0;
    for _ in 0..2_000 {
        locks.begin(&low, Priority::LOW, 0);
        locks.begin(&high, Priority::HIGH, 0);
        assert_eq!(locks.ask(&low, name, Mode::X), Ok(Answer::Granted));
        let has_committed = std::thread::scope(|scope| {
            let committer = scope.spawn(|| {
                let outcome = locks.commit_point(&low);
                if outcome.is_err() {
                    locks.roll_back(&low);
                }
                locks.release(&low, name);
                locks.end(&low);
                outcome.is_ok()
            });
            if locks.ask(&high, name, Mode::X) == Ok(Answer::Wait) {
                assert_eq!(locks.wait(&high).outcome, Ok(Answer::Granted));
            }
            committer.join().expect("it does not panic")
        });
        preempted += u64::from(!has_committed);
        assert_eq!(locks.statistics().preempted, preempted, "a victim that committed, or one counted twice");
        assert_eq!(locks.commit_point(&high), Ok(()));
        locks.release(&high, name);
        locks.end(&high);
    }
}
