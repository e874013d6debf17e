//! Files that are read and files that are refused.

use std::path::Path;

use super::*;
use crate::settings::CpuShare;

const START: &str = "server = \"postgres://db.example:5433\"\n";

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

/// The faults, a line each.
fn faults(text: &str) -> String {
    match read_text(text) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(error) => error.to_string(),
    }
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
    assert_eq!((high.limits.mpl, high.preemptible, high.cpu), (None, false, CpuShare::Untouched));
    assert_eq!((low.preemptible, low.replay, low.cpu), (true, true, CpuShare::Nice(10)));
    assert_eq!(settings.rules.default_class().0, 1, "whoever no rule names is of the lowest");
}

#[test]
fn the_examples_are_right_and_the_complete_one_has_every_key() {
    let folder = Path::new("../../docs/examples");
    for name in ["plimsoll.toml", "plimsoll-minimal.toml"] {
        let file = folder.join(name);
        let config = super::read(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let expected = if name == "plimsoll.toml" { 0 } else { 2 };
        // The least says neither who may ask the server nor who may look.
        assert_eq!(config.warnings.len(), expected, "{name}: {:?}", config.warnings);
    }
    let text = std::fs::read_to_string(folder.join("plimsoll.toml")).expect("the example");
    for (key, _) in schema::keys() {
        let last = key.rsplit('.').next().unwrap_or(&key);
        // One way of several to give a console's password, and to name a text.
        let is_other_way = ["password", "password_file", "password_variable", "fingerprint"].contains(&last);
        let has = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{last} ="));
        assert!(is_other_way || text.lines().any(has), "the example has no `{key}`");
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
    assert!(told.contains("x.toml:1:1: there is no key `sever` at the top (did you mean `server`?)"), "{told}");
    assert!(told.contains("x.toml:13:7: "), "{told}");
    let told = faults(&text.replace("sever", "server").replace("mpl = \"many\"\n", ""));
    let expect = [
        "x.toml:2:17: there is no class `hihg`",
        "x.toml:4:14: `localhost:x` is no address",
        "x.toml:5:15: 0 is not between 1 and 1000000",
        "x.toml:8:12: `urgent` is no priority; write `high`, `low`",
        "x.toml:12:17: `2 minutes` is no length of time; write a number and us, ms, s, min, h or d",
    ];
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), expect.len(), "{told}");
    for (line, expect) in lines.iter().zip(expect) {
        assert!(line.starts_with(expect), "{line}\nis not\n{expect}");
    }
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
    check("[[rule]]\nclass = \"low\"", "this rule names nothing, so everybody matches");
    check(
        "[[rule]]\nclass = \"lo\"\nuser = \"a\"",
        "there is no class `lo` (did you mean `low`?); there are `high`, `low`",
    );
    check("[[rule]]\nclass = \"low\"\nuser = \"[\"", "`[` is no pattern");
    check("[[rule]]\nclass = \"low\"\nfingerprint = \"12\"", "write 16 hexadecimal digits");
    check(
        "[[rule]]\nclass = \"low\"\nfingerprint = \"0123456789abcdef\"\nstatement = \"select 1\"",
        "a rule has a `fingerprint` or a `statement`",
    );
    check(
        "[[class]]\nname = \"a\"\npriority = \"low\"\n[[class]]\nname = \"a\"\npriority = \"high\"",
        "two classes `a`",
    );
    check("[[class]]\nname = \"a b\"\npriority = \"low\"", "`a b` cannot be a class's name");
    check(
        "[[class]]\nname = \"a\"\npriority = \"low\"\ncpu = \"nice 20\"",
        "`untouched`, `nice 10` (-20 to 19) or `idle`",
    );
    check("[preemption]\npolicy = \"powe\"", "there is no policy `powe` (did you mean `pow`?)");
    check("[preemption]\nthreshold = \"1us\"", "`1us` is shorter than 100us");
    check("[preemption]\nreplay_bytes_max = \"1M\"", "`1M` is no size");
    check("[log]\nformat = \"jsn\"", "`jsn` is no format (did you mean `json`?)");
    check("[listen]\naddresses = []", "clients cannot come in");
    check("[listen.tls]\ncertificate = \"none.crt\"\nkey = \"none.key\"", "cannot read certificates from ./none.crt");
    check("control = \"localhost\"", "postgres://");
    check("[[admin.user]]\nname = \"a\"", "`a` has 0: a user of the console has one of `verifier`");
    check(
        "[[admin.user]]\nname = \"a\"\nverifier = \"md5x\"",
        "this is no verifier: it does not begin with SCRAM-SHA-256$",
    );
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
    check("", "nobody can be in class `high`: write a [[rule]] with class = \"high\"");
    check("control = \"postgres://a@b/c\"", "preemption only tracks what it would do");
    check("[[class]]\nname = \"a\"\npriority = \"low\"", "no class is above another");
    check("[[class]]\nname = \"a\"\npriority = \"low\"\nmpl = 0", "class `a` has mpl = 0");
    check("[listen]\naddresses = [\"0.0.0.0:6432\"]", "0.0.0.0:6432 can be reached over a network, unencrypted");
    check("[http]\naddress = \"0.0.0.0:6433\"", "the live page at 0.0.0.0:6433 can be reached over a network");
    check("[[admin.user]]\nname = \"a\"\npassword = \"x\"", "the password of `a` stands in the file in clear");
    check(
        "[[rule]]\nclass = \"low\"\nuser = \"a*\"\n[[rule]]\nclass = \"high\"\nuser = \"ab\"",
        "rule 2 (user ab) never holds, for rule 1 (user a*) matches all of it",
    );
    check("[[rule]]\nclass = \"high\"\ntag = \"x\"", "rule 1 (tag x) raises nobody");
    check("[[rule]]\nclass = \"high\"\nstatement = \"select 1\"", "raises whoever sends that text; name a `user`, too");
}

#[test]
fn a_statement_is_its_fingerprint() {
    let config =
        good(&format!("{START}[[rule]]\nclass = \"high\"\nuser = \"a\"\nstatement = \"select 1 from t where x = 5\""));
    let fingerprint = config.settings.rules.rules()[0].fingerprint.expect("one was taken");
    assert_eq!(fingerprint, crate::statement::fingerprint(b"SELECT 1 FROM t WHERE x = 7"));
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
    assert!(
        error.contains("the classes `low` are gone; a class can be taken away or renamed by a restart only"),
        "{error}"
    );
}

#[test]
fn a_check_fits_a_terminal() {
    let report =
        check::check(Path::new("../../docs/examples/plimsoll.toml"), false).unwrap_or_else(|error| panic!("{error}"));
    let text = report.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in ["plimsoll.toml is right.", "user shop -> high", "everybody else -> low", "policy pow", "and rerun"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(report.is_good() && serde_json::to_value(&report).is_ok_and(|json| json["connection"].is_null()));
}
