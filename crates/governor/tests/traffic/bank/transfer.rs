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

/// Records a transfer.
const NOTE: &str = "INSERT INTO transfer VALUES ($1, $2, $3, $4)";

#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub id: i64,
    pub source: i32,
    /// The destination, another account.
    pub target: i32,
    pub amount: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Reads balances and computes the new ones here: a wrong read creates money.
    ReadThenWrite,
    /// The server adds and subtracts: the answers contain no data, so a rollback can stay unnoticed.
    Blind,
    /// One statement with parameters, without a transaction around it.
    OneStatement,
    /// All statements of a transaction in one unit, sent before any answer.
    AtOnce,
}

impl Way {
    /// Whether the transaction holds its rows when its end is requested, so that a session can wait for it.
    pub fn holds_its_rows(self) -> bool {
        matches!(self, Way::ReadThenWrite | Way::Blind)
    }
}

/// The client's knowledge when it is over.
#[derive(Debug)]
pub enum End {
    Acknowledged,
    /// It was not committed, according to the answer.
    Refused(Failure),
    /// The client requested a commit, but received no answer.
    Unknown,
    /// The client has requested a commit and disconnected. A process that still works for it need not hold its rows.
    Left,
    /// The client disconnected before it requested a commit.
    Abandoned,
}

impl Transfer {
    /// Moves the money. The client may disconnect at any step where `leaves` says so; it must not be used afterwards.
    ///
    /// `committing` counts the clients that wait for the answer to a COMMIT.
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
            // Disconnects in the middle of a message. A failure here has no reader either.
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

    /// Whether a transfer was committed although the answer to its COMMIT was lost.
    ///
    /// While its transaction is open, it holds the row that is locked first. Once that row is locked, it has ended.
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

    /// One Sync follows all of it, so that nothing more runs after an error, even one of BEGIN.
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

/// The meaning of an answer to a statement that commits.
fn judged(answer: Answer, commands: &[&str]) -> End {
    match answer.refusal {
        // The server sends this at any point to a session that it ends.
        Some(refusal) if ["57P", "08"].iter().any(|class| refusal.state.starts_with(class)) => End::Unknown,
        Some(refusal) => End::Refused(Failure::Refused(refusal)),
        None => {
            assert_eq!(answer.commands, commands);
            End::Acknowledged
        }
    }
}
