//! Decides whether the texts of a transaction may run twice, from the server's catalogs.
//!
//! A text names the functions and tables it uses, but not their effects. A view may call a function, a table may have a
//! trigger, and a function may run another text. The server's catalogs record all of that. An [`Inquiry`] produces questions,
//! takes the answers, and reaches a verdict; it has no connection. The session asks over its client's own connection, so
//! every question must mean the same with any rights and settings (see `question`).
//!
//! # Method
//!
//! An inquiry does not resolve names as the server does. It takes every word and every quoted name of a text for the name of
//! a function, a relation and a type in any schema. Neither `search_path`, nor overloading, nor `t.f` for `f(t)` can then
//! hide anything. A word that names no such object has no effect on the verdict. The inquiry follows each object it finds:
//!
//! 1. It reads the bodies of SQL and PL/pgSQL functions (see `body`) and follows the names in them. Dynamic SQL is unsafe.
//! 2. It trusts C functions unless they are volatile; `KNOWN_FUNCTIONS` lists volatile ones that are safe. Functions in
//!    other languages are unsafe unless the operator lists them in `replay_functions`.
//! 3. It follows relations to their partitions and children, to tables that reference them with ON DELETE or ON UPDATE
//!    actions, to trigger functions, and to the texts of views, rules, defaults, generated columns, check constraints,
//!    indexes and policies. A foreign table is unsafe unless its wrapper is known.
//! 4. It follows types to their components and to the constraints of domains.
//! 5. Casts, operators and index support functions run without being named, so it follows all of them. Event triggers run on
//!    DDL, so it follows them if the transaction has any.
//! 6. It judges PostgreSQL's own functions by name, as `statement/effect.rs` does.
//!
//! The method errs towards unsafe. It reads the catalogs as they are after ROLLBACK. A transaction that changes code is
//! therefore unsafe, and the texts of one that creates tables contain their definitions.
//!
//! # Assumptions
//!
//! - A C function that is not declared volatile has no side effects.
//! - Access methods, and the wrappers in `KNOWN_WRAPPERS`, undo their changes with the transaction. The triggers of
//!   the remote server behind `postgres_fdw` are not visible here.
//! - PostgreSQL's own functions are unaltered.

mod body;
mod cache;
mod foresight;
mod known;
mod names;
mod question;
mod texts;

use std::collections::{BTreeSet, HashSet};

use plimsoll_policy::Unsafe;
use sha2::{Digest, Sha256};

use crate::statement::TextRules;
use body::{Found, Language};
pub use cache::Cache;
pub use foresight::{Foresight, Outlook, TextKey};
use known::{Function, Judgement};
use names::{array_of, array_of_numbers};

/// The most names that one inquiry asks about.
const NAMES_MAX: usize = 4000;

/// The most relations, functions and types that one inquiry follows.
const OBJECTS_MAX: usize = 2000;

/// The most questions that one inquiry asks.
const QUESTIONS_MAX: u32 = 40;

/// The most bytes that one inquiry reads, in texts and answers together.
const BYTES_MAX: usize = 4 << 20;

/// A question for the server, to be sent as an unnamed statement of the extended protocol without parameter types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'a> {
    /// The statement.
    pub sql: &'a str,
    /// Its parameters in text format, in the client's encoding.
    pub parameters: Vec<Vec<u8>>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<'a> {
    /// Send this question, pass every row to [`Inquiry::on_row`], then call [`Inquiry::on_answered`].
    Ask(Question<'a>),
    /// The verdict.
    Known(Result<Safe, Unsafe>),
}

/// A transaction may run twice: nothing that it does outlasts its rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Safe {
    /// It may generate values that differ in a second run: of sequences, clocks, random numbers, or system columns. They
    /// are in its answers only if it returns rows. What is not known to be the same counts as generated.
    pub generates: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionSubject {
    /// The texts of prepared statements.
    Prepared,
    /// The objects with given names.
    Named,
    /// The properties of given objects.
    Details,
    /// Whether the session has cursors.
    Cursors,
}

/// An inquiry into whether a transaction may run twice.
///
/// ```
/// use plimsoll_governor::effects::{Inquiry, Next};
/// use plimsoll_governor::statement::TextRules;
///
/// let texts = [&b"update t set a = f(a)"[..]];
/// let mut inquiry = Inquiry::new(texts, TextRules::default(), [], &[], 150_000);
/// let Next::Ask(question) = inquiry.next() else { panic!("it has to ask what f is") };
/// assert_eq!(question.parameters[0], br#"{"a","f","set","t","update"}"#);
/// // The server has no function, relation or type of any of these names.
/// inquiry.on_answered(true);
/// assert!(matches!(inquiry.next(), Next::Known(Ok(_))));
/// ```
#[derive(Debug)]
pub struct Inquiry {
    rules: TextRules,
    allowed: Vec<String>,
    server_version_num: u32,
    /// Prepared statements whose texts remain to be asked for.
    executed: BTreeSet<Vec<u8>>,
    /// Prepared statements whose texts were asked for but have not arrived.
    executed_asked: BTreeSet<Vec<u8>>,
    /// Prepared statements whose texts have arrived.
    executed_known: BTreeSet<Vec<u8>>,
    /// Names and facts from the texts; the names in it remain to be asked for.
    found: Found,
    names: BTreeSet<Vec<u8>>,
    relations: Objects,
    functions: Objects,
    types: Objects,
    has_asked_events: bool,
    /// Whether casts, operators and index support functions were asked for.
    has_asked_unnamed: bool,
    /// Whether the session has no cursors; `None` before the answer.
    has_no_cursors: Option<bool>,
    step: QuestionSubject,
    questions: u32,
    bytes: usize,
    key: Option<Key>,
    verdict: Option<Verdict>,
    /// Whether a question has failed. The verdict must not be cached then.
    has_failed: bool,
    has_looked_up: bool,
    /// The generation of the cache when it was asked.
    generation: u64,
}

/// A hash of everything that a verdict depends on except the catalogs. Inquiries with equal keys get equal verdicts.
pub type Key = [u8; 16];

/// A verdict that holds for every session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Safe,
    /// The transaction may run twice if no cursor is older than the transaction.
    SafeWithoutCursors,
    Unsafe(Unsafe),
}

/// Objects of one kind by number. Each is examined once.
#[derive(Debug, Default)]
struct Objects {
    seen: HashSet<u32>,
    new: Vec<u32>,
}

impl Objects {
    fn add(&mut self, oid: u32) {
        if oid != 0 && self.seen.insert(oid) {
            self.new.push(oid);
        }
    }
}

impl Inquiry {
    /// Begins an inquiry into a transaction.
    ///
    /// `executed` names the prepared statements that it binds and that are older than itself; the inquiry finds those that it
    /// runs by EXECUTE. `allowed` lists functions that the operator declares safe. `server_version_num` is the server's
    /// setting of that name.
    pub fn new<'t>(
        texts: impl IntoIterator<Item = &'t [u8]>,
        rules: TextRules,
        executed: impl IntoIterator<Item = &'t [u8]>,
        allowed: &[String],
        server_version_num: u32,
    ) -> Self {
        let mut inquiry = Inquiry {
            rules,
            allowed: allowed.to_vec(),
            server_version_num,
            executed: executed.into_iter().map(<[u8]>::to_vec).collect(),
            executed_asked: BTreeSet::new(),
            executed_known: BTreeSet::new(),
            found: Found::default(),
            names: BTreeSet::new(),
            relations: Objects::default(),
            functions: Objects::default(),
            types: Objects::default(),
            has_asked_events: false,
            has_asked_unnamed: false,
            has_no_cursors: None,
            step: QuestionSubject::Prepared,
            questions: 0,
            bytes: 0,
            key: None,
            verdict: None,
            has_failed: false,
            has_looked_up: false,
            generation: 0,
        };
        for text in texts {
            inquiry.read_text(text);
        }
        inquiry.settle_key();
        inquiry
    }

    /// The next question, or the verdict.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend what it returns")]
    pub fn next(&mut self) -> Next<'_> {
        match (self.verdict, self.has_no_cursors) {
            (Some(Verdict::Unsafe(because)), _) => return Next::Known(Err(because)),
            (Some(Verdict::Safe), _) | (Some(Verdict::SafeWithoutCursors), Some(true)) => {
                return Next::Known(Ok(Safe { generates: true }));
            }
            (Some(Verdict::SafeWithoutCursors), Some(false)) => return Next::Known(Err(Unsafe::Cursor)),
            (Some(Verdict::SafeWithoutCursors), None) => return self.ask(QuestionSubject::Cursors),
            (None, _) => {}
        }
        if self.questions >= QUESTIONS_MAX {
            return Next::Known(Err(self.is_unsafe(Unsafe::Function)));
        }
        if !self.executed.is_empty() {
            return self.ask(QuestionSubject::Prepared);
        }
        let has_objects = [&self.relations, &self.functions, &self.types].iter().any(|objects| !objects.new.is_empty());
        let has_events = self.found.is_ddl && !self.has_asked_events;
        if has_objects {
            self.ask(QuestionSubject::Details)
        } else if !self.found.names.is_empty() || has_events || !self.has_asked_unnamed {
            self.ask(QuestionSubject::Named)
        } else if ["truncate", "cascade"].iter().all(|word| self.names.contains(word.as_bytes())) {
            // TRUNCATE CASCADE runs the triggers of all tables that reference the named ones, directly or indirectly.
            Next::Known(Err(self.is_unsafe(Unsafe::Function)))
        } else {
            let uses_cursors = self.found.uses_cursors;
            self.verdict = Some(if uses_cursors { Verdict::SafeWithoutCursors } else { Verdict::Safe });
            self.next()
        }
    }

    /// Takes a row of the answer, its columns in text format.
    pub fn on_row(&mut self, columns: &[Option<&[u8]>]) {
        self.count_bytes(columns.iter().flatten().map(|column| column.len()).sum());
        if self.verdict.is_some_and(|verdict| verdict != Verdict::SafeWithoutCursors) {
            return;
        }
        let text = |at: usize| columns.get(at).copied().flatten();
        match self.step {
            QuestionSubject::Cursors => self.has_no_cursors = Some(false),
            QuestionSubject::Prepared => match (text(0), text(1)) {
                (Some(name), Some(sql)) => {
                    self.executed_asked.remove(name);
                    self.executed_known.insert(name.to_vec());
                    self.read_prepared(sql);
                }
                _ => _ = self.is_unsafe(Unsafe::PreparedStatement),
            },
            QuestionSubject::Named | QuestionSubject::Details => match self.on_object(&text) {
                Some(Ok(())) => {}
                Some(Err(because)) => _ = self.is_unsafe(because),
                None => _ = self.is_unsafe(Unsafe::Function),
            },
        }
    }

    /// Takes a row about an object. `None` if the row is malformed.
    fn on_object<'r>(&mut self, text: &impl Fn(usize) -> Option<&'r [u8]>) -> Option<Result<(), Unsafe>> {
        let number = |at| std::str::from_utf8(text(at)?).ok()?.parse::<u32>().ok();
        match text(0)? {
            b"R" => self.relations.add(number(1)?),
            b"F" => self.functions.add(number(1)?),
            b"T" => self.types.add(number(1)?),
            // An object that has since been dropped has no text.
            b"t" => return Some(text(1).map_or(Ok(()), |sql| self.read_body(sql, Language::Expression))),
            b"w" => return Some(known::judge_wrapper(text(1)?, text(2) == Some(b"true"), &self.allowed)),
            b"f" => {
                let function = Function {
                    oid: number(1)?,
                    name: text(2)?,
                    language: text(3)?,
                    is_volatile: text(4)? == b"v",
                    body: text(5)?,
                    is_parsed: text(6)? == b"parsed",
                };
                return Some(self.judge_function(&function));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    /// The question was answered, or it failed. A failed question proves nothing, so the verdict is unsafe.
    pub fn on_answered(&mut self, ok: bool) {
        if !ok {
            self.has_failed = true;
            self.is_unsafe(Unsafe::Function);
            self.has_no_cursors = self.has_no_cursors.or(Some(false));
            return;
        }
        match self.step {
            // The statement existed when the transaction ran it. A replay would miss it.
            QuestionSubject::Prepared if !self.executed_asked.is_empty() => {
                _ = self.is_unsafe(Unsafe::PreparedStatement)
            }
            QuestionSubject::Prepared => {}
            QuestionSubject::Cursors => self.has_no_cursors = self.has_no_cursors.or(Some(true)),
            QuestionSubject::Named | QuestionSubject::Details => {}
        }
        self.settle_key();
    }

    /// The key for a cache; `None` until the texts of prepared statements are known.
    pub fn key(&self) -> Option<Key> {
        self.key
    }

    fn ask(&mut self, step: QuestionSubject) -> Next<'_> {
        (self.step, self.questions) = (step, self.questions + 1);
        let encoding = self.rules.encoding;
        let flag = |flag: bool| if flag { b"t".to_vec() } else { b"f".to_vec() };
        let (sql, parameters) = match step {
            QuestionSubject::Prepared => {
                self.executed_asked = std::mem::take(&mut self.executed);
                let names = array_of(self.executed_asked.iter().map(Vec::as_slice), encoding);
                (question::PREPARED, vec![names])
            }
            QuestionSubject::Named => {
                let names = std::mem::take(&mut self.found.names);
                let events = self.found.is_ddl && !self.has_asked_events;
                let unnamed = !self.has_asked_unnamed;
                (self.has_asked_events, self.has_asked_unnamed) = (self.has_asked_events || events, true);
                let array = array_of(names.iter().map(Vec::as_slice), encoding);
                self.names.extend(names);
                (question::NAMED, vec![array, flag(events), flag(unnamed)])
            }
            QuestionSubject::Details => {
                let objects = [&mut self.relations, &mut self.functions, &mut self.types];
                let parameters = objects.map(|objects| array_of_numbers(&std::mem::take(&mut objects.new))).to_vec();
                (question::details(self.server_version_num), parameters)
            }
            QuestionSubject::Cursors => (question::CURSORS, Vec::new()),
        };
        Next::Ask(Question { sql, parameters })
    }

    fn is_unsafe(&mut self, because: Unsafe) -> Unsafe {
        match self.verdict {
            Some(Verdict::Unsafe(before)) => before,
            _ => {
                self.verdict = Some(Verdict::Unsafe(because));
                because
            }
        }
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
        let objects = [&self.relations, &self.functions, &self.types].map(|objects| objects.seen.len());
        let names = self.names.len() + self.found.names.len();
        if self.bytes > BYTES_MAX || objects.iter().sum::<usize>() > OBJECTS_MAX || names > NAMES_MAX {
            self.is_unsafe(Unsafe::Function);
        }
    }

    /// Judges a function, or reads its body.
    fn judge_function(&mut self, function: &Function<'_>) -> Result<(), Unsafe> {
        match known::judge_function(function, &self.allowed) {
            Judgement::Safe => Ok(()),
            Judgement::Unsafe(because) => Err(because),
            Judgement::Read(language) => self.read_body(function.body, language),
        }
    }

    /// Computes the key as soon as all texts are known.
    fn settle_key(&mut self) {
        if self.key.is_some() || !self.executed.is_empty() {
            return;
        }
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        self.found.names.iter().for_each(|name| part(name));
        part(&[u8::from(self.found.is_ddl), u8::from(self.found.uses_cursors)]);
        self.allowed.iter().for_each(|name| part(name.as_bytes()));
        part(&[self.rules.strings as u8, self.rules.encoding as u8]);
        part(self.server_version_num.to_string().as_bytes());
        self.key = hash.finalize().first_chunk().copied();
    }
}

#[cfg(test)]
mod tests;
