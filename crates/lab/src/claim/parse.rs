//! Reads a claim's expression into its syntax tree.
//!
//! ```text
//! claim      = "for all" over | or                over       = NAME "in" WORD ["where" or] ":" claim
//! or         = and { "or" and }                and        = not { "and" not }
//! not        = "not" not | comparison          comparison = sum { ("<" | "<=" | ">" | ">=" | "==" | "!=") sum }
//! sum        = product { ("+" | "-") product } product    = sign { ("*" | "/") sign }
//! sign       = "-" sign | NUMBER [UNIT] | NAME | FUNCTION "(" … ")" | ("average" | "geomean") "(" over ")" | "(" claim ")"
//! selector   = [WORD "="] WORD
//! ```
//! A NAME is made of letters, digits and `_`; a WORD also of `.`, `:`, `+` and `-`, so that sweep keys, arms and most values
//! need no quotes. A text in quotes is a WORD too.

use plimsoll_notation::{choices, did_you_mean};

use super::ClaimError;
use super::syntax::{
    CALCULATIONS, Call, Expression, Form, Function, Mean, Operator, Quantifier, Selector, Span, Word, functions,
};

/// Longer expressions are refused, because their tree could be too deep to walk.
const LENGTH_MAX: usize = 4000;
/// More parentheses, signs and `not`s within each other are refused, for the same reason.
const DEPTH_MAX: usize = 50;

/// The units that may follow a number, and their factors. Times are in microseconds, as latencies are.
const UNITS: [(&str, f64); 4] = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("%", 0.01)];

/// Words that are not names.
const KEYWORDS: [&str; 7] = ["and", "or", "not", "for", "all", "in", "where"];

/// Operators of comparison, those first that begin with another.
const COMPARISONS: [(&str, Operator); 6] = [
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];
const SUMS: [(&str, Operator); 2] = [("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: [(&str, Operator); 2] = [("*", Operator::Multiply), ("/", Operator::Divide)];

/// Reads an expression.
pub fn parse(text: &str) -> Result<Expression, ClaimError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    if text.len() > LENGTH_MAX {
        return Err(parser.error(format!("this has {} bytes, but at most {LENGTH_MAX} are allowed", text.len())));
    }
    let expression = parser.claim()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.expected("an operator (`>=`, `and`, `+`, …) or the end"));
    }
    Ok(expression)
}

/// Whether a word can stand without quotes.
fn is_wide(character: char) -> bool {
    is_narrow(character) || matches!(character, '.' | ':' | '+' | '-')
}

fn is_narrow(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// A number as written here and in TOML: `_` may separate digits.
pub(super) fn number_of(text: &str) -> Option<f64> {
    let is_apart = |at: usize| {
        let is_digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
        is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))
    };
    if !text.match_indices('_').all(|(at, _)| is_apart(at)) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, ClaimError>;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn error(&self, message: String) -> ClaimError {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        ClaimError { span: self.at..self.at + length, message }
    }

    fn expected(&mut self, what: &str) -> ClaimError {
        self.skip_space();
        let mut found: String =
            self.rest().chars().take_while(|character| !character.is_whitespace()).take(12).collect();
        found = if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") };
        if self.rest().starts_with('=') && !self.rest().starts_with("==") {
            return self.error(
                "`=` belongs into selectors, as in throughput(dop=2); numbers are compared with `==`".to_owned(),
            );
        }
        self.error(format!("expected {what}, found {found}"))
    }

    /// Consumes a symbol, if it is next.
    fn takes(&mut self, symbol: &str) -> bool {
        self.skip_space();
        let is_next = self.rest().starts_with(symbol);
        self.at += if is_next { symbol.len() } else { 0 };
        is_next
    }

    /// Consumes one of several operators, if one is next.
    fn takes_operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        operators.iter().find(|(symbol, _)| self.takes(symbol)).map(|(_, operator)| *operator)
    }

    fn take(&mut self, symbol: &str) -> Parsed<()> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    /// The characters of one kind that come next.
    fn run(&self, is: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|character| !is(character)).unwrap_or(rest.len())]
    }

    /// Consumes a keyword, if it is next as a whole word.
    fn takes_keyword(&mut self, keyword: &str) -> bool {
        self.skip_space();
        let is_next = self.run(is_narrow) == keyword;
        self.at += if is_next { keyword.len() } else { 0 };
        is_next
    }

    fn take_keyword(&mut self, keyword: &str) -> Parsed<()> {
        if self.takes_keyword(keyword) { Ok(()) } else { Err(self.expected(&format!("`{keyword}`"))) }
    }

    /// Parses an expression one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(format!("more than {DEPTH_MAX} levels of nesting; split the claim in two")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn claim(&mut self) -> Parsed<Expression> {
        self.skip_space();
        let begin = self.at;
        if !self.takes_keyword("for") {
            return self.or();
        }
        self.take_keyword("all")?;
        let over = self.over("for all x in dop: …")?;
        Ok(self.expression(begin, Form::ForAll(Box::new(over))))
    }

    /// `x in dop where x > 1: …`
    fn over(&mut self, example: &str) -> Parsed<Quantifier> {
        let variable = self.name(&format!("a name for the value, as in `{example}`"))?;
        self.take_keyword("in")?;
        // The colon that ends the head is not part of the axis's name.
        let axis = self.word(&format!("a sweep key, as in `{example}`"), |c| is_wide(c) && c != ':')?;
        let condition = if self.takes_keyword("where") { Some(self.or()?) } else { None };
        self.take(":")?;
        let body = self.nested(Self::claim)?;
        Ok(Quantifier { variable, axis, condition, body })
    }

    fn expression(&self, begin: usize, form: Form) -> Expression {
        Expression { span: begin..self.at, form }
    }

    /// Operands joined by operators that bind alike, from the left.
    fn joined(
        &mut self,
        operand: fn(&mut Self) -> Parsed<Expression>,
        operator: fn(&mut Self) -> Option<Operator>,
    ) -> Parsed<Expression> {
        let mut left = operand(self)?;
        while let Some(operator) = operator(self) {
            let right = operand(self)?;
            left = binary(operator, left, right);
        }
        Ok(left)
    }

    fn or(&mut self) -> Parsed<Expression> {
        self.joined(Self::and, |parser| parser.takes_keyword("or").then_some(Operator::Or))
    }

    fn and(&mut self) -> Parsed<Expression> {
        self.joined(Self::not, |parser| parser.takes_keyword("and").then_some(Operator::And))
    }

    fn not(&mut self) -> Parsed<Expression> {
        self.skip_space();
        let begin = self.at;
        if !self.takes_keyword("not") {
            return self.comparison();
        }
        let inner = self.nested(Self::not)?;
        Ok(self.expression(begin, Form::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Parsed<Expression> {
        let mut left = self.sum()?;
        let mut chain: Option<Expression> = None;
        while let Some(operator) = self.takes_operator(&COMPARISONS) {
            let right = self.sum()?;
            let link = binary(operator, left, right.clone());
            chain = Some(match chain {
                None => link,
                Some(chain) => binary(Operator::And, chain, link),
            });
            left = right;
        }
        Ok(chain.unwrap_or(left))
    }

    fn sum(&mut self) -> Parsed<Expression> {
        self.joined(Self::product, |parser| parser.takes_operator(&SUMS))
    }

    fn product(&mut self) -> Parsed<Expression> {
        self.joined(Self::sign, |parser| parser.takes_operator(&PRODUCTS))
    }

    fn sign(&mut self) -> Parsed<Expression> {
        self.skip_space();
        let begin = self.at;
        if !self.takes("-") {
            return self.primary();
        }
        let inner = self.nested(Self::sign)?;
        Ok(self.expression(begin, Form::Negative(Box::new(inner))))
    }

    fn primary(&mut self) -> Parsed<Expression> {
        self.skip_space();
        let begin = self.at;
        if self.takes("(") {
            let inner = self.nested(Self::claim)?;
            self.take(")")?;
            return Ok(Expression { span: begin..self.at, ..inner });
        }
        if self.rest().starts_with(|character: char| character.is_ascii_digit() || character == '.') {
            let number = self.number()?;
            return Ok(self.expression(begin, Form::Number(number)));
        }
        let name = self.name("a number, a function as in `throughput(…)`, or `(`")?;
        if !self.takes("(") {
            self.at = name.span.end;
            return Ok(self.expression(begin, Form::Variable(name.text)));
        }
        let form = self.nested(|parser| parser.function(&name))?;
        self.take(")")?;
        Ok(self.expression(begin, form))
    }

    /// The characters of a number that come next: `12`, `0.95`, `1e-6`, `100_000`.
    fn digits(&self) -> &'a str {
        let mantissa = self.run(|character| character.is_ascii_digit() || matches!(character, '.' | '_')).len();
        let rest = &self.rest()[mantissa..];
        let sign = rest.starts_with("e-").then_some(2).or(rest.starts_with('e').then_some(1)).unwrap_or(0);
        let exponent = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let exponent = if sign > 0 && exponent > 0 { sign + exponent } else { 0 };
        &self.rest()[..mantissa + exponent]
    }

    /// A number with its unit, as `0.95`, `95%`, `5ms` or `5 ms`.
    fn number(&mut self) -> Parsed<f64> {
        self.skip_space();
        let digits = self.digits();
        let Some(number) = number_of(digits).filter(|number| number.is_finite()) else {
            return Err(self.expected("a number, as 0.95 or 5ms"));
        };
        self.at += digits.len();
        let end = self.at;
        self.skip_space();
        let unit = if self.rest().starts_with('%') { "%" } else { self.run(is_narrow) };
        match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => {
                self.at += unit.len();
                Ok(number * factor)
            }
            None if !unit.starts_with(char::is_alphabetic) || KEYWORDS.contains(&unit) => {
                self.at = end;
                Ok(number)
            }
            None => Err(self.error(format!("`{unit}` is not a unit; the units are us, ms, s and %"))),
        }
    }

    /// A word that is not a keyword.
    fn name(&mut self, what: &str) -> Parsed<Word> {
        self.skip_space();
        let text = self.run(is_narrow);
        if text.is_empty() || KEYWORDS.contains(&text) || text.starts_with(|c: char| c.is_numeric()) {
            return Err(self.expected(what));
        }
        let span = self.at..self.at + text.len();
        self.at = span.end;
        Ok(Word { span, text: text.to_owned(), is_quoted: false })
    }

    /// A word, in quotes or of such characters.
    fn word(&mut self, what: &str, is: fn(char) -> bool) -> Parsed<Word> {
        self.skip_space();
        let begin = self.at;
        if let Some(quote) = self.rest().chars().next().filter(|character| matches!(character, '"' | '\'')) {
            let Some(length) = self.rest()[1..].find(quote) else {
                return Err(self.error(format!("this {quote} is never closed")));
            };
            let text = self.rest()[1..1 + length].to_owned();
            self.at += length + 2;
            return Ok(Word { span: begin..self.at, text, is_quoted: true });
        }
        let text = self.run(is);
        if text.is_empty() {
            return Err(self.expected(what));
        }
        self.at += text.len();
        Ok(Word { span: begin..self.at, text: text.to_owned(), is_quoted: false })
    }

    /// The arguments of a function.
    fn function(&mut self, name: &Word) -> Parsed<Form> {
        if let Some((_, calculation)) = CALCULATIONS.iter().find(|(known, _)| *known == name.text) {
            let mut arguments = vec![self.claim()?];
            while self.takes(",") {
                arguments.push(self.claim()?);
            }
            return Ok(Form::Calculation(*calculation, arguments));
        }
        if let Some(mean) = Mean::ALL.into_iter().find(|mean| mean.name() == name.text) {
            let over = self.over(&format!("{}(x in dop: …)", mean.name()))?;
            return Ok(Form::Average(mean, Box::new(over)));
        }
        let function = functions().into_iter().find(|function| function.name() == name.text);
        self.call(function.ok_or_else(|| unknown_function(name))?).map(Form::Figure)
    }

    fn call(&mut self, function: Function) -> Parsed<Call> {
        let mut call = Call { function, subject: None, level: None, selectors: Vec::new() };
        let mut is_first = true;
        if function.takes_subject() {
            call.subject = Some(self.word(&format!("what {} needs first", function.usage()), is_wide)?);
            is_first = false;
        }
        if function == Function::Knee {
            self.take(",")?;
            call.level = Some(self.number()?);
        }
        self.skip_space();
        if is_first && self.rest().starts_with(')') {
            return Ok(call);
        }
        while is_first || self.takes(",") {
            is_first = false;
            call.selectors.push(self.selector()?);
        }
        Ok(call)
    }

    fn selector(&mut self) -> Parsed<Selector> {
        let what = "a selector: a swept value, KEY=VALUE, an arm, a workload, a class or a transaction";
        let word = self.word(what, is_wide)?;
        if !self.takes("=") {
            self.refuse_parenthesis(&word)?;
            return Ok(Selector { key: None, value: word });
        }
        let value = self.word(&format!("a value of `{}`", word.text), is_wide)?;
        self.refuse_parenthesis(&value)?;
        Ok(Selector { value, key: Some(word) })
    }

    /// Without this check, the error for a value such as cr(300ms) would report a missing comma.
    fn refuse_parenthesis(&mut self, word: &Word) -> Parsed<()> {
        self.skip_space();
        if word.is_quoted || !self.rest().starts_with('(') {
            return Ok(());
        }
        let length = self.rest().find(')').map_or(1, |end| end + 1);
        let value = format!("{}{}", word.text, &self.rest()[..length]);
        Err(self.error(format!("a value with parentheses stands in quotes, as \"{value}\"")))
    }
}

fn binary(operator: Operator, left: Expression, right: Expression) -> Expression {
    let span: Span = left.span.start..right.span.end;
    Expression { span, form: Form::Binary(operator, Box::new(left), Box::new(right)) }
}

fn unknown_function(name: &Word) -> ClaimError {
    let of_numbers = || CALCULATIONS.iter().map(|(name, _)| *name).chain(Mean::ALL.map(Mean::name));
    let known = || functions().into_iter().map(Function::name).chain(of_numbers());
    let (meant, list) = (did_you_mean(&name.text, known()), choices(known()));
    ClaimError {
        span: name.span.clone(),
        message: format!("there is no function `{}`{meant}; there are {list}", name.text),
    }
}
