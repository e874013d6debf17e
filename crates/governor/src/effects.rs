//! Decides from the server's catalogs whether the texts of a transaction may run twice, and what they leave in the session.
//!
//! A text names the functions and tables it uses, but not their effects. A view may call a function, a table may have a
//! trigger, and a function may run another text. The server's catalogs record all of that. An [`Inquiry`] produces questions,
//! takes the answers, and reaches a verdict; it has no connection. The session asks over its client's own connection, so
//! every question must mean the same with any rights and settings (see `question`).
//!
//! # Method
//!
//! An inquiry does not resolve names as the server does. It takes every word and every quoted name of a text for the name of
//! a function, a relation and a type, in every schema that the name may reach: the schemas of the session's path, and those
//! whose names occur in the texts or in the settings of functions. If a text may change the path or the role, that is every
//! schema. Neither overloading, nor `t.f` for `f(t)` can then hide anything. A word that names no such object has no effect
//! on the verdict. The inquiry follows each object it finds:
//!
//! 1. It reads the bodies of SQL and PL/pgSQL functions (see `body`) and follows the names in them. Dynamic SQL is unsafe.
//! 2. It trusts C functions unless they are volatile; `KNOWN_FUNCTIONS` lists volatile ones that are safe. Functions in
//!    other languages are unsafe unless the operator lists them in `replay_functions`.
//! 3. It follows relations to their partitions and children, to the queries of views, and to conditions and expressions of
//!    checks, indexes and policies. If a text may write, it also follows them to defaults, rules and trigger functions,
//!    deferred ones included, and to tables that reference them with ON DELETE or ON UPDATE actions. The server has resolved
//!    the names in all of these, so the inquiry follows their numbers (see `tree`).
//! 4. It follows types to their components, to the constraints of domains, and to their casts.
//! 5. Operators are followed by name, with those that the grammar implies. Index support functions run without being named,
//!    so it follows all of them. Event triggers run on DDL, so it follows them if the transaction has any.
//! 6. It judges PostgreSQL's own functions by name, as `statement/effect.rs` does.
//! 7. A foreign table is unsafe unless its wrapper only reads: wrappers commit elsewhere before the server commits here.
//!
//! The method errs towards unsafe. It reads the catalogs as they are after ROLLBACK, and so relies only on rows that are older
//! than the transaction (see `horizon`); the texts of a transaction that creates tables contain their definitions.
//!
//! # Purposes
//!
//! The same walk also finds what a text may leave in its session when the transaction has ended (see `leftovers`).
//!
//! # Assumptions
//!
//! - A C function that is not declared volatile has no side effects.
//! - Access methods, and the wrappers in `READING_WRAPPERS`, undo their changes with the transaction.
//! - PostgreSQL's own functions are unaltered. On a version that is newer than this governor, those that may have effects
//!   and are not known count as unsafe; `self_test` finds out whether the questions mean there what they mean here.
//! - The configured default of `search_path` is not reloaded while the transaction runs.

mod asking;
mod body;
mod cache;
mod foresight;
mod horizon;
mod key;
mod known;
mod leftovers;
mod names;
mod objects;
mod question;
mod rows;
mod self_test;
mod texts;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_policy::Unsafe;

use crate::statement::TextRules;
use crate::statement::residue::Residue;
use body::Found;
pub use cache::Cache;
use cache::Known;
pub use foresight::{Foresight, KnownResidue, KnownText, Outlook, TextKey};
pub use horizon::{Horizon, SharedHorizon};
pub(crate) use known::newer_version;
pub use leftovers::Purpose;
use objects::Objects;
pub use question::LIMITS;
pub(crate) use question::PREPARED;
use rows::Ground;
pub(crate) use self_test::self_test;

/// The most names that one inquiry asks about.
const NAMES_MAX: usize = 4000;

/// The most relations, functions and types that one inquiry follows. A number counts as one of each.
const OBJECTS_MAX: usize = 8000;

/// The most questions that one inquiry asks.
const QUESTIONS_MAX: u32 = 40;

/// The most bytes that one inquiry reads, in texts and answers together.
const BYTES_MAX: usize = 4 << 20;

/// Operators that the grammar implies: by IN, BETWEEN, CASE, NULLIF, LIKE, SIMILAR TO, joins and comparisons of rows.
const IMPLIED_OPERATORS: [&str; 11] = ["=", "<>", "<", ">", "<=", ">=", "~~", "!~~", "~~*", "!~~*", "~"];

/// A question for the server, to be sent as an unnamed statement of the extended protocol without parameter types, after
/// [`LIMITS`].
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
    /// It may write rows. A second run may put them into other places, and so change the order in which tables are read.
    pub writes: bool,
    /// It may read rows after it has written some.
    pub reads_own: bool,
    /// Even an answer of one row may depend on the order in which tables are read: LIMIT, `array_agg`, a cursor.
    pub arranges: bool,
    /// It may read so many pages that parallel workers or synchronized scans bring the rows in another order each time.
    pub reads_much: bool,
    /// Code that it runs may catch errors of the server, or set timeouts.
    pub catches: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionSubject {
    /// The texts of prepared statements.
    Prepared,
    /// Whether everything that an earlier inquiry found is unchanged.
    Unchanged,
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
    purpose: Purpose,
    rules: TextRules,
    /// What was found to be left in the session, if that is its purpose.
    residue: Residue,
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
    /// Names and operators that were asked for.
    names: BTreeSet<Vec<u8>>,
    calls: BTreeSet<Vec<u8>>,
    operators: BTreeSet<Vec<u8>>,
    relations: Objects,
    /// Relations to which the transaction may write.
    written: Objects,
    functions: Objects,
    types: Objects,
    /// Numbers that may be those of operators.
    numbers: Objects,
    has_asked_names: bool,
    has_asked_events: bool,
    /// Whether the session has temporary objects is asked, too.
    asks_temporary: bool,
    values: rows::GeneratedValues,
    /// The transaction has run; otherwise the inquiry is a forecast.
    has_run: bool,
    /// What is older than this had ended when the transaction began.
    horizon: Option<Horizon>,
    /// The number of the last transaction that has changed anything that the answers rest on.
    newest: u64,
    ground: Option<Ground>,
    /// The `xmin` of the rows of the last answer.
    versions: BTreeSet<u32>,
    /// The finding of an earlier inquiry, which is to be confirmed.
    known: Option<Arc<Known>>,
    /// Whether the session has no cursors; `None` before the answer.
    has_no_cursors: Option<bool>,
    step: QuestionSubject,
    /// The text of the last question.
    sql: String,
    questions: u32,
    bytes: usize,
    key: Option<Key>,
    verdict: Option<Verdict>,
    has_looked_up: bool,
    /// For a test that must fail: triggers are not followed.
    #[cfg(test)]
    pub(crate) skips_triggers: bool,
}

/// A hash of everything that a verdict depends on except the catalogs and the session's path.
pub type Key = [u8; 16];

/// A verdict that does not depend on the session's cursors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Safe,
    /// The transaction may run twice if no cursor is older than the transaction.
    SafeWithoutCursors,
    Unsafe(Unsafe),
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
        let mut inquiry = Inquiry::empty(Purpose::Replay, rules, allowed, server_version_num);
        inquiry.executed = executed.into_iter().map(<[u8]>::to_vec).collect();
        for text in texts {
            inquiry.read_text(text);
        }
        inquiry.settle_key();
        inquiry
    }

    fn empty(purpose: Purpose, rules: TextRules, allowed: &[String], server_version_num: u32) -> Self {
        let mut inquiry = Inquiry {
            purpose,
            rules,
            residue: Residue::NOTHING,
            allowed: allowed.to_vec(),
            server_version_num,
            executed: BTreeSet::new(),
            executed_asked: BTreeSet::new(),
            executed_known: BTreeSet::new(),
            found: Found::default(),
            names: BTreeSet::new(),
            calls: BTreeSet::new(),
            operators: BTreeSet::new(),
            relations: Objects::default(),
            written: Objects::default(),
            functions: Objects::default(),
            types: Objects::default(),
            numbers: Objects::default(),
            has_asked_names: false,
            has_asked_events: false,
            asks_temporary: false,
            values: rows::GeneratedValues::default(),
            has_run: false,
            horizon: None,
            newest: 0,
            ground: None,
            versions: BTreeSet::new(),
            known: None,
            has_no_cursors: None,
            step: QuestionSubject::Prepared,
            sql: String::new(),
            questions: 0,
            bytes: 0,
            key: None,
            verdict: None,
            has_looked_up: false,
            #[cfg(test)]
            skips_triggers: false,
        };
        inquiry.found.operators.extend(IMPLIED_OPERATORS.map(|operator| operator.as_bytes().to_vec()));
        inquiry
    }

    /// Makes it an inquiry into a transaction that has run, and that began after everything older than the horizon. Without
    /// this call the inquiry is a forecast. If the horizon is not known, nothing shows what has run.
    pub fn of_transaction(mut self, horizon: Option<Horizon>) -> Self {
        (self.has_run, self.horizon) = (true, horizon);
        self
    }

    /// Adds the texts of a unit that has failed as a whole, and so has changed nothing.
    pub(crate) fn of_unfinished<'t>(mut self, texts: impl IntoIterator<Item = &'t [u8]>) -> Self {
        for text in texts {
            self.read_unfinished(text);
            // The key is a hash of what has been read.
            self.key = None;
        }
        self.settle_key();
        self
    }

    /// The number of the last transaction that has changed anything that the verdict rests on. A transaction with an older
    /// horizon would be found to use changed code.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// A horizon for transactions that begin later.
    pub fn seen_horizon(&self) -> Option<Horizon> {
        let ground = self.ground.as_ref()?;
        Horizon::new(ground.oldest, ground.started)
    }

    /// It takes too long.
    pub fn give_up(&mut self) {
        if self.verdict.is_none() {
            self.is_unsafe(Unsafe::Function);
        }
    }

    /// The next question, or the verdict.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend what it returns")]
    pub fn next(&mut self) -> Next<'_> {
        let safe = self.safe();
        match (self.verdict, self.has_no_cursors) {
            (Some(Verdict::Unsafe(because)), _) => return Next::Known(Err(because)),
            (Some(Verdict::Safe), _) | (Some(Verdict::SafeWithoutCursors), Some(true)) => return Next::Known(Ok(safe)),
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
        if self.known.is_some() {
            return self.ask(QuestionSubject::Unchanged);
        }
        if self.found.writes {
            self.relations.seen.iter().for_each(|relation| self.written.add(*relation));
        }
        let objects = [&self.relations, &self.written, &self.functions, &self.types, &self.numbers];
        let has_objects = objects.iter().any(|objects| !objects.new.is_empty());
        let has_events = self.found.is_ddl && !self.has_asked_events;
        let has_operators = self.found.operators.iter().any(|operator| !self.operators.contains(operator));
        let has_calls = self.asks_about_calls() && self.found.calls.iter().any(|call| !self.calls.contains(call));
        let has_names = !self.found.names.is_empty() || has_operators || has_calls;
        if has_objects {
            self.ask(QuestionSubject::Details)
        } else if has_names || has_events || !self.has_asked_names {
            self.ask(QuestionSubject::Named)
        } else if ["truncate", "cascade"].iter().all(|word| self.names.contains(word.as_bytes())) {
            // TRUNCATE CASCADE runs the triggers of all tables that reference the named ones, directly or indirectly.
            Next::Known(Err(self.is_unsafe(Unsafe::Function)))
        } else {
            let uses_cursors = self.found.uses_cursors && self.purpose == Purpose::Replay;
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
            QuestionSubject::Unchanged | QuestionSubject::Named | QuestionSubject::Details => {
                match self.on_object(&text) {
                    Some(Ok(())) => {}
                    Some(Err(because)) => _ = self.is_unsafe(because),
                    None => _ = self.is_unsafe(Unsafe::Function),
                }
            }
        }
    }

    /// The question was answered, or it failed. A failed question proves nothing, so the verdict is unsafe.
    pub fn on_answered(&mut self, ok: bool) {
        if !ok {
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
            QuestionSubject::Unchanged => self.confirm_known(),
            QuestionSubject::Named | QuestionSubject::Details => self.check_versions(),
        }
        self.settle_key();
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
}

#[cfg(test)]
mod tests;
