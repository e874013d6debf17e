//! What remains of secrets and of values.

use proptest::prelude::*;

use super::*;
use crate::description::Values;
use crate::event::Answer;
use crate::messages::{Messages, put};
use crate::testing::opened;

fn key() -> Key {
    Key::new(&[3; 32])
}

fn unit(request: Vec<u8>, begin: Vec<u8>) -> Event {
    let answer = Answer { begin, checksum: 77, ..Answer::default() };
    Event::Unit(Unit { session: 1, at_us: 0, took_us: 0, request, answer })
}

/// The unit after the redactor.
fn applied(redactor: &mut Redactor, request: Vec<u8>, begin: Vec<u8>) -> Unit {
    let mut event = unit(request, begin);
    redactor.apply(&mut event, TextRules::default());
    let Event::Unit(unit) = event else { unreachable!("it was a unit") };
    unit
}

fn query(sql: &str) -> Vec<u8> {
    let mut request = Vec::new();
    put(b'Q', &[sql.as_bytes(), b"\0"].concat(), &mut request);
    request
}

fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
    body.extend_from_slice(&(types.len() as u16).to_be_bytes());
    types.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    let mut request = Vec::new();
    put(b'P', &body, &mut request);
    request
}

fn bind(statement: &str, is_binary: bool, values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = [b"\0", statement.as_bytes(), b"\0"].concat();
    put_counts(&[usize::from(is_binary)], &mut body);
    put_values(values.iter().copied(), &mut body);
    put_counts(&[], &mut body);
    let mut request = Vec::new();
    put(b'B', &body, &mut request);
    request
}

fn sql(request: &[u8]) -> String {
    let text = Messages(request).find_map(sql_of).expect("a text");
    String::from_utf8(text.to_vec()).expect("UTF-8")
}

fn values_of(request: &[u8]) -> Vec<Option<Vec<u8>>> {
    let message = Messages(request).find(|message| message.tag == b'B').expect("a Bind");
    let bind = Bind::read(message.body).expect("a whole one");
    bind.values.iter().map(|value| value.map(<[u8]>::to_vec)).collect()
}

#[test]
fn secrets_in_texts_are_removed_whichever_setting() {
    for values in [Values::Kept, Values::Redacted] {
        let mut redactor = Redactor::new(key(), values);
        let mut left = |text: &str| sql(&applied(&mut redactor, query(text), Vec::new()).request);
        for (text, expect) in [
            ("ALTER ROLE shop PASSWORD 'geheim'", "ALTER ROLE shop PASSWORD '<secret>'"),
            (
                "create user a password $x$geheim$x$ valid until 'now'",
                "create user a password '<secret>' valid until '<secret>'",
            ),
            ("/* geheim */ set a.secret = E'ge\\'heim' -- geheim\n;", "  set a.secret = '<secret>'\n;"),
            (
                "CREATE SUBSCRIPTION s CONNECTION 'host=a geheim' PUBLICATION p",
                "CREATE SUBSCRIPTION s CONNECTION '<secret>' PUBLICATION p",
            ),
            ("alter role a password 'geheim", "alter role a password '<secret>'"),
        ] {
            assert_eq!(left(text), expect, "{values:?}");
        }
    }
    let mut redactor = Redactor::new(key(), Values::Kept);
    let request = query("select 'kept' -- comment");
    assert_eq!(applied(&mut redactor, request.clone(), Vec::new()).request, request);
}

#[test]
fn secrets_in_parameters_answers_and_copies_are_removed() {
    let mut redactor = Redactor::new(key(), Values::Kept);
    let prepare = parse("s", "update users set password = $1 where id = $2 returning password", &[25, 23]);
    applied(&mut redactor, prepare, Vec::new());
    let mut row = Vec::new();
    put(b'D', b"\0\x01\0\0\0\x06geheim", &mut row);
    let run = applied(&mut redactor, bind("s", false, &[Some(b"geheim"), Some(b"12")]), row);
    assert_eq!(values_of(&run.request), [Some(b"<secret>".to_vec()), Some(b"12".to_vec())]);
    assert_eq!((run.answer.begin.len(), run.answer.checksum), (0, 0));
    let run = applied(&mut redactor, bind("s", true, &[Some(b"geheim"), None]), Vec::new());
    assert_eq!(values_of(&run.request), [Some(b"000000".to_vec()), None]);
    // Another statement, and one that has replaced it, are as they were sent.
    let other = bind("t", false, &[Some(b"kept")]);
    assert_eq!(applied(&mut redactor, other.clone(), Vec::new()).request, other);
    applied(&mut redactor, parse("s", "select $1", &[]), Vec::new());
    let other = bind("s", false, &[Some(b"kept")]);
    assert_eq!(applied(&mut redactor, other.clone(), Vec::new()).request, other);
    let mut copy = query("copy users (name, password) from stdin");
    put(b'd', b"anna\tgeheim\n", &mut copy);
    let copied = applied(&mut redactor, copy, Vec::new()).request;
    assert!(memchr::memmem::find(&copied, b"geheim").is_none());
}

#[test]
fn options_of_a_session_lose_secrets() {
    let mut opened = opened(1, 0);
    opened.parameters = vec![
        ("options".to_owned(), "-c app.password=geheim".to_owned()),
        ("application_name".to_owned(), "shop".to_owned()),
    ];
    let mut event = Event::Opened(opened);
    Redactor::new(key(), Values::Kept).apply(&mut event, TextRules::default());
    let Event::Opened(opened) = event else { unreachable!("it was one") };
    assert_eq!(opened.parameters[0].1, SECRET);
    assert_eq!(opened.parameters[1].1, "shop");
}

#[test]
fn a_redacted_text_keeps_its_form() {
    let mut redactor = Redactor::new(key(), Values::Redacted);
    let mut left = |text: &str| sql(&applied(&mut redactor, query(text), Vec::new()).request);
    let text = "select /*+ hint */ f(a, 'Anna 42', 1234, -0.5) /* anna */ from t where b = E'x\\ny' and c > '2026-11-29' -- 42";
    let redacted = left(text);
    assert!(redacted.starts_with("select /*+ hint */ f(a, '"), "{redacted}");
    for gone in ["Anna", "anna", "42", "1234", "0.5", "2026"] {
        assert!(!redacted.contains(gone), "{gone} in {redacted}");
    }
    assert!(redacted.contains("\\n"), "{redacted}");
    assert_eq!(left(text), redacted, "equal values have equal hashes");
    assert_ne!(left("select 1234567"), left("select 1234568"));
    assert!(left("select true, null, 0x1F").starts_with("select true, null, 0x"));
    assert!(left("select interval '90 days'").ends_with(" days'"));
}

#[test]
fn one_value_has_one_hash_in_texts_parameters_and_answers() {
    let mut redactor = Redactor::new(key(), Values::Redacted);
    let in_text = sql(&applied(&mut redactor, query("select 12345"), Vec::new()).request);
    let number = in_text.strip_prefix("select ").expect("the rest stays").to_owned();
    let bound = applied(&mut redactor, bind("", false, &[Some(b"12345")]), Vec::new());
    assert_eq!(values_of(&bound.request), [Some(number.clone().into_bytes())]);
    applied(&mut redactor, parse("s", "select $1", &[23]), Vec::new());
    let bound = applied(&mut redactor, bind("s", true, &[Some(&12345i32.to_be_bytes())]), Vec::new());
    let binary = values_of(&bound.request)[0].clone().expect("a value");
    assert_eq!(i32::from_be_bytes(binary.try_into().expect("four bytes")).to_string(), number);
    let mut answer = Vec::new();
    put(b'T', b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\x01", &mut answer);
    put(b'D', &[&b"\0\x01\0\0\0\x08"[..], &12345i64.to_be_bytes()].concat(), &mut answer);
    let unit = applied(&mut redactor, query("select 1"), answer);
    let row = Messages(&unit.answer.begin).find(|message| message.tag == b'D').expect("a row");
    let returned = Body(row.body).values().expect("values")[0].expect("a value");
    assert_eq!(i64::from_be_bytes(returned.try_into().expect("eight bytes")).to_string(), number);
    assert_eq!(unit.answer.checksum, 0);
}

#[test]
fn types_of_parameters_are_learned_from_the_server() {
    let mut redactor = Redactor::new(key(), Values::Redacted);
    let mut request = parse("s", "select $1", &[]);
    put(b'D', b"Ss\0", &mut request);
    let mut answer = Vec::new();
    put(b't', b"\0\x01\0\0\x0b\x86", &mut answer);
    applied(&mut redactor, request, answer);
    let uuid = *b"0123456789abcdef";
    let bound = applied(&mut redactor, bind("s", true, &[Some(&uuid)]), Vec::new());
    let of_text = "30313233-3435-3637-3839-616263646566";
    let text = applied(&mut redactor, bind("", false, &[Some(of_text.as_bytes())]), Vec::new());
    let binary = values_of(&bound.request)[0].clone().expect("a value");
    let text = String::from_utf8(values_of(&text.request)[0].clone().expect("a value")).expect("ASCII");
    let hex: String = binary.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text.replace('-', ""), hex);
    assert_ne!(hex, of_text.replace('-', ""));
}

#[test]
fn copied_values_are_hashed_however_they_arrive() {
    let text = b"1234\tanna b\t\\N\t2026-01-31\n";
    let copied = CopyRedaction::default().redacted(text, &key());
    assert_eq!(copied.len(), text.len());
    assert_eq!(copied.split(|byte| *byte == b'\t').nth(2), Some(&b"\\N"[..]));
    assert_eq!(copied[..4], values::hashed(b"1234", &key())[..]);
    let mut binary = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    binary.extend_from_slice(b"\0\x02\0\0\0\x04anna\xff\xff\xff\xff\0\x01\0\0\0\x02ab\xff\xff");
    for pieces in [1, 2, 3, 5, 100] {
        let mut copy = CopyRedaction::default();
        // The signature is in the first message.
        let (head, rows) = binary.split_at(19);
        let mut redacted = copy.redacted(head, &key());
        rows.chunks(pieces).for_each(|piece| redacted.extend(copy.redacted(piece, &key())));
        assert_eq!((redacted.len(), &redacted[..25]), (binary.len(), &binary[..25]), "{pieces}");
        // NULL, the next row, and the end.
        assert_eq!((&redacted[29..39], &redacted[41..]), (&binary[29..39], &binary[41..]), "{pieces}");
        assert!(memchr::memmem::find(&redacted, b"anna").is_none());
    }
}

proptest! {
    #[test]
    fn a_number_stays_a_number_of_its_width(number in any::<i64>(), small in any::<i32>(), tiny in any::<i16>()) {
        for (text, binary) in [
            (number.to_string(), number.to_be_bytes().to_vec()),
            (small.to_string(), small.to_be_bytes().to_vec()),
            (tiny.to_string(), tiny.to_be_bytes().to_vec()),
        ] {
            let hashed = String::from_utf8(values::hashed(text.as_bytes(), &key())).expect("ASCII");
            prop_assert_eq!(hashed.len(), text.len());
            let parsed: i64 = hashed.parse().expect("a number");
            let redacted = binary::hashed(&binary, 0, &key());
            let mut wide = [if redacted[0] & 0x80 == 0 { 0 } else { 0xff }; 8];
            wide[8 - redacted.len()..].copy_from_slice(&redacted);
            prop_assert_eq!(i64::from_be_bytes(wide), parsed);
        }
    }

    #[test]
    fn a_moment_stays_one(day in "20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])", time in "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,6})?)?") {
        for text in [day.clone(), time.clone(), format!("{day} {time}+02"), format!("{day}T{time}")] {
            let hashed = String::from_utf8(values::hashed(text.as_bytes(), &key())).expect("ASCII");
            let form = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
            prop_assert_eq!(form(&hashed), form(&text));
            if text == day {
                prop_assert!(hashed.parse::<jiff::civil::Date>().is_ok(), "{}", hashed);
            }
        }
    }

    #[test]
    fn any_value_keeps_its_length(value in proptest::collection::vec(any::<u8>(), 0..60), oid in 0u32..4000) {
        prop_assert_eq!(values::hashed(&value, &key()).len(), value.len());
        prop_assert_eq!(binary::hashed(&value, oid, &key()).len(), value.len());
        prop_assert!(std::str::from_utf8(&values::hashed(&value, &key())).is_ok() || std::str::from_utf8(&value).is_err());
    }

    #[test]
    fn any_text_and_request_are_read(text in ".{0,60}", request in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut redactor = Redactor::new(key(), Values::Redacted);
        applied(&mut redactor, query(&text.replace('\0', "")), request.clone());
        applied(&mut redactor, request, Vec::new());
    }
}
