//! Rollbacks that are weighed: the cards are made by hand, and each moment is given.

use plimsoll_policy::{Edge, Priority, Standing, WaitGraph};

use super::*;
use crate::settings::for_tests;
use crate::testing::session;

const MS: Duration = Duration::from_millis(1);
const HIGH: ClassIndex = ClassIndex(0);
const LOW: ClassIndex = ClassIndex(1);

/// A waiter of class high, and a holder of class low that blocks it.
struct World {
    governor: Governor,
    ledger: Ledger,
    waiter: Arc<SessionCard>,
    holder: Arc<SessionCard>,
    began: Instant,
}

impl World {
    fn new() -> World {
        let began = Instant::now();
        let governor = Governor::new(for_tests(), began);
        let (waiter, holder) = (session(&governor, 1, HIGH, began), session(&governor, 2, LOW, began));
        World { governor, ledger: Ledger::default(), waiter, holder, began }
    }

    fn at(&self, ms: u32) -> Instant {
        self.began + ms * MS
    }

    fn scene(&self, activity: Activity) -> Scene {
        let standing = |priority, activity| Standing {
            id: 0,
            priority,
            rollbacks: 0,
            activity,
            preemptible: true,
            waited: Duration::ZERO,
            began: Duration::ZERO,
            aborts: 0,
            cycle_loss: None,
        };
        let node = |card: &Arc<SessionCard>| {
            let state = card.state().clone();
            Node { process: card.process().expect("it has one"), session: Some((card.clone(), state)) }
        };
        let transactions = vec![standing(Priority::HIGH, Activity::WaitsForLock), standing(Priority::LOW, activity)];
        let edges = vec![Edge { waiter: 0, blocker: 1, since: None, stands: false, is_line: false }];
        let graph = WaitGraph { now: Duration::ZERO, transactions, edges };
        Scene { graph, nodes: vec![node(&self.waiter), node(&self.holder)] }
    }

    /// Looks while the holder blocks; returns whether it is to be rolled back.
    fn weigh(&mut self, at_ms: u32, activity: Activity) -> bool {
        self.ledger.learn(&self.governor, &self.looked(), self.at(at_ms));
        let (scene, at, settings) = (self.scene(activity), self.at(at_ms), self.governor.settings());
        self.ledger.weigh(&self.governor, &settings, &scene, (1, 0, 1), at)
    }

    fn looked(&self) -> Looked {
        Looked { waits: [(1, vec![2])].into_iter().collect(), ..Looked::default() }
    }

    /// The holder's transaction ends, and the next begins.
    fn next(&self, at_ms: u32) {
        let mut state = self.holder.state();
        (state.transaction, state.transaction_since, state.since) =
            (state.transaction + 1, self.at(at_ms), self.at(at_ms));
    }

    fn spared(&self) -> u64 {
        self.governor.statistics.class(LOW).rollbacks_spared.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Holders that end by themselves after that long, until enough is known. Returns when the last has ended.
    fn learn(&mut self, stay_ms: u32) -> u32 {
        let mut at = 0;
        for _ in 0..12 {
            self.weigh(at, Activity::WaitsForLock);
            self.next(at + stay_ms);
            at += stay_ms + 1;
        }
        at
    }
}

#[test]
fn who_always_ends_soon_is_left_alone_and_counted_once() {
    let mut world = World::new();
    assert!(world.weigh(0, Activity::WaitsForLock), "nothing is known");
    let mut world = World::new();
    let at = world.learn(1);
    let before = world.spared();
    world.holder.state().work = 20 * MS;
    assert!(!world.weigh(at, Activity::WaitsForLock) && !world.weigh(at + 1, Activity::WaitsForLock));
    assert_eq!(world.spared(), before + 1);
    let scene = world.scene(Activity::WaitsForLock);
    let stake = world.ledger.stake(&scene, 1, 0, world.at(at)).expect("it was weighed");
    assert_eq!((stake.lost, stake.waiter), (20 * MS, HIGH));
    assert!(stake.won.is_some_and(|won| won < 2 * MS), "{stake:?}");
    // It stays for longer than any before, so the outlook changes.
    assert!(world.weigh(at + 400, Activity::WaitsForLock));
}

#[test]
fn what_has_cost_little_is_rolled_back_and_what_has_cost_much_is_not() {
    let mut world = World::new();
    let at = world.learn(50);
    assert!(world.weigh(at, Activity::WaitsForLock));
    world.holder.state().work = 200 * MS;
    assert!(!world.weigh(at + 2, Activity::WaitsForLock));
    // A victim whose client thinks is not weighed.
    assert!(world.weigh(at + 4, Activity::WaitsForClient));
    world.governor.change(|settings| settings.preemption.weigh = false).expect("it can be changed");
    assert!(world.weigh(at + 6, Activity::WaitsForLock));
}

#[test]
fn holders_that_run_are_of_another_kind_and_their_statement_is_work() {
    let mut world = World::new();
    let at = world.learn(1);
    world.holder.state().since = world.at(at) - 30 * MS;
    assert!(world.weigh(at, Activity::Runs), "nothing is known of those that run");
    let stake = world.ledger.stake(&world.scene(Activity::Runs), 1, 0, world.at(at)).expect("it was weighed");
    assert_eq!((stake.lost, stake.won), (30 * MS, None));
}

/// A few holders are left alone, each to its end, while nothing is known. With `track` none is rolled back, so all are
/// learned from.
#[test]
fn beginners_are_rolled_back_but_for_one_of_some() {
    let mut world = World::new();
    let mut left_alone = 0;
    for at in 0..8 {
        // It is rolled back at once, so nothing is learned.
        let is_left_alone = !world.weigh(10 * at, Activity::WaitsForLock);
        assert_eq!(is_left_alone, !world.weigh(10 * at + 1, Activity::WaitsForLock));
        left_alone += u32::from(is_left_alone);
        let scene = world.scene(Activity::WaitsForLock);
        world.ledger.carried_out(&scene.nodes[1], &scene.nodes[0], world.at(10 * at + 2));
        world.next(10 * at + 5);
    }
    assert_eq!((left_alone, world.spared()), (2, 2));
}

#[test]
fn a_rollback_after_which_the_waiter_waits_for_another_was_in_vain() {
    let mut world = World::new();
    let in_vain = |world: &World| {
        world.governor.statistics.class(LOW).rollbacks_in_vain.load(std::sync::atomic::Ordering::Relaxed)
    };
    let carry_out = |world: &mut World, at: u32| {
        world.weigh(at, Activity::WaitsForLock);
        let scene = world.scene(Activity::WaitsForLock);
        world.ledger.carried_out(&scene.nodes[1], &scene.nodes[0], world.at(at));
    };
    carry_out(&mut world, 0);
    world.ledger.learn(&world.governor, &world.looked(), world.at(2));
    assert_eq!(in_vain(&world), 0, "its victim is still there");
    let other = Looked { waits: [(1, vec![3])].into_iter().collect(), ..Looked::default() };
    world.ledger.learn(&world.governor, &other, world.at(4));
    assert_eq!(in_vain(&world), 1);
    carry_out(&mut world, 10);
    world.ledger.learn(&world.governor, &Looked::default(), world.at(12));
    assert_eq!(in_vain(&world), 1, "it waits no more");
    carry_out(&mut world, 20);
    world.ledger.learn(&world.governor, &world.looked(), world.at(200));
    assert_eq!(in_vain(&world), 2, "the victim has not moved");
    carry_out(&mut world, 300);
    world.waiter.state().unit += 1;
    world.ledger.learn(&world.governor, &other, world.at(302));
    assert_eq!(in_vain(&world), 2, "it is at its next statement");
}

/// A holder that was rolled back teaches nothing about when it would have ended.
#[test]
fn victims_are_no_ends() {
    let mut world = World::new();
    for at in 0..20 {
        world.weigh(10 * at, Activity::WaitsForLock);
        world.holder.state().rollbacks += 1;
        world.next(10 * at + 5);
    }
    assert!(world.weigh(300, Activity::WaitsForLock));
    let scene = world.scene(Activity::WaitsForLock);
    assert_eq!(world.ledger.stake(&scene, 1, 0, world.at(300)).expect("it was weighed").won, None);
    world.ledger.close(&world.governor, world.at(400));
    assert!(world.ledger.stays.is_empty());
}
