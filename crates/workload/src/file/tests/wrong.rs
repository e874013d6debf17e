//! Files that cannot be used: each is refused with the place of the fault and the remedy.

use plimsoll_testing::says;

use super::*;

/// A valid file into which tests put faults.
const GOOD: &str = r#"name = "good"
[[transaction]]
name = "a"
parameters.x = { uniform = [1, 10] }
statements = ["SELECT :x"]
"#;

fn refused(text: &str) -> String {
    let folder = Folder::new();
    let kind = folder.file("w.toml", text);
    let error = registry::benchmark(&kind, 7).err().unwrap_or_else(|| panic!("it was taken:\n{text}"));
    folder.without_path(&error.to_string())
}

/// Replaces a part of the good file by something wrong.
#[track_caller]
fn check(part: &str, wrong: &str, expect: &str) {
    assert!(GOOD.contains(part), "{part}");
    says(wrong, &refused(&GOOD.replacen(part, wrong, 1)), expect);
}

#[test]
fn keys_and_values_that_mean_nothing() {
    assert!(registry::benchmark(&Folder::new().file("w.toml", GOOD), 7).is_ok());
    check(
        "name = \"good\"",
        "nam = \"good\"",
        "w.toml:1:1: there is no key `nam` here (did you mean `name`?); there are",
    );
    check("name = \"a\"", "nome = \"a\"", "w.toml:3:1: there is no key `nome` here (did you mean `name`?)");
    check("uniform", "unifrom", "w.toml:4:18: there is no key `unifrom` here (did you mean `uniform`?)");
    check("name = \"good\"", "name = \"go od\"", "w.toml:1:8: `go od` is not a valid name");
    check("name = \"good\"", "writes = \"all\"", "w.toml:1:10: unknown variant `all`");
    check("name = \"good\"", "scale = 0", "w.toml:1:9: `scale` is a number above 0; this is 0");
    check("name = \"good\"", "scale = \"2\"", "w.toml:1:9:");
    check("name = \"a\"", "name = \"a\"\nweight = 0", "w.toml:4:10: `weight` is a number above 0; this is 0");
    check("name = \"a\"", "name = \"a\"\nweight = nan", "w.toml:4:10: `weight` is a number above 0; this is NaN");
    check("name = \"a\"", "name = \"1 a\"", "w.toml:3:8: `1 a` is not a valid name");
    check("name = \"a\"\n", "", "there is no `name`");
    check("[[transaction]]", "[transaction]", "w.toml:2");
    check("[\"SELECT :x\"]", "[]", "`a` has no statements");
    check("[\"SELECT :x\"]", "[5]", "w.toml:5:15:");
    check(
        "name = \"a\"",
        "name = \"a\"\nread_only = true\ntransaction = false",
        "w.toml:4:13: `read_only` is a property",
    );
    assert!(refused("name = \"x\"").contains("there is no [[transaction]]"));
    assert!(refused("name = ").contains("w.toml:1:"));
    let twice = format!("{GOOD}{}", GOOD.split_once('\n').unwrap().1);
    assert!(refused(&twice).contains("w.toml:7:8: two transactions are called `a`"));
}

#[test]
fn parameters_and_their_generators() {
    check(":x\"]", ":y\"]", "w.toml:5:23: there is no parameter `:y` (did you mean `x`?); there are `x`, `scale`");
    check("SELECT :x", "SELECT 1", "w.toml:4:12: no statement uses `:x`");
    check("[1, 10]", "[10, 1]", "w.toml:4:16: `:x` at scale 1: no number lies between 10 and 1");
    check("[1, 10]", "[1]", "w.toml:4:");
    check("[1, 10]", "[1, \"10 * :scal\"]", "w.toml:4:16: `10 * :scal`: `:scal` is not known here; there is `:scale`");
    check("[1, 10]", "[1, \"10 *\"]", "`10 *`: here a value is missing");
    check("[1, 10]", "[1, \"random(1, 5)\"]", "is random; a bound is the same for every draw");
    check("[1, 10]", "[1, \"10.5\"]", "10.5 is not a whole number");
    check("[1, 10]", "[1, 10], zipf = [1, 2]", "w.toml:4:16: it has both `uniform` and `zipf`");
    check("[1, 10]", "[1, 10], exponent = 1", "`exponent` means nothing with `uniform`");
    check("{ uniform = [1, 10] }", "{ }", "w.toml:4:16: it does not say what is drawn");
    check("uniform = [1, 10]", "zipf = [1, 10], exponent = -1", "`exponent` is a number from 0 to 1000");
    check("uniform = [1, 10]", "one_of = []", "`one_of` is an empty list");
    check("uniform = [1, 10]", "sequence = 1, step = 0", "`step` is not 0");
    check("uniform = [1, 10]", "text = [5, 4]", "a text has from 0 to 10000000 characters");
    check("uniform = [1, 10]", "text = -1", "a text has from 0 to 10000000 characters");
    check("uniform = [1, 10]", "query = \"SELECT :y\"", "w.toml:4:34: `:y` is not known here");
    check("uniform = [1, 10]", "query = \" \"", "here is no SQL");
    check("parameters.x", "parameters.scale", "`:scale` is there in every workload");
    check("parameters.x", "parameters.\"x y\"", "`x y` is not a valid name");
    check("name = \"good\"", "parameters.z = { constant = 1 }", "w.toml:1:12: no statement uses `:z`");
    check("name = \"good\"", "parameters.z = { result = \"a.b\" }", "a result belongs to one transaction");
}

#[test]
fn statements() {
    check("SELECT :x", "SELECT $1, :x", "w.toml:5:23: parameters have names here");
    check("SELECT :x", "SELECT :x; SELECT 2", "w.toml:5:27: here a second statement begins");
    check("SELECT :x", "BEGIN", "`BEGIN` is done by Plimsoll around the statements");
    check("\"SELECT :x\"", "{ nam = \"b\", sql = \"SELECT :x\" }", "w.toml:5:17: there is no key `nam`");
    check("\"SELECT :x\"", "{ name = \"b c\", sql = \"SELECT :x\" }", "w.toml:5:24: `b c` is not a valid name");
    let twice = "{ name = \"b\", sql = \"SELECT :x\" }, { name = \"b\", sql = \"SELECT 2\" }";
    check("\"SELECT :x\"", twice, "`a` has two statements called `b`");
    // In a text of several lines the place is that within it.
    let long = refused("[[transaction]]\nname = \"a\"\nstatements = [\"\"\"\nSELECT 1,\n  :y\n\"\"\"]");
    assert!(long.contains("w.toml:5:3: there is no parameter `:y`"), "{long}");
}

/// A statement can use results of earlier statements only, so that no circle can be closed.
#[test]
fn results() {
    let with = |result: &str, statements: &str| {
        refused(&format!(
            "[[transaction]]\nname = \"a\"\nparameters.x = {{ result = \"{result}\" }}\nstatements = [{statements}]"
        ))
    };
    let first = "{ name = \"first\", sql = \"SELECT 1 AS one\" }";
    let uses = "{ name = \"second\", sql = \"SELECT :x AS two\" }";
    for (result, statements, expect) in [
        ("second.two", format!("{first}, {uses}"), "`:x`: `second` cannot use its own result"),
        ("later.b", format!("{uses}, {{ name = \"later\", sql = \"SELECT 1 AS b\" }}"), "`later` comes later"),
        ("frist.one", format!("{first}, {uses}"), "no statement here is called `frist` (did you mean `first`?)"),
        ("first.on", format!("{first}, {uses}"), "`first` has no column `on` (did you mean `one`?)"),
        ("first.0", format!("{first}, {uses}"), "columns are counted from 1"),
        ("first.2", format!("{first}, {uses}"), "`first` has 1 columns, and no column 2"),
        ("first", format!("{first}, {uses}"), "`first` names no result; write `statement.column`"),
        ("all.a", format!("{{ name = \"all\", sql = \"SELECT * FROM t\" }}, {uses}"), "cannot be told from its text"),
    ] {
        says(result, &with(result, &statements), expect);
    }
}

#[test]
fn setups_and_checks() {
    let good = GOOD.replacen("name = \"good\"", "", 1);
    let with = |key: &str| refused(&format!("{key}\n{good}"));
    assert!(
        with("setup = \"SELECT :x\"").contains("w.toml:1:17: `:x` is not known here; there are `:scale` and `:seed`")
    );
    assert!(with("setup_file = \"none.sql\"").contains("none.sql: No such file"));
    assert!(with("setup = \"SELECT 1\"\nsetup_file = \"a\"").contains("leave one of them out"));
    let check = |keys: &str| refused(&format!("{GOOD}[[check]]\nwhat = \"w\"\n{keys}"));
    assert!(check("sql = \"SELECT 1\"").contains("w.toml:6:1: a check has either `expect`"));
    assert!(check("sql = \"SELECT 1\"\nexpect = 1\nequal = \"SELECT 1\"").contains("a check has either `expect`"));
    assert!(check("sql = \"SELECT 1; SELECT 2\"\nexpect = 1").contains("a second statement begins"));
    assert!(check("expect = 1").contains("there is no `sql`"));
}

#[test]
fn files_that_are_none() {
    let folder = Folder::new();
    let error = |kind: &str| folder.without_path(&registry::benchmark(kind, 7).err().unwrap().to_string());
    assert!(error("file:").contains("no file is named; write for example file:shop.toml"));
    assert!(error("file").contains("there is no workload `file`"));
    assert!(error("file:/nowhere/a.toml").contains("/nowhere/a.toml: No such file"));
    assert!(
        error(&folder.file("a.txt", GOOD)).contains("a.txt: it is neither a TOML file (.toml) nor a pgbench script")
    );
    let bytes = [b"name = \"\n\xFF\"".as_slice()].concat();
    assert!(error(&folder.file("b.toml", bytes)).contains("b.toml: it is no UTF-8 text: line 2"));
    let huge = vec![b' '; (FILE_BYTES_MAX + 1) as usize];
    assert!(error(&folder.file("c.toml", huge)).contains("c.toml: it has more than 4194304 bytes"));
    fs::create_dir(folder.0.join("d.toml")).unwrap();
    assert!(error(&format!("file:{}", folder.0.join("d.toml").display())).contains("d.toml: Is a directory"));
    let script = folder.file("e.sql", "SELECT 1;");
    assert!(error(&format!("{script}@0")).contains("e.sql: `0` is no weight"));
    assert!(error(&format!("{script}@x")).contains("e.sql: `x` is no weight"));
    assert!(error(&folder.file("empty.sql", "-- nothing")).contains("empty.sql:1:1: there is no SQL statement"));
}
