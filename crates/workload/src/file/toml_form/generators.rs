//! Parameters of a TOML file: the generator of each.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::{Reader, datum, is_name};
use crate::file::datum::Datum;
use crate::file::expression::{self, Expression};
use crate::file::generator::{GeneratorDeclaration, ValueSource};
use crate::file::problem::Problem;
use crate::file::program::BUILT_IN;
use crate::file::typed::{TypedBound, TypedGenerator, TypedLength};

/// The default of how many numbers of a sequence each client takes at a time: 2000 clients fit into an `integer` column.
const BLOCK: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub(super) enum ParameterSource {
    /// Drawn before the transaction begins.
    Drawn { generator: usize },
    /// A column of an earlier statement's first row.
    Result { statement: String, column: String, default: Option<Datum> },
}

/// A parameter that was declared.
#[derive(Debug, Clone)]
pub(super) struct Parameter {
    pub(super) slot: usize,
    pub(super) meaning: ParameterSource,
    /// The place of its name.
    pub(super) span: Range<usize>,
    pub(super) is_used: bool,
}

#[derive(Debug, Default)]
pub(super) struct Names(pub(super) BTreeMap<String, Parameter>);

impl Names {
    /// Parameters for all transactions.
    pub(super) fn shared(
        reader: &mut Reader<'_>,
        typed: &BTreeMap<Spanned<String>, Spanned<TypedGenerator>>,
    ) -> Result<Self, Problem> {
        let names = Names::declared(reader, typed)?;
        let result = names.0.values().find(|parameter| matches!(parameter.meaning, ParameterSource::Result { .. }));
        match result {
            Some(parameter) => {
                let message = "a result belongs to one transaction; declare it under that transaction's `parameters`";
                Err(Problem::new(parameter.span.clone(), message))
            }
            None => Ok(names),
        }
    }

    /// The parameters of a table.
    pub(super) fn declared(
        reader: &mut Reader<'_>,
        typed: &BTreeMap<Spanned<String>, Spanned<TypedGenerator>>,
    ) -> Result<Self, Problem> {
        let mut names = BTreeMap::new();
        for (name, generator) in typed {
            let wrong = |message| Problem::new(name.span(), message);
            if !is_name(name.get_ref(), &[]) {
                let message =
                    "a parameter's name is a letter, then letters, digits and `_`, as SQL has it after the colon";
                return Err(wrong(format!("`{}` is not a valid name; {message}", name.get_ref())));
            }
            if BUILT_IN.contains(&name.get_ref().as_str()) {
                return Err(wrong(format!("`:{}` is there in every workload; choose another name", name.get_ref())));
            }
            let slot = reader.slot(name.get_ref());
            let meaning = reader.meaning(generator, slot)?;
            names.insert(name.get_ref().clone(), Parameter { slot, meaning, span: name.span(), is_used: false });
        }
        Ok(Names(names))
    }

    /// Fails with a parameter that no statement uses.
    pub(super) fn all_used(&self) -> Result<(), Problem> {
        let unused = self.0.iter().filter(|(_, parameter)| !parameter.is_used);
        match unused.min_by_key(|(_, parameter)| parameter.span.start) {
            Some((name, parameter)) => {
                let message = format!("no statement uses `:{name}`; leave the parameter out, or use it");
                Err(Problem::new(parameter.span.clone(), message))
            }
            None => Ok(()),
        }
    }
}

/// The keys of a generator; each of the first eight selects a kind.
const KINDS: &str = "`uniform`, `zipf`, `one_of`, `query`, `sequence`, `text`, `constant`, `result`";

impl Reader<'_> {
    fn meaning(&mut self, typed: &Spanned<TypedGenerator>, slot: usize) -> Result<ParameterSource, Problem> {
        let generator = typed.get_ref();
        let wrong = |message: String| Problem::new(typed.span(), message);
        let kind = kind(generator).map_err(wrong)?;
        check_extras(generator, kind).map_err(wrong)?;
        if let Some(result) = &generator.result {
            let Some((statement, column)) = result.split_once('.').filter(|(a, b)| !a.is_empty() && !b.is_empty())
            else {
                return Err(wrong(format!("`{result}` names no result; write `statement.column`")));
            };
            let (statement, column) = (statement.to_owned(), column.to_owned());
            return Ok(ParameterSource::Result { statement, column, default: generator.default.as_ref().map(datum) });
        }
        let at = typed.span().start;
        let source = self.source_of(generator, &typed.span())?;
        self.generators.push(GeneratorDeclaration { slot, source, at });
        Ok(ParameterSource::Drawn { generator: self.generators.len() - 1 })
    }

    fn source_of(&mut self, typed: &TypedGenerator, span: &Range<usize>) -> Result<ValueSource, Problem> {
        let wrong = |message: &str| Problem::new(span.clone(), message);
        let exponent = typed.exponent;
        if exponent.is_some_and(|exponent| !(0.0..=1000.0).contains(&exponent)) {
            return Err(wrong("`exponent` is a number from 0 to 1000"));
        }
        let bound = |typed: &TypedBound| bound(typed).map_err(|message| Problem::new(span.clone(), message));
        if let Some([low, high]) = &typed.uniform {
            return Ok(ValueSource::Range { low: bound(low)?, high: bound(high)?, exponent: None });
        }
        if let Some([low, high]) = &typed.zipf {
            return Ok(ValueSource::Range { low: bound(low)?, high: bound(high)?, exponent: exponent.or(Some(1.0)) });
        }
        if let Some(values) = &typed.one_of {
            if values.is_empty() {
                return Err(wrong("`one_of` is an empty list; give at least one value"));
            }
            return Ok(ValueSource::OneOf { values: values.iter().map(datum).collect(), exponent });
        }
        let query = typed.query.as_ref().map(|query| self.query(query)).transpose()?;
        if let Some(start) = &typed.sequence {
            let (step, block) = (typed.step.unwrap_or(1), typed.block.unwrap_or(BLOCK));
            if step == 0 || block < 1 {
                return Err(wrong("`step` is not 0, and `block` is above 0"));
            }
            return Ok(ValueSource::Sequence { start: bound(start)?, after: query, step, block });
        }
        if let Some(query) = query {
            return Ok(ValueSource::Query { query, exponent });
        }
        match (&typed.text, &typed.constant) {
            (Some(TypedLength::One(length)), _) => Ok(ValueSource::Text { low: bound(length)?, high: bound(length)? }),
            (Some(TypedLength::Between([low, high])), _) => {
                Ok(ValueSource::Text { low: bound(low)?, high: bound(high)? })
            }
            (None, Some(value)) => Ok(ValueSource::Constant(datum(value))),
            (None, None) => unreachable!("it has a kind, which was looked at"),
        }
    }

    /// The number of a query; the same text is asked once.
    fn query(&mut self, typed: &Spanned<String>) -> Result<usize, Problem> {
        let query = self.constant_query(typed)?;
        if let Some(known) = self.queries.iter().position(|known| known.sql == query.sql) {
            return Ok(known);
        }
        self.queries.push(query);
        Ok(self.queries.len() - 1)
    }
}

/// The one key that selects the kind of generator.
fn kind(typed: &TypedGenerator) -> Result<&'static str, String> {
    let TypedGenerator { uniform, zipf, one_of, query, sequence, text, constant, result, .. } = typed;
    let kinds = [
        ("uniform", uniform.is_some()),
        ("zipf", zipf.is_some()),
        ("one_of", one_of.is_some()),
        // With a sequence, `query` gives its beginning.
        ("query", query.is_some() && sequence.is_none()),
        ("sequence", sequence.is_some()),
        ("text", text.is_some()),
        ("constant", constant.is_some()),
        ("result", result.is_some()),
    ];
    let given: Vec<&str> = kinds.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect();
    match given[..] {
        [one] => Ok(one),
        [] => Err(format!("it does not say what is drawn; give one of {KINDS}")),
        [one, other, ..] => Err(format!("it has both `{one}` and `{other}`; give one of {KINDS}")),
    }
}

/// Refuses keys that belong to another kind.
fn check_extras(typed: &TypedGenerator, kind: &str) -> Result<(), String> {
    let extras = [
        ("exponent", typed.exponent.is_some(), &["zipf", "one_of", "query"][..]),
        ("step", typed.step.is_some(), &["sequence"]),
        ("block", typed.block.is_some(), &["sequence"]),
        ("default", typed.default.is_some(), &["result"]),
    ];
    match extras.into_iter().find(|(_, is_given, kinds)| *is_given && !kinds.contains(&kind)) {
        Some((extra, ..)) => Err(format!("`{extra}` means nothing with `{kind}`; leave it out")),
        None => Ok(()),
    }
}

/// A bound as an expression in which the first variable is the scale.
fn bound(typed: &TypedBound) -> Result<Expression, String> {
    let text = match typed {
        TypedBound::Integer(number) => return Ok(Expression::Constant(Datum::Int(*number))),
        TypedBound::Expression(text) => text,
    };
    let mut slot = |name: &str| match name {
        "scale" => Ok(0),
        _ => Err(format!("`:{name}` is not known here; there is `:scale`")),
    };
    let parsed = expression::parse(text, &mut slot).map_err(|error| format!("`{text}`: {}", error.message))?;
    if parsed.is_random() {
        return Err(format!("`{text}` is random; a bound is the same for every draw"));
    }
    Ok(parsed)
}
