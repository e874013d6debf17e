//! What both sides keep at each setting, as a picture of characters: the protected workload to the right, the other one
//! upwards.

use crate::results::{Isolation, Line};
use plimsoll_display::percent;

/// Columns and rows of the picture, both ends included.
const COLUMNS: usize = 51;
const ROWS: usize = 11;

/// The letter of each measured setting, in their order.
pub(super) fn letter(at: usize) -> char {
    char::from_u32(u32::from(b'a') + at as u32).filter(char::is_ascii_lowercase).unwrap_or('?')
}

/// The picture of the measured settings; nothing if there are fewer than two.
pub(super) fn lines(line: &Line, measured: &[&Isolation]) -> Vec<String> {
    let points: Vec<(f64, f64)> = measured.iter().filter_map(|one| point(one)).collect();
    let other = measured.first().and_then(|one| one.kept.get(1)).map(|kept| kept.workload.as_str());
    let Some(other) = other.filter(|_| points.len() == measured.len() && points.len() > 1) else { return Vec::new() };
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(1.0, f64::max);
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    let mut grid = vec![vec![' '; COLUMNS]; ROWS];
    let column = |x: f64| place(x / right, COLUMNS);
    let row = |y: f64| ROWS - 1 - place(y / top, ROWS);
    for step in 0..COLUMNS {
        let x = step as f64 / (COLUMNS - 1) as f64;
        grid[row(1.0 - x)][column(x)] = '.';
    }
    for cells in &mut grid {
        cells[column(line.slo)] = '|';
    }
    for (at, (x, y)) in points.iter().enumerate() {
        grid[row(*y)][column(*x)] = letter(at);
    }
    let label = |at: usize| match at {
        0 => format!("{top:.1}"),
        _ if at == ROWS - 1 => "0.0".to_owned(),
        _ => String::new(),
    };
    let mut out = vec![format!("  {other} keeps")];
    out.extend(
        grid.iter().enumerate().map(|(at, cells)| {
            format!("  {:>4} {}", label(at), cells.iter().collect::<String>()).trim_end().to_owned()
        }),
    );
    out.push(format!("       0.0{:>width$}", format!("{right:.1} {} keeps", line.protect), width = COLUMNS));
    let part = percent(line.slo);
    out.push(format!("       | the {part} that {} is to keep   . taking turns", line.protect));
    out
}

/// What the protected workload and the other one keep.
fn point(one: &Isolation) -> Option<(f64, f64)> {
    let [own, other] = &one.kept[..] else { return None };
    Some((own.throughput.value, other.throughput.value)).filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// The cell of a share among so many.
fn place(share: f64, cells: usize) -> usize {
    ((share.clamp(0.0, 1.0) * (cells - 1) as f64).round() as usize).min(cells - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Interval, KeptShare};

    fn setting(own: f64, other: f64) -> Isolation {
        let kept = |workload: &str, value| KeptShare {
            workload: workload.to_owned(),
            throughput: Interval { value, low: Some(value), high: Some(value) },
            p95: None,
        };
        Isolation { kept: vec![kept("oltp", own), kept("olap", other)], ..Isolation::default() }
    }

    #[test]
    fn settings_lie_where_they_belong() {
        let tried = vec![setting(0.6, 0.4), setting(0.95, 0.1), setting(1.0, 0.0)];
        let line = Line { protect: "oltp".to_owned(), slo: 0.9, tried, best: Some(1), sentence: String::new() };
        let measured: Vec<&Isolation> = line.tried.iter().collect();
        let drawn = lines(&line, &measured);
        let row_of = |letter: char| {
            let rows = drawn.iter().enumerate().skip(1).take(ROWS);
            rows.filter_map(|(row, text)| Some((row, text.get(7..)?.find(letter)?))).next().expect("drawn")
        };
        assert_eq!((row_of('a'), row_of('b'), row_of('c')), ((7, 30), (10, 48), (11, 50)));
        assert!(drawn[1].contains('|') && drawn[ROWS].starts_with("   0.0"), "{}", drawn.join("\n"));
        assert!(drawn.iter().all(|text| text.chars().count() <= 80), "{}", drawn.join("\n"));
        assert!(lines(&line, &measured[..1]).is_empty(), "one setting makes no picture");
    }
}
