//! Sessions as text: what each side sends, and the units that follow.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::*;
use crate::messages::{Messages, put};
use crate::testing::opened;

/// Notes events in words, and gives memory up to a bound.
#[derive(Default)]
struct Notes {
    events: RefCell<Vec<Event>>,
    lost: RefCell<Vec<(u64, WhyLost)>>,
    held: Cell<usize>,
    room: usize,
}

impl Sink for Notes {
    fn record(&self, event: Event, _: TextRules) {
        self.events.borrow_mut().push(event);
    }

    fn lose(&self, at_us: u64, why: WhyLost) {
        self.lost.borrow_mut().push((at_us, why));
    }

    fn reserve(&self, bytes: usize) -> bool {
        let has_room = self.held.get() + bytes <= self.room;
        self.held.set(self.held.get() + if has_room { bytes } else { 0 });
        has_room
    }

    fn release(&self, bytes: usize) {
        self.held.set(self.held.get() - bytes);
    }
}

/// The bytes of messages in words: `Q:select` is a query with that text, `Z:I` says idle, `E:40001` fails, `D:x` is a row.
fn bytes(words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words.split_whitespace() {
        let (tag, text) = word.split_once(':').unwrap_or((word, ""));
        let tag = tag.as_bytes()[0];
        let body = match tag {
            b'Q' | b'C' => [text.as_bytes(), b"\0"].concat(),
            b'E' if !text.is_empty() => [b"SERROR\0C", text.as_bytes(), b"\0Mno\0\0"].concat(),
            _ => text.as_bytes().to_vec(),
        };
        put(tag, &body, &mut bytes);
    }
    bytes
}

/// What a unit holds, in words: the kinds of its messages, and its answer.
fn told(event: &Event) -> String {
    match event {
        Event::Opened(opened) => format!("opened {}", opened.user),
        Event::Closed(_) => "closed".to_owned(),
        Event::Lost(_) => "lost".to_owned(),
        Event::Unit(unit) => {
            let kinds: String = Messages(&unit.request).map(|message| char::from(message.tag)).collect();
            let Answer { state, tags, error, rows, .. } = &unit.answer;
            let state = if *state == 0 { '-' } else { char::from(*state) };
            let error = error.as_deref().map(|error| format!(" {error}")).unwrap_or_default();
            let rows = if *rows > 0 { format!(" {rows} rows") } else { String::new() };
            let times = format!("{}+{}", unit.at_us, unit.took_us);
            format!("{kinds} {times} {state}{error} {}{rows}", tags.join(",")).trim_end().to_owned()
        }
    }
}

/// Plays a session: each line is sent by the client (`>`) or the server (`<`) a microsecond after the one before.
/// `pieces` cuts what is sent.
fn play(story: &str, pieces: usize) -> Vec<String> {
    let notes = Notes { room: 1 << 30, ..Notes::default() };
    let mut tap = Tap::open(opened(1, 0), TextRules::default(), &notes);
    let mut now = 0;
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        now += 1;
        let (side, words) = line.split_at(1);
        for piece in bytes(words).chunks(pieces) {
            match side {
                ">" => tap.on_client(piece, now, &notes),
                _ => tap.on_server(piece, now, &notes),
            }
        }
    }
    assert!(!tap.is_deaf);
    tap.close(now + 1, &notes);
    assert_eq!(notes.held.get(), 0);
    let events = notes.events.borrow();
    assert_eq!((told(&events[0]), told(events.last().expect("one"))), ("opened shop".to_owned(), "closed".to_owned()));
    events[1..events.len() - 1].iter().map(told).collect()
}

#[track_caller]
fn check(story: &str, expect: &[&str]) {
    for pieces in [usize::MAX, 1, 2, 3, 7] {
        assert_eq!(play(story, pieces), expect, "in pieces of {pieces} bytes");
    }
}

#[test]
fn a_query_is_a_unit_and_so_is_everything_up_to_a_sync() {
    check(
        "> Q:select\n< T D:a D:b C:SELECT_2 Z:I\n> P B E S\n< 1 2 D:a C:SELECT_1 Z:T\n> F\n< V Z:T\n> X",
        &["Q 1+1 I SELECT_2 2 rows", "PBES 3+1 T SELECT_1 1 rows", "F 5+1 T"],
    );
}

#[test]
fn a_unit_begins_with_its_first_message_and_ends_with_its_answer() {
    check("> P\n> B E\n> S\n< 1 2\n< C:SELECT_0 Z:I", &["PBES 1+4 I SELECT_0"]);
    check("> P H\n< 1\n> B E S\n< 2 C:SELECT_0 Z:I", &["PHBES 1+3 I SELECT_0"]);
}

#[test]
fn units_in_a_row_are_answered_in_order() {
    check("> Q:a Q:b P B E S\n< C:A Z:I\n< E:23505 Z:I 1 2 C:C Z:I", &["Q 1+1 I A", "Q 1+2 I 23505", "PBES 1+2 I C"]);
}

#[test]
fn messages_that_answer_nothing_are_left_out() {
    check("< S N A\n> Q:a\n< N C:A A S Z:I\n< A S", &["Q 2+1 I A"]);
}

#[test]
fn copied_data_belong_to_the_unit_that_copies() {
    check("> Q:copy\n< G\n> d:1 d:2 c\n< C:COPY_2 Z:I", &["Qddc 1+3 I COPY_2"]);
    check("> Q:copy\n< G\n> d:1\n> f:no\n< E:57014 Z:I\n> Q:a\n< C:A Z:I", &["Qdf 1+4 I 57014", "Q 6+1 I A"]);
    // libpq: the first Sync is ignored by the server.
    check("> P B E S\n< 1 2 G\n> d:1 c S\n< C:COPY_1 Z:I", &["PBESdcS 1+3 I COPY_1"]);
    // Everything sent ahead.
    check("> P B E S d:1 c S\n< 1 2 G C:COPY_1 Z:I", &["PBESdcS 1+1 I COPY_1"]);
    // Where the copy fails at once, the server answers both.
    check("> P B E S d:1 c S\n< E:42P01 Z:I Z:I", &["PBES 1+1 I 42P01", "dcS 1+1 I"]);
    // A Sync after each row.
    check("> Q:copy\n< G\n> d:1 S d:2 S c\n< C:COPY_2 Z:I\n> Q:a\n< C:A Z:I", &["QdSdSc 1+3 I COPY_2", "Q 5+1 I A"]);
    check("> Q:copy\n< H d:1 d:2 c C:COPY_2 Z:I", &["Q 1+1 I COPY_2"]);
}

#[test]
fn after_an_error_everything_up_to_the_sync_is_one_unit() {
    check("> P B E\n< E:42601\n> Q:a Q:b S\n< Z:I\n> Q:c\n< C:C Z:I", &["PBEQQS 1+3 I 42601", "Q 5+1 I C"]);
}

#[test]
fn the_first_error_counts() {
    check("> Q:a\n< E:40001 E:25P02 Z:E", &["Q 1+1 E 40001"]);
}

#[test]
fn units_without_an_answer_are_told_when_the_session_ends() {
    check("> Q:a Q:b\n< D:x C:A", &["Q 1+2 - A 1 rows", "Q 1+2 -"]);
    // One that was not sent as a whole was not run.
    check("> P B E", &[]);
}

#[test]
fn an_answer_begins_with_whole_messages_and_its_rows_have_a_checksum_that_ignores_their_order() {
    let answer = |words: &str| {
        let notes = Notes::default();
        let mut tap = Tap::open(opened(1, 0), TextRules::default(), &notes);
        tap.on_client(&bytes("Q:a"), 1, &notes);
        tap.on_server(&bytes(words), 2, &notes);
        let Some(Event::Unit(unit)) = notes.events.borrow().last().cloned() else { panic!("no unit") };
        unit.answer
    };
    let long = "x".repeat(600);
    let first = answer(&format!("T:columns D:{long} D:short D:{long} D:short Z:I"));
    let kept: Vec<u8> = Messages(&first.begin).map(|message| message.tag).collect();
    assert_eq!(kept, *b"TDD");
    assert!(first.begin.len() <= 1024);
    let second = answer(&format!("T:columns D:short D:{long} D:{long} D:short Z:I"));
    assert_eq!(first.checksum, second.checksum);
    assert_ne!(first.checksum, answer("D:other Z:I").checksum);
    assert_eq!(
        (first.rows, first.bytes),
        (4, bytes(&format!("T:columns D:{long} D:short D:{long} D:short Z:I")).len() as u64)
    );
    // One byte, and the CRC-32 of "a", as published.
    assert_eq!(answer("D:a Z:I").checksum, 0x0000_0001_e8b7_be43);
}

#[test]
fn a_request_that_is_too_long_or_finds_no_memory_is_lost_alone() {
    let copy = |room: usize, rows: usize| {
        let notes = Notes { room, ..Notes::default() };
        let mut tap = Tap::open(opened(1, 0), TextRules::default(), &notes);
        tap.on_client(&bytes("Q:copy"), 1, &notes);
        tap.on_server(&bytes("G"), 2, &notes);
        let mut row = Vec::new();
        put(b'd', &[b'x'; 50_000], &mut row);
        (0..rows).for_each(|_| tap.on_client(&row, 3, &notes));
        tap.on_client(&bytes("c"), 4, &notes);
        tap.on_server(&bytes("C:COPY Z:I"), 5, &notes);
        tap.on_client(&bytes("Q:a"), 6, &notes);
        tap.on_server(&bytes("C:A Z:I"), 7, &notes);
        tap.close(8, &notes);
        assert_eq!(notes.held.get(), 0);
        let units = notes.events.borrow().iter().map(told).filter(|told| told.starts_with('Q')).count();
        (units, notes.lost.take())
    };
    assert_eq!(copy(1 << 30, 10), (2, vec![]));
    assert_eq!(copy(1 << 30, 400), (1, vec![(1, WhyLost::TooLarge)]));
    assert_eq!(copy(1 << 20, 100), (1, vec![(1, WhyLost::TooFast)]));
}

#[test]
fn bytes_that_are_no_messages_make_it_deaf() {
    let notes = Notes::default();
    let mut tap = Tap::open(opened(1, 0), TextRules::default(), &notes);
    tap.on_client(b"Q\0\0\0\x01", 1, &notes);
    tap.on_client(&bytes("Q:a"), 2, &notes);
    tap.on_server(&bytes("C:A Z:I"), 3, &notes);
    tap.close(4, &notes);
    assert_eq!(notes.events.borrow().len(), 2);
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(sent in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let notes = Notes::default();
        let mut tap = Tap::open(opened(1, 0), TextRules::default(), &notes);
        for (is_client, bytes) in &sent {
            if *is_client { tap.on_client(bytes, 1, &notes) } else { tap.on_server(bytes, 2, &notes) }
        }
        tap.close(3, &notes);
        prop_assert_eq!(notes.held.get(), 0);
    }

    #[test]
    fn no_order_of_messages_makes_it_fail(words in "(([><])( (Q:a|P|B|E:42601|S|H|d:1|c|f|G|C:A|Z:I|D:x|T|X)){0,6}\n){0,12}") {
        play(&words, usize::MAX);
    }
}
