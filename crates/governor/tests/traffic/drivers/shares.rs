//! Which transactions of popular drivers and object-relational mappers can be replayed. `docs/governor-applications.md` has the table.
//!
//! Each program runs the same six transactions in its own way. Each transaction locks the row of customer 1, for which class
//! high waits, and at last waits itself (see [`contended`](super::super::contended)).

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::super::contended::{Fate, TABLES, contend};
use super::super::governed::Governed;
use super::super::server::Server;
use super::environment::{java_libraries, ruby_program};
use super::{connecting_to, programs, python_program};

/// The transactions, as the columns of the table.
const TRANSACTIONS: [&str; 6] = ["increment", "change", "lock", "log", "create", "bulk"];

/// More often than a session needs to learn the texts of a transaction, and than drivers need to prepare them.
const WARM: usize = 12;

const SHOP: &str = "
    CREATE TABLE customers (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, updated_at timestamptz DEFAULT now());
    CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers, total bigint NOT NULL,
        created_at timestamptz DEFAULT now());
    CREATE TABLE items (id bigserial PRIMARY KEY, order_id bigint NOT NULL REFERENCES orders, sku text, quantity int);
    CREATE SEQUENCE items_hibernate INCREMENT 50;
    INSERT INTO customers VALUES (1);
    INSERT INTO orders VALUES (1, 1, 10);
    SELECT setval('orders_id_seq', 1);
    SELECT setval('items_hibernate', 1000000);
    GRANT ALL ON ALL TABLES IN SCHEMA public TO public;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO public;";

/// The important client wants the row, and changes nothing that the transactions read.
const WANTED: &str = "SELECT FROM customers WHERE id = 1 FOR UPDATE";

/// The fates of the program's transactions in a class that retries or does not.
fn fates(program: &dyn Fn() -> Command, retries: bool) -> Vec<Fate> {
    let server = Server::start();
    server.connection().run(&format!("{TABLES}{SHOP}")).unwrap();
    let governed = Governed::start_strict(&server, retries);
    let mut program = program();
    connecting_to(&mut program, governed.address, server.database()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let names = RefCell::new(child.stdin.take().unwrap());
    let lines = RefCell::new(BufReader::new(child.stdout.take().unwrap()).lines());
    let fates = TRANSACTIONS.map(|name| {
        let begin = || writeln!(names.borrow_mut(), "{name}").unwrap();
        let end = || lines.borrow_mut().next().expect("the program goes on").unwrap();
        for _ in 0..WARM {
            begin();
            assert_eq!(end(), "ok", "{name}");
        }
        contend(&server, &governed, WANTED, begin, || Some(end()).filter(|said| said != "ok"))
    });
    drop(names);
    assert!(child.wait().unwrap().success());
    fates.to_vec()
}

/// Checks the library's row of the guide's table.
fn check(library: &str, program: &dyn Fn() -> Command) {
    let [patient, retrying] = [false, true].map(|retries| fates(program, retries));
    let cells = patient.iter().zip(&retrying).map(|fates| match fates {
        (Fate::Replayed, Fate::Replayed) => "replayed",
        (Fate::LeftAlone, Fate::Told) => "left alone, or 40001",
        // The forecast is stricter than the comparison of answers.
        (Fate::LeftAlone, Fate::Replayed) => "left alone, or replayed",
        other => panic!("{library}: {other:?} in classes that do not retry and that do"),
    });
    let row = format!("| {library} | {} |", cells.collect::<Vec<_>>().join(" | "));
    let guide = std::fs::read_to_string("../../docs/governor-applications.md").unwrap();
    assert!(guide.contains(&row), "docs/governor-applications.md has not the row\n{row}");
}

#[test]
fn psycopg_transactions_that_can_be_replayed() {
    check("psycopg", &|| python_program("orms", "shares_psycopg.py"));
}

#[test]
fn django_transactions_that_can_be_replayed() {
    check("Django", &|| python_program("orms", "shares_django.py"));
}

#[test]
fn sqlalchemy_transactions_that_can_be_replayed() {
    check("SQLAlchemy", &|| python_program("orms", "shares_sqlalchemy.py"));
}

#[test]
fn active_record_transactions_that_can_be_replayed() {
    check("Rails (ActiveRecord)", &|| ruby_program(&programs().join("orms/shares_active_record.rb")));
}

#[test]
fn hibernate_transactions_that_can_be_replayed() {
    let folder = programs().join("hibernate");
    check("Hibernate", &|| {
        let mut program = Command::new("java");
        program.arg("-cp").arg(java_libraries(&folder)).arg(folder.join("HibernateShares.java"));
        program
    });
}
