//! Sessions that receive nonsense.

use plimsoll_policy::Abandoned;
use proptest::prelude::*;

use super::story::Sent;
use super::*;

/// Messages that are valid by themselves, and some that are not.
fn message(from_client: bool) -> impl Strategy<Value = Vec<u8>> {
    let words = if from_client {
        "Q:begin Q:commit Q:update P:s:commit P::select B::s B:: E D H S C:s d c f F Q:set_plimsoll.class='low' Q:listen_x X"
    } else {
        "1 2 3 D:row C:TAG Z:I Z:T Z:E E:57014 E:42P01 N:00000 S:application_name=x A G H W"
    };
    let words = words.split(' ').collect::<Vec<_>>();
    let sound = proptest::sample::select(words).prop_map(move |word| story::write(word, from_client));
    let garbled = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..12));
    let garbled = garbled.prop_map(|(tag, body)| story::framed(tag, &body));
    prop_oneof![8 => sound, 1 => garbled, 1 => proptest::collection::vec(any::<u8>(), 0..8)]
}

#[derive(Debug, Clone)]
enum Act {
    Client(Vec<u8>),
    Server(Vec<u8>),
    Aim,
    Arrived,
    Idle,
    Admitted,
    TimedOut,
    Cancelled,
    Time,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => message(true).prop_map(Act::Client),
        6 => message(false).prop_map(Act::Server),
        1 => Just(Act::Aim),
        1 => Just(Act::Arrived),
        1 => Just(Act::Idle),
        1 => Just(Act::Admitted),
        1 => Just(Act::TimedOut),
        1 => Just(Act::Cancelled),
        1 => Just(Act::Time),
    ]
}

proptest! {
    /// No sequence of messages, commands and nonsense makes a session panic, keep its admission after it is closed, or
    /// hold more than one message back.
    #[test]
    fn nothing_that_is_sent_breaks_a_session(user in prop_oneof![Just("low_user"), Just("high_user")], acts in proptest::collection::vec(act(), 0..60)) {
        let mut story = Story::new(user);
        let card = story.session.card.clone();
        let mut held = Vec::new();
        let mut held_of_server = Vec::new();
        let mut out = Sent::default();
        for act in acts {
            story.now += Duration::from_millis(700);
            let now = story.now;
            match act {
                Act::Client(bytes) => held.extend_from_slice(&bytes),
                Act::Server(bytes) => {
                    held_of_server.extend_from_slice(&bytes);
                    let Ok(taken) = story.session.on_server(&held_of_server, now, &mut out) else { break };
                    held_of_server.drain(..taken);
                }
                Act::Aim => {
                    let (transaction, unit) = place(&card);
                    card.aim_preemption(transaction, unit);
                }
                Act::Arrived if card.state().cancels.in_flight > 0 => {
                    card.cancel_arrived(true, true);
                    story.session.on_command(SessionCommand::CancelArrived, now, &mut out);
                }
                Act::Idle => {
                    let (transaction, unit) = place(&card);
                    story.session.on_command(SessionCommand::RollBackIdle { transaction, unit, event: EventId(1) }, now, &mut out);
                }
                Act::TimedOut if story.governor.abandon(card.id) == Abandoned::Waited => {
                    story.session.on_command(SessionCommand::TimedOut, now, &mut out);
                }
                Act::Cancelled => story.session.on_command(SessionCommand::ClientCancelled, now, &mut out),
                Act::Time => story.session.on_time(now, &mut out),
                Act::Arrived | Act::TimedOut | Act::Admitted => {}
            }
            if story.session.takes_client_bytes() {
                let Ok(taken) = story.session.on_client(&held, now, &mut out) else { break };
                held.drain(..taken);
            }
            let _ = story.session.wakes_at();
        }
        story.session.close(story.now);
        prop_assert!(held_of_server.len() <= INSPECT_MAX);
        prop_assert_eq!(story.governor.inside(ClassIndex(0)) + story.governor.inside(ClassIndex(1)), 0);
        prop_assert_eq!(story.governor.waiting().len(), 0);
    }

    /// The output does not depend on how a conversation is divided into reads.
    #[test]
    fn cuts_make_no_difference(acts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(0_usize..12, 1..4)), 1..12), cut in 1_usize..9) {
        const CLIENT: [&str; 12] = ["Q:select", "P:s:select", "B::s", "E", "S", "D", "H", "C:s", "Q:begin", "Q:commit", "F", "P::x"];
        const SERVER: [&str; 12] = ["1", "2", "D:row", "C:TAG", "Z:I", "Z:T", "N:00000", "E:42P01", "S:a=b", "A", "3", "D:another_row"];
        let run = |step: usize| {
            let mut story = Story::new("high_user");
            let (mut out, mut kept) = (Sent::default(), Vec::new());
            for (from_client, words) in &acts {
                let names = if *from_client { CLIENT } else { SERVER };
                let bytes: Vec<u8> = words.iter().flat_map(|word| story::write(names[*word], *from_client)).collect();
                let mut held = if *from_client { std::mem::take(&mut kept) } else { Vec::new() };
                for part in bytes.chunks(step) {
                    held.extend_from_slice(part);
                    let taken = if *from_client {
                        story.session.on_client(&held, story.now, &mut out)
                    } else {
                        story.session.on_server(&held, story.now, &mut out)
                    };
                    held.drain(..taken.expect("sound messages"));
                    // Waiting bytes are offered again when the state has changed.
                    while !*from_client && story.session.takes_client_bytes() {
                            let taken = story.session.on_client(&kept, story.now, &mut out).expect("sound messages");
                        kept.drain(..taken);
                        if taken == 0 {
                            break;
                        }
                    }
                }
                if *from_client {
                    kept = held;
                } else {
                    assert!(held.is_empty());
                }
            }
            let is_out_of_step = story.governor.statistics.desyncs.load(Ordering::Relaxed) > 0;
            ((out.server, out.client, kept), is_out_of_step)
        };
        let (whole, in_parts) = (run(usize::MAX), run(cut));
        // An answer without a request is passed on, and whether it precedes the request depends on the cuts.
        prop_assume!(!whole.1 && !in_parts.1);
        prop_assert_eq!(whole.0, in_parts.0);
    }
}
