//! A query that contributes rows to a question, and how the self-test proves that a server answers it rightly.

use super::{COLUMNS, Part, Values, assemble};

/// A query that contributes rows: kind, versions (`xmin`) of the catalogs' rows that it rests on, and further columns.
pub(in crate::effects) struct Branch {
    pub(in crate::effects) part: Part,
    pub(super) versions: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) from: &'static str,
    /// The answer about the objects of the self-test.
    pub(in crate::effects) proof: Proof,
}

/// The answer that a right question has about the objects that the self-test makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::effects) enum Proof {
    /// Such objects cannot be made without a superuser: only that the server takes the question.
    Taken,
    /// A row.
    Row,
    /// A row with the number of that object, or with that number.
    Number(&'static str),
    /// A row with an expression that calls the object of that name.
    Calls(&'static str),
    /// A row with these texts, in order.
    Texts(&'static [&'static str]),
}

impl Branch {
    /// The kind of its rows.
    pub(in crate::effects) fn kind(&self) -> &'static str {
        self.columns[0].trim_matches('\'')
    }

    /// What it asks, for people.
    pub(in crate::effects) fn about(&self) -> String {
        let catalog = self.from.split([' ', '\n']).find_map(|word| word.strip_prefix("pc.pg_"));
        catalog.map_or_else(|| format!("{:?}", self.part).to_lowercase(), |catalog| format!("pg_{catalog}"))
    }

    /// The question with this branch alone.
    pub(in crate::effects) fn alone(&self, server_version_num: u32, values: &Values) -> (String, Vec<Vec<u8>>) {
        assemble(&[self], false, server_version_num, values)
    }

    /// Its query. If `only_versions`, its rows do not say more.
    pub(super) fn select(&self, only_versions: bool) -> String {
        let is_short = only_versions && self.part != Part::Ground;
        let columns = if is_short { &["'x'"][..] } else { self.columns };
        let (kind, others) = columns.split_first().expect("a branch has a kind");
        let missing = std::iter::repeat_n("null", COLUMNS - 1 - columns.len());
        let others: Vec<&str> = others.iter().copied().chain(missing).collect();
        format!("select {kind}, {}, {} {}", self.versions, others.join(", "), self.from)
    }
}
