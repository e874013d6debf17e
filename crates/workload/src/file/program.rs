//! A workload's file after parsing: the steps of clients, the same for every form of file.

use std::time::Duration;

use super::datum::Datum;
use super::expression::Expression;
use super::generator::GeneratorDeclaration;
use super::sql::{self, Uses};
use crate::benchmark::Writes;
use crate::database::Refusal;
use crate::driver::PriorityRule;
use crate::file::WorkloadFile;
use crate::schema::Schema;
use crate::statement::{Statement, sql_only};

/// The contents of one or several files. Benchmarks at each scale and their clients share it.
#[derive(Debug)]
pub(super) struct Definition {
    /// The workload's name.
    pub(super) name: String,
    /// The files that it was read from.
    pub(super) files: Vec<WorkloadFile>,
    /// Its tables are made by its own SQL: only their place is declared.
    pub(super) schema: Schema,
    /// The source of its tables.
    pub(super) tables: Tables,
    /// The hash of the files that its data follow from.
    pub(super) data_hash: String,
    /// The default scale.
    pub(super) scale: f64,
    /// Mebibytes that one unit of scale takes on the server, as the file states; 0 if it does not.
    pub(super) mib_per_scale: f64,
    /// The writes of a run.
    pub(super) writes: Writes,
    /// The names of variables and parameters. A slot is a position in this list; the first are [`BUILT_IN`].
    pub(super) slots: Vec<String>,
    /// The generators of parameters.
    pub(super) generators: Vec<GeneratorDeclaration>,
    /// Queries whose results generators draw from, read before clients begin.
    pub(super) queries: Vec<PlacedSql>,
    /// The transactions.
    pub(super) programs: Vec<Program>,
    /// Their names.
    pub(super) names: Vec<String>,
    /// The checks.
    pub(super) checks: Vec<Check>,
}

/// The slots that every workload has, in this order.
pub(super) const BUILT_IN: [&str; 4] = ["scale", "client_id", "random_seed", "default_seed"];

/// SQL and its place, as `file:line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedSql {
    pub(super) sql: String,
    pub(super) place: String,
}

/// The source of a workload's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tables {
    /// The user's own tables, which exist already.
    Given,
    /// These statements make and fill them, with `:scale` and `:seed`.
    Setup(Vec<PlacedSql>),
    /// Created as `pgbench -i` does, unless they exist.
    Pgbench,
}

/// A condition on the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    /// In words.
    pub(super) what: String,
    /// The query, with `:scale` and `:seed`.
    pub(super) query: PlacedSql,
    /// The expected answer.
    pub(super) expected: ExpectedAnswer,
}

/// The expected answer of a check's query.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExpectedAnswer {
    /// No rows.
    NoRows,
    /// One row with one value.
    Value(Datum),
    /// The same rows as another query, in the same order.
    SameAs(PlacedSql),
}

/// The steps of a transaction of the workload.
#[derive(Debug)]
pub(super) struct Program {
    /// How often it is drawn, in relation to the others.
    pub(super) weight: f64,
    /// The generators that are drawn from before it begins.
    pub(super) draws: Vec<usize>,
    /// The steps, in order.
    pub(super) steps: Vec<ProgramStep>,
    /// Whether it may be run again after a deadlock or a conflict.
    pub(super) is_retried: bool,
    /// Its priority, if its file gives it one.
    pub(super) priority: Option<PriorityRule>,
}

#[derive(Debug)]
pub(super) enum ProgramStep {
    /// Begins a transaction.
    Begin,
    /// Commits it.
    Commit,
    /// Rolls it back.
    Rollback,
    /// Runs a statement.
    Execute(Execute),
    /// Gives a variable a value.
    Set { slot: usize, expression: Expression, place: String },
    /// Continues at step `to` unless a condition holds.
    JumpUnless { condition: Expression, to: usize, place: String },
    /// Continues at step `to`.
    Jump { to: usize },
    /// Does nothing for a while.
    Sleep { length: Length, place: String },
}

impl ProgramStep {
    /// The statement that it runs, if it does.
    pub(super) fn statement(&self) -> Option<&Execute> {
        match self {
            ProgramStep::Execute(execute) => Some(execute),
            _ => None,
        }
    }
}

/// A statement with its parameters and the use of its result.
#[derive(Debug)]
pub(super) struct Execute {
    /// Its name, unique within the workload.
    pub(super) name: String,
    /// Its text for the server, with parameters as `$1`, `$2`, …
    pub(super) sql: String,
    /// The statement as written in its file.
    pub(super) written: StatementText,
    /// The slots of its parameters, in the order of `$1`, `$2`, …
    pub(super) parameters: Vec<usize>,
    /// Its place, as `file:line`.
    pub(super) place: String,
    /// The columns of its result that are kept.
    pub(super) keep: KeptColumns,
}

impl Execute {
    /// The statement in the form that a session runs.
    pub(super) fn statement(&self) -> Statement<'_> {
        Statement { name: &self.name, sql: &self.sql, native: &sql_only }
    }
}

/// A statement as written in its file, with names of parameters where the server gets numbers.
#[derive(Debug)]
pub(super) struct StatementText {
    pub(super) sql: String,
    /// How its parameters became numbers.
    pub(super) uses: Uses,
}

impl StatementText {
    /// The statement on one line.
    pub(super) fn line(&self) -> String {
        self.sql.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A refusal in terms of this statement. `sent_before` is the number of characters that were sent in front of it.
    pub(super) fn refused(&self, refusal: &Refusal, sent_before: usize) -> String {
        let position = refusal.position.and_then(|position| position.checked_sub(sent_before + 1));
        let rest = position.and_then(|position| sql::rest_at(&self.sql, self.uses, position)).unwrap_or_default();
        let rest = beginning(rest);
        if rest.is_empty() {
            return refusal.words.clone();
        }
        format!("{}, at `{rest}`", refusal.words)
    }

    /// The line and column, both from 1, of the place after a number of characters of the text for the server.
    pub(super) fn line_and_column(&self, characters: usize) -> (usize, usize) {
        let rest = sql::rest_at(&self.sql, self.uses, characters).unwrap_or_default();
        let before = &self.sql[..self.sql.len() - rest.len()];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// The beginning of a text on one line.
pub(super) fn beginning(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN_MAX).collect()
}

/// Characters of a statement from its mistake on that a message shows.
const SHOWN_MAX: usize = 60;

/// The columns of a result that are kept.
#[derive(Debug, Default)]
pub(super) enum KeptColumns {
    /// Nothing.
    #[default]
    Nothing,
    /// Every column of the only row, in these slots (`\gset`); another number of rows is an error.
    OnlyRow(Vec<usize>),
    /// Every column of the last row, if there is one (`\aset`).
    LastRow(Vec<usize>),
    /// Some columns of the first row.
    FirstRow(Vec<KeptColumn>),
}

/// A column of a first row that later statements use.
#[derive(Debug)]
pub(super) struct KeptColumn {
    pub(super) column: usize,
    pub(super) slot: usize,
    /// Its value if there is no row; without a default, that is an error.
    pub(super) default: Option<Datum>,
}

/// How long a sleep is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Length {
    /// So long.
    Fixed(Duration),
    /// A variable number of these units.
    Variable { slot: usize, unit: Duration },
}
