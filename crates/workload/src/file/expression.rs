//! The expressions of pgbench's `\set` and `\if`, which also give the bounds of generators: numbers, truth values, null,
//! variables, operators and functions.
//!
//! [`parse`] makes a tree from the text, `evaluate` its value. Both follow pgbench's documentation or, where that is
//! silent, the results of PostgreSQL 15's pgbench, from which the tests' expected values were taken.

mod evaluate;
mod functions;
mod scan;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub(super) use evaluate::{Variables, evaluate, is_true};
use functions::FUNCTIONS;
pub(super) use functions::Function;
use scan::{Lexeme, PlacedLexeme, scan};

use super::datum::Datum;
use super::problem::{listed, suggestion};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A value.
    Constant(Datum),
    /// A variable, by its slot.
    Variable(usize),
    /// An operator with one operand.
    Unary(Unary, Box<Expression>),
    /// An operator with two.
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// `IS NULL`, `IS TRUE`, `IS FALSE`.
    Is(Box<Expression>, Datum),
    /// `CASE WHEN … THEN … ELSE … END`.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
    /// A function with its operands.
    Call(Function, Vec<Expression>),
}

/// An operator with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Negative,
    Complement,
    Not,
}

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Expression {
    /// Whether its value differs from one time to the next.
    pub(super) fn is_random(&self) -> bool {
        match self {
            Expression::Constant(_) | Expression::Variable(_) => false,
            Expression::Unary(_, operand) | Expression::Is(operand, _) => operand.is_random(),
            Expression::Binary(_, left, right) => left.is_random() || right.is_random(),
            Expression::Case(branches, otherwise) => {
                let branch = |(condition, value): &(Expression, Expression)| condition.is_random() || value.is_random();
                branches.iter().any(branch) || otherwise.is_random()
            }
            Expression::Call(function, operands) => {
                use Function::{Random, RandomExponential, RandomGaussian, RandomZipfian};
                matches!(function, Random | RandomExponential | RandomGaussian | RandomZipfian)
                    || operands.iter().any(Expression::is_random)
            }
        }
    }
}

/// Text that is not an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpressionError {
    /// Where, in bytes of the text.
    pub(super) at: usize,
    /// The fault.
    pub(super) message: String,
}

/// Reads an expression. `slot` returns the slot of a variable, or why there is no variable of that name.
pub(super) fn parse(
    text: &str,
    slot: &mut dyn FnMut(&str) -> Result<usize, String>,
) -> Result<Expression, ExpressionError> {
    let scanned = scan(text)?;
    let mut parser = Parser { scanned: &scanned, at: 0, end: text.len(), depth: 0, slot };
    let expression = parser.expression(0)?;
    match parser.scanned.get(parser.at) {
        None => Ok(expression),
        Some(rest) => {
            Err(ExpressionError { at: rest.at, message: format!("`{}` is too much here", &text[rest.at..].trim_end()) })
        }
    }
}

/// Deeper expressions than this would be a program's, and use up the stack.
const DEPTH_MAX: usize = 200;

struct Parser<'a> {
    scanned: &'a [PlacedLexeme],
    at: usize,
    end: usize,
    depth: usize,
    slot: &'a mut dyn FnMut(&str) -> Result<usize, String>,
}

/// How tightly an operator binds its operands, weakest first; those of equal strength from left to right.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARISON: u8 = 5;
const BITS: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const SIGN: u8 = 9;

/// The operator for a sign or word, how tightly it binds, and whether its operands change places.
fn binary(lexeme: &Lexeme) -> Option<(Binary, u8, bool)> {
    let plain = |operator, strength| Some((operator, strength, false));
    match lexeme {
        Lexeme::Word(word) if word == "or" => plain(Binary::Or, OR),
        Lexeme::Word(word) if word == "and" => plain(Binary::And, AND),
        Lexeme::Sign(sign) => match *sign {
            "<" => plain(Binary::Less, COMPARISON),
            "<=" => plain(Binary::LessOrEqual, COMPARISON),
            ">" => Some((Binary::Less, COMPARISON, true)),
            ">=" => Some((Binary::LessOrEqual, COMPARISON, true)),
            "=" => plain(Binary::Equal, COMPARISON),
            "<>" | "!=" => plain(Binary::NotEqual, COMPARISON),
            "|" => plain(Binary::BitOr, BITS),
            "#" => plain(Binary::BitXor, BITS),
            "&" => plain(Binary::BitAnd, BITS),
            "<<" => plain(Binary::ShiftLeft, BITS),
            ">>" => plain(Binary::ShiftRight, BITS),
            "+" => plain(Binary::Add, SUM),
            "-" => plain(Binary::Subtract, SUM),
            "*" => plain(Binary::Multiply, PRODUCT),
            "/" => plain(Binary::Divide, PRODUCT),
            "%" => plain(Binary::Remainder, PRODUCT),
            _ => None,
        },
        _ => None,
    }
}

type ParseResult = Result<Expression, ExpressionError>;

impl Parser<'_> {
    fn peek(&self) -> Option<&Lexeme> {
        self.scanned.get(self.at).map(|scanned| &scanned.lexeme)
    }

    fn place(&self) -> usize {
        self.scanned.get(self.at).map_or(self.end, |scanned| scanned.at)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, ExpressionError> {
        Err(ExpressionError { at: self.place(), message: message.into() })
    }

    fn takes_sign(&mut self, sign: &'static str) -> bool {
        let is_it = self.peek() == Some(&Lexeme::Sign(sign));
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Lexeme::Word(found)) if found == word);
        self.at += usize::from(is_it);
        is_it
    }

    /// An expression of operators that bind at least so tightly.
    fn expression(&mut self, strength: u8) -> ParseResult {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail(format!("an expression can be {DEPTH_MAX} levels deep"));
        }
        let mut left = self.operand()?;
        while let Some(lexeme) = self.peek() {
            if let Some((operator, binds, swapped)) = binary(lexeme) {
                if binds < strength {
                    break;
                }
                self.at += 1;
                let right = self.expression(binds + 1)?;
                let (first, second) = if swapped { (right, left) } else { (left, right) };
                left = Expression::Binary(operator, Box::new(first), Box::new(second));
                if binds == COMPARISON && self.peek().and_then(binary).is_some_and(|(_, next, _)| next == COMPARISON) {
                    return self.fail("comparisons cannot follow each other; put one of them in parentheses");
                }
            } else if IS >= strength
                && matches!(lexeme, Lexeme::Word(word) if ["is", "isnull", "notnull"].contains(&word.as_str()))
            {
                left = self.test(left)?;
            } else {
                break;
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    /// `ISNULL`, `NOTNULL`, `IS [NOT] NULL|TRUE|FALSE`.
    fn test(&mut self, operand: Expression) -> ParseResult {
        let not = |test| Expression::Unary(Unary::Not, Box::new(test));
        if self.takes_word("isnull") {
            return Ok(Expression::Is(Box::new(operand), Datum::Null));
        }
        if self.takes_word("notnull") {
            return Ok(not(Expression::Is(Box::new(operand), Datum::Null)));
        }
        self.at += 1;
        let is_negated = self.takes_word("not");
        let words = [("null", Datum::Null), ("true", Datum::Bool(true)), ("false", Datum::Bool(false))];
        for (word, value) in words {
            if self.takes_word(word) {
                let test = Expression::Is(Box::new(operand), value);
                return Ok(if is_negated { not(test) } else { test });
            }
        }
        self.fail("after IS stands NULL, TRUE or FALSE")
    }

    fn operand(&mut self) -> ParseResult {
        if self.takes_sign("(") {
            let inner = self.expression(0)?;
            return if self.takes_sign(")") { Ok(inner) } else { self.fail("here a parenthesis should close") };
        }
        let unary = |operator, operand| Expression::Unary(operator, Box::new(operand));
        if self.takes_sign("-") {
            // The least integer has no positive counterpart to be negated.
            if self.peek() == Some(&Lexeme::LeastMagnitude) {
                self.at += 1;
                return Ok(Expression::Constant(Datum::Int(i64::MIN)));
            }
            return Ok(unary(Unary::Negative, self.expression(SIGN)?));
        }
        if self.takes_sign("+") {
            return self.expression(SIGN);
        }
        if self.takes_sign("~") {
            return Ok(unary(Unary::Complement, self.expression(SIGN)?));
        }
        if self.takes_word("not") {
            return Ok(unary(Unary::Not, self.expression(NOT)?));
        }
        if self.takes_word("case") {
            return self.case();
        }
        match self.peek().cloned() {
            Some(Lexeme::Value(value)) => {
                self.at += 1;
                Ok(Expression::Constant(value))
            }
            Some(Lexeme::Variable(name)) => match (self.slot)(&name) {
                Ok(slot) => {
                    self.at += 1;
                    Ok(Expression::Variable(slot))
                }
                Err(message) => self.fail(message),
            },
            Some(Lexeme::Word(word)) => self.word(&word),
            Some(Lexeme::LeastMagnitude) => self.fail("9223372036854775808 is out of the range of bigint"),
            Some(Lexeme::Sign(sign)) => self.fail(format!("here should be a value, not `{sign}`")),
            None => self.fail("here a value is missing"),
        }
    }

    fn case(&mut self) -> ParseResult {
        let mut branches = Vec::new();
        while self.takes_word("when") {
            let condition = self.expression(0)?;
            if !self.takes_word("then") {
                return self.fail("here THEN is missing");
            }
            branches.push((condition, self.expression(0)?));
        }
        let otherwise = if self.takes_word("else") { self.expression(0)? } else { Expression::Constant(Datum::Null) };
        match (branches.is_empty(), self.takes_word("end")) {
            (true, _) => self.fail("CASE needs WHEN … THEN"),
            (false, false) => self.fail("here END is missing"),
            (false, true) => Ok(Expression::Case(branches, Box::new(otherwise))),
        }
    }

    /// A constant with a name, or a function.
    fn word(&mut self, word: &str) -> ParseResult {
        for (name, value) in [("null", Datum::Null), ("true", Datum::Bool(true)), ("false", Datum::Bool(false))] {
            if self.takes_word(name) {
                return Ok(Expression::Constant(value));
            }
        }
        let place = self.place();
        let wrong = |message: String| ExpressionError { at: place, message };
        let Some(entry) = FUNCTIONS.iter().find(|entry| entry.name == word) else {
            let names = || FUNCTIONS.iter().map(|entry| entry.name);
            let (meant, known) = (suggestion(word, names()), listed(names()));
            let variable = format!("a variable is written `:{word}`");
            return Err(wrong(format!("there is no function `{word}`{meant}; there are {known}; {variable}")));
        };
        self.at += 1;
        if !self.takes_sign("(") {
            return self.fail(format!("`{word}` is a function; write its operands in parentheses"));
        }
        let mut operands = Vec::new();
        if !self.takes_sign(")") {
            loop {
                operands.push(self.expression(0)?);
                if self.takes_sign(")") {
                    break;
                }
                if !self.takes_sign(",") {
                    return self.fail("here should be a comma or a closing parenthesis");
                }
            }
        }
        if !(entry.least..=entry.most).contains(&operands.len()) {
            let (found, count) = (operands.len(), entry.count());
            return Err(wrong(format!("`{word}` takes {count}, and is given {found}")));
        }
        Ok(Expression::Call(entry.function, operands))
    }
}
