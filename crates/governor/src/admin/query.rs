//! The statements that the console understands, and those that a client has prepared.

use std::collections::BTreeMap;

use plimsoll_notation::did_you_mean;

use super::answer::{Answer, Column, Refusal};
use super::command::{COMMANDS, Call, Command};
use super::compatible::{self, Fixed};
use super::words::statements;

/// The maximum number of statements and of portals per client; only a client that ignores its answers needs more.
const KEPT_MAX: usize = 1000;

/// A statement that was understood.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Nothing but spaces and comments.
    Empty,
    /// A command of the console with the words after its own.
    Command(&'static Command, Vec<String>),
    /// A statement that drivers send.
    Fixed(Box<Fixed>),
}

impl Statement {
    /// Parses every statement of a text.
    pub fn all(text: &str) -> Result<Vec<Statement>, Refusal> {
        let statements = statements(text).map_err(|why| Refusal::new("42601", format!("syntax error: {why}")))?;
        statements.iter().map(|words| Statement::of(words)).collect()
    }

    /// Parses a text of at most one statement.
    pub fn one(text: &str) -> Result<Statement, Refusal> {
        let mut all = Statement::all(text)?;
        match all.len() {
            0 => Ok(Statement::Empty),
            1 => Ok(all.remove(0)),
            _ => Err(Refusal::new("42601", "cannot insert multiple commands into a prepared statement")),
        }
    }

    fn of(words: &[String]) -> Result<Statement, Refusal> {
        if let Some(fixed) = compatible::understand(words) {
            return Ok(Statement::Fixed(Box::new(fixed)));
        }
        if let Some((command, own)) = Command::find(words) {
            return Ok(Statement::Command(command, words[own..].to_vec()));
        }
        let is_show = words[0].eq_ignore_ascii_case("show");
        let unknown = if is_show { words.get(1).map_or("", String::as_str) } else { &words[0] };
        let known = COMMANDS.iter().filter(|command| command.changes != is_show).map(|command| command.words);
        // Shows only the first words: the rest may be long, and may be secret.
        let typed = if is_show { format!("SHOW {unknown}") } else { unknown.to_owned() };
        let typed: String = typed.chars().take(60).collect();
        let message = format!("this console has no command \"{typed}\"{}", did_you_mean(unknown, known));
        Err(Refusal::new("42601", message).hint("SHOW HELP lists them."))
    }

    /// The columns of its answer; empty if it has no rows.
    pub fn columns(&self) -> &[Column] {
        match self {
            Statement::Empty => &[],
            Statement::Command(command, _) => command.columns,
            Statement::Fixed(fixed) => &fixed.columns,
        }
    }

    /// Whether rows may follow, even without columns.
    pub(crate) fn has_rows(&self) -> bool {
        match self {
            Statement::Fixed(fixed) => fixed.tag.starts_with("SELECT"),
            _ => !self.columns().is_empty(),
        }
    }

    /// Runs it if the user may. Returns the answer, the command tag, and the transaction status afterwards if that has
    /// changed.
    pub fn run(&self, call: &Call<'_>, may_change: bool) -> Result<(Answer, String, Option<u8>), Refusal> {
        match self {
            Statement::Empty => Ok((Answer::default(), String::new(), None)),
            Statement::Fixed(fixed) => Ok((fixed.answer.clone(), fixed.tag.clone(), fixed.status)),
            Statement::Command(command, _) if command.changes && !may_change => {
                tracing::warn!(
                    user = call.user,
                    command = command.words,
                    "console: refused to a user that may look only"
                );
                let message = format!("permission denied: user \"{}\" may look, not change", call.user);
                Err(Refusal::new("42501", message).hint("`may_change = true` in its [[admin.user]] would allow it."))
            }
            Statement::Command(command, arguments) => {
                if command.arguments.is_empty() && !arguments.is_empty() {
                    let message = format!("syntax error: {} takes nothing after it", command.syntax());
                    return Err(Refusal::new("42601", message));
                }
                let answer = (command.run)(&Call { arguments, ..*call })?;
                Ok((answer, command.verb().to_owned(), None))
            }
        }
    }
}

/// The prepared statements and portals of a client.
#[derive(Debug, Default)]
pub struct Prepared {
    statements: BTreeMap<String, Statement>,
    portals: BTreeMap<String, Portal>,
}

/// A statement with the formats that the client wants.
#[derive(Debug, Clone)]
pub struct Portal {
    pub statement: Statement,
    /// Whether each column is wanted in binary format.
    pub formats: Vec<bool>,
    /// The rows that were not fetched yet, once the statement was run.
    pub rest: Option<(Answer, String)>,
}

impl Prepared {
    /// Stores a statement under a name; the unnamed one is replaced.
    pub(crate) fn keep_statement(&mut self, name: &str, statement: Statement) -> Result<(), Refusal> {
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err(Refusal::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        keep(&mut self.statements, name, statement)
    }

    pub fn statement(&self, name: &str) -> Result<&Statement, Refusal> {
        let missing = || Refusal::new("26000", format!("prepared statement \"{name}\" does not exist"));
        self.statements.get(name).ok_or_else(missing)
    }

    /// Stores a portal under a name; a portal of the same name is replaced.
    pub(crate) fn keep_portal(&mut self, name: &str, portal: Portal) -> Result<(), Refusal> {
        keep(&mut self.portals, name, portal)
    }

    pub fn portal(&mut self, name: &str) -> Result<&mut Portal, Refusal> {
        let missing = || Refusal::new("34000", format!("portal \"{name}\" does not exist"));
        self.portals.get_mut(name).ok_or_else(missing)
    }

    /// Forgets a statement (`S`) or portal, if it exists.
    pub fn forget(&mut self, kind: u8, name: &str) {
        if kind == b'S' {
            self.statements.remove(name);
        } else {
            self.portals.remove(name);
        }
    }

    /// A transaction has ended: portals end with it.
    pub(crate) fn forget_portals(&mut self) {
        self.portals.clear();
    }
}

fn keep<T>(kept: &mut BTreeMap<String, T>, name: &str, value: T) -> Result<(), Refusal> {
    if kept.len() >= KEPT_MAX && !kept.contains_key(name) {
        return Err(Refusal::new("54000", format!("{KEPT_MAX} are kept already; close some")));
    }
    kept.insert(name.to_owned(), value);
    Ok(())
}
