//! The same statement in many forms, and the blocks around it.

use rand::RngExt;

use super::super::super::script::{Injection, Request, ScriptStep, Settles, Transaction, Unit};
use super::super::{Writer, one_shot, run};

/// A unit to which nothing is done.
pub fn plain(unit: Unit) -> ScriptStep {
    with(Vec::new(), unit)
}

pub fn query(sql: &str) -> ScriptStep {
    plain(Unit::Query(vec![sql.to_owned()]))
}

pub fn with(injections: Vec<Injection>, unit: Unit) -> ScriptStep {
    ScriptStep { injections, unit, ahead: false }
}

pub fn alone(steps: Vec<ScriptStep>) -> Transaction {
    Transaction { steps }
}

impl Writer {
    /// A statement as a person or a program may write it.
    pub(super) fn written(&mut self, sql: &str) -> String {
        match self.random.random_range(0..6) {
            // What is between quotes must stay.
            0 if !sql.contains(['\'', '"', '@']) => sql.to_lowercase(),
            1 => format!("/* SELECT 1; -- */ {sql}"),
            2 => format!("/* a /* nested */ comment */{sql}"),
            3 => format!("{sql} /* the end */"),
            _ => sql.to_owned(),
        }
    }

    /// Units that run a statement, by some protocol, alone or together with others.
    pub(super) fn in_some_form(&mut self, sql: &str) -> Vec<ScriptStep> {
        let (sql, other) = (self.written(sql), self.harmless_sql());
        match self.random.random_range(0..8) {
            0 => vec![plain(Unit::Query(vec![sql]))],
            1 => vec![plain(Unit::Query(vec![other, sql]))],
            2 => vec![plain(Unit::Query(vec![sql, other]))],
            3 => vec![plain(Unit::Extended(one_shot("", &sql, Vec::new())))],
            4 | 5 => vec![plain(Unit::Extended(one_shot(&self.some_name(), &sql, Vec::new())))],
            6 => {
                let requests = one_shot("", &other, Vec::new()).into_iter().chain(one_shot("", &sql, Vec::new()));
                vec![plain(Unit::Extended(requests.collect()))]
            }
            _ => {
                let name = self.some_name();
                let parse = Request::Parse { name: name.clone(), sql };
                vec![plain(Unit::Extended(vec![parse])), plain(Unit::Extended(run("", &name, Vec::new()).into()))]
            }
        }
    }

    /// A name that no other statement has for the server.
    pub(super) fn some_name(&mut self) -> String {
        let number = self.number();
        if self.sometimes(30) { format!("w{number}@name@") } else { format!("w{number}") }
    }

    /// A statement that may be run again, with the same answer.
    pub(super) fn harmless_sql(&mut self) -> String {
        let account = self.account();
        self.one(&[
            &format!("UPDATE accounts SET v = v + 1 WHERE id = {account}"),
            &format!("UPDATE accounts SET v = v + 2 WHERE id = {account} RETURNING v"),
            &format!("SELECT v FROM accounts WHERE id = {account}"),
            &format!("SELECT bump({account})"),
            &format!("SELECT id FROM accounts WHERE id = {account} FOR UPDATE"),
            "SELECT * FROM rich ORDER BY id",
        ])
    }

    /// Some such statements, in units of their own.
    pub(super) fn harmless(&mut self, count_max: usize) -> Vec<ScriptStep> {
        let mut steps = Vec::new();
        for _ in 0..self.random.random_range(0..=count_max) {
            let sql = self.harmless_sql();
            steps.extend(self.in_some_form(&sql));
        }
        steps
    }

    /// A rollback for another session: while the client thinks, or while a unit runs.
    pub(super) fn hit(&mut self) -> Vec<Injection> {
        if self.sometimes(40) { vec![Injection::Idle] } else { self.cancel() }
    }

    pub(super) fn cancel(&mut self) -> Vec<Injection> {
        let settles = if self.sometimes(25) { Settles::After } else { Settles::Before };
        vec![Injection::Cancel { at: self.random.random_range(0..3), after: 0, settles }]
    }

    /// A harmless unit that is hit in that way.
    pub(super) fn hit_by(&mut self, injections: Vec<Injection>) -> ScriptStep {
        let sql = self.harmless_sql();
        with(injections, Unit::Query(vec![sql]))
    }

    pub(super) fn begin(&mut self) -> ScriptStep {
        let sql = self.one(&["BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL REPEATABLE READ"]);
        plain(self.control("b", sql))
    }

    pub(super) fn end(&mut self) -> ScriptStep {
        let sql = self.one(&["COMMIT", "END", "COMMIT"]);
        plain(self.control("e", sql))
    }

    /// A block with a situation in it; afterwards a unit is hit.
    pub(super) fn block_with(&mut self, situation: Vec<ScriptStep>, injections: Vec<Injection>) -> Transaction {
        let mut steps = vec![self.begin()];
        steps.extend(self.harmless(2));
        steps.extend(situation);
        steps.extend(self.harmless(1));
        steps.push(self.hit_by(injections));
        steps.extend(self.harmless(1));
        steps.push(self.end());
        alone(steps)
    }

    /// The same with one of these statements, in some form, as the situation.
    pub(super) fn block_that_runs(&mut self, any: &[&str], injections: Vec<Injection>) -> Transaction {
        let sql = self.one(any);
        let situation = self.in_some_form(&sql);
        self.block_with(situation, injections)
    }
}
