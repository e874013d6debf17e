//! Random scripts: the messages that applications and drivers send.

pub mod attacks;
mod statements;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::script::{
    CopyPart, Injection, PROBE, Request, SHAPES, Script, ScriptStep, Settles, Transaction, Unit, User,
};
use statements::{StatementKind, kind_of};

/// The script of a seed, always the same.
pub fn script(seed: u64) -> Script {
    let mut writer = Writer::new(seed);
    let count = writer.random.random_range(2..=6);
    let transactions = (0..count).map(|_| writer.transaction()).collect();
    let user = if writer.sometimes(25) { User::Steady } else { User::Report };
    Script { story: vec![format!("seed {seed}")], user, transactions }
}

/// The approximate state of the session at this point of the script: statements may fail.
pub struct Writer {
    random: Pcg64Mcg,
    /// Statements prepared by name: the name, and the number of parameters.
    prepared: Vec<(String, usize)>,
    /// The number of parameters of the unnamed statement.
    unnamed: Option<usize>,
    /// The number of rows and names created.
    count: u32,
    in_block: bool,
    /// Whether the block waits for all serializable transactions of the server, of which a foreign one of the other side
    /// would be one.
    is_deferrable: bool,
    /// Whether the transaction has replaced a function, which nobody else can replace then.
    has_replaced: bool,
    /// Whether a backslash escapes, once that was set.
    backslashes: bool,
    /// The kind of many statements of this script.
    theme: StatementKind,
}

impl Writer {
    fn new(seed: u64) -> Writer {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let theme = kind_of(random.random_range(0..100));
        Writer {
            random,
            prepared: Vec::new(),
            unnamed: None,
            count: 0,
            in_block: false,
            is_deferrable: false,
            has_replaced: false,
            backslashes: false,
            theme,
        }
    }

    /// Returns true with that probability, in percent.
    fn sometimes(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn one(&mut self, of: &[&str]) -> String {
        (*of.choose(&mut self.random).expect("there are some")).to_owned()
    }

    fn number(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    fn account(&mut self) -> u32 {
        self.random.random_range(1..=5)
    }

    fn transaction(&mut self) -> Transaction {
        let mut steps = Vec::new();
        self.has_replaced = false;
        match self.random.random_range(0..100) {
            0..65 => self.block(&mut steps),
            65..70 => self.in_one_write(&mut steps),
            70..73 => self.farewell(&mut steps),
            _ => {
                let unit = self.unit();
                steps.push(self.step(unit));
            }
        }
        if self.sometimes(40) {
            steps.push(self.step(Unit::Query(vec![PROBE.to_owned()])));
        }
        Transaction { steps }
    }

    fn block(&mut self, steps: &mut Vec<ScriptStep>) {
        let begin = self.one(&[
            "BEGIN",
            "BEGIN",
            "BEGIN",
            "START TRANSACTION",
            "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "BEGIN READ ONLY",
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
        ]);
        self.is_deferrable = begin.ends_with("DEFERRABLE");
        let begin = self.control("b", begin);
        steps.push(self.step(begin));
        self.in_block = true;
        for _ in 0..self.random.random_range(1..=5) {
            if self.sometimes(5) {
                self.in_one_write(steps);
                continue;
            }
            let unit = if self.sometimes(10) { Unit::Query(vec![PROBE.to_owned()]) } else { self.unit() };
            steps.push(self.step(unit));
            if self.sometimes(8) {
                let chain = self.one(&["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN"]);
                let chain = self.control("k", chain);
                steps.push(self.step(chain));
            }
        }
        if self.sometimes(3) {
            steps.push(ScriptStep { injections: Vec::new(), unit: Unit::Leave(None), ahead: false });
        } else {
            let end = self.one(&["COMMIT", "COMMIT", "COMMIT", "END", "ROLLBACK", "ABORT"]);
            let end = self.control("e", end);
            match self.random.random_range(0..100) {
                0..3 => steps.push(self.last_step(|unit| Unit::Leave(Some(unit)), end)),
                3..6 => steps.push(self.last_step(Unit::Finish, end)),
                _ => steps.push(self.step(end)),
            }
        }
        (self.in_block, self.is_deferrable) = (false, false);
    }

    /// Units whose messages arrive together: what drivers send as one packet, a Sync in its middle included.
    fn in_one_write(&mut self, steps: &mut Vec<ScriptStep>) {
        let (first, second) = match self.random.random_range(0..3) {
            0 => {
                let (first, second) = (self.statement(), self.statement());
                self.unnamed = None;
                (Unit::Query(vec![first]), Unit::Query(vec![second]))
            }
            1 => {
                let (sql, values) = self.with_values();
                self.unnamed = Some(values.len());
                let parse = Request::Parse { name: String::new(), sql };
                (Unit::Extended(vec![parse]), Unit::Extended(run("", "", values).into()))
            }
            _ => {
                let sql = self.statement();
                (Unit::Extended(Vec::new()), Unit::Query(vec![sql]))
            }
        };
        let mut first = self.step(first);
        first.ahead = true;
        let second = ScriptStep { injections: Vec::new(), unit: second, ahead: false };
        steps.extend([first, second]);
    }

    /// A client that sends something outside of a block and goes, with or without waiting for the answer.
    fn farewell(&mut self, steps: &mut Vec<ScriptStep>) {
        let change = Unit::Query(vec![self.change()]);
        steps.push(self.step(Unit::Query(vec!["SELECT 1".to_owned()])));
        let step = if self.sometimes(50) {
            self.last_step(|unit| Unit::Leave(Some(unit)), change)
        } else {
            self.last_step(Unit::Finish, change)
        };
        steps.push(step);
    }

    /// What a client sends before it goes. Nobody could tell it of an error, so the unit itself is left alone.
    fn last_step(&mut self, leaves: impl Fn(Box<Unit>) -> Unit, unit: Unit) -> ScriptStep {
        let injections = if self.in_block && self.sometimes(20) { vec![Injection::Idle] } else { Vec::new() };
        ScriptStep { injections, unit: leaves(Box::new(unit)), ahead: false }
    }

    /// A command that begins or ends a transaction, in the form of some driver.
    fn control(&mut self, name: &str, sql: String) -> Unit {
        match self.random.random_range(0..10) {
            0..=5 => Unit::Query(vec![sql]),
            6..=7 => {
                self.unnamed = Some(0);
                Unit::Extended(one_shot("", &sql, Vec::new()))
            }
            _ => {
                let long = if self.sometimes(25) { "@name@" } else { "" };
                let name = format!("{name}{long}{}", self.number());
                self.prepared.push((name.clone(), 0));
                Unit::Extended(one_shot(&name, &sql, Vec::new()))
            }
        }
    }

    /// A unit, and its injections.
    fn step(&mut self, unit: Unit) -> ScriptStep {
        let mut injections = Vec::new();
        if self.in_block && self.sometimes(12) {
            injections.push(Injection::Idle);
        }
        let settles = if self.sometimes(25) { Settles::After } else { Settles::Before };
        let at = self.random.random_range(0..4);
        let after = if self.sometimes(70) { 0 } else { self.random.random_range(1..5) };
        match self.random.random_range(0..100) {
            0..=17 => injections.push(Injection::Cancel { at, after, settles }),
            18..=21 => {
                injections.push(Injection::Cancel { at, after: 0, settles: Settles::Before });
                let (at, after) = (self.random.random_range(0..3), self.random.random_range(0..4));
                injections.push(Injection::Cancel { at, after, settles });
            }
            22..=24 => injections.push(Injection::Missed { after, settles }),
            25..=26 => injections.push(Injection::ClientCancel { at }),
            27..=28 => injections.push(Injection::ClientCancelMissed),
            29..=38 => injections.push(Injection::Abort { at, after }),
            _ => {}
        }
        if !injections.is_empty() && self.sometimes(15) {
            injections.push(Injection::Change { account: self.account() });
        }
        if !self.has_replaced && self.sometimes(3) {
            injections.push(Injection::Replace { version: self.random.random_range(0..SHAPES.len()) });
        }
        let may_be_ahead = matches!(unit, Unit::Query(_) | Unit::Extended(_));
        let ahead = may_be_ahead && self.in_block && self.sometimes(6);
        if let [Injection::Cancel { after: 0, settles, .. }, ..] = &mut injections[..]
            && ahead
        {
            *settles = Settles::Early;
        }
        ScriptStep { injections, unit, ahead }
    }

    fn unit(&mut self) -> Unit {
        match self.random.random_range(0..100) {
            _ if self.backslashes && self.sometimes(40) => self.hidden_commit(),
            0..=44 => {
                let count = self.random.random_range(1..=3);
                self.unnamed = None;
                Unit::Query((0..count).map(|_| self.statement()).collect())
            }
            45..=91 => self.extended(),
            92..=94 => self.copy(),
            95 => self.timed(),
            96..=97 => self.whole_block(),
            _ => self.hidden_commit(),
        }
    }

    /// A COPY, with messages that a server ignores there.
    fn copy(&mut self) -> Unit {
        let mut parts = Vec::new();
        for _ in 0..self.random.random_range(0..4) {
            parts.push(match self.random.random_range(0..10) {
                0..=5 => CopyPart::Line(format!("copied,{}", self.number())),
                6..=7 => CopyPart::Sync,
                _ => CopyPart::Flush,
            });
        }
        let name = self.sometimes(40).then(|| format!("copy{}", self.number()));
        if name.is_none() {
            self.unnamed = None;
        }
        let sql = "COPY log (who, n) FROM STDIN WITH (FORMAT csv)".to_owned();
        Unit::Copy { sql, name, parts, fails: self.sometimes(30) }
    }

    /// Something whose time a client notices: a time-out that strikes, or a notice long before the end.
    fn timed(&mut self) -> Unit {
        self.unnamed = None;
        let all = |of: &[&str]| Unit::Query(of.iter().map(|&sql| sql.to_owned()).collect());
        let noticed = "DO $$ BEGIN RAISE NOTICE 'first'; PERFORM pg_sleep(0.3); RAISE NOTICE 'last'; END $$";
        match self.random.random_range(0..5) {
            0 => all(&["SET LOCAL statement_timeout = '50ms'", "SELECT pg_sleep(5)"]),
            1 => all(&["SET LOCAL lock_timeout = '50ms'", "SELECT pg_advisory_xact_lock(99)"]),
            2 => all(&[noticed]),
            3 => all(&["SELECT 1", noticed]),
            _ => {
                self.unnamed = Some(0);
                Unit::Extended(one_shot("", noticed, Vec::new()))
            }
        }
    }

    /// A whole transaction in one text.
    fn whole_block(&mut self) -> Unit {
        let mut statements = vec!["BEGIN".to_owned()];
        (0..self.random.random_range(1..4)).for_each(|_| statements.push(self.statement()));
        statements.push(self.one(&["COMMIT", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN"]));
        Unit::Query(statements)
    }

    /// A COMMIT that is found only by a parser that handles backslash escapes or comments.
    fn hidden_commit(&mut self) -> Unit {
        if !self.backslashes {
            self.backslashes = true;
            return Unit::Query(vec!["SET standard_conforming_strings = off".to_owned()]);
        }
        let (first, last) = (self.change(), self.change());
        Unit::Query(vec![first, r"SELECT '\''".to_owned(), "COMMIT".to_owned(), last, "SELECT 5 --'".to_owned()])
    }

    fn extended(&mut self) -> Unit {
        let mut requests = Vec::new();
        for _ in 0..self.random.random_range(1..=3) {
            self.operation(&mut requests);
            if self.sometimes(6) {
                requests.push(Request::Flush);
            }
        }
        Unit::Extended(requests)
    }

    fn operation(&mut self, requests: &mut Vec<Request>) {
        match self.random.random_range(0..100) {
            0..=39 => {
                let (sql, values) = self.with_values();
                self.unnamed = Some(values.len());
                requests.extend(one_shot("", &sql, values));
            }
            40..=54 => {
                let (sql, values) = self.with_values();
                let long = if self.sometimes(15) { "@name@" } else { "" };
                let name = format!("s{long}{}", self.random.random_range(1..=4));
                self.prepared.retain(|(known, _)| *known != name);
                self.prepared.push((name.clone(), values.len()));
                if self.sometimes(25) {
                    requests.push(Request::CloseStatement(name.clone()));
                }
                requests.extend(one_shot(&name, &sql, values));
            }
            55..=69 => {
                let Some((name, count)) = self.prepared.choose(&mut self.random).cloned() else { return };
                let values = self.values(count);
                requests.extend(run("", &name, values));
            }
            70..=75 => {
                let values = self.values(self.unnamed.unwrap_or(0));
                requests.extend(run("", "", values));
            }
            76..=84 => {
                let sql = "SELECT id, v FROM accounts ORDER BY id".to_owned();
                self.unnamed = Some(0);
                requests.push(Request::Parse { name: String::new(), sql });
                requests.push(Request::Bind { portal: "p".to_owned(), statement: String::new(), values: Vec::new() });
                requests.push(Request::Execute { portal: "p".to_owned(), rows: 2 });
            }
            85..=89 => requests.push(Request::Execute { portal: "p".to_owned(), rows: self.random.random_range(0..3) }),
            90..=92 => requests.push(Request::ClosePortal("p".to_owned())),
            93..=95 => {
                let Some((name, _)) = self.prepared.choose(&mut self.random).cloned() else { return };
                requests.push(Request::DescribeStatement(name.clone()));
                if self.sometimes(50) {
                    requests.push(Request::CloseStatement(name));
                }
            }
            // A unit that a driver may execute later.
            _ => {
                let name = self.one(&["", "e0"]);
                let sql = self.one(&["ROLLBACK", "COMMIT", "BEGIN"]);
                if name.is_empty() {
                    self.unnamed = Some(0);
                } else {
                    self.prepared.push((name.clone(), 0));
                }
                requests.push(Request::Parse { name: name.clone(), sql });
                if self.sometimes(50) {
                    requests.push(Request::Bind { portal: "later".to_owned(), statement: name, values: Vec::new() });
                }
            }
        }
    }

    fn values(&mut self, count: usize) -> Vec<Option<String>> {
        (0..count).map(|_| if self.sometimes(5) { None } else { Some(self.account().to_string()) }).collect()
    }

    /// A statement, usually with parameters, and their values.
    fn with_values(&mut self) -> (String, Vec<Option<String>>) {
        if self.sometimes(50) {
            return (self.statement(), Vec::new());
        }
        let sql = self.one(&[
            "SELECT v FROM accounts WHERE id = $1",
            "UPDATE accounts SET v = v + 3 WHERE id = $1",
            "UPDATE accounts SET v = v + 2 WHERE id = $1 RETURNING id, v",
            "SELECT bump($1)",
            "DELETE FROM log WHERE n = $1",
            "SELECT id FROM accounts WHERE id > $1 ORDER BY id FOR UPDATE",
        ]);
        let values = self.values(1);
        (sql, values)
    }

    /// A statement that changes data, and may run again.
    fn change(&mut self) -> String {
        let (account, number) = (self.account(), self.number());
        match self.random.random_range(0..7) {
            0..=2 => format!("UPDATE accounts SET v = v + {} WHERE id = {account}", number % 9 + 1),
            3 => format!("UPDATE accounts SET v = v + 1 WHERE id = {account} RETURNING v"),
            4 => format!("INSERT INTO log (who, n) VALUES ('somebody', {number})"),
            5 => format!("SELECT bump({account})"),
            _ => format!("DO $$ BEGIN UPDATE accounts SET v = v + 5 WHERE id = {account}; END $$"),
        }
    }
}

/// Parse, Bind, Describe and Execute.
fn one_shot(name: &str, sql: &str, values: Vec<Option<String>>) -> Vec<Request> {
    let parse = Request::Parse { name: name.to_owned(), sql: sql.to_owned() };
    std::iter::once(parse).chain(run("", name, values)).collect()
}

fn run(portal: &str, statement: &str, values: Vec<Option<String>>) -> [Request; 3] {
    [
        Request::Bind { portal: portal.to_owned(), statement: statement.to_owned(), values },
        Request::DescribePortal(portal.to_owned()),
        Request::Execute { portal: portal.to_owned(), rows: 0 },
    ]
}
