//! Whether a class that an application names in a comment takes effect, with drivers that send a bare BEGIN first and
//! with popular object-relational mappers.
//!
//! The programs are those of `docs/governor-applications.md`. Each runs two transactions whose statements have the tag of class `nightly`
//! and one without, and, where it can, a tagged statement outside of a transaction.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::super::client::PATIENCE;
use super::super::governed::Governed;
use super::super::server::Server;
use super::environment::{java_libraries, ruby_program};
use super::{programs, python_program, run};

/// Settings of another class, which no rule assigns.
const NIGHTLY: &str = "[[class]]\nname = \"nightly\"\npriority = \"low\"";

/// Runs a program, and fails unless exactly that many transactions were of class `nightly`.
fn check(program: Command, expect: u64) {
    let server = Server::shared();
    let mut governed = Governed::start_with(&server, "", NIGHTLY);
    let said = run(program, governed.address, server.database());
    assert!(said.lines().any(|line| line == "ok class"), "{said}");
    let began = Instant::now();
    let tagged = || governed.count(Some("nightly"), "transactions");
    while tagged() < expect && began.elapsed() < PATIENCE / 4 {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(tagged(), expect, "transactions of the class that the tag names");
    governed.assert_alive();
}

/// A nightly report wrote its tag into the first statement of its transactions. The driver had sent a bare BEGIN
/// before, so the tag was silently ignored, and the report was as important as the shop.
#[test]
fn a_tag_after_a_bare_begin_names_the_class_with_psycopg() {
    check(python_program("orms", "psycopg_class.py"), 3);
}

#[test]
fn sqlalchemy_names_the_class_by_an_event() {
    check(python_program("orms", "sqlalchemy_class.py"), 3);
}

#[test]
fn django_names_the_class_by_an_execute_wrapper() {
    check(python_program("orms", "django_class.py"), 3);
}

/// Outside of a block it prepares a statement in a unit by itself, which has the tag as well.
#[test]
fn active_record_names_the_class_by_an_annotation() {
    check(ruby_program(&programs().join("orms/active_record_class.rb")), 4);
}

/// The driver beneath sends BEGIN and the first statement together, before one Sync.
#[test]
fn hibernate_names_the_class_by_a_statement_inspector() {
    let folder = programs().join("hibernate");
    let mut program = Command::new("java");
    program.arg("-cp").arg(java_libraries(&folder)).arg(folder.join("HibernateClass.java"));
    check(program, 2);
}

/// The guide's examples are the programs that are tested here.
#[test]
fn the_guide_has_the_programs_that_are_tested() {
    let guide = std::fs::read_to_string("../../docs/governor-applications.md").unwrap();
    let source = |file: &str| std::fs::read_to_string(programs().join(file)).unwrap();
    let check = |file: &str, part: &str| {
        assert!(guide.contains(part), "docs/governor-applications.md has not\n{part}");
        assert!(source(file).contains(part), "{file} has not\n{part}");
    };
    check(
        "orms/sqlalchemy_class.py",
        "@event.listens_for(reports, \"before_cursor_execute\", retval=True)\ndef tag(connection, cursor, statement, parameters, context, executemany):\n    return f\"{statement} /*class='nightly'*/\", parameters\n",
    );
    check(
        "orms/django_class.py",
        "def nightly(execute, sql, params, many, context):\n    return execute(f\"{sql} /*class='nightly'*/\", params, many, context)\n",
    );
    check("orms/django_class.py", "with connection.execute_wrapper(nightly), transaction.atomic():\n");
    check("hibernate/HibernateClass.java", "StatementInspector nightly = sql -> sql + \" /*class='nightly'*/\";\n");
    check("orms/active_record_class.rb", "nightly = Hot.annotate(\"class='nightly'\")\n");
    check("hibernate/HibernateClass.java", "factory.withOptions().statementInspector(nightly).openSession()");
}
