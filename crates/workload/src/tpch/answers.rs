//! Whether an answer agrees with the published one, under the tolerances of TPC-H 2.1.3.5.

use std::ops::Range;

use tpchgen::q_and_a::answers_sf1;

use super::cells::TextRow;
use super::queries::QuerySpec;

/// How far a column of an answer may be from the published answer, which is rounded to hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// Not at all: stored values, counts, sums that count rows (query 12), sums of `l_quantity` (queries 1 and 18).
    Exact,
    /// A sum: by at most 100.
    Sum,
    /// An average or ratio: by at most 1 % once it is rounded to hundredths.
    Ratio,
    /// A ratio computed from sums (queries 8, 14 and 17): both of the above.
    RatioOfSums,
    /// Not at all, but the published list shows a key (query 11) without its last two digits.
    WithoutTwoDigits,
}

impl Tolerance {
    /// Whether a cell is near enough to the published one. A null agrees with an empty cell only.
    pub fn accepts(self, found: Option<&str>, published: &str) -> bool {
        let Some(found) = found else { return published.is_empty() };
        // For a key below one hundred the list shows nothing.
        let published = if self == Tolerance::WithoutTwoDigits && published.is_empty() { "0" } else { published };
        let (Some(found), Some(published)) = (FixedPoint::parse(found), FixedPoint::parse(published)) else {
            return self == Tolerance::Exact && found == published;
        };
        match self {
            Tolerance::Exact => found == published,
            Tolerance::WithoutTwoDigits => found.0 / (100 * FixedPoint::ONE) == published.0 / FixedPoint::ONE,
            Tolerance::Sum => found.is_within_100(published),
            Tolerance::Ratio => found.is_within_one_percent(published),
            Tolerance::RatioOfSums => found.is_within_100(published) && found.is_within_one_percent(published),
        }
    }
}

/// The published answer to a query at scale 1, cells trimmed.
///
/// # Panics
/// If `number` is no position in [`QUERIES`](super::queries::QUERIES).
pub fn published(number: usize) -> Vec<Vec<&'static str>> {
    let answer =
        i32::try_from(number + 1).ok().and_then(answers_sf1::answer).expect("answers to q1 to q22 are published");
    let lines = answer.lines().filter(|line| !line.trim().is_empty());
    let headings = 1;
    lines.skip(headings).map(|line| line.split('|').map(str::trim).collect()).collect()
}

/// Compares an answer with the published one; the error describes the first difference.
pub fn compare(query: &QuerySpec, found: &[TextRow], published: &[Vec<&str>]) -> Result<(), String> {
    if found.len() != published.len() {
        return Err(format!("{} rows, published {}", found.len(), published.len()));
    }
    if let Some(row) = found.iter().find(|row| row.len() != query.columns.len()) {
        return Err(format!("{} columns, published {}", row.len(), query.columns.len()));
    }
    ties(query, published).try_for_each(|tie| compare_tie(query, found, published, tie))
}

/// The runs of published rows that are equal in every column of `order by`.
fn ties<'a>(query: &'a QuerySpec, published: &'a [Vec<&'a str>]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut start = 0;
    let runs = published.chunk_by(|a, b| query.order_by.iter().all(|&column| a[column] == b[column]));
    runs.map(move |run| {
        let tie = start..start + run.len();
        start = tie.end;
        tie
    })
}

/// Compares the rows of one tie as sets: each published row must have a partner among the rows found in its place.
fn compare_tie(query: &QuerySpec, found: &[TextRow], published: &[Vec<&str>], tie: Range<usize>) -> Result<(), String> {
    let mut free: Vec<usize> = tie.clone().collect();
    for row in tie.clone() {
        let partner =
            free.iter().position(|&candidate| difference(query, &found[candidate], &published[row]).is_none());
        if let Some(partner) = partner {
            free.swap_remove(partner);
            continue;
        }
        let nearest = if free.contains(&row) { row } else { free[0] };
        let column = difference(query, &found[nearest], &published[row]).expect("no free row agrees, so this does not");
        let cell = found[nearest][column].as_deref().unwrap_or("null");
        let place = if tie.len() > 1 { format!(" (rows {} to {} tie)", tie.start + 1, tie.end) } else { String::new() };
        return Err(format!(
            "row {}, column {}: {cell}, published {}{place}",
            row + 1,
            column + 1,
            published[row][column]
        ));
    }
    Ok(())
}

/// The first column in which two rows differ by more than is allowed.
fn difference(query: &QuerySpec, found: &TextRow, published: &[&str]) -> Option<usize> {
    let columns = query.columns.iter().zip(found).zip(published);
    columns.into_iter().position(|((tolerance, found), published)| !tolerance.accepts(found.as_deref(), published))
}

/// A number in units of 10^-12: precise enough to compare numbers rounded to hundredths, and exact for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FixedPoint(i128);

impl FixedPoint {
    const DIGITS: usize = 12;
    const ONE: i128 = 10_i128.pow(Self::DIGITS as u32);

    /// The value of a text in plain decimal notation; `None` for any other text.
    fn parse(text: &str) -> Option<FixedPoint> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let kept = &fraction[..fraction.len().min(Self::DIGITS)];
        let fraction = format!("{kept:0<width$}", width = Self::DIGITS).parse::<i128>().ok()?;
        let units = whole.parse::<i128>().ok()?.checked_mul(Self::ONE)?.checked_add(fraction)?;
        Some(FixedPoint(if negative { -units } else { units }))
    }

    fn is_within_100(self, published: FixedPoint) -> bool {
        self.0.abs_diff(published.0) <= (100 * Self::ONE).unsigned_abs()
    }

    /// 0.99 v <= round(r, 2) <= 1.01 v, with the ends exchanged for a negative v.
    fn is_within_one_percent(self, published: FixedPoint) -> bool {
        let hundredth = Self::ONE / 100;
        let rounded = (self.0.abs() + hundredth / 2) / hundredth * hundredth * self.0.signum();
        // A difference too large to be multiplied is certainly more than one percent.
        rounded.abs_diff(published.0).checked_mul(100).is_some_and(|scaled| scaled <= published.0.unsigned_abs())
    }
}

#[cfg(test)]
mod tests;
