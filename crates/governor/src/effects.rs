//! Whether texts may be run twice, by what the server knows of all that they call.
//!
//! A text says what it calls, but not what that does: a view may call a function, a table may have a trigger, a function may
//! run another text. The server's catalogs know. An [`Inquiry`] says which questions to ask, takes the answers, and comes to
//! a verdict; it has no connection. The session asks over its client's own connection, so every question must mean the same
//! with any rights and settings ([`question`]).
//!
//! # Method
//!
//! Nothing is resolved as the server would do it. Every word and quoted name of a text is taken for the name of a function, a
//! relation and a type, in every schema; then neither `search_path`, nor overloading, nor `t.f` for `f(t)` can hide anything.
//! A word that names nothing of these costs nothing. What is found is followed:
//!
//! 1. functions in SQL and PL/pgSQL are read with our own lexer ([`body`]), and their words are names again; dynamic SQL is
//!    unsafe;
//! 2. C functions are trusted unless they are volatile; of those that are, some are known ([`KNOWN_FUNCTIONS`]). Functions in
//!    other languages are unsafe, unless the operator lists them (`replay_functions`);
//! 3. relations lead to their partitions and children, to tables that refer to them with ON DELETE or ON UPDATE actions, to
//!    functions of triggers, and to the texts of views, rules, defaults, generated columns, conditions, indexes, policies;
//!    foreign tables are unsafe unless their wrapper is known;
//! 4. types lead to their parts and to the conditions of domains;
//! 5. casts, operators and index support functions run without being named, and event triggers at every change of a
//!    definition: all of them count;
//! 6. PostgreSQL's own functions are judged by name, as in texts (`statement/effect.rs`).
//!
//! This errs towards unsafe. It rests on the catalogs as they are after ROLLBACK: a transaction that changes code itself is
//! unsafe, and one that makes tables has their definitions among its texts.
//!
//! # What is trusted
//!
//! C functions that are not volatile, index and table access methods, wrappers of foreign tables that are known
//! (`postgres_fdw` takes part in the transaction; what triggers do there nobody sees), and that nobody has changed
//! PostgreSQL's own functions.

mod body;
mod cache;
mod names;
mod question;

use std::collections::{BTreeSet, HashSet};

use plimsoll_policy::Unsafe;
use sha2::{Digest, Sha256};

use crate::statement::effect::effect_of_name;
use crate::statement::lexer::{Kind, Lexer};
use crate::statement::{self, Statement, Strings, TextRules};
use body::{Found, Language};
pub use cache::Cache;
use names::{array_of, array_of_numbers};

/// The first number of what is not PostgreSQL's own.
const FIRST_OWN: u32 = 16384;

/// How many names are asked for, in all.
const NAMES_MAX: usize = 4000;

/// How many relations, functions and types are looked at, in all.
const OBJECTS_MAX: usize = 2000;

/// How many questions are asked.
const QUESTIONS_MAX: u32 = 40;

/// How many bytes are read, texts and answers together.
const BYTES_MAX: usize = 4 << 20;

/// Volatile C functions of PostgreSQL's extensions whose effects end with their transaction: they make up a value, read, or
/// change the row that a trigger is called for.
const KNOWN_FUNCTIONS: &[&str] = &[
    // uuid-ossp, pgcrypto, tablefunc
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
    "gen_random_uuid",
    "gen_random_bytes",
    "gen_salt",
    "armor",
    "pgp_sym_encrypt",
    "pgp_sym_encrypt_bytea",
    "pgp_pub_encrypt",
    "pgp_pub_encrypt_bytea",
    "normal_rand",
    // pg_trgm sets a setting of its own.
    "set_limit",
    // Triggers: autoinc takes a value of a sequence, lo drops large objects, tcn notifies.
    "autoinc",
    "insert_username",
    "lo_manage",
    "moddatetime",
    "triggered_change_notification",
    // They read.
    "pg_stat_statements",
    "pg_stat_statements_info",
    "pgrowlocks",
];

/// Wrappers of foreign tables whose changes are undone with the transaction, and which run nothing else.
const KNOWN_WRAPPERS: &[&str] = &["postgres_fdw", "file_fdw"];

/// Something to ask the server: in the extended protocol, as an unnamed statement without types of parameters.
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
    /// Ask that, hand every row to [`Inquiry::on_row`], and then call [`Inquiry::on_answered`].
    Ask(Question<'a>),
    /// Nothing: that is the verdict.
    Known(Result<(), Unsafe>),
}

/// Which question is being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// What prepared statements say.
    Prepared,
    /// What has the names.
    Named,
    /// What was found.
    Details,
    /// Whether there are cursors.
    Cursors,
}

/// Whether some texts may be run twice.
///
/// ```
/// use plimsoll_governor::effects::{Inquiry, Next};
/// use plimsoll_governor::statement::TextRules;
///
/// let texts = [&b"update t set a = f(a)"[..]];
/// let mut inquiry = Inquiry::new(texts, TextRules::default(), [], &[], 150_000);
/// let Next::Ask(question) = inquiry.next() else { panic!("it has to ask what f is") };
/// assert_eq!(question.parameters[0], b"{\"a\",\"f\",\"t\"}");
/// // There is no function, relation or type of any of these names.
/// inquiry.on_answered(true);
/// assert_eq!(inquiry.next(), Next::Known(Ok(())));
/// ```
#[derive(Debug)]
pub struct Inquiry {
    rules: TextRules,
    allowed: Vec<String>,
    server_version_num: u32,
    /// Prepared statements whose texts were not asked for yet.
    executed: BTreeSet<Vec<u8>>,
    /// Those whose texts were asked for and have not come.
    executed_asked: BTreeSet<Vec<u8>>,
    /// Those whose texts have come.
    executed_known: BTreeSet<Vec<u8>>,
    /// What the texts say, as far as it was not asked for.
    found: Found,
    names: BTreeSet<Vec<u8>>,
    relations: Objects,
    functions: Objects,
    types: Objects,
    /// Whether event triggers were asked for.
    has_asked_events: bool,
    /// Whether it was asked for what runs without being named.
    has_asked_unnamed: bool,
    /// Whether there are no cursors; `None` if that was not asked.
    has_no_cursors: Option<bool>,
    step: Step,
    questions: u32,
    bytes: usize,
    key: Option<Key>,
    verdict: Option<Verdict>,
    /// A question has failed: the verdict is about this time only.
    has_failed: bool,
    /// Whether a cache was asked, and how often it had forgotten anything then.
    has_looked_up: bool,
    generation: u64,
}

/// What makes two inquiries the same: the names that they begin with, and what else a verdict depends on.
pub type Key = [u8; 16];

/// What is found in the end, whatever session asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It may be run twice.
    Safe,
    /// It may if no cursor is older than the transaction.
    SafeWithoutCursors,
    Unsafe(Unsafe),
}

/// Numbers of things of one kind, each of which is looked at once.
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
    /// About a transaction: its texts, and the names of prepared statements older than it that it runs, by Bind or by EXECUTE.
    /// `allowed` are functions that may be run twice whatever they do; `server_version_num` is as `SHOW` has it.
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
            step: Step::Prepared,
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

    /// What to do next.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend what it returns")]
    pub fn next(&mut self) -> Next<'_> {
        match (self.verdict, self.has_no_cursors) {
            (Some(Verdict::Unsafe(because)), _) => return Next::Known(Err(because)),
            (Some(Verdict::Safe), _) | (Some(Verdict::SafeWithoutCursors), Some(true)) => return Next::Known(Ok(())),
            (Some(Verdict::SafeWithoutCursors), Some(false)) => return Next::Known(Err(Unsafe::Cursor)),
            (Some(Verdict::SafeWithoutCursors), None) => return self.ask(Step::Cursors),
            (None, _) => {}
        }
        if self.questions >= QUESTIONS_MAX {
            return Next::Known(Err(self.is_unsafe(Unsafe::Function)));
        }
        if !self.executed.is_empty() {
            return self.ask(Step::Prepared);
        }
        let has_objects = [&self.relations, &self.functions, &self.types].iter().any(|objects| !objects.new.is_empty());
        let has_events = self.found.is_ddl && !self.has_asked_events;
        if has_objects {
            self.ask(Step::Details)
        } else if !self.found.names.is_empty() || has_events || !self.has_asked_unnamed {
            self.ask(Step::Named)
        } else if ["truncate", "cascade"].iter().all(|word| self.names.contains(word.as_bytes())) {
            // Every table that refers to one of these is truncated, and its triggers run.
            Next::Known(Err(self.is_unsafe(Unsafe::Function)))
        } else {
            let uses_cursors = self.found.uses_cursors;
            self.verdict = Some(if uses_cursors { Verdict::SafeWithoutCursors } else { Verdict::Safe });
            self.next()
        }
    }

    /// A row of the answer: its columns in text format.
    pub fn on_row(&mut self, columns: &[Option<&[u8]>]) {
        self.count_bytes(columns.iter().flatten().map(|column| column.len()).sum());
        if self.verdict.is_some_and(|verdict| verdict != Verdict::SafeWithoutCursors) {
            return;
        }
        let text = |at: usize| columns.get(at).copied().flatten();
        match self.step {
            Step::Cursors => self.has_no_cursors = Some(false),
            Step::Prepared => match (text(0), text(1)) {
                (Some(name), Some(sql)) => {
                    self.executed_asked.remove(name);
                    self.executed_known.insert(name.to_vec());
                    self.read_prepared(sql);
                }
                _ => _ = self.is_unsafe(Unsafe::PreparedStatement),
            },
            Step::Named | Step::Details => match self.on_object(&text) {
                Some(Ok(())) => {}
                Some(Err(because)) => _ = self.is_unsafe(because),
                None => _ = self.is_unsafe(Unsafe::Function),
            },
        }
    }

    /// A row about what was found; `None` if it is not understood.
    fn on_object<'r>(&mut self, text: &impl Fn(usize) -> Option<&'r [u8]>) -> Option<Result<(), Unsafe>> {
        let number = |at| std::str::from_utf8(text(at)?).ok()?.parse::<u32>().ok();
        match text(0)? {
            b"R" => self.relations.add(number(1)?),
            b"F" => self.functions.add(number(1)?),
            b"T" => self.types.add(number(1)?),
            // What has been dropped meanwhile has no text.
            b"t" => return Some(text(1).map_or(Ok(()), |sql| self.read_body(sql, Language::Expression))),
            b"w" => return Some(self.judge_wrapper(text(1)?, text(2) == Some(b"true"))),
            b"f" => {
                let is_parsed = text(6)? == b"parsed";
                return Some(self.judge_function(number(1)?, text(2)?, text(3)?, text(4)?, text(5)?, is_parsed));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    /// The question has been answered, or has failed: then nothing is known.
    pub fn on_answered(&mut self, ok: bool) {
        if !ok {
            self.has_failed = true;
            self.is_unsafe(Unsafe::Function);
            self.has_no_cursors = self.has_no_cursors.or(Some(false));
            return;
        }
        match self.step {
            // It was there when the transaction ran it, so it would be missing now.
            Step::Prepared if !self.executed_asked.is_empty() => _ = self.is_unsafe(Unsafe::PreparedStatement),
            Step::Prepared => {}
            Step::Cursors => self.has_no_cursors = self.has_no_cursors.or(Some(true)),
            Step::Named | Step::Details => {}
        }
        self.settle_key();
    }

    /// What makes it the same as another one; `None` until it is known what prepared statements say.
    pub fn key(&self) -> Option<Key> {
        self.key
    }

    fn ask(&mut self, step: Step) -> Next<'_> {
        (self.step, self.questions) = (step, self.questions + 1);
        let encoding = self.rules.encoding;
        let flag = |flag: bool| if flag { b"t".to_vec() } else { b"f".to_vec() };
        let (sql, parameters) = match step {
            Step::Prepared => {
                self.executed_asked = std::mem::take(&mut self.executed);
                let names = array_of(self.executed_asked.iter().map(Vec::as_slice), encoding);
                (question::PREPARED, vec![names])
            }
            Step::Named => {
                let names = std::mem::take(&mut self.found.names);
                let events = self.found.is_ddl && !self.has_asked_events;
                let unnamed = !self.has_asked_unnamed;
                (self.has_asked_events, self.has_asked_unnamed) = (self.has_asked_events || events, true);
                let array = array_of(names.iter().map(Vec::as_slice), encoding);
                self.names.extend(names);
                (question::NAMED, vec![array, flag(events), flag(unnamed)])
            }
            Step::Details => {
                let objects = [&mut self.relations, &mut self.functions, &mut self.types];
                let parameters = objects.map(|objects| array_of_numbers(&std::mem::take(&mut objects.new))).to_vec();
                (question::details(self.server_version_num), parameters)
            }
            Step::Cursors => (question::CURSORS, Vec::new()),
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

    /// Reads what the client has sent in the transaction.
    fn read_text(&mut self, sql: &[u8]) {
        self.count_bytes(sql.len());
        let read = statement::read_with(sql, self.rules);
        // Texts after it are read by rules that are not known here.
        let is_unknown = read.changes_code || read.changes_rules;
        if let Some(because) = read.unreplayable.or(is_unknown.then_some(Unsafe::Function)) {
            self.is_unsafe(because);
        }
        self.take(&read);
        if let Err(because) = self.read_body(sql, Language::Expression) {
            self.is_unsafe(because);
        }
    }

    /// Reads the text with which a statement was prepared, by Parse or by PREPARE.
    fn read_prepared(&mut self, sql: &[u8]) {
        self.count_bytes(sql.len());
        // It may have been prepared while another setting held: both readings count.
        for strings in [Strings::Standard, Strings::Escaped] {
            let rules = TextRules { strings, ..self.rules };
            let read = statement::read_with(sql, rules);
            let mut pieces = Lexer::new(sql, rules).filter(|token| token.kind != Kind::Comment);
            // What PREPARE does has been done. It is not known what of several statements is run.
            let is_done = pieces.next().is_some_and(|first| first.is_word("prepare"));
            let because = read.unreplayable.filter(|because| !(is_done && *because == Unsafe::PreparedStatement));
            let is_control = read.begins || read.ends.is_some() || read.savepoint;
            let is_unknown = is_control || read.changes_code || read.changes_rules;
            if let Some(because) = because.or(is_unknown.then_some(Unsafe::PreparedStatement)) {
                self.is_unsafe(because);
            }
            self.take(&read);
            let mut found = std::mem::take(&mut self.found);
            let is_known = |name: &[u8]| self.names.contains(name);
            let body = body::read(sql, rules, Language::Expression, is_known, &mut found);
            self.found = found;
            if let Err(because) = body {
                self.is_unsafe(because);
            }
            if memchr::memchr(b'\\', sql).is_none() {
                break;
            }
        }
    }

    fn take(&mut self, read: &Statement<'_>) {
        self.found.is_ddl |= read.is_ddl;
        self.found.uses_cursors |= !read.moves.is_empty();
        for name in &read.executes {
            let is_asked = self.executed_known.contains(&**name) || self.executed_asked.contains(&**name);
            if !is_asked {
                self.executed.insert(name.to_vec());
            }
        }
    }

    fn read_body(&mut self, text: &[u8], language: Language) -> Result<(), Unsafe> {
        let mut found = std::mem::take(&mut self.found);
        let read = body::read(text, self.rules, language, |name| self.names.contains(name), &mut found);
        self.found = found;
        self.count_bytes(0);
        read
    }

    fn judge_wrapper(&self, name: &[u8], runs_program: bool) -> Result<(), Unsafe> {
        let is_known = KNOWN_WRAPPERS.iter().any(|known| known.as_bytes() == name) && !runs_program;
        if is_known || self.is_allowed(name) { Ok(()) } else { Err(Unsafe::Function) }
    }

    fn is_allowed(&self, name: &[u8]) -> bool {
        self.allowed.iter().any(|allowed| allowed.as_bytes() == name)
    }

    fn judge_function(
        &mut self,
        oid: u32,
        name: &[u8],
        language: &[u8],
        volatility: &[u8],
        body: &[u8],
        is_parsed: bool,
    ) -> Result<(), Unsafe> {
        if self.is_allowed(name) {
            return Ok(());
        }
        if let Some(because) = effect_of_name(name) {
            return Err(because);
        }
        let is_built_in = oid < FIRST_OWN;
        let is_known = KNOWN_FUNCTIONS.iter().any(|known| known.as_bytes() == name);
        match language {
            _ if is_built_in => Ok(()),
            b"sql" if is_parsed => self.read_body(body, Language::Expression),
            b"sql" => self.read_body(body, Language::Sql),
            b"plpgsql" => self.read_body(body, Language::Plpgsql),
            b"c" | b"internal" if volatility != b"v" || is_known => Ok(()),
            _ => Err(Unsafe::Function),
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
