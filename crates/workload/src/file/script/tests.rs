//! Scripts that cannot be used, each with the place of the fault and the remedy.

use std::path::PathBuf;

use super::*;

fn parsed(text: &str) -> Result<Definition, FileError> {
    parse(&[WeightedScript { source: SourceFile { path: PathBuf::from("s.sql"), text: text.to_owned() }, weight: 1.0 }])
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, expect) in [
        ("\\set x 1 +\nSELECT :x;", "s.sql:1:11: here a value is missing"),
        ("\\set x-y 1\nSELECT 1;", "s.sql:1:6: `x-y` cannot name a variable"),
        ("\\set\nSELECT 1;", "`` cannot name a variable"),
        ("SELECT :aid;", "s.sql:1:8: nothing sets the variable `:aid`"),
        ("\\set aid 1\nSELECT :aida;", "s.sql:2:8: nothing sets the variable `:aida` (did you mean `aid`?)"),
        ("\\set aid 1\nSELECT ':aid';", "s.sql:2:9: `:aid` stands within quotes"),
        ("\\set x :y\nSELECT 1;", "nothing sets the variable `:y`"),
        ("\\sett x 1\nSELECT 1;", "s.sql:1:1: there is no command `\\sett` (did you mean `set`?)"),
        ("\\setrandom x 1 2\nSELECT 1;", "write \\set name random(low, high)"),
        ("\\startpipeline\nSELECT 1;", "\\startpipeline is not supported"),
        ("SELECT 1;\n\\endpipeline", "s.sql:2:1: \\endpipeline is not supported"),
        ("\\shell rm x\nSELECT 1;", "\\shell is not supported: a workload starts no programs"),
        ("SELECT 1 \\; SELECT 2;", "s.sql:1:10: several statements in one"),
        ("\\if 1\nSELECT 1;", "s.sql:1:1: this \\if has no \\endif"),
        ("SELECT 1;\n\\endif", "s.sql:2:1: there is no \\if before this"),
        ("\\if 1\nSELECT 1;\n\\else\n\\else\n\\endif", "s.sql:4:1: nothing but \\endif can follow \\else"),
        ("\\if 1\nSELECT 1;\n\\endif now", "nothing can stand behind this"),
        ("\\gset\nSELECT 1;", "s.sql:1:1: \\gset stands behind a statement with rows"),
        ("SELECT * FROM t \\gset", "the names of the columns cannot be told"),
        ("SELECT 1 \\gset", "the names of the columns cannot be told"),
        ("SELECT a FROM t \\gset a b", "write \\gset or \\gset prefix"),
        ("SELECT a FROM t \\gset\n\\gset", "are kept already"),
        ("\\sleep\nSELECT 1;", "write \\sleep number [us|ms|s]"),
        ("\\sleep 5 min\nSELECT 1;", "`min` is not an unit of time"),
        ("\\sleep 4000 s\nSELECT 1;", "`4000` is no time to sleep"),
        ("SELECT $1;", "s.sql:1:8: parameters have names here"),
        ("BEGIN; SELECT 1; COMMIT AND CHAIN;", "s.sql:1:18: `AND CHAIN` is not supported"),
    ] {
        let error = parsed(text).err().unwrap_or_else(|| panic!("it was taken: {text}")).to_string();
        assert!(error.contains(expect), "{text}: {error}");
    }
}

/// How pgbench's own scripts are understood, and everything that a script can be written with.
#[test]
fn scripts_are_understood_as_pgbench_does() {
    let count = |text: &str| parsed(text).unwrap_or_else(|error| panic!("{text}: {error}")).programs[0].steps.len();
    assert_eq!(count("SELECT 1;"), 1);
    assert_eq!(count("SELECT 1"), 1, "the last semicolon can be missing");
    assert_eq!(count("-- a comment; \\set\nSELECT\n  1 -- one\n  ;\n\n;"), 1);
    assert_eq!(count("\\set x 1 + \\\n  2\nSELECT :x;"), 2, "a line goes on");
    assert_eq!(count("\\set x 1\r\nSELECT :x;\r\n"), 2);
    assert_eq!(count("SELECT a FROM t;\n\\gset\nSELECT :a;"), 2);
    assert_eq!(count("SELECT a FROM t \\gset one_\nSELECT :one_a;"), 2);
    assert_eq!(count("\\sleep 1 ms\n\\sleep 10us\n\\sleep :scale\nSELECT 1;"), 4);
    assert_eq!(count("BEGIN; SELECT 1; END;"), 3);
    assert_eq!(count("\\if :scale = 1\nSELECT 1;\n\\elif :client_id\nSELECT 2;\n\\else\nSELECT 3;\n\\endif"), 7);
    assert_eq!(count("SELECT '12:30:00'::time, a[1:2], x::int;"), 1);
    let accounts = parsed("SELECT abalance FROM public.PGBENCH_accounts;").unwrap();
    assert_eq!((&accounts.tables, accounts.writes), (&Tables::Pgbench, Writes::Nothing));
    let other = parsed("INSERT INTO t VALUES (1);").unwrap();
    assert_eq!((&other.tables, other.writes), (&Tables::Given, Writes::Grows));
}

/// Each use of a variable is a separate parameter, as pgbench sends it.
#[test]
fn parameters_are_numbered_by_their_uses() {
    let parsed = parsed("\\set a 1\nSELECT :a, :a;").unwrap();
    let ProgramStep::Execute(execute) = &parsed.programs[0].steps[1] else { panic!("a statement") };
    assert_eq!((execute.sql.as_str(), &execute.parameters[..]), ("SELECT $1, $2", &[4, 4][..]));
}
