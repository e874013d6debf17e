//! Meta-commands of a script.

use std::ops::Range;
use std::time::Duration;

use super::Reader;
use crate::file::problem::{Problem, listed, suggestion};
use crate::file::program::{KeptColumns, Length, ProgramStep};
use crate::file::sql;

/// The supported commands.
const COMMANDS: [&str; 8] = ["set", "sleep", "if", "elif", "else", "endif", "gset", "aset"];

/// The longest sleep; a longer one is taken for a mistake.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// The rest of a command's line after the command's name, and its place.
struct Line<'a> {
    rest: &'a str,
    at: usize,
    span: Range<usize>,
}

impl Line<'_> {
    fn wrong(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.span.clone(), message)
    }
}

impl Reader<'_> {
    /// Reads the command whose backslash is at byte `start`; returns the end of its line.
    pub(super) fn command(&mut self, start: usize) -> Result<usize, Problem> {
        let text = self.source.text.as_str();
        let end = line_end(text, start);
        let after = &text[start + 1..end];
        let length = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, rest) = after.split_at(length);
        let line = Line { rest, at: start + 1 + length, span: start..start + 1 + length };
        match name {
            "set" => self.set(&line)?,
            "sleep" => self.sleep(&line)?,
            "if" => {
                let condition = self.expression(line.rest, line.at)?;
                self.flow.begin(&mut self.steps, condition, self.source.line(start), line.span);
            }
            "elif" => {
                let condition = self.expression(line.rest, line.at)?;
                let condition = Some((condition, self.source.line(start)));
                self.flow.otherwise(&mut self.steps, condition, line.span)?;
            }
            "else" => {
                alone(&line)?;
                self.flow.otherwise(&mut self.steps, None, line.span)?;
            }
            "endif" => {
                alone(&line)?;
                self.flow.end(&mut self.steps, line.span)?;
            }
            "gset" | "aset" => self.keep(name, &line)?,
            _ => return Err(unknown(name, after, &line)),
        }
        Ok(end)
    }

    /// `\set name expression`.
    fn set(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let rest = line.rest.trim_start();
        let at = line.at + (line.rest.len() - rest.len());
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, expression) = rest.split_at(length);
        if !is_variable(name) {
            let message = format!("`{name}` cannot name a variable; write \\set name expression");
            return Err(Problem::new(at..at + length, message));
        }
        let expression = self.expression(expression, at + length)?;
        let slot = self.variables.set(name);
        self.steps.push(ProgramStep::Set { slot, expression, place: self.source.line(line.span.start) });
        Ok(())
    }

    /// `\sleep number [us|ms|s]`, where the number may be a variable.
    fn sleep(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let words: Vec<&str> = line.rest.split_whitespace().collect();
        let [number, unit @ ..] = &words[..] else { return Err(line.wrong("write \\sleep number [us|ms|s]")) };
        // The unit may directly follow the number.
        let digits = number.find(|c: char| !c.is_ascii_digit()).filter(|at| *at > 0).unwrap_or(number.len());
        let (number, attached) = number.split_at(digits);
        let unit = match (attached, unit) {
            ("", []) => "s",
            ("", [unit]) => unit,
            (unit, []) => unit,
            _ => return Err(line.wrong("write \\sleep number [us|ms|s]")),
        };
        let unit = match unit {
            "us" => Duration::from_micros(1),
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            other => return Err(line.wrong(format!("`{other}` is not an unit of time; write us, ms or s"))),
        };
        let length = if let Some(name) = number.strip_prefix(':') {
            let slot = self.use_of(name, line.span.clone());
            Length::Variable { slot, unit }
        } else {
            let count = number.parse::<u32>().ok();
            let length = count.and_then(|count| unit.checked_mul(count)).filter(|length| *length <= SLEEP_MAX);
            let wrong = || line.wrong(format!("`{number}` is no time to sleep; write a number, at most an hour"));
            Length::Fixed(length.ok_or_else(wrong)?)
        };
        self.steps.push(ProgramStep::Sleep { length, place: self.source.line(line.span.start) });
        Ok(())
    }

    /// `\gset [prefix]` and `\aset [prefix]`: every column of the statement before becomes a variable.
    fn keep(&mut self, command: &str, line: &Line<'_>) -> Result<(), Problem> {
        let prefix = line.rest.trim();
        if prefix.contains(char::is_whitespace) {
            return Err(line.wrong(format!("write \\{command} or \\{command} prefix")));
        }
        let Some(ProgramStep::Execute(execute)) = self.steps.last_mut() else {
            return Err(line.wrong(format!("\\{command} stands behind a statement with rows")));
        };
        if !matches!(execute.keep, KeptColumns::Nothing) {
            return Err(line.wrong("the rows of the statement before are kept already"));
        }
        let unnamed = || {
            line.wrong(format!(
                "the names of the columns cannot be told from the statement's text; give each a name with AS, and no `*`, \
                 for \\{command}"
            ))
        };
        let columns = sql::columns(&execute.sql).and_then(|columns| columns.into_iter().collect::<Option<Vec<_>>>());
        let columns = columns.ok_or_else(unnamed)?;
        let mut slots = Vec::new();
        for column in columns {
            let name = format!("{prefix}{column}");
            if !is_variable(&name) {
                return Err(
                    line.wrong(format!("`{name}` cannot name a variable; give the column another name with AS"))
                );
            }
            slots.push(self.variables.set(&name));
        }
        execute.keep = if command == "gset" { KeptColumns::OnlyRow(slots) } else { KeptColumns::LastRow(slots) };
        Ok(())
    }
}

/// The end of a command: the end of its line, or of its last line if lines end in a backslash.
fn line_end(text: &str, start: usize) -> usize {
    let mut from = start + 1;
    loop {
        let Some(end) = text[from..].find('\n').map(|at| from + at) else { return text.len() };
        if !text[from..end].trim_end_matches('\r').ends_with('\\') {
            return end;
        }
        from = end + 1;
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn alone(line: &Line<'_>) -> Result<(), Problem> {
    if line.rest.trim().is_empty() { Ok(()) } else { Err(line.wrong("nothing can stand behind this")) }
}

/// Why a command is not done.
fn unknown(name: &str, after: &str, line: &Line<'_>) -> Problem {
    line.wrong(match name {
        "startpipeline" | "endpipeline" | "syncpipeline" => {
            format!("\\{name} is not supported: each statement waits for the answer to the one before; leave it out")
        }
        "shell" | "setshell" => format!("\\{name} is not supported: a workload starts no programs; leave it out"),
        "setrandom" => "\\setrandom is gone since PostgreSQL 9.6; write \\set name random(low, high)".to_owned(),
        "" if after.starts_with(';') => {
            "several statements in one, by \\;, are not supported; end each with a semicolon of its own".to_owned()
        }
        _ => {
            let (meant, known) = (suggestion(name, COMMANDS), listed(COMMANDS));
            format!("there is no command `\\{name}`{meant}; there are {known}")
        }
    })
}
