//! The commands of a unit, each with its statement, its parameters, and the rows of the answer that were kept.

use std::rc::Rc;

use plimsoll_capture::event::{Answer, Unit};

use super::session::{Portal, Prepared, SessionState, Text};
use super::{counted, shifted};
use crate::message::{Ask, Bind, Column, are_whole, ask, columns, format_of, messages, parameter_types, row};
use crate::skip::Reason;
use crate::sql::{Context, Statement};
use crate::value::{Kind, Value};

/// A unit, read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub commands: Vec<Command>,
    /// Values that it sends.
    pub sent: Vec<Sent>,
    /// Values of its answer, as far as they were kept.
    pub returned: Vec<Returned>,
    pub unfit: Option<Reason>,
}

/// A command that is run: a statement of a `Query`, or an `Execute`.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub text: Rc<Text>,
    /// The place of its statement in the text.
    pub at: usize,
    /// The types of its parameters.
    pub types: Vec<u32>,
    columns: Option<Rc<Vec<Column>>>,
    /// The formats of its columns; `None` where their description has them.
    formats: Option<Vec<u16>>,
}

impl Command {
    pub fn statement(&self) -> &Statement {
        &self.text.statements[self.at]
    }

    pub fn fingerprint(&self) -> u64 {
        self.text.fingerprints[self.at]
    }
}

/// A value that a client sends.
#[derive(Debug)]
pub(crate) struct Sent {
    /// What it may be.
    pub values: Vec<Value>,
    pub context: Context,
    /// The tables of its statement.
    pub tables: Vec<String>,
    /// Where it is in the request.
    pub range: std::ops::Range<usize>,
    /// The format of a parameter; `None` for a literal or number.
    pub format: Option<u16>,
}

/// A value of an answer.
#[derive(Debug)]
pub(crate) struct Returned {
    /// The place of its command among those of the unit.
    pub command: usize,
    pub row: usize,
    pub column: usize,
    pub value: Value,
    pub kind: Kind,
    pub format: u16,
    pub name: String,
    /// The table of its column; 0 for none.
    pub table: u32,
    /// Whether the answer has only one row.
    pub is_alone: bool,
}

/// What a description in the answer belongs to.
enum Described {
    Command(usize),
    Statement(Vec<u8>),
    Portal(Vec<u8>),
}

/// Reads a unit.
pub(crate) fn read(state: &mut SessionState, unit: &Unit) -> Reading {
    let mut reader = UnitReader::new(state);
    if !are_whole(&unit.request) {
        reader.reading.unfit = Some(Reason::Malformed);
        return reader.reading;
    }
    for message in messages(&unit.request) {
        match ask(&message) {
            Some(asked) => reader.take(asked, &unit.request),
            None => reader.unfit(Reason::Malformed),
        }
    }
    let copies = |command: &Command| command.statement().needs_copy_data;
    // A copy that the server refused at once has no data.
    if reader.reading.commands.iter().any(copies) && !reader.has_copy_end && unit.answer.error.is_none() {
        reader.unfit(Reason::CopyData);
    }
    if let Some(reason) = reader.reading.commands.iter().find_map(|command| command.statement().unfit) {
        reader.unfit(reason);
    }
    reader.describe(&unit.answer);
    reader.rows(&unit.answer);
    reader.reading
}

struct UnitReader<'a> {
    state: &'a mut SessionState,
    reading: Reading,
    /// What the descriptions of columns in the answer belong to, in order.
    described: Vec<Described>,
    /// The statements whose parameters the answer describes, in order.
    parameters: Vec<Vec<u8>>,
    has_copy_end: bool,
}

impl<'a> UnitReader<'a> {
    fn new(state: &'a mut SessionState) -> Self {
        let (described, parameters) = (Vec::new(), Vec::new());
        UnitReader { state, reading: Reading::default(), described, parameters, has_copy_end: false }
    }

    fn unfit(&mut self, reason: Reason) {
        self.reading.unfit.get_or_insert(reason);
    }

    fn take(&mut self, asked: Ask<'_>, request: &[u8]) {
        match asked {
            Ask::Query { text, text_at } => {
                let text = Text::of(text);
                self.literals(&text, text_at);
                for at in 0..text.statements.len() {
                    if text.statements[at].may_return {
                        self.described.push(Described::Command(self.reading.commands.len()));
                    }
                    let text = text.clone();
                    let command = Command { text, at, types: Vec::new(), columns: None, formats: None };
                    self.reading.commands.push(command);
                }
            }
            Ask::Parse { name, text, text_at, types } => {
                let text = Text::of(text);
                self.literals(&text, text_at);
                if let Some(reason) = text.statements.first().and_then(|one| one.unfit) {
                    self.unfit(reason);
                }
                self.state.statements.insert(name.to_vec(), Prepared { text, types, columns: None });
            }
            Ask::Bind(bind) => self.bind(&bind, request),
            Ask::Describe { is_portal, name } => {
                if !is_portal {
                    self.parameters.push(name.to_vec());
                }
                let text = match is_portal {
                    true => self.state.portals.get(name).map(|portal| &portal.prepared.text),
                    false => self.state.statements.get(name).map(|prepared| &prepared.text),
                };
                if text.is_some_and(|text| text.statements.first().is_some_and(|one| one.may_return)) {
                    let name = name.to_vec();
                    self.described.push(if is_portal { Described::Portal(name) } else { Described::Statement(name) });
                } else if text.is_none() {
                    self.unfit(Reason::UnknownStatement);
                }
            }
            Ask::Execute { portal } => match self.state.portals.get(portal) {
                Some(Portal { prepared, result_formats, .. }) if !prepared.text.statements.is_empty() => {
                    let (text, columns) = (prepared.text.clone(), prepared.columns.clone());
                    let (types, formats) = (prepared.types.clone(), Some(result_formats.clone()));
                    self.reading.commands.push(Command { text, at: 0, types, columns, formats });
                }
                Some(_) => {}
                None => self.unfit(Reason::UnknownStatement),
            },
            Ask::Close { is_portal: true, name } => drop(self.state.portals.remove(name)),
            Ask::Close { is_portal: false, name } => drop(self.state.statements.remove(name)),
            Ask::CopyEnd => self.has_copy_end = true,
            Ask::FunctionCall => self.unfit(Reason::FunctionCall),
            Ask::Other => {}
        }
    }

    /// The numbers and literals of a text that begins at a place of the request.
    fn literals(&mut self, text: &Text, text_at: usize) {
        for one in &text.statements {
            for place in one.places.iter().filter(|place| place.parameter.is_none()) {
                let values = Value::of_token(&text.bytes[place.range.clone()]);
                if values.is_empty() {
                    continue;
                }
                let (context, tables) = (place.context.clone(), one.tables.clone());
                let range = shifted(&place.range, text_at);
                self.reading.sent.push(Sent { values, context, tables, range, format: None });
            }
        }
    }

    fn bind(&mut self, bind: &Bind<'_>, request: &[u8]) {
        let Some(prepared) = self.state.statements.get(bind.statement).cloned() else {
            return self.unfit(Reason::UnknownStatement);
        };
        if let Some(one) = prepared.text.statements.first() {
            for (number, range) in bind.values.iter().enumerate() {
                let Some(range) = range else { continue };
                let places = one.places.iter().filter(|place| place.parameter == Some(number + 1));
                let contexts: Vec<&Context> = places.map(|place| &place.context).collect();
                let column = contexts.iter().find(|context| matches!(context, Context::Column(_)));
                let context = column.or(contexts.first()).map_or(Context::Unknown, |context| (*context).clone());
                let format = bind.format(number);
                let type_oid = prepared.types.get(number).copied();
                let values = Value::of_parameter(type_oid, format, &request[range.clone()]);
                if !values.is_empty() {
                    let (tables, range) = (one.tables.clone(), range.clone());
                    self.reading.sent.push(Sent { values, context, tables, range, format: Some(format) });
                }
            }
        }
        let (statement, result_formats) = (bind.statement.to_vec(), bind.result_formats().to_vec());
        self.state.portals.insert(bind.portal.to_vec(), Portal { statement, prepared, result_formats });
    }

    /// Gives the descriptions of the answer to what they describe, in order.
    fn describe(&mut self, answer: &Answer) {
        let mut described = std::mem::take(&mut self.described).into_iter();
        let mut parameters = std::mem::take(&mut self.parameters).into_iter();
        for message in messages(&answer.begin) {
            match message.tag {
                b't' => {
                    let prepared = parameters.next().and_then(|name| self.state.statements.get_mut(&name));
                    if let (Some(prepared), Some(types)) = (prepared, parameter_types(message.body)) {
                        prepared.types = types;
                    }
                }
                b'T' => {
                    let (Some(of), Some(found)) = (described.next(), columns(message.body)) else { return };
                    self.note(of, Rc::new(found));
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, of: Described, columns: Rc<Vec<Column>>) {
        let name = match of {
            Described::Command(at) => {
                self.reading.commands[at].columns = Some(columns);
                return;
            }
            Described::Statement(name) => name,
            Described::Portal(name) => {
                let Some(portal) = self.state.portals.get_mut(&name) else { return };
                portal.prepared.columns = Some(columns.clone());
                portal.statement.clone()
            }
        };
        if let Some(prepared) = self.state.statements.get_mut(&name) {
            prepared.columns = Some(columns.clone());
            let text = prepared.text.clone();
            for command in self.reading.commands.iter_mut().filter(|command| Rc::ptr_eq(&command.text, &text)) {
                command.columns = Some(columns.clone());
            }
        }
    }

    /// Gives the rows of the answer to their commands, which the tags count.
    fn rows(&mut self, answer: &Answer) {
        let mut rows = messages(&answer.begin).filter(|message| message.tag == b'D');
        let commands = std::mem::take(&mut self.reading.commands);
        for (number, command) in commands.iter().enumerate() {
            let one = command.statement();
            let Some(tag) = answer.tags.get(number) else { break };
            let is_counted = tag.ends_with(|end: char| end.is_ascii_digit());
            if one.may_return && !is_counted {
                break;
            }
            let count = if one.may_return { counted(tag) } else { 0 };
            for at in 0..count {
                let Some(message) = rows.next() else { break };
                let values = row(message.body).unwrap_or_default();
                self.values(command, (number, at as usize), &values, count == 1);
            }
        }
        self.reading.commands = commands;
    }

    fn values(&mut self, command: &Command, place: (usize, usize), values: &[Option<&[u8]>], is_alone: bool) {
        let Some(columns) = &command.columns else { return };
        for (at, (column, bytes)) in columns.iter().zip(values).enumerate() {
            let (Some(kind), Some(bytes)) = (Kind::of(column.type_oid), bytes) else { continue };
            let format = command.formats.as_ref().map_or(column.format, |formats| format_of(formats, at));
            let Some(value) = Value::read(kind, format, bytes) else { continue };
            let (name, table) = (column.name.clone(), column.table);
            let (command, row) = place;
            self.reading.returned.push(Returned {
                command,
                row,
                column: at,
                value,
                kind,
                format,
                name,
                table,
                is_alone,
            });
        }
    }
}
