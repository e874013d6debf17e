//! Cases by hand, and a simulation whose truth is known.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::*;

fn seen(text: &str) -> Seen<'_> {
    Seen { text: text.as_bytes(), is_cut: false, class: Some(ClassIndex(1)), ran: Duration::from_secs(2) }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn texts_that_differ_in_constants_are_one_statement_for_a_minute() {
    let mut activity = Activity::default();
    activity.note(at(0), 0, [seen("select 1 from t where a = 7"), seen("select 1 from t where a = 8"), seen("commit")]);
    activity.note(at(1), 3, [seen("select 1 from t where a = 9")]);
    let minute = activity.minute(at(1));
    let told: Vec<_> = minute.statements.iter().map(|of| (of.samples, of.running, of.class)).collect();
    assert_eq!(told, [(3, 1, Some(ClassIndex(1))), (1, 0, Some(ClassIndex(1)))]);
    assert_eq!((minute.looks, minute.hidden), (2, 3));
    let first = &minute.statements[0];
    assert_eq!(first.fingerprint, Some(fingerprint(b"select 1 from t where a = 1")));
    assert!(first.share.0 == 0.75 && first.share.1 < 0.75 && first.share.2 > 0.75, "{:?}", first.share);
    assert!(!first.text.as_deref().unwrap_or_default().contains('7'), "constants may be secrets: {:?}", first.text);
    assert_eq!(activity.minute(at(60)).statements.len(), 1);
    assert_eq!((activity.minute(at(61)), activity.known.len()), (Minute { hidden: 3, ..Minute::default() }, 0));
}

/// The fingerprint of a part of a text is none by which the whole is governed.
#[test]
fn a_text_that_the_server_has_cut_has_no_fingerprint() {
    let mut activity = Activity::default();
    activity.note(at(0), 0, [Seen { is_cut: true, ..seen("select a from t where b = 'xx") }]);
    assert_eq!(activity.minute(at(0)).statements[0].fingerprint, None);
}

/// A client that makes up statements must not take memory, nor push out those that take the time.
#[test]
fn what_is_too_much_to_tell_apart_is_counted_together() {
    let mut activity = Activity::default();
    for look in 0..50 {
        let made_up: Vec<String> = (0..100).map(|number| format!("select c{look}_{number} from t")).collect();
        let own = [seen("select work"), seen("select work")];
        activity.note(at(look), 0, own.into_iter().chain(made_up.iter().map(|text| seen(text))));
        assert!(activity.known.len() <= STATEMENTS_MAX);
    }
    let minute = activity.minute(at(50));
    assert_eq!(minute.statements[0].samples, 100);
    let others = minute.statements.last().expect("many");
    assert_eq!((&others.text, others.fingerprint), (&None, None));
    assert_eq!(minute.statements.iter().map(|of| of.samples).sum::<u64>(), 50 * 102);
}

/// Sessions run two statements in turns, of known lengths, with pauses. Whether they are short or longer than the time
/// between two looks, the interval has the share of the minute's time that was really spent.
#[test]
fn shares_are_those_of_the_time() {
    for lengths_ms in [[3.0, 20.0], [20.0, 300.0], [400.0, 900.0], [200.0, 5000.0]] {
        let is_covered = |seed: &u64| {
            let (activity, truth) = &mut minute_of(*seed, lengths_ms);
            let minute = activity.minute(at(59));
            let first = minute.statements.iter().find(|of| of.text.as_deref() == Some("select first"));
            let (_, low, high) = first.map_or((0.0, 0.0, 1.0), |of| of.share);
            (low..=high).contains(truth)
        };
        let covered = (0..400).filter(is_covered).count();
        assert!(covered >= 372, "{lengths_ms:?}: {covered} of 400, which should be 380");
    }
}

/// Six sessions for a minute, looked at once a second, and the first statement's real share of the time.
fn minute_of(seed: u64, lengths_ms: [f64; 2]) -> (Activity, f64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut length = |mean: f64| -mean * (1.0 - random.next_u32() as f64 / f64::from(u32::MAX)).max(1e-9).ln();
    let mut looks = vec![Vec::new(); 60];
    let mut spent = [0.0_f64; 2];
    for _ in 0..6 {
        let mut now = -length(1000.0);
        while now < 59_000.0 {
            for (which, text) in ["select first", "select second"].into_iter().enumerate() {
                let end = now + length(lengths_ms[which]);
                spent[which] += (end.min(59_000.0) - now.max(0.0)).max(0.0);
                for (look, running) in looks.iter_mut().enumerate() {
                    if (now..end).contains(&(look as f64 * 1000.0)) {
                        running.push(seen(text));
                    }
                }
                now = end + length(50.0);
            }
        }
    }
    let mut activity = Activity::default();
    for (look, running) in (0..).zip(looks) {
        activity.note(at(look), 0, running);
    }
    (activity, spent[0] / (spent[0] + spent[1]))
}
