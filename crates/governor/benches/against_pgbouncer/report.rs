//! Figures as text.

use std::process::Command;

/// Median, minimum and maximum of some figures: `12.3 (11.9-12.8)`.
pub fn spread(figures: impl Iterator<Item = f64>, decimals: usize) -> String {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{:.decimals$} ({least:.decimals$}-{most:.decimals$})", median(&figures))
}

pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// A table whose columns are as wide as their contents.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub fn new(head: [&str; COLUMNS]) -> Self {
        Table { rows: vec![head.map(str::to_owned)] }
    }

    pub fn row(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    pub fn print(&self) {
        let width = |column: usize| self.rows.iter().map(|row| row[column].len()).max().unwrap_or(0) + 2;
        for row in &self.rows {
            let cells = row.iter().enumerate();
            let line: String = cells.map(|(column, cell)| format!("{cell:<width$}", width = width(column))).collect();
            println!("{}", line.trim_end());
        }
    }
}

/// Prints the machine and the commit.
pub fn print_place() {
    let facts = plimsoll_machine::MachineFacts::read();
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("machine: {}, {} cores; load before: {}", facts.cpu_model, facts.cores_usable, load.trim());
    println!("commit: {commit}{}", if changed { " with changes" } else { "" });
}
