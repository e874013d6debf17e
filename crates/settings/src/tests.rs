//! Files that are accepted and files that are refused.

mod caches;
mod floors;
mod guards;
mod login;
mod mode;
mod open_doors;
mod rows;
mod targets;

use std::path::{Path, PathBuf};

use plimsoll_testing::certificate;
use tempfile::TempDir;

use crate::read::{Config, ConfigError, Surroundings, parse, read};
use crate::section;
use crate::settings::CpuShare;

const START: &str = "server = \"postgres://db.example:5433\"\n";
const CLASS: &str = "[[class]]\nname = \"a\"\npriority = \"low\"\n";

/// A settings file and its folder.
fn settings_file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plimsoll.toml");
    std::fs::write(&file, text).expect("a file");
    (folder, file)
}

fn read_text(text: &str) -> Result<Config, ConfigError> {
    let environment = |name: &str| match name {
        "USER" => Some("someone".to_owned()),
        "CONSOLE_PASSWORD" => Some("secret".to_owned()),
        _ => None,
    };
    let surroundings = Surroundings { folder: Path::new("."), environment: &environment, classes: &[] };
    parse(text, "x.toml", &surroundings)
}

fn good(text: &str) -> Config {
    read_text(text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

/// The faults, one per line.
fn faults(text: &str) -> String {
    match read_text(text) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// Checks how each line of the text begins.
fn each_begins(told: &str, expect: &[&str]) {
    assert_eq!(told.lines().count(), expect.len(), "{told}");
    for (line, expect) in told.lines().zip(expect) {
        assert!(line.starts_with(expect), "{line}\nis not\n{expect}");
    }
}

/// A file with classes `high` and `low` with these additional lines, and with these lines at its top.
fn file(top: &str, high: &str, low: &str) -> String {
    format!(
        "server = \"postgres://db\"\n{top}\
         [[class]]\nname = \"high\"\npriority = \"high\"\n{high}\n\
         [[class]]\nname = \"low\"\npriority = \"low\"\n{low}\n\
         [[rule]]\nclass = \"high\"\nuser = \"shop\"\n"
    )
}

#[test]
fn the_least_is_enough() {
    let Config { settings, .. } = good(START);
    assert_eq!(settings.server.address(), "db.example:5433");
    assert_eq!(settings.listen.addresses, ["127.0.0.1:6432".parse().expect("an address")]);
    assert_eq!(settings.http.map(|http| http.address.to_string()).as_deref(), Some("127.0.0.1:6433"));
    assert_eq!(settings.admin.database, "plimsoll");
    assert_eq!(settings.preemption.policy.to_string(), "track");
    assert_eq!(settings.preemption.replay_bytes_max, 1 << 20);
    let names: Vec<&str> = settings.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["high", "low"]);
    let (high, low) = (&settings.classes[0], &settings.classes[1]);
    assert_eq!((high.limits.mpl, high.preemptible, high.cpu), (None, false, CpuShare::Prompt));
    assert_eq!((low.preemptible, low.replay, low.cpu), (true, true, CpuShare::Nice(10)));
    assert_eq!(settings.rules.default_class().0, 1, "a session that no rule matches gets the lowest");
}

/// A class without a `cpu` key gets a core at once beside a class with a smaller share, and is otherwise left alone.
#[test]
fn important_classes_are_prompt_beside_one_that_gets_less() {
    let cpu = |classes: &str| -> Vec<String> {
        let config = good(&format!("server = \"postgres://h/d\"\n{classes}"));
        config.settings.classes.iter().map(|class| class.cpu.to_string()).collect()
    };
    let class = |name: &str, priority: &str, rest: &str| {
        format!("[[class]]\nname = \"{name}\"\npriority = \"{priority}\"\n{rest}\n")
    };
    assert_eq!(cpu(""), ["prompt", "nice 10"]);
    assert_eq!(cpu(&class("only", "high", "")), ["untouched"]);
    let low = class("b", "low", "cpu = \"untouched\"");
    assert_eq!(cpu(&(class("a", "high", "") + &low)), ["untouched", "untouched"]);
    let low = class("b", "low", "cpu = \"idle\"");
    assert_eq!(cpu(&(class("a", "high", "cpu = \"untouched\"") + &low)), ["untouched", "idle"]);
}

/// Classes that are promised more connections than a pool has would wait for each other.
#[test]
fn a_pool_has_the_connections_that_its_classes_are_promised() {
    let pool = |size: u32, high: &str, low: &str| {
        let pool = format!("[pool]\nmode = \"transaction\"\nsize = {size}\n[login]\nusers_file = \"users.txt\"\n");
        file("", high, low) + &pool
    };
    let told = faults(&pool(5, "pool_min = 4", "pool_min = 2"));
    for name in ["high", "low"] {
        let expect =
            format!("class `{name}`: the classes' `pool_min` add up to 6, and a pool has 5 connections; raise `size`");
        assert!(told.contains(&expect), "{told}");
    }
    let told = faults(&pool(9, "pool_min = 4\npool_max = 3", ""));
    assert!(told.contains("class `high`: `pool_min` is 4, more than its `pool_max` of 3"), "{told}");
    // What is right is not mentioned: only the users file is missing here.
    let told = faults(&pool(6, "pool_min = 4", "pool_min = 2"));
    assert!(!told.contains("pool_min") && told.contains("users.txt"), "{told}");
}

#[test]
fn the_examples_are_right_and_the_complete_one_has_every_key() {
    let folder = Path::new("../../docs/examples");
    for name in ["plimsoll.toml", "plimsoll-minimal.toml"] {
        let file = folder.join(name);
        let config = read(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let expected = if name == "plimsoll.toml" {
            ["preemption only tracks", "console's user `admin` is that of the sample", "`viewer` is that of the sample"]
                .as_slice()
        } else {
            &["preemption only tracks", "the console has no users"]
        };
        assert_eq!(config.warnings.len(), expected.len(), "{name}: {:?}", config.warnings);
        for (warning, part) in config.warnings.iter().zip(expected) {
            assert!(warning.contains(part), "{name}: {warning}");
        }
    }
    let config = read(&folder.join("plimsoll-reports-agents.toml"), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        config
            .warnings
            .iter()
            .all(|warning| warning.contains("the console has no users") || warning.contains("only tracks")),
        "{:?}",
        config.warnings
    );
    let text = std::fs::read_to_string(folder.join("plimsoll.toml")).expect("the example");
    for (key, ..) in section::keys() {
        let last = key.rsplit('.').next().unwrap_or(&key);
        // Alternative ways of giving a console password, and of naming a statement.
        let is_other_way = ["password", "password_file", "password_variable", "fingerprint"].contains(&last);
        let has = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{last} ="));
        assert!(is_other_way || text.lines().any(has), "the example has no `{key}`");
    }
}

/// One sample claimed two edits and needed three; the other rolled transactions back on its first day.
#[test]
fn the_samples_say_the_same_and_count_the_lines_to_edit() {
    let folder = Path::new("../../docs/examples");
    let texts = ["plimsoll.toml", "plimsoll-minimal.toml"]
        .map(|name| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")));
    for text in &texts {
        let marks = text.lines().filter(|line| line.starts_with("# EDIT: ")).count();
        assert!(text.contains(&format!("# Edit the {marks} lines below \"EDIT\"")), "{marks} lines are marked");
        assert!(text.contains("policy = \"track\""));
    }
    // The paragraphs of the smaller sample also occur in the complete one.
    let keys = |text: &str| -> Vec<String> {
        let is_setting = |line: &&str| !line.is_empty() && !line.starts_with('#');
        text.lines().filter(is_setting).map(str::to_owned).collect()
    };
    let [complete, least] = &texts;
    let all = keys(complete);
    for line in keys(least) {
        assert!(all.contains(&line), "plimsoll.toml does not have `{line}`");
    }
    let (_, body) = least.split_once("\n\n").expect("a head and a body");
    for line in body.lines().filter(|line| line.starts_with('#')) {
        assert!(complete.lines().any(|other| other == line), "plimsoll.toml does not have `{line}`");
    }
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place_and_what_to_do() {
    let text = r#"sever = "postgres://db"
default_class = "hihg"
[listen]
addresses = ["localhost:x"]
clients_max = 0
[[class]]
name = "high"
priority = "urgent"
[[class]]
name = "low"
priority = "low"
queue_timeout = "2 minutes"
mpl = "many"
"#;
    let told = faults(text);
    assert_eq!(told.lines().count(), 7, "{told}");
    assert!(told.contains("x.toml:1:1: there is no key `sever` at the top (did you mean `server`?)"), "{told}");
    assert!(told.contains("x.toml:13:7: "), "{told}");
    let told = faults(&text.replace("sever", "server").replace("mpl = \"many\"\n", ""));
    let expect = [
        "x.toml:2:17: there is no class `hihg`",
        "x.toml:4:14: `localhost:x` is not an address",
        "x.toml:5:15: 0 is not between 1 and 1000000",
        "x.toml:8:12: `urgent` is no priority; write `high`, `low`",
        "x.toml:12:17: `2 minutes` is not a length of time; write a number and us, ms, s, min, h or d",
    ];
    each_begins(&told, &expect);
}

/// An operator's file had `mpl = "many"`, and seven other faults. The check reported only the first, then the next once
/// that was corrected, and so on.
#[test]
fn a_value_of_a_wrong_type_hides_no_other_fault() {
    let text = r#"server = "postgres://db"
default_class = "lwo"
[[class]]
name = "high"
priority = "high"
mpl = "many"
[[class]]
name = "low"
mpl = -1
[[class]]
priority = "low"
[[rule]]
class = "hihg"
user = "shop"
[[rule]]
class = "high"
user = 5
[admission]
mpl = true
[preemption]
policy = "powe"
[listen]
clients_max = 0
login_timeout = "soon"
"#;
    let told = faults(text);
    let expect = [
        "x.toml:2:17: there is no class `lwo`",
        "x.toml:6:7: ",
        "x.toml:7:1: the key `priority` is missing here; add it",
        "x.toml:9:7: -1 is not between 0 and 1000000",
        "x.toml:10:1: the key `name` is missing here; add it",
        "x.toml:13:9: there is no class `hihg` (did you mean `high`?)",
        "x.toml:17:8: ",
        "x.toml:19:7: ",
        "x.toml:21:10: there is no policy `powe`",
        "x.toml:23:15: 0 is not between 1 and 1000000",
        "x.toml:24:17: `soon` is not a length of time",
    ];
    each_begins(&told, &expect);
}

/// `SHOW CONFIG` showed `postgres://root@db:5432/root`, although that user and database are not used: clients bring
/// their own.
#[test]
fn the_server_is_described_without_what_is_not_used() {
    let described = |server: &str| {
        let settings = good(&format!("server = \"{server}\"")).settings;
        settings.described().into_iter().find(|(key, _)| key == "server").expect("it is described").1
    };
    assert_eq!(described("postgres://me:secret@db:5433/mine"), "postgres://db:5433?sslmode=prefer");
    assert_eq!(described("postgres://me@/mine?host=/run/pg"), "postgres:///?host=/run/pg&port=5432");
}

#[test]
fn each_mistake_has_its_remedy() {
    let check = |more: &str, expect: &str| {
        let told = faults(&format!("{START}{more}"));
        assert!(told.contains(expect), "{more}\nis answered with\n{told}\nwithout\n{expect}");
    };
    check("[http]\nadress = \"off\"", "there is no key `adress` in [http] (did you mean `address`?)");
    check("[listen]\nmpl = 3", "there is no key `mpl` in [listen]; it belongs into [[class]] or into [admission]");
    check("[class]\nname = \"x\"", "there can be several: write [[class]], with two brackets");
    check("break_glass = \"dba\"", "there can be several: write break_glass = [\"dba\"]");
    check("admin = \"x\"", "`admin` is a table; write [admin]");
    check("[[rule]]\nclass = \"low\"", "this rule has no condition and matches every session");
    let rule = "[[rule]]\nclass = \"lo\"\nuser = \"a\"";
    check(rule, "there is no class `lo` (did you mean `low`?); there are `high`, `low`");
    check("[[rule]]\nclass = \"low\"\nuser = \"[\"", "`[` is not a pattern");
    check("[[rule]]\nclass = \"low\"\nfingerprint = \"12\"", "write 16 hexadecimal digits");
    let both = "fingerprint = \"0123456789abcdef\"\nstatement = \"select 1\"";
    check(&format!("[[rule]]\nclass = \"low\"\n{both}"), "a rule has a `fingerprint` or a `statement`");
    check(&format!("{CLASS}{CLASS}"), "two classes `a`");
    check("[[class]]\nname = \"a b\"\npriority = \"low\"", "`a b` cannot be a class's name");
    check(&format!("{CLASS}cpu = \"nice 20\""), "`untouched`, `prompt`, `nice 10` (-20 to 19) or `idle`");
    check("[preemption]\npolicy = \"powe\"", "there is no policy `powe` (did you mean `pow`?)");
    check("[preemption]\nthreshold = \"1us\"", "`1us` is shorter than 100us");
    check("[preemption]\nreplay_bytes_max = \"1M\"", "`1M` is not a size");
    check("[log]\nformat = \"jsn\"", "`jsn` is not a format (did you mean `json`?)");
    check("[listen]\naddresses = []", "clients cannot connect");
    check("[listen.tls]\ncertificate = \"none.crt\"\nkey = \"none.key\"", "cannot read certificates from ./none.crt");
    check("control = \"localhost\"", "postgres://");
    check("[[admin.user]]\nname = \"a\"", "`a` has 0: a user of the console has one of `verifier`");
    let verifier = "[[admin.user]]\nname = \"a\"\nverifier = \"md5x\"";
    check(verifier, "this is not a verifier: it does not begin with SCRAM-SHA-256$");
    check("[[admin.user]]\nname = \"a\"\npassword_file = \"none\"", "cannot read ./none");
    check("[[admin.user]]\nname = \"a\"\npassword_variable = \"NONE\"", "the environment variable `NONE` is not set");
    check("[[admin.user]]\nname = \"a\"\npassword = \"\"", "the password is empty");
    assert!(faults("").contains("x.toml:1:1: the key `server` is missing here; add it"), "{}", faults(""));
    assert!(faults("server = ").starts_with("x.toml:1:"), "{}", faults("server = "));
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let check = |more: &str, expect: &str| {
        let warnings = good(&format!("{START}{more}")).warnings.join("\n");
        assert!(warnings.contains(expect), "{more}\ngives\n{warnings}\nwithout\n{expect}");
    };
    check("", "there is no `control`, so nothing is preempted");
    check("", "the console has no users");
    check("", "no session can be in class `high`: write a [[rule]] with class = \"high\"");
    check("control = \"postgres://a@b/c\"", "preemption only tracks what it would do");
    check(CLASS, "no class is above another");
    check(&format!("{CLASS}mpl = 0"), "class `a` has mpl = 0");
    check("[listen]\naddresses = [\"0.0.0.0:6432\"]", "0.0.0.0:6432 can be reached over a network, unencrypted");
    check("[http]\naddress = \"0.0.0.0:6433\"", "the live page at 0.0.0.0:6433 can be reached over a network");
    check("[[admin.user]]\nname = \"a\"\npassword = \"x\"", "the password of `a` is in the file in clear text");
    check(
        "[[rule]]\nclass = \"low\"\nuser = \"a*\"\n[[rule]]\nclass = \"high\"\nuser = \"ab\"",
        "rule 2 (user ab) never applies, because rule 1 (user a*) matches all of it",
    );
    check("[[rule]]\nclass = \"high\"\ntag = \"x\"", "rule 1 (tag x) raises no user");
    check(
        "[[rule]]\nclass = \"high\"\napplication_name = \"pos\"",
        "rule 1 (application_name pos) raises only users in `settable_by` of class `high`",
    );
    check(&format!("{CLASS}replay = false"), "class `a` has neither `replay` nor `retries`");
    check(&format!("{CLASS}control_groups = [\"/none\"]"), "class `a`: `control_groups` need `control`");
    check(&format!("break_glass = [\"{}\"]", "a".repeat(64)), "servers cut names after 63 bytes");
    let own = "server = \"postgres:///?host=/run/pg\"";
    let socket = good(own).warnings.join("\n");
    assert!(socket.contains("needs scram-sha-256, not `peer` or `trust`"), "{socket}");
    let statement = "[[rule]]\nclass = \"high\"\nstatement = \"select 1\"";
    check(statement, "raises any client that sends that text; also name a `user`");
}

#[test]
fn an_application_name_may_raise_those_who_may_choose_the_class() {
    let settled = |rule: &str, users: &str| {
        let classes = format!(
            "[[class]]\nname = \"low\"\npriority = \"low\"\n[[class]]\nname = \"high\"\npriority = \"high\"\n\
             settable_by = [{users}]"
        );
        let text = format!("{START}{classes}\n[[rule]]\nclass = \"high\"\napplication_name = \"pos\"\n{rule}");
        !good(&text).warnings.iter().any(|warning| warning.contains("raises only users"))
    };
    assert!(!settled("", ""));
    assert!(settled("", "\"till*\""), "it raises these only");
    assert!(settled("user = \"till*\"", "\"till*\""));
    assert!(settled("user = \"shop\"", ""), "the administrator has named one user");
    assert!(!settled("user = \"shop*\"", "\"till*\""));
}

/// With libpq's defaults no client could log in: clients bind their login to the certificate of the connection to the
/// governor, and the server compares it with its own.
#[test]
fn tls_on_both_sides_is_a_warning() {
    let (folder, file) = settings_file("");
    certificate(folder.path());
    let warns = |mode: &str, tls: &str| {
        std::fs::write(&file, format!("server = \"postgres://a@db?sslmode={mode}\"\n{tls}")).expect("a file");
        let config = read(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        config.warnings.iter().any(|warning| warning.contains("channel_binding=disable"))
    };
    let tls = "[listen.tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\n";
    assert!(warns("require", tls));
    assert!(!warns("disable", tls));
    assert!(!warns("require", ""));
}

#[test]
fn a_statement_is_its_fingerprint() {
    let config =
        good(&format!("{START}[[rule]]\nclass = \"high\"\nuser = \"a\"\nstatement = \"select 1 from t where x = 5\""));
    let fingerprint = config.settings.rules.rules()[0].fingerprint.expect("one was taken");
    assert_eq!(fingerprint, plimsoll_notation::sql::fingerprint(b"SELECT 1 FROM t WHERE x = 7"));
}

#[test]
fn passwords_are_kept_as_verifiers_only() {
    let text =
        format!("{START}[[admin.user]]\nname = \"a\"\npassword_variable = \"CONSOLE_PASSWORD\"\nmay_change = true");
    let settings = good(&text).settings;
    let user = &settings.admin.users[0];
    assert!(user.verifier.starts_with("SCRAM-SHA-256$4096:") && user.may_change);
    assert!(!format!("{:?}", settings.described()).contains("SCRAM"), "nobody is shown a verifier");
}

#[test]
fn classes_that_there_are_keep_their_places() {
    let text = format!(
        "{START}[[class]]\nname = \"new\"\npriority = \"low\"\n[[class]]\nname = \"low\"\npriority = \"low\"\n\
         [[class]]\nname = \"high\"\npriority = \"high\""
    );
    let classes = ["high".to_owned(), "low".to_owned()];
    let surroundings = Surroundings {
        folder: Path::new("."),
        environment: &|name| (name == "USER").then(|| "x".to_owned()),
        classes: &classes,
    };
    let config = parse(&text, "x.toml", &surroundings).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = config.settings.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["high", "low", "new"]);
    let without = format!("{START}[[class]]\nname = \"high\"\npriority = \"high\"");
    let error = parse(&without, "x.toml", &surroundings).expect_err("one is missing").to_string();
    assert!(error.contains("the classes `low` are gone; removing or renaming a class needs a restart"), "{error}");
}
