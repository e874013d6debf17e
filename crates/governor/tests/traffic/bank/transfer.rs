//! Four ways to move money.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::super::client::{Answer, Client, Failure};

/// Writes a transfer down.
const NOTE: &str = "INSERT INTO transfer VALUES ($1, $2, $3, $4)";

#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub id: i64,
    pub source: i32,
    /// To where; another account.
    pub target: i32,
    pub amount: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Balances are read, and what is written is computed from them here: a read that was not true makes money.
    ReadThenWrite,
    /// The server adds and subtracts: the answers say nothing, so that a rollback can stay unnoticed.
    Blind,
    /// One statement with parameters, without a transaction around it.
    OneStatement,
    /// All statements of a transaction in one unit, sent before any answer.
    AtOnce,
}

impl Way {
    /// Whether the transaction holds its rows when its end is asked for, so that one can wait for it.
    pub fn holds_its_rows(self) -> bool {
        matches!(self, Way::ReadThenWrite | Way::Blind)
    }
}

/// What the client knows when it is over.
#[derive(Debug)]
pub enum End {
    Acknowledged,
    /// It was not, as far as one may believe what was said.
    Refused(Failure),
    /// Commit was asked for, and nothing was heard.
    Unknown,
    /// The client has asked for commit and gone away. Whoever is still at work for it need not hold its rows.
    Left,
    /// The client has gone away before it asked for commit.
    Abandoned,
}

impl Transfer {
    /// Moves the money. A client may go away at any step, `leaves` says whether; it is not to be used any more then.
    ///
    /// `committing` counts those who wait for the answer to a COMMIT.
    pub fn make(&self, way: Way, client: &mut Client, random: &mut Pcg64Mcg, committing: &AtomicU64) -> End {
        match way {
            Way::ReadThenWrite | Way::Blind => self.step_by_step(way, client, random, committing),
            Way::OneStatement => self.one_statement(client),
            Way::AtOnce => self.at_once(client),
        }
    }

    fn step_by_step(&self, way: Way, client: &mut Client, random: &mut Pcg64Mcg, committing: &AtomicU64) -> End {
        let run = |client: &mut Client, random: &mut Pcg64Mcg, sql: &str| {
            thread::sleep(Duration::from_micros(random.random_range(0..1500)));
            client.query(sql)
        };
        let statements = |client: &mut Client, random: &mut Pcg64Mcg| -> Result<(), Failure> {
            run(client, random, "BEGIN")?;
            for (account, change) in [(self.source, -self.amount), (self.target, self.amount)] {
                if way == Way::ReadThenWrite {
                    let read = format!("SELECT balance FROM account WHERE id = {account} FOR UPDATE");
                    let balance = run(client, random, &read)?.value().unwrap().parse::<i64>().unwrap() + change;
                    run(client, random, &format!("UPDATE account SET balance = {balance} WHERE id = {account}"))?;
                } else {
                    let update = format!("UPDATE account SET balance = balance + {change} WHERE id = {account}");
                    run(client, random, &update)?;
                }
            }
            run(client, random, &self.note()).map(drop)
        };
        if let Err(failure) = statements(client, random) {
            return End::Refused(failure);
        }
        match random.random_range(0..100) {
            0 => return End::Abandoned,
            // In the middle of a message. If it fails there is nobody to read it either.
            1 => {
                let _ = client.send(b"Q\0\0\0\x0bCOM");
                return End::Abandoned;
            }
            2 => {
                let _ = client.send_query("COMMIT");
                return End::Left;
            }
            _ => {}
        }
        if client.send_query("COMMIT").is_err() {
            return End::Unknown;
        }
        committing.fetch_add(1, Ordering::Relaxed);
        let answer = client.answer();
        committing.fetch_sub(1, Ordering::Relaxed);
        match answer {
            Err(_) => End::Unknown,
            Ok(answer) => judged(answer, &["COMMIT"]),
        }
    }

    /// Whether a transfer was committed of which the answer to COMMIT was lost.
    ///
    /// Its transaction, as long as it is open, holds the row that is locked first. So it has ended when that is locked.
    pub fn is_there(&self, client: &mut Client) -> Result<bool, Failure> {
        client.query("BEGIN")?;
        client.query(&format!("SELECT FROM account WHERE id = {} FOR UPDATE", self.source))?;
        let count = client.value(&format!("SELECT count(*) FROM transfer WHERE id = {}", self.id))?;
        client.query("COMMIT")?;
        Ok(count == "1")
    }

    fn one_statement(&self, client: &mut Client) -> End {
        let sql = format!(
            "WITH taken AS (UPDATE account SET balance = balance - $4 WHERE id = $2),
                  given AS (UPDATE account SET balance = balance + $4 WHERE id = $3)
             {}",
            NOTE
        );
        let sent = client.write(|out| {
            self.statement(&sql, &[20, 23, 23, 20], out)?;
            frontend::sync(out);
            Ok(())
        });
        match sent.and_then(|()| client.answer()) {
            Err(_) => End::Unknown,
            Ok(answer) => judged(answer, &["INSERT 0 1"]),
        }
    }

    /// With one Sync behind all of it, so that after an error, were it that of BEGIN, nothing more is done.
    fn at_once(&self, client: &mut Client) -> End {
        // Every statement has the same parameters, whether it needs them or not.
        let change = |sign| format!("UPDATE account SET balance = balance {sign} $4 WHERE id = ");
        let sent = client.write(|out| {
            self.statement("BEGIN", &[], out)?;
            self.statement(&format!("{}$2 AND $1::bigint + $3::int > 0", change('-')), &[20, 23, 23, 20], out)?;
            self.statement(&format!("{}$3 AND $1::bigint + $2::int > 0", change('+')), &[20, 23, 23, 20], out)?;
            self.statement(NOTE, &[20, 23, 23, 20], out)?;
            self.statement("COMMIT", &[], out)?;
            frontend::sync(out);
            Ok(())
        });
        match sent.and_then(|()| client.answer()) {
            Err(_) => End::Unknown,
            Ok(answer) => judged(answer, &["BEGIN", "UPDATE 1", "UPDATE 1", "INSERT 0 1", "COMMIT"]),
        }
    }

    /// Parse, Bind and Execute, with as many of the transfer's values as there are types.
    fn statement(&self, sql: &str, types: &[u32], out: &mut BytesMut) -> io::Result<()> {
        let values = [self.id, self.source.into(), self.target.into(), self.amount];
        let write = |value: i64, out: &mut BytesMut| {
            out.extend_from_slice(value.to_string().as_bytes());
            Ok(IsNull::No)
        };
        frontend::parse("", sql, types.iter().copied(), out)?;
        let values = values.into_iter().take(types.len());
        frontend::bind("", "", [], values, write, [], out).map_err(|_| io::Error::other("values are numbers"))?;
        frontend::execute("", 0, out)
    }

    fn note(&self) -> String {
        let Transfer { id, source, target, amount } = self;
        format!("INSERT INTO transfer VALUES ({id}, {source}, {target}, {amount})")
    }
}

/// What an answer to what commits means.
fn judged(answer: Answer, commands: &[&str]) -> End {
    match answer.refusal {
        // The server says this to whom it ends, at whatever point.
        Some(refusal) if ["57P", "08"].iter().any(|class| refusal.state.starts_with(class)) => End::Unknown,
        Some(refusal) => End::Refused(Failure::Refused(refusal)),
        None => {
            assert_eq!(answer.commands, commands);
            End::Acknowledged
        }
    }
}
