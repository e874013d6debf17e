//! The statements of a TOML file's transaction as steps.

use std::ops::Range;

use toml::Spanned;

use super::generators::{Names, ParameterSource};
use super::{Reader, is_name, known_names};
use crate::driver::PriorityRule;
use crate::file::plain_execute;
use crate::file::problem::{Problem, listed, suggestion};
use crate::file::program::{BUILT_IN, Execute, KeptColumn, KeptColumns, Program, ProgramStep, StatementText};
use crate::file::sql::{self, Uses};
use crate::file::typed::{TypedStatement, TypedTransaction};

/// First words of statements that would begin or end the transaction without our knowledge.
const TRANSACTION_WORDS: [&str; 6] = ["begin", "start", "commit", "end", "rollback", "abort"];

/// A statement that was read.
struct ReadStatement {
    name: Option<String>,
    /// As the server gets it.
    sql: String,
    /// As the file has it.
    written: String,
    /// Its parameters' names and places.
    parameters: Vec<(String, Range<usize>)>,
    columns: Option<Vec<Option<String>>>,
    place: String,
    span: Range<usize>,
}

impl Reader<'_> {
    pub(super) fn program(&mut self, typed: &TypedTransaction, shared: &mut Names) -> Result<Program, Problem> {
        let mut own = Names::declared(self, &typed.parameters)?;
        let statements =
            typed.statements.iter().map(|statement| self.statement(statement)).collect::<Result<Vec<_>, _>>()?;
        check_names(typed, &statements)?;
        let mut draws = Vec::new();
        let mut executes: Vec<Execute> = Vec::new();
        for (number, statement) in statements.iter().enumerate() {
            let mut slots = Vec::new();
            for (name, span) in &statement.parameters {
                let parameter = match own.0.get_mut(name) {
                    Some(parameter) => Some(parameter),
                    None => shared.0.get_mut(name),
                };
                let Some(parameter) = parameter else {
                    slots.push(built_in(name, span, &own, shared)?);
                    continue;
                };
                parameter.is_used = true;
                slots.push(parameter.slot);
                match &parameter.meaning {
                    ParameterSource::Drawn { generator } if draws.contains(generator) => {}
                    ParameterSource::Drawn { generator } => draws.push(*generator),
                    ParameterSource::Result { statement: wanted, column, default } => {
                        let source = source(&statements, number, wanted)
                            .map_err(|message| Problem::new(span.clone(), format!("`:{name}`: {message}")))?;
                        let column = column_number(&statements[source], column)
                            .map_err(|message| Problem::new(parameter.span.clone(), message))?;
                        keep(
                            &mut executes[source],
                            KeptColumn { column, slot: parameter.slot, default: default.clone() },
                        );
                    }
                }
            }
            executes.push(self.execute(typed, number, statement, slots));
        }
        own.all_used()?;
        let is_transaction = typed.transaction.as_ref().is_none_or(|is_one| *is_one.get_ref());
        let is_read_only = typed.read_only.as_ref().is_some_and(|is_one| *is_one.get_ref());
        let mut steps = Vec::new();
        if is_transaction {
            steps.push(ProgramStep::Begin);
        }
        if is_read_only {
            let name = format!("{}.read_only", typed.name.get_ref());
            let execute = plain_execute(name, "SET TRANSACTION READ ONLY", &statements[0].place);
            steps.push(ProgramStep::Execute(execute));
        }
        steps.extend(executes.into_iter().map(ProgramStep::Execute));
        if is_transaction {
            steps.push(ProgramStep::Commit);
        }
        let weight = typed.weight.as_ref().map_or(1.0, |weight| *weight.get_ref());
        let priority = typed.priority.as_ref().map(priority).transpose()?;
        Ok(Program { weight, draws, steps, is_retried: typed.retry.unwrap_or(true), priority })
    }

    fn statement(&mut self, typed: &Spanned<TypedStatement>) -> Result<ReadStatement, Problem> {
        let (name, text, string) = match typed.get_ref() {
            TypedStatement::Sql(text) => (None, text, typed.span()),
            TypedStatement::Named(named) => (named.name.as_ref(), named.sql.get_ref(), named.sql.span()),
        };
        if let Some(name) = name.filter(|name| !is_name(name.get_ref(), &[])) {
            let message =
                format!("`{}` is not a valid name; write a letter, then letters, digits and `_`", name.get_ref());
            return Err(Problem::new(name.span(), message));
        }
        let one = self.one_statement(text, string.clone())?;
        let start = text.find(&one.sql).unwrap_or(0);
        let place = |at: usize| self.source.within(string.clone(), text, start + at);
        let first = sql::first_words(&one.sql, 1);
        if let Some(word) = first.iter().find(|word| TRANSACTION_WORDS.contains(&word.as_str())) {
            let message = format!(
                "`{}` is done by Plimsoll around the statements; leave it out (`transaction = false` for autocommit)",
                word.to_uppercase()
            );
            return Err(Problem::new(string, message));
        }
        let translated = sql::translate(&one.sql, Uses::One).map_err(|at| {
            Problem::new(place(at)..place(at), "parameters have names here; write `:name` in place of `$1`")
        })?;
        self.only_queries &= sql::is_query(&one.sql);
        let parameters = translated.parameters.into_iter().map(|(name, at)| (name, place(at)..place(at))).collect();
        let columns = sql::columns(&one.sql);
        let name = name.map(|name| name.get_ref().clone());
        Ok(ReadStatement {
            name,
            sql: translated.sql,
            written: one.sql,
            parameters,
            columns,
            place: one.place,
            span: string,
        })
    }

    fn execute(
        &self,
        typed: &TypedTransaction,
        number: usize,
        statement: &ReadStatement,
        parameters: Vec<usize>,
    ) -> Execute {
        let name = match &statement.name {
            Some(name) => format!("{}.{name}", typed.name.get_ref()),
            None => format!("{}.{}", typed.name.get_ref(), number + 1),
        };
        Execute {
            name,
            sql: statement.sql.clone(),
            written: StatementText { sql: statement.written.clone(), uses: Uses::One },
            parameters,
            place: statement.place.clone(),
            keep: KeptColumns::Nothing,
        }
    }
}

fn priority(typed: &Spanned<String>) -> Result<PriorityRule, Problem> {
    match typed.get_ref().parse::<PriorityRule>() {
        Ok(PriorityRule::ByTransaction { .. }) => {
            let message = "this is the priority of one transaction, so it names no other; write `high` or `high:0.1`";
            Err(Problem::new(typed.span(), message))
        }
        Ok(PriorityRule::OfClients(_)) => {
            let message = "this is the priority of one transaction, and `of clients` is for all transactions of a client; \
                           write `high` or `high:0.1`";
            Err(Problem::new(typed.span(), message))
        }
        Ok(rule) => Ok(rule),
        Err(error) => Err(Problem::new(typed.span(), error.to_string())),
    }
}

/// Names of statements are unique within a transaction.
fn check_names(typed: &TypedTransaction, statements: &[ReadStatement]) -> Result<(), Problem> {
    for (at, statement) in statements.iter().enumerate() {
        let is_same = |other: &ReadStatement| other.name.is_some() && other.name == statement.name;
        if statements[..at].iter().any(is_same) {
            let name = statement.name.as_deref().unwrap_or_default();
            let message = format!("`{}` has two statements called `{name}`; rename one", typed.name.get_ref());
            return Err(Problem::new(statement.span.clone(), message));
        }
    }
    Ok(())
}

/// The slot of a name that every workload has.
fn built_in(name: &str, span: &Range<usize>, own: &Names, shared: &Names) -> Result<usize, Problem> {
    if let Some(slot) = BUILT_IN.iter().position(|known| *known == name) {
        return Ok(slot);
    }
    let known = own.0.keys().chain(shared.0.keys()).map(String::as_str).chain(BUILT_IN);
    let message = format!("there is no parameter `:{name}`{}", known_names(name, known));
    Err(Problem::new(span.clone(), message))
}

/// The position of the statement whose result is used, which must be an earlier one.
fn source(statements: &[ReadStatement], user: usize, wanted: &str) -> Result<usize, String> {
    let names = || statements.iter().filter_map(|statement| statement.name.as_deref());
    let Some(position) = statements.iter().position(|statement| statement.name.as_deref() == Some(wanted)) else {
        let meant = suggestion(wanted, names());
        return Err(format!(
            "no statement here is called `{wanted}`{meant}; those with a name are {}",
            listed(names())
        ));
    };
    match position.cmp(&user) {
        std::cmp::Ordering::Less => Ok(position),
        std::cmp::Ordering::Equal => Err(format!("`{wanted}` cannot use its own result")),
        std::cmp::Ordering::Greater => Err(format!("`{wanted}` comes later; only earlier statements have results")),
    }
}

/// A column by its name or, from 1, its number.
fn column_number(statement: &ReadStatement, column: &str) -> Result<usize, String> {
    let name = statement.name.as_deref().unwrap_or_default();
    if let Ok(number) = column.parse::<usize>() {
        let count = statement.columns.as_ref().map_or(usize::MAX, Vec::len);
        return match number {
            0 => Err("columns are counted from 1".to_owned()),
            number if number > count => Err(format!("`{name}` has {count} columns, and no column {number}")),
            number => Ok(number - 1),
        };
    }
    let Some(columns) = &statement.columns else {
        return Err(format!(
            "the columns of `{name}` cannot be told from its text; name them instead of `*`, or give the column's \
             number, as in `{name}.1`"
        ));
    };
    let names = || columns.iter().flatten().map(String::as_str);
    let is_it = |known: &Option<String>| known.as_deref() == Some(column);
    columns.iter().position(is_it).ok_or_else(|| {
        let meant = suggestion(column, names());
        format!("`{name}` has no column `{column}`{meant}; those with a name are {}", listed(names()))
    })
}

/// Keeps one more column of a statement's result; a parameter that is used twice is kept once.
fn keep(execute: &mut Execute, column: KeptColumn) {
    match &mut execute.keep {
        KeptColumns::FirstRow(columns) if columns.iter().any(|known| known.slot == column.slot) => {}
        KeptColumns::FirstRow(columns) => columns.push(column),
        other => *other = KeptColumns::FirstRow(vec![column]),
    }
}
