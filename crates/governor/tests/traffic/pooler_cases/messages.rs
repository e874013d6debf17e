//! COPY, prepared statements, pipelines, and messages of any size.

use super::super::client::{Message, message};
use super::super::requests::{bind, close, copy_data, copy_done, describe, execute, flush, parse, query, sync, text};
use super::CaseStep::{Hear, Say};
use super::{CaseStep, World, play, say};

/// COPY by each protocol, with rows that are good or bad, ended before or after the server has refused a row.
#[test]
fn copies_end_as_they_do_without_a_governor() {
    let mut world = World::start();
    /// A protocol's name, how a copy begins, and the messages after its end.
    type Begin<'a> = (&'a str, Vec<u8>, &'a [Vec<u8>]);
    let begins: [Begin<'_>; 3] = [
        ("simple", query("COPY copied FROM STDIN"), &[]),
        ("extended", [parse("", "COPY copied FROM STDIN"), bind("", &[]), execute(), sync()].concat(), &[sync()]),
        (
            "prepared",
            [parse("p", "COPY copied FROM STDIN"), bind("p", &[]), execute(), sync()].concat(),
            &[sync(), close("p"), sync()],
        ),
    ];
    let mut cases = Vec::new();
    for (protocol, begin, ends) in begins {
        let begin = || [Say(begin.clone()), Hear(b'G')];
        let end = || Say([&[copy_done()][..], ends].concat().concat());
        let fail = || Say([&[message(b'f', &text("enough"))][..], ends].concat().concat());
        let mut case = |name: &str, steps: Vec<CaseStep>| cases.push((format!("{protocol}: {name}"), steps));
        case("good", [&begin()[..], &[say([copy_data("1\n"), copy_data("2\n")]), end()]].concat());
        case("nothing", [&begin()[..], &[end()]].concat());
        case("given up", [&begin()[..], &[say([copy_data("1\n")]), fail()]].concat());
        case("refused before its end", [&begin()[..], &[say([copy_data("bad\n")]), Hear(b'E'), end()]].concat());
        case("refused after its end", [&begin()[..], &[say([copy_data("bad\n")]), end()]].concat());
        // Late rows, and their end, arrive when the server has long ended the copy.
        let late = [say([copy_data("bad\n")]), Hear(b'E'), say([copy_data("3\n")]), end(), say([query("SELECT 1")])];
        case("late rows", [&begin()[..], &late].concat());
        let block = [say([query("BEGIN")]), Hear(b'Z')];
        let after = [say([query("ROLLBACK"), query("SELECT 'after'")])];
        let refused = [say([copy_data("bad\n")]), Hear(b'E'), end()];
        case("refused in a block", [&block[..], &begin(), &refused, &after].concat());
    }
    let out = "COPY (SELECT generate_series(1, 3)) TO STDOUT";
    cases.push(("simple: out".to_owned(), vec![say([query(out)])]));
    cases.push(("extended: out".to_owned(), vec![say([parse("", out), bind("", &[]), execute(), sync()])]));
    cases.push((
        "prepared: out".to_owned(),
        vec![say([parse("o", out), bind("o", &[]), execute(), sync(), close("o")])],
    ));
    world.check(&cases);
}

/// A server that takes in a copy ignores each Sync and Flush, in both protocols. The session of a copy begun by a Query
/// once waited for their answers forever, and kept its place in its class.
#[test]
fn a_copy_swallows_syncs_in_each_protocol() {
    let mut world = World::start();
    let begins = [
        ("simple", query("COPY copied FROM STDIN"), vec![]),
        ("extended", [parse("", "COPY copied FROM STDIN"), bind("", &[]), execute()].concat(), sync()),
    ];
    let mut cases = Vec::new();
    for (protocol, begin, end) in begins {
        let mut case = |name: &str, steps: Vec<CaseStep>| cases.push((format!("{protocol}: {name}"), steps));
        let done = || [copy_done(), end.clone()].concat();
        // In the extended protocol, a copy begins with the first answer, which a Flush or Sync asks for.
        let begun = || vec![say([begin.clone(), sync()]), Hear(b'G')];
        let row = || copy_data("1\n");
        case("in the middle", [begun(), vec![say([row(), sync(), flush(), sync(), row(), done()])]].concat());
        case("ahead", vec![say([begin.clone(), sync(), sync(), row(), sync(), done(), query("SELECT 1")])]);
        case("given up", [begun(), vec![say([sync(), message(b'f', &text("enough")), end.clone()])]].concat());
        case("a stray end", vec![say([copy_done(), begin.clone(), sync(), row(), done(), query("SELECT 3")])]);
    }
    world.check(&cases);
    cases.extend(copies_that_fail_around_a_sync());
    world.check_unpooled(&cases);
    // Each has left its place in the class.
    let mut idle = world.governed("low");
    for (_, steps) in &cases {
        play(&mut idle, steps);
        assert_eq!(world.governed("low").value("SELECT 'in'").unwrap(), "in");
    }
}

/// Copies that fail before a `Sync`, or behind one: the server answers those that follow the failure.
fn copies_that_fail_around_a_sync() -> [(String, Vec<CaseStep>); 2] {
    let (row, bad) = (copy_data("1\n"), copy_data("bad\n"));
    let simple = say([row.clone(), sync(), bad.clone(), copy_done(), query("SELECT 2")]);
    let extended = say([sync(), bad, sync(), copy_done(), sync(), query("SELECT 2")]);
    let begin = say([parse("", "COPY copied FROM STDIN"), bind("", &[]), execute(), sync()]);
    [
        ("simple: refused".to_owned(), vec![say([query("COPY copied FROM STDIN")]), Hear(b'G'), simple]),
        ("extended: refused".to_owned(), vec![begin, Hear(b'G'), extended]),
    ]
}

/// In a pool, an answer too many would be taken for another client's. No driver sends a `Sync` there.
#[test]
fn a_pooled_session_whose_answers_cannot_be_told_apart_is_ended() {
    let mut world = World::start();
    for (name, steps) in copies_that_fail_around_a_sync() {
        let (mut client, _rival) = world.pooled("low");
        for step in &steps {
            match step {
                Say(bytes) => client.send(bytes).unwrap(),
                Hear(tag) => while client.message().unwrap().tag != *tag {},
            }
        }
        let mut states = Vec::new();
        while let Ok(message) = client.message() {
            states.extend((message.tag == b'E').then(|| message.field(b'C')));
        }
        assert_eq!(states, ["22P02", "08006"], "{name}");
    }
    world.pooled.assert_alive();
}

/// Prepared statements that fail, do not exist, exist already, or are closed twice.
#[test]
fn prepared_statements_and_pipelines_answer_as_they_do_without_a_governor() {
    let mut world = World::start();
    let run = |name: &str| [bind(name, &[]), execute()].concat();
    let case = |name: &str, steps: Vec<CaseStep>| (name.to_owned(), steps);
    world.check(&[
        case("a name that is not there", vec![say([describe("nowhere"), sync(), run("nowhere"), sync()])]),
        case(
            "a name twice",
            vec![say([parse("twice", "SELECT 1"), sync(), parse("twice", "SELECT 2"), sync(), run("twice"), sync()])],
        ),
        case("closed twice", vec![say([close("twice"), close("twice"), sync(), describe("twice"), sync()])]),
        case(
            "a table that comes later",
            vec![
                say([parse("", "SELECT * FROM later_on"), run(""), sync()]),
                Hear(b'Z'),
                say([
                    query("CREATE TEMP TABLE later_on (a text)"),
                    parse("later", "SELECT a FROM later_on"),
                    run("later"),
                    sync(),
                ]),
                say([query("DROP TABLE later_on"), close("later"), sync()]),
            ],
        ),
    ]);
}

/// Pipelines in which a statement fails, and the messages after it.
#[test]
fn pipelines_that_fail_answer_as_they_do_without_a_governor() {
    let mut world = World::start();
    let run = |name: &str| [bind(name, &[]), execute()].concat();
    let case = |name: &str, steps: Vec<CaseStep>| (name.to_owned(), steps);
    world.check(&[
        case(
            "an error between statements",
            vec![
                say([
                    parse("one", "SELECT 1"),
                    run("one"),
                    parse("bad", "SELECT nothing"),
                    run("bad"),
                    parse("three", "SELECT 3"),
                    run("three"),
                ]),
                say([sync(), run("one"), sync(), run("three"), sync(), close("one"), sync()]),
            ],
        ),
        case(
            "an error that is known long before the end of its unit",
            vec![
                say([parse("", "SELECT nothing"), flush()]),
                Hear(b'E'),
                say([parse("", "SELECT 123"), run(""), sync()]),
                Hear(b'Z'),
                say([parse("", "SELECT 5"), run(""), sync()]),
            ],
        ),
        case(
            "DEALLOCATE ALL and DISCARD ALL",
            vec![
                say([parse("gone", "SELECT 1"), run("gone"), sync(), query("DEALLOCATE ALL"), run("gone"), sync()]),
                say([parse("gone", "SELECT 1"), run("gone"), sync(), query("DISCARD ALL"), run("gone"), sync()]),
                say([parse("gone", "SELECT 2"), run("gone"), sync(), close("gone"), sync()]),
            ],
        ),
        case(
            "parameters",
            vec![
                say([parse("p", "SELECT $1::text, $2::int + 1"), describe("p"), sync()]),
                say([
                    bind("p", &["a", "41"]),
                    execute(),
                    bind("p", &["b", "x"]),
                    execute(),
                    sync(),
                    bind("p", &["c", "1"]),
                    execute(),
                    sync(),
                ]),
                say([close("p"), sync()]),
            ],
        ),
    ]);
}

/// Messages around the sizes of the governor's buffers, and names, texts and values that are much longer.
#[test]
fn messages_of_any_size_pass_whole() {
    let mut world = World::start();
    let mut cases = Vec::new();
    for size in [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17] {
        for size in size - 7..=size + 7 {
            // Without its name the message has 17 bytes. The server takes no Close that is longer than 10,000.
            let name = "p".repeat(size - 17);
            let steps =
                say([flush(), parse(&name, "SELECT 1"), bind(&name, &[]), execute(), sync(), query("DEALLOCATE ALL")]);
            cases.push((format!("a statement's name, {size} bytes"), vec![steps]));
        }
        let long = "1".repeat(size);
        let literal = say([parse("", &format!("SELECT '{long}'")), bind("", &[]), execute(), sync()]);
        let value = say([parse("", "SELECT length($1)"), bind("", &[&long]), execute(), sync()]);
        // The first of two is complete and the second is not, at the end of a read.
        let half = &long[..size / 2];
        let halves = say([parse("", &format!("SELECT 'a{half}'")), parse("", &format!("SELECT 'b{half}'")), sync()]);
        cases.extend([
            (format!("a text, {size} bytes"), vec![literal]),
            (format!("a value, {size} bytes"), vec![value]),
        ]);
        cases.push((format!("halves of {size} bytes"), vec![halves]));
    }
    world.check(&cases);
}

/// Random statements of a hundred names, up to nine in a pipeline, prepared again and again.
#[test]
fn pipelines_of_many_prepared_statements_keep_their_order() {
    let mut world = World::start();
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let cases = (1..10).map(|length| {
        let mut steps = Vec::new();
        for round in 0..40 {
            let (mut pipeline, mut ends) = (Vec::new(), 1);
            for place in 0..length {
                let name = format!("s{}", random(100));
                if random(3) == 0 {
                    pipeline.extend(close(&name));
                }
                pipeline.extend(parse(&name, &format!("SELECT $1::int AS {name}, $2::text")));
                pipeline.extend(bind(&name, &[&place.to_string(), &format!("{round:0512}")]));
                pipeline.extend(execute());
                // An error skips the messages before the next Sync, so each statement has its own or shares one.
                if random(2) == 0 {
                    pipeline.extend(sync());
                    ends += 1;
                }
            }
            pipeline.extend(sync());
            steps.push(Say(pipeline));
            steps.extend(vec![Hear(b'Z'); ends]);
        }
        (format!("pipelines of {length}"), steps)
    });
    let cases = cases.collect::<Vec<_>>();
    world.check(&cases);
}

/// A client sends the beginning of its next unit with the end of the last one, and then pauses. Other units must not
/// come in between, and no part may get lost.
#[test]
fn a_unit_that_has_begun_is_not_parted_from_its_rest() {
    let mut world = World::start();
    let run = |value: &str| [bind("", &[value]), execute(), sync()].concat();
    let begin = [parse("", "SELECT $1::text"), run("a"), parse("", "SELECT $1::text || '!'"), flush()].concat();
    let mut direct = world.direct("low");
    let expect = play(&mut direct, &[Say(begin.clone()), Hear(b'Z'), Say(run("b"))]);

    let mut first = world.governed("low");
    first.send(&begin).unwrap();
    let mut heard = Vec::new();
    while heard.iter().filter(|message: &&Message| message.tag == b'1').count() < 2 {
        heard.push(first.message().unwrap());
    }
    // Another of its class must wait for the only place; one of another class need not.
    let mut second = world.governed("low_other");
    second.send_query("SELECT 'second'").unwrap();
    plimsoll_testing::until("it waits", || world.governed.count(Some("low"), "queued") > 0);
    assert_eq!(world.governed("high").value("SELECT 'high'").unwrap(), "high");
    heard.extend(play(&mut first, &[Say(run("b"))]));
    assert_eq!(heard, expect);
    assert_eq!(second.answer().unwrap().value(), Some("second"));
    world.governed.assert_alive();
}
