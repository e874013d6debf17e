//! `numeric` in its binary format: digits to the base of 10 000, the weight of the first, a sign, and how many decimal
//! places are shown.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;

/// Decimal places that a `numeric` may show.
const SCALE_MAX: u16 = 0x3fff;

/// A number as received, its parts checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numeric<'a> {
    /// Base 10 000, most significant first, two bytes each.
    digits: &'a [u8],
    /// The first digit counts 10 000 to this power.
    weight: i16,
    sign: u16,
    /// Decimal places shown.
    scale: u16,
}

impl<'a> Numeric<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let wrong = || format!("{} bytes that are no numeric", bytes.len());
        let (head, digits) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
        let part = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (count, weight, sign, scale) = (part(0), part(2).cast_signed(), part(4), part(6));
        let is_sign = [0, NEGATIVE, NAN, INFINITY, NEGATIVE_INFINITY].contains(&sign);
        let are_digits = digits.chunks_exact(2).all(|digit| u16::from_be_bytes([digit[0], digit[1]]) < 10_000);
        if digits.len() != usize::from(count) * 2 || !is_sign || !are_digits || scale > SCALE_MAX {
            return Err(wrong());
        }
        Ok(Numeric { digits, weight, sign, scale })
    }

    fn digit(&self, power: i32) -> u16 {
        let position = usize::try_from(i32::from(self.weight) - power).ok();
        let digit = position.and_then(|position| self.digits.get(position * 2..position * 2 + 2));
        digit.map_or(0, |digit| u16::from_be_bytes([digit[0], digit[1]]))
    }

    /// The number, if it is shown without decimal places and fits.
    pub(crate) fn whole(&self) -> Option<i64> {
        if self.scale != 0 || (self.sign != 0 && self.sign != NEGATIVE) {
            return None;
        }
        let mut number = 0_i64;
        for power in (0..=i32::from(self.weight)).rev() {
            // Below zero, where there is room for one more.
            number = number.checked_mul(10_000)?.checked_sub(i64::from(self.digit(power)))?;
        }
        if self.sign == NEGATIVE { Some(number) } else { number.checked_neg() }
    }

    /// Writes the number as the server does.
    pub(crate) fn show(&self, out: &mut String) {
        match self.sign {
            NAN => return out.push_str("NaN"),
            INFINITY => return out.push_str("Infinity"),
            NEGATIVE_INFINITY => return out.push_str("-Infinity"),
            NEGATIVE => out.push('-'),
            _ => {}
        }
        let first = i32::from(self.weight).max(0);
        for power in (0..=first).rev() {
            let digit = self.digit(power);
            let written = if power == first { write!(out, "{digit}") } else { write!(out, "{digit:04}") };
            written.expect("a string takes all");
        }
        let places = usize::from(self.scale);
        if places == 0 {
            return;
        }
        out.push('.');
        let end = out.len() + places;
        for power in 1..=places.div_ceil(4) {
            write!(out, "{:04}", self.digit(-(power as i32))).expect("a string takes all");
        }
        out.truncate(end);
    }
}

pub(crate) fn write_whole(number: i64, out: &mut BytesMut) {
    write_decimal(number.into(), 0, out).expect("a decimal of 64 bits has at most five digits of base 10 000");
}

/// Writes `number / 10^scale`, shown with as many decimal places.
pub fn write_decimal(number: i128, scale: i8, out: &mut BytesMut) -> Result<(), String> {
    let places = u32::try_from(scale).map_err(|_| format!("a decimal with scale {scale}"))?;
    // Decimal places are filled up to whole digits of base 10 000, so that the point lies between two of them.
    let fraction_digits = places.div_ceil(4);
    let filled = 10_u128.checked_pow(fraction_digits * 4 - places).and_then(|by| number.unsigned_abs().checked_mul(by));
    let mut rest = filled.ok_or_else(|| format!("{number} with scale {scale} is too large"))?;
    let mut digits = [0_u16; 10];
    let mut count = 0;
    while rest > 0 {
        digits[count] = (rest % 10_000) as u16;
        rest /= 10_000;
        count += 1;
    }
    // Trailing zeros are not sent, as the server would not.
    let zeros = digits[..count].iter().take_while(|digit| **digit == 0).count();
    out.put_u16((count - zeros) as u16);
    out.put_i16(if count == 0 { 0 } else { count as i16 - 1 - fraction_digits as i16 });
    out.put_u16(if number < 0 { NEGATIVE } else { 0 });
    out.put_u16(places as u16);
    for digit in digits[zeros..count].iter().rev() {
        out.put_u16(*digit);
    }
    Ok(())
}
