//! Statements that are governed from the console.

use plimsoll_policy::{ClassIndex, Login};

use super::*;
use crate::config;
use crate::testing::settings_file;

const FILE: &str = "server = \"postgres://u@localhost:1/none\"\n[[class]]\nname = \"high\"\npriority = \"high\"\n\
     [[class]]\nname = \"low\"\npriority = \"low\"\n[[rule]]\nclass = \"high\"\nuser = \"*\"\n\
     [[admin.user]]\nname = \"admin\"\npassword = \"admin\"\nmay_change = true\n\
     [[admin.user]]\nname = \"viewer\"\npassword = \"viewer\"\n";

const SQL: &str = "select * from items where title like 'a%'";

/// The class of a statement's transactions.
fn class_of(governor: &Governor, sql: &str) -> String {
    let settings = governor.settings();
    let login = Login { user: "ann".to_owned(), ..Login::default() };
    let of_login = settings.rules.of_login(&login).class;
    let fingerprint = plimsoll_notation::sql::fingerprint(sql.as_bytes());
    let matched = settings.rules.of_statement(&login, of_login, None, Some(fingerprint));
    settings.class(matched.map_or(of_login, |matched| matched.class)).name.clone()
}

/// A governor of a file.
fn governor_of(file: &std::path::Path) -> Arc<Governor> {
    let settings = config::read(file, &[]).unwrap_or_else(|error| panic!("{error}")).settings;
    let governor = Arc::new(Governor::new(settings, Instant::now()));
    governor.config_file.set(file.to_owned()).expect("it is new");
    governor
}

/// What the notices say.
fn notices(client: &Client) -> String {
    let notices = client.received.iter().filter(|(tag, _)| *tag == b'N');
    notices.map(|(_, body)| String::from_utf8_lossy(body).replace('\0', "\n")).collect()
}

#[test]
fn a_statement_is_governed_until_it_is_taken_back() {
    let (_folder, file) = settings_file(FILE);
    let governor = governor_of(&file);
    let mut admin = Client::let_in(&governor, "admin");
    let quoted = SQL.replace('\'', "''");

    admin.query(&format!("SHOW GOVERN '{quoted}' rate = 5/s burst = 20, guards = warn"));
    let preview: Vec<String> = admin.rows().into_iter().map(|row| row[0].clone().expect("a line")).collect();
    let preview = preview.join("\n");
    assert!(
        preview.contains("rate = \"5/s\"\nburst = 20\nguards = \"warn\"") && preview.contains("is not known"),
        "{preview}"
    );
    assert_eq!(class_of(&governor, SQL), "high", "it was only shown");

    assert_eq!(admin.query(&format!("GOVERN '{quoted}' rate = 5/s burst = 20, guards = warn")).replace('N', ""), "CZ");
    let told = notices(&admin);
    let lines = preview.split("\n#").next().expect("a first part");
    assert!(told.contains("[[rule]]\nclass = \"statement-") && told.contains("guards = \"warn\""), "{told}\n{lines}");
    let own = class_of(&governor, "select * from items where title like 'b%'");
    assert!(own.starts_with("statement-") && class_of(&governor, "select 1") == "high", "{own}");
    admin.query("RELOAD");
    assert_eq!(class_of(&governor, SQL), own, "RELOAD keeps it");

    // What it does is counted, and what another rate would have done is known.
    let class = governor.settings().class_named(&own).expect("its class");
    governor.history.lock().take(&governor.statistics, governor.started);
    for _ in 0..100 {
        crate::statistics::count(&governor.statistics.class(class).transactions);
    }
    crate::statistics::count(&governor.statistics.class(class).beyond_rate);
    governor.history.lock().take(&governor.statistics, governor.started + std::time::Duration::from_secs(10));
    admin.query("SHOW GOVERNED");
    let row: Vec<String> = admin.rows()[0].iter().flatten().cloned().collect();
    assert_eq!(row[1..], [&own, "priority = low, rate = 5/s, burst = 20, guards = warn", "100", "1", "0"]);
    admin.query(&format!("SHOW GOVERN '{}' rate = 2/s burst = 5", row[0]));
    let last = admin.rows().pop().and_then(|mut row| row.remove(0)).expect("a line");
    assert_eq!(last, "# in the last 10 s, at least 75 of its 100 transactions would have waited");

    // Another wish replaces the first; its class stays, without limits.
    admin.query(&format!("GOVERN '{}' class = low", row[0]));
    assert_eq!((admin.code(), class_of(&governor, SQL).as_str()), (None, "low"));
    assert_eq!(governor.settings().class(class).rate, None);
    admin.query(&format!("UNGOVERN '{quoted}'"));
    assert_eq!((admin.code(), class_of(&governor, SQL).as_str()), (None, "high"));
    admin.query("SHOW GOVERNED");
    assert!(admin.rows().is_empty());
    admin.query(&format!("UNGOVERN '{quoted}'"));
    assert_eq!(admin.code().as_deref(), Some("42704"));
    admin.query("RELOAD");
    assert_eq!(admin.code(), None, "the class that remains is no fault of the file");
}

/// An operator adds the lines to the file: from then on the file governs the statement.
#[test]
fn lines_that_were_added_to_the_file_take_over() {
    let (_folder, file) = settings_file(FILE);
    let governor = governor_of(&file);
    let mut admin = Client::let_in(&governor, "admin");
    admin.query("GOVERN 'select 7' mpl = 3");
    let own = class_of(&governor, "select 7");
    admin.query("SHOW GOVERN 'select 7' mpl = 4");
    let lines: String = admin.rows().into_iter().map(|row| row[0].clone().expect("a line") + "\n").collect();
    std::fs::write(&file, FILE.replace("[[rule]]", &format!("{lines}[[rule]]"))).expect("a file");
    admin.query("RELOAD");
    assert_eq!((admin.code(), class_of(&governor, "select 7")), (None, own.clone()));
    admin.query("SHOW GOVERNED");
    assert!(admin.rows().is_empty(), "it is the file's");
    let settings = governor.settings();
    assert_eq!(settings.class(settings.class_named(&own).expect("its class")).limits.mpl, Some(4));
    assert_eq!(settings.class(ClassIndex(0)).name, "high");
    admin.query("GOVERN 'select 7' mpl = 5");
    let (code, message) = admin.error().expect("the file governs it");
    assert!(code == "55000" && message.contains("change them there"), "{code} {message}");
}

#[test]
fn a_wish_that_cannot_be_met_changes_nothing() {
    let (_folder, file) = settings_file(FILE);
    let governor = governor_of(&file);
    let mut admin = Client::let_in(&governor, "admin");
    let generation = governor.generation();
    let mut check = |sql: &str, code: &str, why: &str| {
        admin.query(sql);
        let (found, message) = admin.error().unwrap_or_else(|| panic!("{sql} was done"));
        assert!(found == code && message.contains(why), "{sql}: {found} {message}");
    };
    check("GOVERN", "42601", "GOVERN 'statement' class = NAME");
    check("GOVERN 'select 1' rate", "42601", "`rate` has no value");
    check("GOVERN 'select 1' class = lwo", "22023", "did you mean `low`?");
    check("GOVERN 'select 1' rate = 5", "22023", "`5`");
    check("GOVERN 'select 1' rate = fast", "22023", "`fast` is not a rate");
    check("GOVERN 'select 1' guards = on", "22023", "`on` is not a mode of a guard");
    check("UNGOVERN 'select 1'", "42704", "is not governed from the console");
    let mut viewer = Client::let_in(&governor, "viewer");
    for sql in ["GOVERN 'select 1' mpl = 1", "UNGOVERN 'select 1'"] {
        viewer.query(sql);
        assert_eq!(viewer.code().as_deref(), Some("42501"), "{sql}");
    }
    viewer.query("SHOW GOVERN 'select 1' mpl = 1");
    assert_eq!(viewer.code(), None, "looking is for everybody");
    assert_eq!(governor.generation(), generation);
    std::fs::write(&file, "server = 5\n").expect("a file");
    admin.query("GOVERN 'select 1' mpl = 1");
    let (_, message) = admin.error().expect("the file is wrong");
    assert!(message.contains("plimsoll.toml:1:10: "), "{message}");
}
