//! Cases by hand, and random histories against a model that searches a plain list.

use proptest::prelude::*;

use super::*;

fn class(priority: Priority, mpl: Option<u32>) -> ClassLimits {
    ClassLimits { priority, mpl, queue_max: None, timeout: None }
}

const LOW: ClassIndex = ClassIndex(0);
const HIGH: ClassIndex = ClassIndex(1);
const ZERO: Duration = Duration::ZERO;

fn low_and_high(total: Option<u32>, low: Option<u32>, high: Option<u32>) -> Admission {
    Admission::new(total, vec![class(Priority::LOW, low), class(Priority::HIGH, high)])
}

/// Asks with tickets numbered from 1, one second apart, and returns the answers.
fn ask_all(admission: &mut Admission, classes: &[ClassIndex]) -> Vec<Asked> {
    let asks = classes.iter().zip(1..);
    asks.map(|(class, at)| admission.ask(claim(at, *class), Duration::from_secs(at))).collect()
}

fn claim(ticket: u64, class: ClassIndex) -> Claim {
    Claim { ticket: Ticket(ticket), class, tenant: 0 }
}

#[test]
fn a_full_class_does_not_hold_up_others() {
    let mut admission = low_and_high(Some(3), Some(1), Some(1));
    let asked = ask_all(&mut admission, &[LOW, LOW, HIGH, HIGH]);
    assert_eq!(asked, [Asked::Enter, Asked::Wait, Asked::Enter, Asked::Wait]);
    assert_eq!(admission.leave(LOW, ZERO), [Ticket(2)]);
    assert_eq!(admission.leave(HIGH, ZERO), [Ticket(4)]);
    assert_eq!((admission.inside(LOW), admission.inside(HIGH), admission.queued(LOW)), (1, 1, 0));
}

#[test]
fn priority_goes_before_age_and_age_before_the_order_of_classes() {
    let limits = vec![class(Priority::LOW, None), class(Priority::HIGH, None), class(Priority::LOW, None)];
    let mut admission = Admission::new(Some(1), limits);
    let asked = ask_all(&mut admission, &[LOW, ClassIndex(2), LOW, HIGH, HIGH]);
    assert_eq!(asked, [Asked::Enter, Asked::Wait, Asked::Wait, Asked::Wait, Asked::Wait]);
    let mut entered = Vec::new();
    for class in [LOW, HIGH, HIGH, ClassIndex(2)] {
        entered.extend(admission.leave(class, ZERO).iter().map(|ticket| ticket.0));
    }
    assert_eq!(entered, [4, 5, 2, 3]);
}

/// An mpl was one queue for all tenants. With it, a pool that shares evenly gave a tenant of many clients most.
#[test]
fn tenants_take_turns_behind_an_mpl() {
    let mut admission = low_and_high(None, Some(1), None);
    let mut ask = |ticket, tenant| admission.ask(Claim { tenant, ..claim(ticket, LOW) }, ZERO);
    assert_eq!(ask(0, 1), Asked::Enter);
    assert!((1..=50).all(|ticket| ask(ticket, 1) == Asked::Wait));
    assert!((51..=53).all(|ticket| ask(ticket, 2) == Asked::Wait));
    let first = |admission: &Admission| admission.waiting().iter().take(3).map(|it| it.ticket.0).collect::<Vec<_>>();
    assert_eq!(first(&admission), [1, 51, 2]);
    let order: Vec<u64> = (0..8).flat_map(|_| admission.leave(LOW, ZERO)).map(|ticket| ticket.0).collect();
    assert_eq!(order, [1, 51, 2, 52, 3, 53, 4, 5]);
    assert_eq!(first(&admission), [6, 7, 8]);
}

/// A queue in place of an error: whoever comes before the moment of its class waits for it, in order.
#[test]
fn a_class_with_a_pace_enters_at_its_moments() {
    let mut admission = low_and_high(None, None, None);
    admission.set_paces([Some(Pace { rate: "1/s".parse().expect("a rate"), burst: 2 })]);
    let at = Duration::from_millis;
    assert!(admission.bounds(LOW) && !admission.bounds(HIGH));
    let mut ask = |ticket, class, now| admission.ask(claim(ticket, class), at(now));
    assert_eq!(
        [1, 2, 3, 4].map(|ticket| ask(ticket, LOW, 10_000)),
        [Asked::Enter, Asked::Enter, Asked::Wait, Asked::Wait]
    );
    assert_eq!(ask(5, HIGH, 10_000), Asked::Enter, "it has no pace");
    assert_eq!(admission.next_moment(), Some(at(11_000)));
    let why = admission.waiting().iter().map(|waiting| waiting.why.to_string()).collect::<Vec<_>>();
    assert_eq!(why, ["class rate 1/s is used up"; 2]);
    assert_eq!(admission.leave(LOW, at(10_500)), [], "room alone is not enough");
    // A newcomer does not overtake one whose moment has come and that was not let in yet.
    assert_eq!(admission.ask(claim(6, LOW), at(11_100)), Asked::Wait);
    assert_eq!(admission.waiting().len(), 3);
    assert_eq!(admission.keep_pace(at(11_100)), [Ticket(3)]);
    assert_eq!(admission.keep_pace(at(11_100)), []);
    // It is changed while some wait, and then taken back.
    admission.set_paces([Some(Pace { rate: "60/min".parse().expect("a rate"), burst: 2 })]);
    assert_eq!(admission.keep_pace(at(12_100)), [Ticket(4)]);
    admission.set_paces([]);
    assert_eq!((admission.next_moment(), admission.keep_pace(at(12_101))), (None, vec![Ticket(6)]));
    assert_eq!(admission.waiting(), []);
}

#[test]
fn a_full_queue_refuses() {
    let limits = ClassLimits { queue_max: Some(1), ..class(Priority::LOW, Some(0)) };
    let mut admission = Admission::new(None, vec![limits]);
    let refused = RefusalReason::QueueFull { queued: 1, queue_max: 1 };
    assert_eq!(ask_all(&mut admission, &[LOW, LOW]), [Asked::Wait, Asked::Refused(refused)]);
    assert_eq!(refused.to_string(), "1 of the class wait already, at most 1 may");
    assert_eq!(admission.abandon(Ticket(1)), Abandoned::Waited);
    assert_eq!(admission.queued(LOW), 0);
}

/// A client leaves at the moment when its transaction's timeout expires, before its session is notified. The session
/// took "waits no more" for "was admitted" and returned a place that it never had: one more than the MPL got in.
#[test]
fn whoever_gives_up_as_its_time_expires_has_no_place_to_give_back() {
    let limits = ClassLimits { timeout: Some(Duration::from_secs(2)), ..class(Priority::LOW, Some(1)) };
    let mut admission = Admission::new(None, vec![limits]);
    let asked = ask_all(&mut admission, &[LOW, LOW, LOW, LOW]);
    assert_eq!(asked, [Asked::Enter, Asked::Wait, Asked::Wait, Asked::Wait]);
    assert_eq!(admission.expire(Duration::from_secs(5)), [Ticket(2), Ticket(3)]);
    assert_eq!(admission.abandon(Ticket(2)), Abandoned::Expired);
    // A cancel came first, then the client left.
    assert_eq!(admission.abandon(Ticket(2)), Abandoned::Expired);
    admission.confirm_expired(Ticket(2));
    assert_eq!(admission.leave(LOW, Duration::from_secs(5)), [Ticket(4)]);
    assert_eq!((admission.abandon(Ticket(4)), admission.inside(LOW)), (Abandoned::Admitted, 1));
    // A confirmed ticket is forgotten, and so is one that asks again.
    admission.confirm_expired(Ticket(3));
    assert!(admission.expired.is_empty());
    assert_eq!(admission.ask(claim(3, LOW), Duration::from_secs(5)), Asked::Wait);
    assert_eq!(admission.expire(Duration::from_secs(9)), [Ticket(3)]);
    assert_eq!(admission.ask(claim(3, LOW), Duration::from_secs(9)), Asked::Wait);
    assert_eq!(admission.abandon(Ticket(3)), Abandoned::Waited);
}

/// The only transaction inside waits for a lock that a session outside holds, whose next transaction waits for room:
/// neither ever continued.
#[test]
fn a_holder_is_let_in_beyond_the_limits_and_its_place_is_gone_with_it() {
    let mut admission = low_and_high(Some(2), Some(1), None);
    assert_eq!(ask_all(&mut admission, &[LOW, LOW, LOW]), [Asked::Enter, Asked::Wait, Asked::Wait]);
    assert!(admission.let_in(Ticket(3)) && !admission.let_in(Ticket(3)) && !admission.let_in(Ticket(1)));
    assert_eq!((admission.inside(LOW), admission.queued(LOW)), (2, 1));
    // The class is full until both have left.
    assert_eq!(admission.leave(LOW, ZERO), []);
    assert_eq!(admission.leave(LOW, ZERO), [Ticket(2)]);
}

#[test]
fn those_that_have_waited_long_enough_expire_in_time() {
    let limits = |seconds| ClassLimits { timeout: Some(Duration::from_secs(seconds)), ..class(Priority::LOW, Some(0)) };
    let mut admission = Admission::new(None, vec![limits(9), limits(5), class(Priority::HIGH, Some(0))]);
    let _ = ask_all(&mut admission, &[LOW, HIGH, HIGH, ClassIndex(2)]);
    let seconds = Duration::from_secs;
    assert_eq!((admission.next_expiry(), admission.expire(seconds(6))), (Some(seconds(7)), vec![]));
    assert_eq!(admission.expire(seconds(7)), [Ticket(2)]);
    assert_eq!(admission.next_expiry(), Some(seconds(8)));
    assert_eq!(admission.expire(seconds(10)), [Ticket(1), Ticket(3)]);
    assert_eq!((admission.next_expiry(), admission.queued(ClassIndex(2))), (None, 1));
}

#[test]
fn the_list_of_those_that_wait_says_why_and_where() {
    let mut admission = low_and_high(Some(3), Some(1), None);
    let _ = ask_all(&mut admission, &[LOW, HIGH, HIGH, LOW, LOW, HIGH, HIGH]);
    let told: Vec<_> = admission.waiting().iter().map(|it| (it.ticket.0, it.position, it.why.to_string())).collect();
    let total = "total mpl 3 is full".to_owned();
    let of_class = "class mpl 1 is full".to_owned();
    assert_eq!(told, [(6, 1, total.clone()), (7, 2, total), (4, 1, of_class.clone()), (5, 2, of_class)]);
    let since: Vec<_> = admission.waiting().iter().map(|waiting| waiting.since.as_secs()).collect();
    assert_eq!(since, [6, 7, 4, 5]);
}

#[test]
fn new_limits_hold_for_those_that_wait() {
    let mut admission = low_and_high(Some(1), None, None);
    let _ = ask_all(&mut admission, &[LOW, HIGH, LOW, HIGH]);
    // Low is more urgent now, and there is a third class.
    let limits = vec![class(Priority::HIGH, None), class(Priority::LOW, None), class(Priority::LOW, None)];
    let entered = admission.set_limits(Some(3), limits.clone(), ZERO);
    assert_eq!((entered, admission.inside(LOW)), (vec![Ticket(3), Ticket(2)], 2));
    // Fewer than are inside: no transaction is removed, and none enters until there is room.
    assert_eq!(admission.set_limits(Some(2), limits, ZERO), []);
    assert_eq!(admission.ask(claim(5, ClassIndex(2)), ZERO), Asked::Wait);
    assert_eq!((admission.leave(LOW, ZERO), admission.leave(LOW, ZERO)), (vec![], vec![Ticket(4)]));
}

#[test]
fn who_has_waited_as_long_as_it_may_does_not_enter() {
    let limits = ClassLimits { timeout: Some(Duration::from_secs(2)), ..class(Priority::LOW, Some(1)) };
    let mut admission = Admission::new(None, vec![limits]);
    let _ = ask_all(&mut admission, &[LOW, LOW, LOW]);
    assert_eq!(admission.leave(LOW, Duration::from_secs(4)), [Ticket(3)]);
    assert_eq!(admission.expire(Duration::from_secs(4)), [Ticket(2)]);
}

#[test]
fn classes_without_bounds_are_known() {
    assert!(!low_and_high(None, None, Some(1)).bounds(LOW));
    assert!(low_and_high(None, None, Some(1)).bounds(HIGH));
    assert!(low_and_high(Some(9), None, None).bounds(LOW));
}

#[derive(Debug, Clone)]
enum HistoryStep {
    Ask(u16),
    Leave(u16),
    /// One of the waiters.
    Abandon(usize),
    /// The session of an expired ticket is notified, after it has given up (true) or not.
    AbandonExpired(usize, bool),
    /// One of the waiters is let in, if any waits.
    LetIn(usize),
    TimePasses(u64),
    Expire,
    Change(Option<u32>, Vec<ClassLimits>),
}

fn limits() -> impl Strategy<Value = Vec<ClassLimits>> {
    let small = |max: u32| proptest::option::weighted(0.7, 0..max);
    let one = (0..3_u8, small(4), small(5), small(9)).prop_map(|(level, mpl, queue_max, seconds)| ClassLimits {
        priority: Priority::of_level(level).expect("a level"),
        mpl,
        queue_max,
        timeout: seconds.map(|seconds| Duration::from_secs(seconds.into())),
    });
    proptest::collection::vec(one, 3)
}

fn step() -> impl Strategy<Value = HistoryStep> {
    let total = proptest::option::weighted(0.7, 0..6_u32);
    prop_oneof![
        8 => (0..3_u16).prop_map(HistoryStep::Ask),
        6 => (0..3_u16).prop_map(HistoryStep::Leave),
        2 => (0..12_usize).prop_map(HistoryStep::Abandon),
        1 => (0..4_usize, any::<bool>()).prop_map(|(which, gives_up)| HistoryStep::AbandonExpired(which, gives_up)),
        1 => (0..12_usize).prop_map(HistoryStep::LetIn),
        2 => (0..4_u64).prop_map(HistoryStep::TimePasses),
        2 => Just(HistoryStep::Expire),
        1 => (total, limits()).prop_map(|(total, limits)| HistoryStep::Change(total, limits)),
    ]
}

/// Ticket, class and since when.
type Queued = (Ticket, u16, Duration);

/// The rules, stated as simply as possible.
#[derive(Debug, Default)]
struct Model {
    total_mpl: Option<u32>,
    classes: Vec<ClassLimits>,
    /// Classes of those inside.
    inside: Vec<u16>,
    /// In order of arrival.
    waiting: Vec<Queued>,
    /// Named by `expire`, and not notified yet.
    expired: Vec<Ticket>,
}

impl Model {
    fn limits(&self, class: u16) -> &ClassLimits {
        &self.classes[usize::from(class)]
    }

    fn has_room(&self, class: u16) -> bool {
        let inside = self.inside.iter().filter(|other| **other == class).count();
        let below = |count: usize, mpl: Option<u32>| mpl.is_none_or(|mpl| count < mpl as usize);
        below(inside, self.limits(class).mpl) && below(self.inside.len(), self.total_mpl)
    }

    fn ask(&mut self, ticket: Ticket, class: u16, now: Duration) -> &'static str {
        let queued = self.waiting.iter().filter(|waiting| waiting.1 == class).count();
        if self.has_room(class) {
            self.inside.push(class);
            "enters"
        } else if self.limits(class).queue_max.is_some_and(|most| queued >= most as usize) {
            "is refused"
        } else {
            self.waiting.push((ticket, class, now));
            "waits"
        }
    }

    /// Lets transactions in one by one, each time the first that may enter.
    fn enter(&mut self, now: Duration) -> Vec<Ticket> {
        let mut entered = Vec::new();
        loop {
            let may_enter =
                |waiting: &Queued| self.has_room(waiting.1) && self.expiry(waiting).is_none_or(|expiry| expiry > now);
            let able = (0..self.waiting.len()).filter(|at| may_enter(&self.waiting[*at]));
            // The first of equal ones, as `max_by_key` over the reverse.
            let Some(next) = able.rev().max_by_key(|at| self.limits(self.waiting[*at].1).priority) else {
                return entered;
            };
            let (ticket, class, _) = self.waiting.remove(next);
            self.inside.push(class);
            entered.push(ticket);
        }
    }

    fn leave(&mut self, class: u16, now: Duration) -> Option<Vec<Ticket>> {
        let at = self.inside.iter().position(|inside| *inside == class)?;
        self.inside.remove(at);
        Some(self.enter(now))
    }

    fn expiry(&self, waiting: &Queued) -> Option<Duration> {
        Some(waiting.2 + self.limits(waiting.1).timeout?)
    }

    fn expire(&mut self, now: Duration) -> Vec<Ticket> {
        let is_due = |waiting: &&Queued| self.expiry(waiting).is_some_and(|expiry| expiry <= now);
        let due: Vec<Ticket> = self.waiting.iter().filter(is_due).map(|waiting| waiting.0).collect();
        self.waiting.retain(|waiting| !due.contains(&waiting.0));
        self.expired.extend(&due);
        due
    }
}

/// Compares all that can be seen.
fn compare(admission: &Admission, model: &Model, now: Duration) {
    for class in 0..3 {
        let inside = model.inside.iter().filter(|inside| **inside == class).count();
        assert_eq!(admission.inside(ClassIndex(class)) as usize, inside);
    }
    // No transaction waits while there is room for it, except those whose timeout has expired.
    let is_due = |waiting: &Queued| model.expiry(waiting).is_some_and(|expiry| expiry <= now);
    let (with_room, mut expect): (Vec<_>, Vec<_>) =
        model.waiting.iter().copied().partition(|waiting| model.has_room(waiting.1));
    assert!(with_room.iter().all(is_due), "{with_room:?}");
    expect.sort_by_key(|waiting| Reverse(model.limits(waiting.1).priority));
    let told: Vec<_> = admission.waiting().iter().map(|it| (it.ticket, it.class.0, it.since)).collect();
    assert_eq!(told, expect);
    let next = model.waiting.iter().filter_map(|waiting| model.expiry(waiting)).min();
    assert_eq!(admission.next_expiry(), next);
    let expired: BTreeSet<Ticket> = model.expired.iter().copied().collect();
    assert_eq!(admission.expired, expired);
}

proptest! {
    #[test]
    fn random_histories_follow_the_model(
        total in proptest::option::weighted(0.7, 0..6_u32),
        limits in limits(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut admission = Admission::new(total, limits.clone());
        let mut model = Model { total_mpl: total, classes: limits, ..Model::default() };
        let mut now = Duration::ZERO;
        for (step, at) in steps.into_iter().zip(0..) {
            match step {
                HistoryStep::Ask(class) => {
                    let word = match admission.ask(claim(at, ClassIndex(class)), now) {
                        Asked::Enter => "enters",
                        Asked::Wait => "waits",
                        Asked::Refused(_) => "is refused",
                    };
                    prop_assert_eq!(word, model.ask(Ticket(at), class, now));
                }
                HistoryStep::Leave(class) => {
                    if let Some(entered) = model.leave(class, now) {
                        prop_assert_eq!(admission.leave(ClassIndex(class), now), entered);
                    }
                }
                HistoryStep::Abandon(which) if which < model.waiting.len() => {
                    let (ticket, ..) = model.waiting.remove(which);
                    prop_assert_eq!(admission.abandon(ticket), Abandoned::Waited);
                }
                HistoryStep::Abandon(_) => {}
                HistoryStep::AbandonExpired(which, gives_up) if which < model.expired.len() => {
                    let ticket = model.expired.remove(which);
                    if gives_up {
                        prop_assert_eq!(admission.abandon(ticket), Abandoned::Expired);
                    }
                    admission.confirm_expired(ticket);
                }
                HistoryStep::AbandonExpired(..) => {}
                HistoryStep::LetIn(which) => {
                    let waiting = model.waiting.get(which).copied();
                    let ticket = waiting.map_or(Ticket(u64::MAX), |waiting| waiting.0);
                    model.waiting.retain(|waiting| waiting.0 != ticket);
                    model.inside.extend(waiting.map(|waiting| waiting.1));
                    prop_assert_eq!(admission.let_in(ticket), waiting.is_some());
                }
                HistoryStep::TimePasses(seconds) => now += Duration::from_secs(seconds),
                HistoryStep::Expire => {
                    let mut expired = admission.expire(now);
                    expired.sort_unstable();
                    prop_assert_eq!(expired, model.expire(now));
                }
                HistoryStep::Change(total, limits) => {
                    model.total_mpl = total;
                    model.classes = limits.clone();
                    prop_assert_eq!(admission.set_limits(total, limits, now), model.enter(now));
                }
            }
            compare(&admission, &model, now);
        }
    }

    /// The limits themselves, without the model: never more inside than allowed, and no place is lost.
    #[test]
    fn never_more_than_the_limits_and_no_place_is_lost(
        total in 1..6_u32,
        mpl in 1..4_u32,
        steps in proptest::collection::vec((0..2_u16, 0..3_u8), 1..200),
    ) {
        let timeout = Some(Duration::from_secs(40));
        let limits = ClassLimits { timeout, ..class(Priority::LOW, Some(mpl)) };
        let mut admission = Admission::new(Some(total), vec![limits.clone(), ClassLimits { priority: Priority::HIGH, ..limits }]);
        for ((class, action), at) in steps.into_iter().zip(0..) {
            let now = Duration::from_secs(at);
            match action {
                0 => drop(admission.ask(claim(at, ClassIndex(class)), now)),
                1 if admission.inside(ClassIndex(class)) > 0 => drop(admission.leave(ClassIndex(class), now)),
                1 => {
                    let waiting = admission.waiting().into_iter().find(|waiting| waiting.ticket.0 % 2 == at % 2);
                    prop_assert!(waiting.is_none_or(|it| admission.abandon(it.ticket) == Abandoned::Waited));
                }
                _ => drop(admission.expire(now)),
            }
            let inside = [LOW, HIGH].map(|class| admission.inside(class));
            prop_assert!(inside.iter().all(|inside| *inside <= mpl) && inside.iter().sum::<u32>() <= total);
        }
        // When all have left and given up, as many as allowed enter again.
        for class in [LOW, HIGH] {
            for waiting in admission.waiting() {
                prop_assert_eq!(admission.abandon(waiting.ticket), Abandoned::Waited);
            }
            while admission.inside(class) > 0 {
                prop_assert_eq!(admission.leave(class, Duration::MAX), vec![]);
            }
        }
        let entered = (0..total + 1).filter(|at| {
            let class = ClassIndex((at % 2) as u16);
            admission.ask(claim(u64::MAX - u64::from(*at), class), Duration::from_secs(999)) == Asked::Enter
        });
        prop_assert_eq!(entered.count() as u32, total.min(2 * mpl));
    }
}
