//! How an inquiry takes the rows of answers: further objects, expressions, functions, and what its verdict rests on.

use std::collections::HashSet;

use plimsoll_notation::sql::{Lexer, TokenKind};
use plimsoll_policy::Unsafe;

use super::body;
use super::known::{self, Function, Judgement};
use super::tree::{self, FIRST_OWN, Item};
use super::{Inquiry, Purpose, Safe, Verdict, horizon, names};
use crate::statement::effect::is_known_volatile;
use crate::statement::residue::Pin;

/// The state of the server and the session when the inquiry began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ground {
    /// The next transaction number, and the oldest in use.
    pub next: u64,
    pub oldest: u64,
    /// The schemas of the session's path, and its role.
    pub path: Vec<u8>,
    /// When the server was started, in microseconds.
    pub started: i64,
}

/// Values that differ in another run.
#[derive(Debug, Default)]
pub(super) struct GeneratedValues {
    /// Some expression has one.
    is_any: bool,
    /// A default has one: it counts if the transaction makes rows.
    in_defaults: bool,
    /// The server's functions that are called in defaults, and elsewhere, by number.
    pub(super) default_calls: HashSet<u32>,
    pub(super) calls: HashSet<u32>,
    /// A relation that is written has a column whose values come from a sequence.
    pub(super) has_identity: bool,
    /// Those whose values differ.
    differing: HashSet<u32>,
    /// Those whose values depend on the order of rows.
    arranging: HashSet<u32>,
    /// Some expression, query or function depends on the order of rows.
    arranges: bool,
    /// A relation has a column of floating-point numbers, whose sum depends on the order of rows.
    has_floats: bool,
    /// It runs functions that are not the server's, which may write before they read.
    has_code: bool,
    /// The pages of the relations that it may read, as far as the server has counted them.
    pages: u64,
}

/// From so many pages on, the server may use parallel workers: reading them costs as much as `parallel_setup_cost`, and a
/// table must have 1024 for itself (`min_parallel_table_scan_size`). Synchronized scans begin with a quarter of
/// `shared_buffers`.
const MUCH_PAGES: u64 = 1000;

/// A part of a row; `None` if it is null or missing.
type Text<'r, 'f> = &'f dyn Fn(usize) -> Option<&'r [u8]>;

impl Inquiry {
    /// Whether a second run may have other values.
    pub(super) fn generates(&self) -> bool {
        let values = &self.values;
        let differ = |calls: &HashSet<u32>| !calls.is_disjoint(&values.differing);
        let in_defaults = values.in_defaults || differ(&values.default_calls);
        // What DDL makes has numbers of its own, which the catalogs show.
        let found = &self.found;
        values.is_any || found.is_ddl || found.generates || differ(&values.calls) || found.inserts && in_defaults
    }

    /// Whether even a single row may depend on the order of rows in tables.
    fn arranges(&self) -> bool {
        let (values, found) = (&self.values, &self.found);
        let may_be_float = || {
            let calls = || self.calls.iter().chain(&found.calls);
            values.has_floats || found.has_floats || calls().any(|call| !known::is_exact(call))
        };
        let calls = || values.calls.iter().chain(&values.default_calls);
        let is_called = calls().any(|call| values.arranging.contains(call));
        found.arranges || values.arranges || is_called || found.has_sums && may_be_float()
    }

    /// What is known of a transaction that is safe.
    pub(super) fn safe(&self) -> Safe {
        if let Some(known) = self.known.as_ref().filter(|_| self.verdict.is_some()) {
            return known.safe;
        }
        let writes = self.found.writes;
        let reads_own = writes && (self.found.is_several || self.values.has_code);
        let (generates, arranges) = (self.generates(), self.arranges());
        let reads_much = self.values.pages >= MUCH_PAGES;
        Safe { generates, writes, reads_own, arranges, reads_much, catches: self.found.catches }
    }

    /// Takes a row about an object. `None` if the row is malformed.
    pub(super) fn on_object<'r>(&mut self, text: Text<'r, '_>) -> Option<Result<(), Unsafe>> {
        let number = |at| std::str::from_utf8(text(at)?).ok()?.parse::<u32>().ok();
        for version in text(1).into_iter().flat_map(|versions| versions.split(|byte| *byte == b',')) {
            self.versions.insert(std::str::from_utf8(version).ok()?.parse().ok()?);
        }
        match text(0)? {
            b"g" => self.ground = Some(ground(text)?),
            b"x" => {}
            b"m" => return Some(Err(self.pins(Pin::Temporary))),
            b"R" => self.relations.add(number(2)?),
            b"F" => self.functions.add(number(2)?),
            b"T" => self.add_type(number(2)?),
            b"n" => [2, 3].into_iter().filter_map(text).for_each(|tree| self.read_tree(tree, false)),
            b"d" => self.read_tree(text(2)?, true),
            b"i" => (self.values.in_defaults, self.values.has_identity) = (true, true),
            b"l" => self.values.pages += u64::from(number(2)?),
            b"q" => self.values.is_any = true,
            b"b" if self.is_new_function(text(2)?, text(3)?) => return Some(Err(Unsafe::Function)),
            b"b" => self.values.is_any |= known::generates(text(2)?, text(3)?),
            #[cfg(test)]
            b"t" if self.skips_triggers => {}
            b"t" => {
                let function = number(2)?;
                if function >= FIRST_OWN {
                    self.functions.add(function);
                }
                self.relations.add(number(3).unwrap_or(0));
                text(4).into_iter().for_each(|tree| self.read_tree(tree, false));
            }
            b"w" if self.purpose == Purpose::Residue => {}
            b"w" => return Some(known::judge_wrapper(text(2)?, text(3) == Some(b"true"), &self.allowed)),
            b"f" => {
                let function = Function {
                    oid: number(2)?,
                    name: text(3)?,
                    language: text(4)?,
                    volatility: text(5)?,
                    body: text(6)?,
                    parsed: text(7),
                };
                text(8).into_iter().for_each(|tree| self.read_tree(tree, false));
                let settings = text(9).unwrap_or_default();
                return Some(match self.purpose {
                    Purpose::Replay => self.judge_function(&function, settings),
                    Purpose::Residue => self.judge_leftovers(&function, settings),
                });
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    fn add_type(&mut self, number: u32) {
        if number >= FIRST_OWN {
            self.types.add(number);
        }
        self.values.has_floats |= known::FLOATS.contains(&number);
    }

    /// Reads an expression or a query that the server has parsed.
    pub(super) fn read_tree(&mut self, tree: &[u8], is_default: bool) {
        tree::read(tree, |item| match item {
            Item::Number(number) => {
                for objects in [&mut self.relations, &mut self.functions, &mut self.types, &mut self.numbers] {
                    objects.add(number);
                }
            }
            Item::Function(number) => {
                self.functions.add(number);
                let values = &mut self.values;
                if is_default { &mut values.default_calls } else { &mut values.calls }.insert(number);
            }
            Item::Relation(number) => self.relations.add(number),
            Item::Arranges => self.values.arranges = true,
            Item::Generates if is_default => self.values.in_defaults = true,
            Item::Generates => self.values.is_any = true,
            Item::Writes => (self.found.writes, self.found.inserts) = (true, true),
        });
        self.count_bytes(0);
    }

    /// Whether a function is the server's, may have effects, and came with a version that is newer than this governor.
    fn is_new_function(&self, name: &[u8], volatility: &[u8]) -> bool {
        let is_known = || is_known_volatile(name) || known::is_allowed(name, &self.allowed);
        self.is_version_new() && volatility == b"v" && !is_known()
    }

    /// Judges a function, or reads its body. Its settings may name schemas.
    fn judge_function(&mut self, function: &Function<'_>, settings: &[u8]) -> Result<(), Unsafe> {
        if known::arranges(function) {
            self.values.arranging.insert(function.oid);
            self.values.arranges |= function.oid >= FIRST_OWN;
        }
        if function.oid < FIRST_OWN && self.is_new_function(function.name, function.volatility) {
            return Err(Unsafe::Function);
        }
        // The body of a function that the operator declares safe is not read.
        self.found.catches |= known::is_allowed(function.name, &self.allowed);
        match known::judge_function(function, &self.allowed) {
            Judgement::Safe { generates: false } => return Ok(()),
            Judgement::Safe { generates: true } => {
                match function.oid < FIRST_OWN {
                    true => _ = self.values.differing.insert(function.oid),
                    false => self.values.is_any = true,
                }
                return Ok(());
            }
            Judgement::Unsafe(because) => return Err(because),
            Judgement::Read(language) => self.read_body(function.body, language)?,
            Judgement::ReadParsed => function.parsed.into_iter().for_each(|tree| self.read_tree(tree, false)),
        }
        self.values.has_code = true;
        // It may take the first of several rows.
        self.values.arranges |= function.parsed.is_some() || body::may_read_rows(function.body, self.rules);
        self.reach_schemas(settings)
    }

    /// The settings of a function may name schemas, which its names reach.
    pub(super) fn reach_schemas(&mut self, settings: &[u8]) -> Result<(), Unsafe> {
        let known = &self.names;
        for token in Lexer::new(settings, self.rules) {
            self.found.catches |= body::TIMEOUTS.iter().any(|timeout| token.is_word(timeout));
            if matches!(token.kind, TokenKind::Word | TokenKind::Quoted) {
                names::add(&token, true, self.rules, &|name: &[u8]| known.contains(name), &mut self.found.names)?;
            }
        }
        Ok(())
    }

    /// Everything that the last answer rests on must be older than the transaction.
    pub(super) fn check_versions(&mut self) {
        let versions = std::mem::take(&mut self.versions);
        if !self.has_run {
            let next = self.ground.as_ref().map_or(u64::MAX, |ground| ground.next);
            let newest = versions.iter().map(|xmin| horizon::whole(*xmin, next)).max();
            self.newest = self.newest.max(newest.unwrap_or_default());
            return;
        }
        let is_unchanged = match (&self.ground, self.horizon) {
            (Some(ground), Some(horizon)) => {
                let is_older = |xmin: &u32| horizon::is_older(*xmin, horizon.number(), ground.next);
                // Numbers ahead of the server's own are those of another server.
                horizon.is_of(ground.started) && horizon.number() <= ground.next && versions.iter().all(is_older)
            }
            _ => false,
        };
        if !is_unchanged {
            self.is_unsafe(Unsafe::ChangedCode);
        }
    }

    /// Takes over an earlier finding, if the session has the same path, and all that the finding rests on is older than
    /// that finding and than this transaction. Otherwise the inquiry begins again.
    pub(super) fn confirm_known(&mut self) {
        let versions = std::mem::take(&mut self.versions);
        let (Some(known), Some(horizon), Some(ground)) = (&self.known, self.horizon, &self.ground) else {
            self.is_unsafe(Unsafe::ChangedCode);
            return;
        };
        let older_than = known.horizon.number().min(horizon.number());
        let is_older = |xmin: &u32| horizon::is_older(*xmin, older_than, ground.next);
        let is_same = known.path == ground.path && known.horizon.is_of(ground.started) && horizon.is_of(ground.started);
        match is_same && horizon.number() <= ground.next && versions.iter().all(is_older) {
            true => {
                let uses_cursors = known.uses_cursors;
                self.verdict = Some(if uses_cursors { Verdict::SafeWithoutCursors } else { Verdict::Safe });
            }
            false => self.known = None,
        }
    }
}

pub(super) fn ground(text: Text<'_, '_>) -> Option<Ground> {
    let number = |at| std::str::from_utf8(text(at)?).ok();
    let (next, oldest) = (number(2)?.parse().ok()?, number(5)?.parse().ok()?);
    Some(Ground { next, oldest, path: text(3)?.to_vec(), started: number(4)?.parse().ok()? })
}
