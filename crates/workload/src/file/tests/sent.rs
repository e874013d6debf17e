//! The statements that clients send.

use super::*;
use crate::benchmark::{Client, Outcome};
use crate::database::DatabaseError;
use crate::statement::Value;

fn client(kind: &str, server: &Server, number: usize) -> Box<dyn Client> {
    let (made, _) = registry::benchmark(kind, 7).unwrap();
    made.prepare(server).unwrap();
    server.said();
    made.client(number, 7)
}

/// Runs a file's only transaction once and returns the statements sent.
fn sent(name: &str, text: &str, server: &Server) -> (Result<Outcome, DatabaseError>, Vec<String>) {
    let folder = Folder::new();
    let mut client = client(&folder.file(name, text), server, 3);
    client.draw();
    let outcome = client.run(&mut server.clone());
    (outcome, server.said())
}

fn one_row(row: &[Value<'static>]) -> Result<Vec<Vec<Value<'static>>>, DatabaseError> {
    Ok(vec![row.to_vec()])
}

#[test]
fn a_transaction_with_results_of_its_own_statements() {
    let text = r#"
[[transaction]]
name = "order"
parameters.item = { constant = 5 }
parameters.price = { constant = 2.5 }
parameters.fast = { constant = true }
parameters.note = { constant = "it's" }
parameters.order = { result = "new.id" }
parameters.stock = { result = "new.2", default = -1 }
parameters.place = { result = "none.place", default = "nowhere" }
statements = [
  { name = "new", sql = "INSERT INTO o VALUES (:item, :price, :fast, :note) RETURNING id, count(*)" },
  { name = "none", sql = "SELECT p AS place FROM t WHERE i = :item" },
  "INSERT INTO l VALUES (:order, :stock, :place, :item, :client_id, :scale)",
]
"#;
    let server = Server::returning([one_row(&[Value::Text("o-17"), Value::Null])]);
    let (outcome, said) = sent("a.toml", text, &server);
    assert_eq!(outcome, Ok(Outcome::Committed));
    assert_eq!(
        said,
        [
            "begin",
            "execute INSERT INTO o VALUES ($1, $2, $3, $4) RETURNING id, count(*) <- 5, '2.5', 'true', 'it's'",
            "execute SELECT p AS place FROM t WHERE i = $1 <- 5",
            "execute INSERT INTO l VALUES ($1, $2, $3, $4, $5, $6) <- 'o-17', null, 'nowhere', 5, 3, 1",
            "commit",
        ]
    );
    // Without a default, a missing row is an error.
    let text = text.replace("{ result = \"none.place\", default = \"nowhere\" }", "{ result = \"none.place\" }");
    let server = Server::returning([one_row(&[Value::Int(1), Value::Int(2)])]);
    let (outcome, said) = sent("a.toml", &text, &server);
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("a.toml:13: `order.none` found no row, so that `:place` has no value"), "{error}");
    assert_eq!(said.last().map(String::as_str), Some("rollback"));
}

#[test]
fn autocommit_and_read_only() {
    let text = "[[transaction]]\nname = \"a\"\ntransaction = false\nstatements = [\"SELECT 1\", \"SELECT 2\"]";
    let (_, said) = sent("a.toml", text, &Server::default());
    assert_eq!(said, ["execute SELECT 1", "execute SELECT 2"]);
    let text = "[[transaction]]\nname = \"a\"\nread_only = true\nstatements = [\"SELECT 1\"]";
    let (_, said) = sent("a.toml", text, &Server::default());
    assert_eq!(said, ["begin", "execute SET TRANSACTION READ ONLY", "execute SELECT 1", "commit"]);
}

#[test]
fn mistakes_in_sql_are_told_with_statement_parameters_and_place() {
    let text = "[[transaction]]\nname = \"a\"\nparameters.x = { constant = \"y\" }\nstatements = [\n\"SELECT  1\",\n\"INSERT INTO t\n VALUES (:x)\"]";
    let text = text.replace("\"INSERT INTO t\n VALUES (:x)\"", "\"\"\"\nINSERT INTO t\n VALUES (:x)\"\"\"");
    let failing = || Server::returning([Ok(Vec::new()), Err(DatabaseError::Failed("no table t".to_owned()))]);
    let (outcome, said) = sent("a.toml", &text, &failing());
    let error = outcome.unwrap_err().to_string();
    let expect = "a.toml:7: statement `a.2` failed: no table t; it was `INSERT INTO t VALUES (:x)` with :x = 'y'";
    assert!(error.ends_with(expect), "{error}");
    assert_eq!(said.len(), 3, "the database has rolled back already: {said:?}");
    // An error that a retry may mend is returned unchanged, unless the file says otherwise.
    let deadlock = || Server::returning([Err(DatabaseError::Deadlock)]);
    assert_eq!(sent("a.toml", &text, &deadlock()).0, Err(DatabaseError::Deadlock));
    let once = text.replace("name = \"a\"", "name = \"a\"\nretry = false");
    let error = sent("a.toml", &once, &deadlock()).0.unwrap_err();
    assert_eq!(error.to_string(), "`a` is not run again, as its file says: deadlock detected");
    assert!(error.code() == Some("40P01") && !error.is_retryable(), "{error:?}");
}

const MIX: &str = r#"
parameters.id = { zipf = [1, 1000] }
[[transaction]]
name = "a"
weight = 3
statements = ["SELECT :id"]
[[transaction]]
name = "b"
parameters.word = { text = [1, 9] }
parameters.next = { sequence = 1 }
parameters.key = { query = "SELECT id FROM t" }
statements = ["SELECT :id, :word, :next, :key"]
"#;

fn requests(kind: &str, keys: &'static [&'static str], number: usize, count: usize) -> (Vec<String>, usize) {
    let server = Server::answering(&[("SELECT id FROM t", keys)]);
    let mut client = client(kind, &server, number);
    let mut of_a = 0;
    for _ in 0..count {
        of_a += usize::from(client.draw() == 0);
        client.run(&mut server.clone()).unwrap();
    }
    (server.said(), of_a)
}

#[test]
fn equal_seeds_give_equal_requests_and_weights_count() {
    let folder = Folder::new();
    let kind = folder.file("mix.toml", MIX);
    let (one, of_a) = requests(&kind, &["x", "z", "y"], 1, 2_000);
    assert!((1_400..1_600).contains(&of_a), "{of_a} of 2000");
    assert_eq!(requests(&kind, &["z", "y", "x"], 1, 2_000).0, one, "whatever the order in which values are found");
    assert_ne!(requests(&kind, &["x", "z", "y"], 2, 2_000).0, one);
}

/// A request that is run again has the same input, and the following requests are as if it had been run once.
#[test]
fn another_attempt_sends_the_same() {
    let folder = Folder::new();
    let script = "\\set n random(1, 1000000)\n\\set kept :kept + 1\nBEGIN;\nSELECT :n, :kept;\n\
                  UPDATE t SET a = :n RETURNING a AS kept \\gset\nEND;\n";
    for kind in [folder.file("mix.toml", MIX), folder.file("s.sql", script)] {
        let (once, twice) =
            (Server::answering(&[("SELECT id FROM t", &["1"])]), Server::answering(&[("SELECT id FROM t", &["1"])]));
        let (mut straight, mut again) = (client(&kind, &once, 0), client(&kind, &twice, 0));
        for _ in 0..20 {
            let row = || one_row(&[Value::Int(5)]);
            once.next([Ok(Vec::new()), row()]);
            straight.draw();
            straight.run(&mut once.clone()).unwrap();
            again.draw();
            twice.next([Ok(Vec::new()), row()]);
            again.run(&mut twice.clone()).unwrap();
            let first = twice.said();
            twice.next([Ok(Vec::new()), row()]);
            again.run(&mut twice.clone()).unwrap();
            assert_eq!(twice.said(), first);
            assert_eq!(once.said(), first);
        }
    }
}

#[test]
fn scripts_send_what_they_say() {
    let tpcb = "\\set aid random(5, 5)\n\\set delta 10 - 20\nBEGIN;\n\
                UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
                SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;";
    let (outcome, said) = sent("tpcb.sql", tpcb, &Server::default());
    assert_eq!(outcome, Ok(Outcome::Committed));
    assert_eq!(
        said,
        [
            "begin",
            "execute UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2 <- -10, 5",
            "execute SELECT abalance FROM pgbench_accounts WHERE aid = $1 <- 5",
            "commit",
        ]
    );
}

#[test]
fn conditions_choose_what_is_sent() {
    let script = "SELECT 4 AS x, 't' AS y \\gset p_\n\\if :p_x > 5\nSELECT 'large';\n\\elif :p_x = 4 and :p_y\n\\if false\n\
                  SELECT 'never';\n\\else\nSELECT 'four';\n\\endif\n\\else\nSELECT 'small';\n\\endif\nSELECT :p_x / 2.0;";
    let of = |x: i64| {
        let server = Server::returning([one_row(&[Value::Int(x), Value::Text("t")])]);
        sent("if.sql", script, &server).1[1].clone()
    };
    assert_eq!(of(6), "execute SELECT 'large'");
    assert_eq!(of(4), "execute SELECT 'four'");
    assert_eq!(of(1), "execute SELECT 'small'");
}

#[test]
fn transactions_of_scripts() {
    let said = |script: &str| sent("t.sql", script, &Server::default());
    let (_, modes) = said("begin isolation level repeatable read, read only; SELECT 1; commit work;");
    assert_eq!(modes[..2], ["begin", "execute SET TRANSACTION isolation level repeatable read, read only"]);
    assert_eq!(modes[3], "commit");
    let (outcome, rolled_back) = said("START TRANSACTION; SELECT 1; SAVEPOINT s; ROLLBACK TO SAVEPOINT s; ABORT;");
    assert_eq!(outcome, Ok(Outcome::RolledBack));
    assert_eq!(rolled_back[2..], ["execute SAVEPOINT s", "execute ROLLBACK TO SAVEPOINT s", "rollback"]);
    let (outcome, said) = said("BEGIN; SELECT 1;");
    assert!(outcome.unwrap_err().to_string().contains("`t` ends within a transaction"));
    assert_eq!(said.last().map(String::as_str), Some("rollback"));
}

#[test]
fn faults_of_a_running_script_have_their_place() {
    let error = |script: &str, server: &Server| sent("f.sql", script, server).0.unwrap_err().to_string();
    let two = || Server::returning([Ok(vec![vec![Value::Int(1)], vec![Value::Int(2)]])]);
    assert!(error("\nSELECT a FROM t \\gset", &two()).ends_with("f.sql:2: \\gset needs one row, and there are 2"));
    assert!(error("\\set x 1 / (:client_id - 3)\nSELECT :x;", &two()).ends_with("f.sql:1: division by zero"));
    assert!(
        error("SELECT a FROM t \\aset\n\\sleep :a s\nSELECT 1;", &Server::default())
            .contains("f.sql:2: NULL is no time")
    );
    let (outcome, said) = sent("f.sql", "SELECT a FROM t \\aset\nSELECT :a;", &two());
    assert!(outcome.is_ok());
    assert_eq!(said[1], "execute SELECT $1 <- 2");
}

#[test]
fn weights_of_scripts_count() {
    let folder = Folder::new();
    let (a, b) = (folder.file("a.sql", "SELECT 1;"), folder.file("b.sql", "SELECT 2;"));
    let kind = format!("{a}@3,{}@1", b.trim_start_matches(PREFIX));
    let (made, _) = registry::benchmark(&kind, 7).unwrap();
    assert_eq!((made.name(), made.transactions()), ("a_b", vec!["a", "b"]));
    let mut client = made.client(0, 7);
    let of_a = (0..4_000).filter(|_| client.draw() == 0).count();
    assert!((2_850..3_150).contains(&of_a), "{of_a} of 4000");
}
