//! Unchanged pgbench scripts: SQL statements and meta-commands that begin with a backslash.
//!
//! Not supported, and refused with a reason: `\startpipeline` and the commands that belong to it, `\shell` and
//! `\setshell`, several statements in one by `\;`.

mod command;
mod flow;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::ops::Range;

use super::WorkloadFile;
use super::expression::{self, Expression};
use super::lexer::{Lexer, TokenKind, tokens};
use super::problem::{FileError, Problem, SourceFile, listed, suggestion};
use super::program::{BUILT_IN, Definition, Execute, KeptColumns, Program, ProgramStep, StatementText, Tables};
use super::sql::{self, Splitter, Uses};
use crate::benchmark::Writes;
use flow::Flow;

/// The tables of `pgbench -i`.
pub(super) const PGBENCH_TABLES: [&str; 4] =
    ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"];

/// A script with the weight that it was given.
pub(super) struct WeightedScript {
    pub(super) source: SourceFile,
    pub(super) weight: f64,
}

/// Reads the scripts of a workload; variables are shared between them, as a client of pgbench keeps its own.
pub(super) fn parse(scripts: &[WeightedScript]) -> Result<Definition, FileError> {
    let mut variables = Variables::default();
    let mut programs = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut facts = Facts { only_queries: true, uses_pgbench_tables: false };
    for (number, WeightedScript { source, weight }) in scripts.iter().enumerate() {
        let stem = super::name_of(&source.path);
        let name = if names.contains(&stem) { format!("{stem}_{}", number + 1) } else { stem };
        let mut reader = Reader {
            source,
            number,
            name: &name,
            variables: &mut variables,
            facts: &mut facts,
            steps: Vec::new(),
            flow: Flow::default(),
            statements: 0,
        };
        reader.read().map_err(|problem| source.error([problem]))?;
        programs.push(Program {
            weight: *weight,
            draws: Vec::new(),
            steps: reader.steps,
            is_retried: true,
            priority: None,
        });
        names.push(name);
    }
    if let Some((script, problem)) = variables.fault() {
        return Err(scripts[script].source.error([problem]));
    }
    let keep =
        |script: &WeightedScript| WorkloadFile { path: script.source.path.clone(), text: script.source.text.clone() };
    let name = names.join("_");
    let files: Vec<WorkloadFile> = scripts.iter().map(keep).collect();
    Ok(Definition {
        schema: super::schema(&name),
        data_hash: super::hash(files.iter().map(|file| file.text.as_str())),
        files,
        tables: if facts.uses_pgbench_tables { Tables::Pgbench } else { Tables::Given },
        scale: 1.0,
        // The size of pgbench's tables with indexes, from its documentation and from a server.
        mib_per_scale: if facts.uses_pgbench_tables { 15.0 } else { 0.0 },
        writes: if facts.only_queries { Writes::Nothing } else { Writes::Grows },
        slots: variables.names,
        generators: Vec::new(),
        queries: Vec::new(),
        programs,
        names,
        checks: Vec::new(),
        name,
    })
}

/// Facts about all scripts together.
struct Facts {
    only_queries: bool,
    uses_pgbench_tables: bool,
}

struct Variables {
    names: Vec<String>,
    /// Whether anything sets them, by slot.
    is_set: Vec<bool>,
    /// Where they are used, by script.
    uses: Vec<(usize, usize, Range<usize>)>,
    /// Text within strings that looks like a variable, by script.
    in_strings: Vec<(usize, String, Range<usize>)>,
}

impl Default for Variables {
    fn default() -> Self {
        Variables {
            names: BUILT_IN.map(str::to_owned).to_vec(),
            is_set: vec![true; BUILT_IN.len()],
            uses: Vec::new(),
            in_strings: Vec::new(),
        }
    }
}

impl Variables {
    fn slot(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.is_set.push(false);
            self.names.len() - 1
        })
    }

    fn set(&mut self, name: &str) -> usize {
        let slot = self.slot(name);
        self.is_set[slot] = true;
        slot
    }

    /// A variable that is never set, or one within a string, where it would be text.
    fn fault(&self) -> Option<(usize, Problem)> {
        let known =
            || self.names.iter().zip(&self.is_set).filter(|(_, is_set)| **is_set).map(|(name, _)| name.as_str());
        if let Some((script, slot, span)) = self.uses.iter().find(|(_, slot, _)| !self.is_set[*slot]) {
            let name = &self.names[*slot];
            let (meant, names) = (suggestion(name, known()), listed(known()));
            let message = format!("nothing sets the variable `:{name}`{meant}; there are {names}");
            return Some((*script, Problem::new(span.clone(), message)));
        }
        let (script, name, span) = self.in_strings.iter().find(|(_, name, _)| known().any(|known| known == name))?;
        let message = format!(
            "`:{name}` stands within quotes, where a parameter is only text; put the text together in SQL, as in \
             'a' || :{name}::text"
        );
        Some((*script, Problem::new(span.clone(), message)))
    }
}

struct Reader<'a> {
    source: &'a SourceFile,
    /// The script's position.
    number: usize,
    name: &'a str,
    variables: &'a mut Variables,
    facts: &'a mut Facts,
    steps: Vec<ProgramStep>,
    flow: Flow,
    statements: usize,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Problem> {
        let text = self.source.text.as_str();
        let mut lexer = Lexer::new(text);
        let mut splitter = Splitter::default();
        while let Some(token) = lexer.next() {
            if &text[token.span.clone()] == "\\" {
                if let Some(span) = splitter.end() {
                    self.statement(span)?;
                }
                lexer.go_on_at(self.command(token.span.start)?);
            } else if let Some(span) = splitter.take(text, &token) {
                self.statement(span)?;
            }
        }
        if let Some(span) = splitter.end() {
            self.statement(span)?;
        }
        self.flow.check_closed()?;
        if !self.steps.iter().any(|step| matches!(step, ProgramStep::Execute(_))) {
            return Err(Problem::new(0..0, "there is no SQL statement, so nothing would run"));
        }
        Ok(())
    }

    /// The name of the next statement.
    fn next_name(&mut self) -> String {
        self.statements += 1;
        format!("{}.{}", self.name, self.statements)
    }

    /// A statement, or the beginning or end of a transaction.
    fn statement(&mut self, span: Range<usize>) -> Result<(), Problem> {
        let text = &self.source.text[span.clone()];
        let words = sql::first_words(text, usize::MAX);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let chain = |words: &[&str]| words.windows(2).any(|pair| pair == ["and", "chain"]);
        match &words[..] {
            ["begin", modes @ ..] | ["start", "transaction", modes @ ..] => self.begin(modes, text, span),
            ["commit" | "end" | "rollback" | "abort", rest @ ..] if chain(rest) => {
                Err(Problem::new(span, "`AND CHAIN` is not supported; write BEGIN again"))
            }
            ["commit" | "end", rest @ ..] if !rest.contains(&"prepared") => {
                self.steps.push(ProgramStep::Commit);
                Ok(())
            }
            ["rollback" | "abort", rest @ ..] if !rest.contains(&"to") && !rest.contains(&"prepared") => {
                self.steps.push(ProgramStep::Rollback);
                Ok(())
            }
            _ => self.execute(text, span),
        }
    }

    /// `BEGIN`; the modes that it gives become a statement of their own.
    fn begin(&mut self, modes: &[&str], text: &str, span: Range<usize>) -> Result<(), Problem> {
        self.steps.push(ProgramStep::Begin);
        let modes = match modes {
            ["work" | "transaction", modes @ ..] => modes,
            modes => modes,
        };
        if !modes.is_empty() {
            let words: Vec<_> = tokens(text).into_iter().filter(|token| token.kind == TokenKind::Word).collect();
            let first = words[words.len() - modes.len()].span.start;
            let sql = format!("SET TRANSACTION {}", &text[first..]);
            let name = self.next_name();
            self.steps.push(ProgramStep::Execute(super::plain_execute(name, &sql, &self.source.line(span.start))));
        }
        Ok(())
    }

    fn execute(&mut self, text: &str, span: Range<usize>) -> Result<(), Problem> {
        let translated = sql::translate(text, Uses::Each).map_err(|at| {
            let at = span.start + at;
            Problem::new(at..at, "parameters have names here; write `:name` in place of `$1`")
        })?;
        let mut parameters = Vec::new();
        for (name, at) in &translated.parameters {
            let at = span.start + at;
            parameters.push(self.use_of(name, at..at + name.len() + 1));
        }
        for token in tokens(text) {
            let typed = &text[token.span.clone()];
            match token.kind {
                TokenKind::Text => self.note_string(typed, span.start + token.span.start),
                TokenKind::Word | TokenKind::QuotedName => {
                    let name = typed.trim_matches('"').to_ascii_lowercase();
                    self.facts.uses_pgbench_tables |= PGBENCH_TABLES.contains(&name.as_str());
                }
                _ => {}
            }
        }
        self.facts.only_queries &= sql::is_query(text);
        let name = self.next_name();
        self.steps.push(ProgramStep::Execute(Execute {
            name,
            sql: translated.sql,
            written: StatementText { sql: text.to_owned(), uses: Uses::Each },
            parameters,
            place: self.source.line(span.start),
            keep: KeptColumns::Nothing,
        }));
        Ok(())
    }

    /// Records text within a string that pgbench would take for a variable, in case such a variable exists.
    fn note_string(&mut self, string: &str, at: usize) {
        // Quotes have no meaning within a string, so its inside is read like SQL.
        let inside = string.trim_matches('\'');
        let offset = at + (inside.as_ptr() as usize - string.as_ptr() as usize);
        for token in tokens(inside).into_iter().filter(|token| token.kind == TokenKind::Parameter) {
            let span = offset + token.span.start..offset + token.span.end;
            self.variables.in_strings.push((
                self.number,
                inside[token.span.start + 1..token.span.end].to_owned(),
                span,
            ));
        }
    }

    /// The slot of a variable that is used here.
    fn use_of(&mut self, name: &str, span: Range<usize>) -> usize {
        let slot = self.variables.slot(name);
        self.variables.uses.push((self.number, slot, span));
        slot
    }

    /// Reads an expression of a meta-command, which begins at byte `at`.
    fn expression(&mut self, text: &str, at: usize) -> Result<Expression, Problem> {
        let parsed = {
            let (variables, number) = (&mut *self.variables, self.number);
            expression::parse(text, &mut |name| {
                let slot = variables.slot(name);
                variables.uses.push((number, slot, at..at));
                Ok(slot)
            })
        };
        parsed.map_err(|error| Problem::new(at + error.at..at + error.at, error.message))
    }
}
