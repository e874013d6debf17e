//! Lines of governed statements, read as parts of files.

use std::path::Path;

use plimsoll_policy::{ClassIndex, GuardMode, Login};

use super::*;
use crate::read::{Surroundings, parse};

const SERVER: &str = "server = \"postgres://u@db\"\n";
const RULES: &str = "[[rule]]\nclass = \"high\"\nuser = \"shop\"\n[[rule]]\nclass = \"low\"\nuser = \"*\"\n";
const CLASSES: &str =
    "[[class]]\nname = \"low\"\npriority = \"low\"\nmpl = 2\n[[class]]\nname = \"high\"\npriority = \"high\"\n";

fn read(text: &str) -> Settings {
    let surroundings = Surroundings { folder: Path::new("."), environment: &|_| None, classes: &[] };
    parse(text, "x.toml", &surroundings).unwrap_or_else(|error| panic!("{error}\nin\n{text}")).settings
}

fn keys(keys: &[(&str, &str)]) -> Vec<(String, String)> {
    keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The class of a transaction of user `shop` that begins with that statement.
fn class_of(settings: &Settings, sql: &str) -> String {
    let login = Login { user: "shop".to_owned(), ..Login::default() };
    let of_login = settings.rules.of_login(&login).class;
    let matched = settings.rules.of_statement(&login, of_login, None, Some(fingerprint(sql.as_bytes())));
    settings.class(matched.map_or(of_login, |matched| matched.class)).name.clone()
}

#[test]
fn a_statement_gets_its_class_before_all_rules_of_any_file() {
    let sql = "select * from items where title like $1";
    for file in [
        SERVER.to_owned(),
        format!("{SERVER}{RULES}"),
        format!("{SERVER}{RULES}{CLASSES}"),
        format!("{SERVER}{CLASSES}"),
    ] {
        let plain = read(&file);
        let own = Governed::new(sql, keys(&[("rate", "5/s"), ("burst", "20"), ("guards", "warn")]), &plain).unwrap();
        let settings = read(&put_in(&file, std::slice::from_ref(&own)).unwrap());
        assert_eq!(class_of(&settings, sql), own.class, "{file}");
        assert_eq!(class_of(&settings, "select 1"), class_of(&plain, "select 1"), "{file}");
        let class = settings.class(settings.class_named(&own.class).unwrap());
        assert_eq!((class.pace().map(|pace| pace.burst), class.guards), (Some(20), Some(GuardMode::Warn)));
        let default = |of: &Settings| of.class(of.rules.default_class()).name.clone();
        assert_eq!(default(&settings), default(&plain), "{file}");
        assert_eq!(class.limits.priority, plain.class(plain.rules.default_class()).limits.priority);
        // The other classes are as before.
        for (place, before) in plain.indexed() {
            assert_eq!(settings.class(ClassIndex(place.0)).name, before.name);
            assert_eq!(settings.class(ClassIndex(place.0)).limits, before.limits);
        }
        let joins = Governed::new(sql, keys(&[("class", "low")]), &plain).unwrap();
        assert_eq!(class_of(&read(&put_in(&file, &[joins]).unwrap()), sql), "low", "{file}");
    }
}

/// An operator sees these lines before they are in force, and adds them to the file to keep them.
#[test]
fn the_lines_are_those_that_do_it_when_they_are_pasted() {
    let file = format!("{SERVER}{CLASSES}{RULES}");
    let plain = read(&file);
    let own = Governed::new("00000000000000ff", keys(&[("priority", "high"), ("rate", "5/s"), ("mpl", "3")]), &plain)
        .unwrap();
    let lines = own.lines(&file).unwrap();
    let expect = "# before the first [[rule]], for the first one that matches decides:\n\
                  [[rule]]\nclass = \"statement-00000000000000ff\"\nfingerprint = \"00000000000000ff\"\n\n\
                  # after the last [[class]]:\n\
                  [[class]]\nname = \"statement-00000000000000ff\"\npriority = \"high\"\nrate = \"5/s\"\nmpl = 3\n";
    assert_eq!(lines, expect);
    assert!(!own.is_in(&plain));
    assert!(own.is_in(&read(&format!("{SERVER}{CLASSES}{lines}{RULES}"))));
    // A file without classes has two, which it must name once it names another.
    assert!(own.lines(SERVER).unwrap().contains(USUAL_CLASSES));
    // One that was taken back keeps its class only, because sessions may be in it.
    let back = Governed { is_taken_back: true, ..own };
    let settings = read(&put_in(&file, std::slice::from_ref(&back)).unwrap());
    let class = settings.class(settings.class_named(&back.class).unwrap());
    assert_eq!((class.rate, class.limits.mpl, settings.rules.rules().len()), (None, None, 2));
}

#[test]
fn a_wish_that_means_nothing_is_refused() {
    let plain = read(&format!("{SERVER}{CLASSES}{RULES}"));
    let check = |given: &[(&str, &str)], expect: &str| {
        let told = Governed::new("select 1", keys(given), &plain).unwrap_err();
        assert!(told.contains(expect), "{told}");
    };
    check(&[], "class = NAME, or limits such as rate = 5/s");
    check(&[("class", "lwo")], "there is no class `lwo` (did you mean `low`?)");
    check(&[("class", "low"), ("rate", "1/s")], "write class = NAME alone");
    check(&[("rat", "1/s")], "a class has no key `rat` (did you mean `rate`?)");
    check(&[("name", "x")], "a class has no key `name`");
    check(&[("rate", "fast")], "`fast` is not a rate");
    check(&[("mpl", "-1")], "-1 is not between");
    check(&[("rate", "1/s"), ("rate", "2/s")], "`rate` is given twice");
}
