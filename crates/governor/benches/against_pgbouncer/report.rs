//! Figures as text.

/// Median, least and most of some figures: `12.3 (11.9-12.8)`.
pub fn spread(figures: impl Iterator<Item = f64>, decimals: usize) -> String {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{:.decimals$} ({least:.decimals$}-{most:.decimals$})", median(&figures))
}

/// The median of sorted figures.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Columns as wide as what stands in them.
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
