//! The checks of several workloads, each check once.

use plimsoll_workload::benchmark::CheckLine;

/// Lines, each with the data that it is about.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<(String, CheckLine)>);

impl Lines {
    /// Adds the findings of a workload on these data. A known finding without a judgement is replaced. One with a
    /// judgement is added again only if the new judgement differs.
    pub(super) fn add(&mut self, data: &str, found: Vec<CheckLine>) {
        for line in found {
            let is_same = |known: &CheckLine| {
                known.what == line.what && (known.holds.is_none() || line.holds.is_none() || *known == line)
            };
            match self.0.iter_mut().find(|(of, known)| of == data && is_same(known)) {
                Some((_, known)) if known.holds.is_none() => *known = line,
                Some(_) => {}
                None => self.0.push((data.to_owned(), line)),
            }
        }
    }

    /// All lines, in the order in which they were first added.
    pub(super) fn into_lines(self) -> Vec<CheckLine> {
        self.0.into_iter().map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_of_the_same_data_before_is_left_out() {
        let line = |what: &str, holds, found: &str| CheckLine { what: what.into(), holds, found: found.into() };
        let mut lines = Lines::default();
        let rows = || line("nation has 25 rows", Some(true), "25");
        lines.add("ch:1", vec![rows(), line("mix", None, "0 are too few"), line("input", Some(true), "1 %")]);
        lines.add("ch:1", vec![rows(), line("mix", Some(true), "45 %"), line("input", Some(false), "9 %")]);
        lines.add("ch:1", vec![line("mix", None, "0 are too few")]);
        lines.add("tpch:1", vec![rows()]);
        let told: Vec<_> = lines.into_lines().into_iter().map(|line| (line.what, line.found)).collect();
        let expect = [
            ("nation has 25 rows", "25"),
            ("mix", "45 %"),
            ("input", "1 %"),
            ("input", "9 %"),
            ("nation has 25 rows", "25"),
        ];
        assert_eq!(told, expect.map(|(what, found)| (what.to_owned(), found.to_owned())));
    }
}
