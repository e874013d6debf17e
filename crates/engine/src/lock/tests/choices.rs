//! Choices among the waiters of a name that becomes free, where a schedule does not show them.

use super::*;

/// The number of a member's wait, as a search for cycles reads it from the queue, and as it checks it with the member.
fn numbers(locks: &LockTable, name: LockName, member: &Member) -> [u64; 2] {
    let heads = locks.partition(name.hash()).lock();
    let queue = heads.get(name, name.hash()).expect("it is locked").queue();
    let waiter = queue.iter().find(|waiter| waiter.slot == member.slot).expect("it waits");
    [waiter.ticket.sequence, member.waiting.lock().sequence]
}

/// Invariant 7: a search for cycles that has read the queue before the choice must see that it is out of date, because
/// the writer that was chosen to be next has passed another.
#[test]
fn a_waiter_that_was_put_in_front_has_a_new_number() {
    let locks = LockTable::new(options("ldsf"));
    let [holder, passed, reader, next, behind] = [(); 5].map(|()| joined(&locks, Priority::LOW));
    let [name, other, third] = [1, 2, 3].map(|row| LockName::row(0, row));
    let steps = [
        (&holder, name, Mode::X, Answer::Granted),
        (&next, other, Mode::X, Answer::Granted),
        (&reader, other, Mode::S, Answer::Wait),
        (&passed, name, Mode::X, Answer::Wait),
        (&behind, third, Mode::S, Answer::Granted),
        (&behind, name, Mode::S, Answer::Wait),
        (&next, name, Mode::X, Answer::Wait),
    ];
    for (member, name, mode, answer) in steps {
        assert_eq!(locks.ask(member, name, mode), Ok(answer), "{name:?} {mode:?}");
    }
    // Two depend on `behind`, as on `next`, and readers win a tie.
    let waiter = joined(&locks, Priority::LOW);
    assert_eq!(locks.ask(&waiter, third, Mode::X), Ok(Answer::Wait));
    let [before_passed, before_next] = [&passed, &next].map(|member| numbers(&locks, name, member));
    locks.release(&holder, name);
    assert_eq!(locks.outcome(&behind).map(|decision| decision.outcome), Some(Ok(Answer::Granted)));
    assert_eq!(numbers(&locks, name, &passed), before_passed);
    let [in_queue, of_member] = numbers(&locks, name, &next);
    assert!(in_queue == of_member && in_queue > before_next[0], "{in_queue} {of_member} {before_next:?}");
}
