//! Workloads from files: which files are refused and with which place, and the statements that clients send.

mod fake;
mod sent;
mod wrong;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::benchmark::Writes;
use crate::registry;
use fake::Server;

/// A separate folder for each test, which is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("plimsoll-file-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Writes a file and returns the kind of workload that it makes.
    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), text).unwrap();
        format!("{PREFIX}{}", self.0.join(name).display())
    }

    /// A message without the folder's own path.
    fn without_path(&self, message: &str) -> String {
        message.replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Editors of Windows save UTF-8 with a mark of byte order, which was a syntax error in the first statement.
#[test]
fn a_mark_of_byte_order_is_no_part_of_a_file() {
    let folder = Folder::new();
    let marked = |text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat();
    for (name, text) in [("a.sql", "SELECT 1;\n"), ("b.toml", SHOP)] {
        let kind = folder.file(name, marked(text));
        let made = registry::benchmark(&kind, 7);
        assert!(made.is_ok(), "{name}: {}", made.err().map(|error| error.to_string()).unwrap_or_default());
    }
}

const SHOP: &str = r#"
name = "shop"
scale = 2
setup = """
CREATE TABLE item (id int); -- one; not two
INSERT INTO item SELECT generate_series(1, 1000 * :scale);
"""

[[check]]
what = "all items are there"
sql = "SELECT count(*) FROM item"
expect = 2000

[[transaction]]
name = "read"
parameters.id = { uniform = [1, "1000 * :scale"] }
statements = ["SELECT * FROM item WHERE id = :id"]
"#;

#[test]
fn names_scales_and_data_are_what_the_file_says() {
    let folder = Folder::new();
    let kind = folder.file("a:b,c.toml", SHOP);
    let (shop, scale) = registry::benchmark(&kind, 7).unwrap();
    assert_eq!((shop.name(), &*shop.schema().name, scale), ("shop", "file_shop", 2.0));
    assert_eq!(shop.transactions(), ["read"]);
    assert_eq!(shop.writes(), Writes::Nothing);
    assert!(shop.data().starts_with("file_shop:2:"), "{}", shop.data());
    let with = |scale: Option<f64>, parameters: serde_json::Value, seed| {
        registry::make(&kind, scale, &serde_json::from_value(parameters).unwrap(), seed)
            .map(|made| (made.0.data(), made.1))
    };
    let none = serde_json::json!({});
    assert_eq!(with(None, none.clone(), 8).unwrap().0, shop.data(), "the setup does not look at the seed");
    assert_eq!(with(Some(3.0), none.clone(), 7).unwrap().1, 3.0);
    assert_eq!(with(Some(3.0), serde_json::json!({ "scale": 4 }), 7).unwrap().1, 4.0);
    assert_ne!(with(Some(3.0), none, 7).unwrap().0, shop.data());
    let error = with(None, serde_json::json!({ "rows": 4 }), 7).unwrap_err().to_string();
    assert!(error.contains("has no parameter `rows`; there is `scale`"), "{error}");
    let changed = folder.file("changed.toml", SHOP.replace("count(*)", "count(id)"));
    assert_ne!(registry::benchmark(&changed, 7).unwrap().0.data(), shop.data(), "another file is another workload");
}

/// A file is read once, even if it changes afterwards: all runs of an experiment have the same workload.
#[test]
fn a_file_is_read_once() {
    let folder = Folder::new();
    let kind = folder.file("shop.toml", SHOP);
    let catalog = registry::Catalog::new(7);
    let made = |scale| catalog.get(&kind, scale, &BTreeMap::new()).unwrap().0;
    let first = made(None);
    folder.file("shop.toml", "nonsense");
    assert!(std::sync::Arc::ptr_eq(&made(None), &first));
    assert!(std::sync::Arc::ptr_eq(&made(Some(2.0)), &first), "the file's own scale");
    let other = made(Some(3.0));
    assert_ne!(other.data(), first.data());
    assert_eq!(other.transactions()[0].as_ptr(), first.transactions()[0].as_ptr(), "another scale of the same file");
    assert_eq!(first.files()[0].text, SHOP);
}

/// Story: workloads that were read from files stayed in memory until the process ended, even after their experiments.
#[test]
fn a_workload_goes_when_its_last_user_does() {
    let folder = Folder::new();
    let kind = folder.file("shop.toml", SHOP);
    let definitions = Definitions::default();
    let paths = kind.trim_start_matches(PREFIX);
    let definition = std::sync::Arc::downgrade(&definitions.read(paths).unwrap());
    let (benchmark, _) = definitions.make(paths, None, 7).unwrap();
    let client = benchmark.client(0, 7);
    drop((definitions, benchmark));
    assert!(definition.upgrade().is_some(), "its client runs");
    drop(client);
    assert!(definition.upgrade().is_none());
}

/// An experiment's files are kept beside it, even if they do not form a valid workload.
#[test]
fn files_are_listed_without_a_workload_made_of_them() {
    let folder = Folder::new();
    folder.file("setup.sql", "CREATE TABLE t ();");
    let kind = folder.file("w.toml", "setup_file = \"setup.sql\"\n[[transaction]]\nname = \"a\"\nstatements = []\n");
    assert!(registry::benchmark(&kind, 7).is_err(), "it has no statements");
    let texts: Vec<String> = files(&kind).unwrap().unwrap().into_iter().map(|file| file.text).collect();
    assert_eq!((texts.len(), texts[1].as_str()), (2, "CREATE TABLE t ();"));
    assert!(files(&folder.file("none.toml", "nonsense")).unwrap().is_err());
    assert_eq!(files("tpcc"), None);
}

#[test]
fn kinds_are_anchored_in_a_folder() {
    let check = |kind: &str, expect: &str| assert_eq!(anchored(kind, Path::new("some/folder")), expect);
    check("tpcc", "tpcc");
    check("file:shop.toml", "file:some/folder/shop.toml");
    check("file:../shop.toml", "file:some/folder/../shop.toml");
    check("file:/shop.toml", "file:/shop.toml");
    check("file:a.sql@3,b.sql", "file:some/folder/a.sql@3,some/folder/b.sql");
    check("file:a,b.toml", "file:some/folder/a,b.toml");
}

#[test]
fn what_runs_do_to_the_data_is_told_or_seen() {
    let check = |statement: &str, told: &str, expect: Writes| {
        let text = format!("{told}\n[[transaction]]\nname = \"a\"\nstatements = [\"{statement}\"]");
        let folder = Folder::new();
        assert_eq!(registry::benchmark(&folder.file("a.toml", text), 7).unwrap().0.writes(), expect, "{statement}");
    };
    check("SELECT 1", "", Writes::Nothing);
    check("UPDATE t SET a = 1", "", Writes::Grows);
    check("UPDATE t SET a = 1", "writes = 'in place'", Writes::InPlace);
    check("SELECT f()", "writes = 'grows'", Writes::Grows);
}

/// The setup statement by statement, each with its place; then every statement is tried; then values are read.
#[test]
fn a_workload_is_loaded_and_looked_at_before_it_runs() {
    let folder = Folder::new();
    let text = format!("{SHOP}parameters.key = {{ query = \"SELECT id FROM item\" }}\n")
        .replace(":id\"]", ":id OR id = :key\"]");
    let (shop, _) = registry::benchmark(&folder.file("shop.toml", text), 7).unwrap();
    let server = Server::answering(&[("SELECT id FROM item", &["3", "1", "2"])]);
    server.load(&*shop).unwrap();
    shop.prepare(&server).unwrap();
    let said = server.said();
    assert_eq!(
        said,
        [
            "create file_shop",
            "script CREATE TABLE item (id int)",
            "script INSERT INTO item SELECT generate_series(1, 1000 * 2)",
            "finish file_shop",
            "query SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
            "script PREPARE plimsoll_check AS SELECT * FROM item WHERE id = $1 OR id = $2 ; DEALLOCATE plimsoll_check",
            "query SELECT id FROM item",
        ]
    );
    let failing = Server::failing("INSERT INTO item");
    let error = folder.without_path(&failing.load(&*shop).unwrap_err().to_string());
    let expect =
        "shop.toml:6: the setup failed: no such thing; it was `INSERT INTO item SELECT generate_series(1, 1000 * 2)`";
    assert_eq!(error, expect);
    let error = folder.without_path(&Server::failing("PREPARE").prepare_error(&*shop));
    assert_eq!(
        error,
        "shop.toml:17: statement `read.1`: no such thing; it is `SELECT * FROM item WHERE id = :id OR id = :key`"
    );
}

/// Story: a shop's payments matter more than its other transactions. Only the whole workload could have a priority, or
/// a random share of all its transactions.
#[test]
fn a_transaction_has_the_priority_that_its_table_says() {
    let folder = Folder::new();
    let text = "[[transaction]]\nname = \"pay\"\npriority = \"high:0.5\"\nstatements = [\"SELECT 1\"]\n\
                [[transaction]]\nname = \"report\"\nstatements = [\"SELECT 2\"]\n";
    let (made, _) = registry::benchmark(&folder.file("shop.toml", text), 7).unwrap();
    assert_eq!(made.priorities(), [Some("high:0.5".parse().unwrap()), None]);
    for (name, wrong, expect) in [
        ("a.toml", "urgent", "a.toml:3:12: `urgent` is no priority"),
        ("b.toml", "report=high", "b.toml:3:12: this is the priority of one transaction, so it names no other"),
        ("c.toml", "high:0.1 of clients", "c.toml:3:12: this is the priority of one transaction, and `of clients`"),
    ] {
        let text = text.replace("high:0.5", wrong);
        let error = registry::benchmark(&folder.file(name, text), 7).err().unwrap().to_string();
        assert!(folder.without_path(&error).contains(expect), "{error}");
    }
}

#[test]
fn checks_tell_what_is_wrong() {
    let folder = Folder::new();
    let text = r#"
[[check]]
what = "count"
sql = "SELECT 1000 * :scale"
expect = 1000
[[check]]
what = "orphans"
sql = "SELECT orphan"
expect = "no rows"
[[check]]
what = "sums"
sql = "SELECT a"
equal = "SELECT b"
[[transaction]]
name = "a"
statements = ["SELECT 1"]
"#;
    let (made, _) = registry::benchmark(&folder.file("c.toml", text), 7).unwrap();
    let lines = |answers: &[(&'static str, &'static [&'static str])]| {
        let lines = made.check(&Server::answering(answers)).unwrap();
        lines.into_iter().map(|line| (line.holds, folder.without_path(&line.found))).collect::<Vec<_>>()
    };
    let (ok, bad) = (Some(true), Some(false));
    let told = |holds, text: &str| (holds, text.to_owned());
    assert_eq!(
        lines(&[("SELECT 1000 * 1", &["1000.00"]), ("SELECT a", &["1", "2"]), ("SELECT b", &["1", "2.0"])]),
        [told(ok, "1000.00"), told(ok, "no rows"), told(ok, "2 equal rows")]
    );
    assert_eq!(
        lines(&[("SELECT 1000 * 1", &["999"]), ("SELECT orphan", &["7"]), ("SELECT a", &["1"]), ("SELECT b", &["2"])]),
        [told(bad, "999, expected 1000"), told(bad, "1 rows, as ('7')"), told(bad, "('1'), expected ('2')")]
    );
    let error = made.check(&Server::failing("SELECT 1000")).unwrap();
    assert_eq!(folder.without_path(&error[0].found), "c.toml:4: no such thing");
}

/// As `pgbench -i -s 7` makes them; existing tables are the user's and stay.
#[test]
fn the_tables_of_pgbench_are_made_where_there_are_none() {
    let folder = Folder::new();
    let kind = folder
        .file("s.sql", "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;");
    let (made, _) = registry::make(&kind, Some(7.0), &BTreeMap::new(), 1).unwrap();
    let server = Server::answering(&[]);
    server.load(&*made).unwrap();
    let said = server.said();
    let inserts: Vec<&String> = said.iter().filter(|said| said.contains("generate_series")).collect();
    assert_eq!(inserts.len(), 4, "{inserts:?}");
    assert!(inserts[0].contains("generate_series(1, 7)") && inserts[1].contains("generate_series(1, 70)"));
    assert!(
        inserts[2].contains("generate_series(1, 500000)") && inserts[3].contains("generate_series(500001, 700000)")
    );
    let there = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('pgbench_accounts')";
    let server = Server::answering(&[(there, &["1"])]);
    server.load(&*made).unwrap();
    assert_eq!(server.said(), [format!("query {there}")]);
    let error = registry::make(&kind, Some(1.5), &BTreeMap::new(), 1).err().unwrap().to_string();
    assert!(error.contains("it has no scale 1.5; give a whole number above 0"), "{error}");
}

/// The reference database has neither SQL nor tables that are declared.
#[test]
fn a_target_that_keeps_no_tables_of_users_is_refused() {
    let folder = Folder::new();
    let good = SHOP
        .replace("SELECT generate_series(1, 1000 * :scale)", "SELECT n FROM generate_series(1, 1000 * :scale) AS n");
    for (name, text, expect) in [
        ("a.sql", "SELECT 1;", "the workload uses tables that a server has"),
        ("a.toml", SHOP, "a.toml:6: the setup: rows are inserted by VALUES"),
        ("b.toml", &good, "this target keeps no tables of a user's own; use `--target postgres:`"),
    ] {
        let (made, _) = registry::benchmark(&folder.file(name, text), 7).unwrap();
        let database = crate::memory::MemoryDatabase::new();
        let error = fake::load(&*made, &database).unwrap_err().to_string();
        assert!(folder.without_path(&error).contains(expect), "{error}");
    }
}

/// The files that the guide shows are good.
#[test]
fn the_examples_of_the_guide_can_be_read() {
    let examples: Vec<PathBuf> =
        fs::read_dir("../../docs/examples").unwrap().map(|entry| entry.unwrap().path()).collect();
    // `plimsoll*.toml` are settings of the governor, `machines.toml` is a catalogue.
    let is_workload = |path: &&PathBuf| {
        let name = path.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
        let is_other = name.starts_with("plimsoll") || name == "machines";
        !is_other && path.extension().is_some_and(|one| one == "toml" || one == "sql")
    };
    let workloads = examples.iter().filter(is_workload);
    let mut count = 0;
    for path in workloads {
        let made = registry::benchmark(&format!("{PREFIX}{}", path.display()), 7);
        assert!(made.is_ok(), "{}", made.err().unwrap());
        count += 1;
    }
    assert!(count >= 4, "{examples:?}");
}

/// Reports over a shop's tables: both workloads find each other's rows.
#[test]
fn a_workload_can_use_the_tables_of_another_one() {
    let folder = Folder::new();
    let shop = folder.file("shop.toml", SHOP);
    let text = r#"
tables_of = "shop.toml"
[[transaction]]
name = "sum"
read_only = true
statements = ["SELECT count(*) FROM item"]
"#;
    let reports = folder.file("reports.toml", text);
    let [(shop, _), (reports, scale)] = [&shop, &reports].map(|kind| registry::benchmark(kind, 7).unwrap());
    assert_eq!((reports.name(), scale, reports.writes()), ("reports", 2.0, Writes::Nothing));
    assert_eq!((&reports.schema().name, reports.data()), (&shop.schema().name, shop.data()));
    let names: Vec<_> = reports.files().into_iter().map(|file| file.path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["reports.toml", "shop.toml"]);
    let kind = format!("{PREFIX}{}", folder.0.join("reports.toml").display());
    assert_eq!(files(&kind).unwrap().unwrap().len(), 2, "a run directory keeps both");
    let refused = |text: &str| {
        let kind = folder.file("wrong.toml", text);
        folder.without_path(&registry::benchmark(&kind, 7).err().unwrap().to_string())
    };
    let twice = text.replace("[[", "setup = \"CREATE TABLE a (id int)\"\n[[");
    assert!(refused(&twice).contains("there is `tables_of` and a setup"), "{}", refused(&twice));
    let chain = text.replace("shop.toml", "reports.toml");
    assert!(refused(&chain).contains("name the one with the setup"), "{}", refused(&chain));
    let gone = text.replace("shop.toml", "none.toml");
    assert!(refused(&gone).contains("none.toml"), "{}", refused(&gone));
}
