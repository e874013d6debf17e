//! The situations in which nothing is done to a transaction.

use rand::RngExt;

use super::super::super::script::{Injection, Request, Settles, Transaction, Unit};
use super::super::{Writer, one_shot};
use super::forms::{alone, plain, with};
use super::situations::{copy_unit, pair};

/// A unit that may contain the end of its transaction, in some disguise.
pub fn hidden_end(writer: &mut Writer) -> Vec<Transaction> {
    let end = writer.one(&["COMMIT", "END", "COMMIT WORK", "COMMIT AND CHAIN", "COMMIT TRANSACTION AND NO CHAIN"]);
    let (end, change) = (writer.written(&end), writer.harmless_sql());
    let unit = match writer.random.random_range(0..5) {
        0 => Unit::Query(vec![end]),
        1 => Unit::Query(vec![change, end]),
        2 => Unit::Query(vec![end, change]),
        3 => Unit::Extended(one_shot(&format!("e{}", writer.some_name()), &end, Vec::new())),
        _ => Unit::Query(vec![change, "SELECT ';'".to_owned(), end, "SELECT 'behind'".to_owned()]),
    };
    let mut steps = vec![writer.begin()];
    steps.extend(writer.harmless(2));
    steps.push(with(writer.cancel(), unit));
    vec![alone(steps)]
}

/// Two units of one write, of which the second is aimed at.
pub fn pipelined(writer: &mut Writer) -> Vec<Transaction> {
    let cancel = Injection::Cancel { at: 0, after: 1, settles: Settles::Before };
    let mut steps = vec![writer.begin()];
    steps.extend(pair(writer, vec![cancel]));
    steps.push(writer.end());
    vec![alone(steps)]
}

pub fn copying(writer: &mut Writer) -> Vec<Transaction> {
    let mut steps = vec![writer.begin()];
    steps.extend(writer.harmless(1));
    // The first unit is the one that begins the copy.
    let cancel = Injection::Cancel { at: 0, after: 1, settles: Settles::Before };
    steps.push(with(vec![cancel], copy_unit(writer)));
    steps.push(writer.end());
    vec![alone(steps)]
}

/// Units that may commit by themselves on the way.
pub fn outside_block(writer: &mut Writer) -> Vec<Transaction> {
    let sql = writer.one(&[
        "CALL stepwise()",
        "VACUUM accounts",
        "DO $$ BEGIN UPDATE accounts SET v = v + 5 WHERE id = 1; END $$",
        "DO LANGUAGE plpgsql $x$ BEGIN UPDATE accounts SET v = v + 5 WHERE id = 1; COMMIT; END $x$",
    ]);
    let sql = writer.written(&sql);
    let unit = match writer.random.random_range(0..3) {
        0 => Unit::Query(vec![sql]),
        1 => Unit::Extended(one_shot("", &sql, Vec::new())),
        _ => Unit::Extended(one_shot(&writer.some_name(), &sql, Vec::new())),
    };
    vec![alone(vec![with(writer.cancel(), unit)])]
}

/// The client has sent a part of a unit.
pub fn unit_open(writer: &mut Writer) -> Vec<Transaction> {
    let mut requests = Vec::new();
    for _ in 0..writer.random.random_range(1..=2) {
        let sql = writer.harmless_sql();
        requests.extend(one_shot("", &sql, Vec::new()));
    }
    requests.push(Request::Flush);
    let mut steps = vec![writer.begin()];
    steps.extend(writer.harmless(1));
    steps.push(with(writer.cancel(), Unit::Extended(requests)));
    steps.push(writer.end());
    vec![alone(steps)]
}

/// The client has said how long it may think, which a rollback would undo.
pub fn timeout(writer: &mut Writer) -> Vec<Transaction> {
    let any = &[
        "SET LOCAL idle_in_transaction_session_timeout = 0",
        "SET idle_in_transaction_session_timeout = '1h'",
        "SET LOCAL idle_in_transaction_session_timeout TO '1h'",
    ];
    vec![writer.block_that_runs(any, vec![Injection::Idle])]
}

/// A class that does not retry loses nothing while its client thinks, nor what could not be replayed.
pub fn no_retry(writer: &mut Writer) -> Vec<Transaction> {
    if writer.sometimes(40) {
        return vec![writer.block_with(Vec::new(), vec![Injection::Idle])];
    }
    let hit = writer.cancel();
    let any = &[
        "LISTEN news",
        "CREATE TEMP TABLE scratch (a int)",
        "SELECT pg_advisory_lock(1)",
        "PREPARE q1 AS SELECT 1",
        "SELECT setval('numbers', 9)",
    ];
    vec![writer.block_that_runs(any, hit)]
}

/// A client that goes with or without waiting for its answers, after statements in some form.
pub fn leaving(writer: &mut Writer) -> Vec<Transaction> {
    let (sql, other) = (writer.change(), writer.change());
    let sql = writer.written(&sql);
    let last = match writer.random.random_range(0..5) {
        0 => Unit::Query(vec![sql]),
        1 => Unit::Query(vec![sql, other]),
        2 => Unit::Query(vec!["BEGIN".to_owned(), sql, other, "COMMIT".to_owned()]),
        3 => Unit::Query(vec!["BEGIN".to_owned(), sql]),
        _ => Unit::Extended(one_shot("", &sql, Vec::new())),
    };
    let mut steps = Vec::new();
    if writer.sometimes(40) {
        steps.push(writer.begin());
        steps.extend(writer.harmless(1));
    }
    let leaves = if writer.sometimes(50) { Unit::Finish } else { |unit| Unit::Leave(Some(unit)) };
    steps.push(plain(leaves(Box::new(last))));
    vec![alone(steps)]
}

/// Something whose time a client notices, in a block or not.
pub fn noticed(writer: &mut Writer) -> Vec<Transaction> {
    let mut steps = Vec::new();
    let is_block = writer.sometimes(50);
    if is_block {
        steps.push(writer.begin());
    }
    steps.push(plain(writer.timed()));
    if is_block {
        steps.push(writer.end());
    }
    vec![alone(steps)]
}
