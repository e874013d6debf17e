//! Values in the formats of the server, as far as they can be tested without one.

use bytes::BytesMut;
use proptest::prelude::*;

use super::cell::CellKind;
use super::numeric::{Numeric, write_decimal};
use super::{RowSink, Value, bytea, oid, parameter};

/// Values as they are debugged: `Int(5)`, `Text("a")`, `Null`.
impl RowSink for Vec<String> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn start(&mut self, _: usize) {}

    fn append(&mut self, value: Value<'_>) {
        self.push(format!("{value:?}"));
    }

    fn set_affected(&mut self, _: u64) {}
}

/// The number that a server returns which returns a parameter unchanged.
fn round_trip(number: i64, of: u32) -> Result<i64, String> {
    let mut bytes = BytesMut::new();
    parameter::write(Value::Int(number), of, &mut bytes)?;
    let mut values = Vec::new();
    CellKind::of(of).append(Some(&bytes), &mut values)?;
    let number = values[0].strip_prefix("Int(").and_then(|value| value.strip_suffix(')')?.parse().ok());
    number.ok_or_else(|| format!("{values:?} instead of a number"))
}

fn shown(number: i128, scale: i8) -> String {
    let mut bytes = BytesMut::new();
    write_decimal(number, scale, &mut bytes).unwrap();
    let mut text = String::new();
    Numeric::read(&bytes).unwrap().show(&mut text);
    text
}

#[test]
fn decimals_look_as_the_server_shows_them() {
    for (number, scale, expect) in [
        (0, 0, "0"),
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (1_234_567, 2, "12345.67"),
        (10_000, 0, "10000"),
        (100_000_000, 2, "1000000.00"),
        (120_000, 4, "12.0000"),
        (i128::from(i64::MIN), 0, "-9223372036854775808"),
        (999_999_999_999_999_999, 18, "0.999999999999999999"),
        (1, 5, "0.00001"),
    ] {
        assert_eq!(shown(number, scale), expect, "{number} / 10^{scale}");
    }
}

#[test]
fn ranges_end_where_the_types_do() {
    for (of, least, greatest) in [
        (oid::INT2, i64::from(i16::MIN), i64::from(i16::MAX)),
        (oid::INT4, i64::from(i32::MIN), i64::from(i32::MAX)),
        (oid::INT8, i64::MIN, i64::MAX),
        (oid::BOOL, 0, 1),
        (oid::NUMERIC, i64::MIN, i64::MAX),
    ] {
        for number in [least, greatest] {
            assert_eq!(round_trip(number, of).unwrap(), number, "{}", oid::name(of));
        }
        for number in [least.checked_sub(1), greatest.checked_add(1)].into_iter().flatten() {
            let error = round_trip(number, of).expect_err("out of range");
            assert_eq!(error, format!("{number} is out of the range of {}", oid::name(of)));
        }
    }
    for number in [i64::MIN, i64::MAX] {
        assert!(round_trip(number, oid::DATE).is_err());
    }
    assert!(round_trip(i64::MIN, oid::TIMESTAMP).is_err());
}

#[test]
fn bytes_of_another_type_are_refused() {
    let mut rows = Vec::new();
    for (of, bytes) in [
        (oid::INT4, &[1, 2][..]),
        (oid::INT8, &[0; 4]),
        (oid::BOOL, &[2]),
        (oid::TEXT, &[0xff, 0xfe]),
        (oid::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 0]),
        (oid::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10]),
        (oid::NUMERIC, &[0, 0, 0, 0, 0, 1, 0, 0]),
        (oid::DATE, &[]),
    ] {
        assert!(CellKind::of(of).append(Some(bytes), &mut rows).is_err(), "{}: {bytes:?}", oid::name(of));
    }
    assert!(rows.is_empty());
}

proptest! {
    #[test]
    fn integers_come_back(number in any::<i64>()) {
        for of in [oid::INT8, oid::NUMERIC] {
            prop_assert_eq!(round_trip(number, of).unwrap(), number);
        }
        let days = number >> 34;
        prop_assert_eq!(round_trip(days, oid::DATE).unwrap(), days);
        let time = number >> 4;
        prop_assert_eq!(round_trip(time, oid::TIMESTAMP).unwrap(), time);
    }

    #[test]
    fn decimals_come_back(number in any::<i64>(), scale in 0_i8..=18) {
        let places = scale.unsigned_abs() as usize;
        let digits = format!("{:0>width$}", number.unsigned_abs(), width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let point = if places > 0 { "." } else { "" };
        let sign = if number < 0 { "-" } else { "" };
        prop_assert_eq!(shown(number.into(), scale), format!("{sign}{whole}{point}{fraction}"));
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        let mut rows = Vec::new();
        for of in [oid::BOOL, oid::INT2, oid::INT4, oid::INT8, oid::DATE, oid::TIMESTAMP, oid::NUMERIC, oid::TEXT] {
            let _ = CellKind::of(of).append(Some(&bytes), &mut rows);
        }
        let _ = super::fields::Fields::of(&bytes).map(Iterator::count);
    }
}

#[test]
fn bytes_are_read() {
    assert_eq!(bytea("\\xff00A1"), Some(vec![255, 0, 0xa1]));
    assert_eq!((bytea("\\x"), bytea("\\x1"), bytea("\\xzz"), bytea("abc")), (Some(vec![]), None, None, None));
}
