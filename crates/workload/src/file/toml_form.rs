//! From a TOML file to the steps of clients.

mod generators;
mod statements;

use std::path::Path;

use toml::Spanned;

use super::WorkloadFile;
use super::datum::Datum;
use super::problem::{FileError, Problem, SourceFile, listed, of_toml, suggestion};
use super::program::{BUILT_IN, Check, Definition, ExpectedAnswer, PlacedSql, Program, Tables};
use super::sql;
use super::typed::{TypedCheck, TypedFile, TypedScalar, TypedTransaction, TypedWrites};
use crate::benchmark::Writes;
use generators::Names;

/// Names that SQL of `setup` and checks can use.
pub(super) const CONSTANTS: [&str; 2] = ["scale", "seed"];

/// Reads a workload.
pub(super) fn parse(source: &SourceFile) -> Result<Definition, FileError> {
    let typed = typed(source)?;
    let mut reader = Reader {
        source,
        slots: BUILT_IN.map(str::to_owned).to_vec(),
        generators: Vec::new(),
        queries: Vec::new(),
        only_queries: true,
    };
    let mut files = vec![WorkloadFile { path: source.path.clone(), text: source.text.clone() }];
    let shared = typed.tables_of.as_ref().map(|named| reader.shared(&typed, named)).transpose()?;
    let tables = reader.tables(&typed, &mut files)?;
    let fail = |problem| source.error([problem]);
    let name = reader.name(&typed).map_err(fail)?;
    let scale = positive(&typed.scale, "scale").map_err(fail)?;
    let scale = scale.unwrap_or_else(|| shared.as_ref().map_or(1.0, |other| other.scale));
    let mib_per_scale = positive(&typed.mib_per_scale, "mib_per_scale").map_err(fail)?.unwrap_or(0.0);
    let programs = reader.programs(&typed).map_err(fail)?;
    let names = typed.transactions.iter().map(|one| one.get_ref().name.get_ref().clone()).collect();
    let checks = typed.checks.iter().map(|check| reader.check(check)).collect::<Result<_, _>>().map_err(fail)?;
    let writes = match typed.writes {
        Some(TypedWrites::Nothing) => Writes::Nothing,
        Some(TypedWrites::InPlace) => Writes::InPlace,
        Some(TypedWrites::Grows) => Writes::Grows,
        None if reader.only_queries => Writes::Nothing,
        None => Writes::Grows,
    };
    let Reader { slots, generators, queries, .. } = reader;
    let data_hash = super::hash(files.iter().map(|file| file.text.as_str()));
    let (schema, tables, data_hash, mib_per_scale) = match shared {
        Some(Definition { schema, tables, data_hash, mib_per_scale, files: others, .. }) => {
            files.extend(others);
            (schema, tables, data_hash, mib_per_scale)
        }
        None => (super::schema(&name), tables, data_hash, mib_per_scale),
    };
    let made = Definition {
        schema,
        name,
        files,
        tables,
        data_hash,
        scale,
        mib_per_scale,
        writes,
        slots,
        generators,
        queries,
        programs,
        names,
        checks,
    };
    super::check_bounds(&made, source, scale)?;
    Ok(made)
}

/// A file, followed by the ones with its tables if it is a TOML file that names any.
pub(super) fn with_setup_file(source: SourceFile) -> Result<Vec<WorkloadFile>, FileError> {
    let mut files = Vec::new();
    if source.path.extension().is_some_and(|extension| extension == "toml") {
        let typed = typed(&source)?;
        if let Some(file) = &typed.setup_file {
            files.push(beside(&source, file)?);
        }
        if let Some(named) = &typed.tables_of {
            let WorkloadFile { path, text } = beside(&source, named)?;
            let other = SourceFile { path, text };
            let setup = self::typed(&other)?.setup_file.map(|file| beside(&other, &file)).transpose()?;
            files.extend([WorkloadFile { path: other.path, text: other.text }].into_iter().chain(setup));
        }
    }
    let SourceFile { path, text } = source;
    Ok([WorkloadFile { path, text }].into_iter().chain(files).collect())
}

fn typed(source: &SourceFile) -> Result<TypedFile, FileError> {
    toml::from_str(&source.text).map_err(|error| source.error([of_toml(&error)]))
}

/// A file that another one names, as seen from there.
fn beside(source: &SourceFile, named: &Spanned<String>) -> Result<WorkloadFile, FileError> {
    let path = source.path.parent().unwrap_or(Path::new("")).join(named.get_ref());
    let text = super::read_text(&path).map_err(|error| {
        let why = error.0.into_iter().map(|fault| fault.to_string()).collect::<String>();
        source.error([Problem::new(named.span(), why)])
    })?;
    Ok(WorkloadFile { path, text })
}

/// The state of a file's reader.
struct Reader<'a> {
    source: &'a SourceFile,
    slots: Vec<String>,
    generators: Vec<super::generator::GeneratorDeclaration>,
    queries: Vec<PlacedSql>,
    /// Whether no statement so far changes anything.
    only_queries: bool,
}

/// A number above 0, if there is one.
fn positive(number: &Option<Spanned<f64>>, key: &str) -> Result<Option<f64>, Problem> {
    let Some(given) = number else { return Ok(None) };
    let number = *given.get_ref();
    if number.is_finite() && number > 0.0 {
        return Ok(Some(number));
    }
    Err(Problem::new(given.span(), format!("`{key}` is a number above 0; this is {number}")))
}

/// Whether a text is a valid name: a letter, then letters, digits and the characters in `also`.
fn is_name(text: &str, also: &[char]) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || also.contains(&c))
}

impl Reader<'_> {
    fn name(&self, typed: &TypedFile) -> Result<String, Problem> {
        let Some(name) = &typed.name else { return Ok(super::name_of(&self.source.path)) };
        let is_good = is_name(name.get_ref(), &['-']) && !name.get_ref().starts_with('_') && name.get_ref().len() <= 40;
        let wrong = || {
            let message = format!(
                "`{}` is not a valid name; write a letter, then letters, digits, `_` and `-`, at most 40 of them",
                name.get_ref()
            );
            Problem::new(name.span(), message)
        };
        if is_good { Ok(name.get_ref().clone()) } else { Err(wrong()) }
    }

    /// The workload whose tables this one uses, too.
    fn shared(&self, own: &TypedFile, named: &Spanned<String>) -> Result<Definition, FileError> {
        let fail = |message: &str| self.source.error([Problem::new(named.span(), message)]);
        if own.setup.is_some() || own.setup_file.is_some() {
            return Err(fail("there is `tables_of` and a setup; leave one of them out"));
        }
        let WorkloadFile { path, text } = beside(self.source, named)?;
        let other = SourceFile { path, text };
        // Otherwise two files could name each other.
        if typed(&other)?.tables_of.is_some() {
            return Err(fail("that workload uses the tables of another one itself; name the one with the setup"));
        }
        parse(&other)
    }

    /// The source of the tables; a separate setup file is read, and added to `files`.
    fn tables(&self, typed: &TypedFile, files: &mut Vec<WorkloadFile>) -> Result<Tables, FileError> {
        let fail = |problem| self.source.error([problem]);
        match (&typed.setup, &typed.setup_file) {
            (None, None) => Ok(Tables::Given),
            (Some(_), Some(file)) => {
                let message = "there is `setup` and `setup_file`; leave one of them out";
                Err(fail(Problem::new(file.span(), message)))
            }
            (Some(setup), None) => {
                let text = setup.get_ref();
                let place = |at| self.source.within(setup.span(), text, at);
                self.setup(self.source, text, &place).map_err(fail)
            }
            (None, Some(file)) => {
                let WorkloadFile { path, text } = beside(self.source, file)?;
                let source = SourceFile { path: path.clone(), text: text.clone() };
                let tables = self.setup(&source, &text, &|at| at).map_err(|problem| source.error([problem]))?;
                files.push(WorkloadFile { path, text });
                Ok(tables)
            }
        }
    }

    fn setup(&self, source: &SourceFile, text: &str, place: &dyn Fn(usize) -> usize) -> Result<Tables, Problem> {
        let mut statements = Vec::new();
        for span in sql::statements(text) {
            let at = place(span.start);
            self.check_constants(&text[span.clone()], &|inner| place(span.start + inner))?;
            statements.push(PlacedSql { sql: text[span].to_owned(), place: source.line(at) });
        }
        Ok(Tables::Setup(statements))
    }

    /// SQL outside of transactions knows the scale and the seed only.
    fn check_constants(&self, text: &str, place: &dyn Fn(usize) -> usize) -> Result<(), Problem> {
        let known = CONSTANTS.map(|name| (name, String::new()));
        sql::inline(text, &known).map(drop).map_err(|(name, at)| {
            let meant = suggestion(&name, CONSTANTS);
            let message = format!("`:{name}` is not known here{meant}; there are `:scale` and `:seed`");
            Problem::new(place(at)..place(at), message)
        })
    }

    /// SQL in a string of the file, of one statement.
    fn one_statement(&self, text: &str, string: std::ops::Range<usize>) -> Result<PlacedSql, Problem> {
        let found = sql::statements(text);
        let place = |at| self.source.within(string.clone(), text, at);
        match &found[..] {
            [one] => Ok(PlacedSql { sql: text[one.clone()].to_owned(), place: self.source.line(place(one.start)) }),
            [] => Err(Problem::new(string, "here is no SQL; write a statement")),
            [_, second, ..] => {
                let at = place(second.start);
                Err(Problem::new(at..at, "here a second statement begins; write one statement a string"))
            }
        }
    }

    fn constant_query(&self, text: &Spanned<String>) -> Result<PlacedSql, Problem> {
        let query = self.one_statement(text.get_ref(), text.span())?;
        self.check_constants(text.get_ref(), &|at| self.source.within(text.span(), text.get_ref(), at))?;
        Ok(query)
    }

    fn check(&self, typed: &Spanned<TypedCheck>) -> Result<Check, Problem> {
        let TypedCheck { what, sql, expect, equal } = typed.get_ref();
        let expected = match (expect, equal) {
            (Some(TypedScalar::Text(words)), None) if words == "no rows" => ExpectedAnswer::NoRows,
            (Some(value), None) => ExpectedAnswer::Value(datum(value)),
            (None, Some(query)) => ExpectedAnswer::SameAs(self.constant_query(query)?),
            _ => {
                let message = "a check has either `expect` (\"no rows\" or a value) or `equal` (a query)";
                return Err(Problem::new(typed.span(), message));
            }
        };
        Ok(Check { what: what.clone(), query: self.constant_query(sql)?, expected })
    }

    fn programs(&mut self, typed: &TypedFile) -> Result<Vec<Program>, Problem> {
        if typed.transactions.is_empty() {
            return Err(Problem::new(0..0, "there is no [[transaction]], so nothing would run; add one"));
        }
        let mut shared = Names::shared(self, &typed.parameters)?;
        let mut programs = Vec::new();
        for (at, transaction) in typed.transactions.iter().enumerate() {
            self.check_transaction(transaction, &typed.transactions[..at])?;
            programs.push(self.program(transaction.get_ref(), &mut shared)?);
        }
        shared.all_used()?;
        Ok(programs)
    }

    fn check_transaction(
        &self,
        transaction: &Spanned<TypedTransaction>,
        earlier: &[Spanned<TypedTransaction>],
    ) -> Result<(), Problem> {
        let typed = transaction.get_ref();
        let name = &typed.name;
        if !is_name(name.get_ref(), &['-']) {
            let message =
                format!("`{}` is not a valid name; write a letter, then letters, digits, `_` and `-`", name.get_ref());
            return Err(Problem::new(name.span(), message));
        }
        if earlier.iter().any(|other| other.get_ref().name.get_ref() == name.get_ref()) {
            let message = format!("two transactions are called `{}`; give each a name of its own", name.get_ref());
            return Err(Problem::new(name.span(), message));
        }
        positive(&typed.weight, "weight")?;
        if typed.statements.is_empty() {
            let message = format!("`{}` has no statements; add one, or leave the transaction out", name.get_ref());
            return Err(Problem::new(name.span(), message));
        }
        match (&typed.read_only, &typed.transaction) {
            (Some(read_only), Some(transaction)) if *read_only.get_ref() && !transaction.get_ref() => {
                let message = "`read_only` is a property of a transaction, and `transaction = false` makes none; \
                               leave one of them out";
                Err(Problem::new(read_only.span(), message))
            }
            _ => Ok(()),
        }
    }

    /// A slot for a name; a new one each time, since equal names in two transactions are two parameters.
    fn slot(&mut self, name: &str) -> usize {
        self.slots.push(name.to_owned());
        self.slots.len() - 1
    }
}

/// A value of the file.
fn datum(typed: &TypedScalar) -> Datum {
    match typed {
        TypedScalar::Bool(value) => Datum::Bool(*value),
        TypedScalar::Integer(value) => Datum::Int(*value),
        TypedScalar::Float(value) => Datum::Double(*value),
        TypedScalar::Text(value) => Datum::Text(value.clone()),
    }
}

/// The names that can stand in a statement, for a message.
fn known_names<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    format!("{}; there are {}", suggestion(name, known.clone()), listed(known))
}
