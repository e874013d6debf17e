//! Questions to a server about passwords (`auth_query`).

use std::sync::mpsc;
use std::time::{Duration, Instant};

use plimsoll_governor::config::check::check;
use plimsoll_governor::credentials::{Found, Known, Origin, Source};
use plimsoll_governor::settings::Login;
use plimsoll_pg::url::{Password, ServerUrl};
use plimsoll_testing::says;

use crate::pooler::Pooler;
use crate::server::{PASSWORD, Server};

/// The default question.
const QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END \
                     FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin";

/// The role and the function of the guide.
const GUIDE: &str = "../../docs/governor-login.md";

fn asking(url: &ServerUrl, query: &str) -> Login {
    Login { query: query.to_owned(), asks_as: Some(url.clone()), ..Login::default() }
}

/// Looks for a user, and waits for the answer.
fn find(source: &Source, login: &Login, user: &str) -> Known {
    let (answers, received) = mpsc::channel();
    match source.find(login, user, Instant::now(), Box::new(move |known| drop(answers.send(known)))) {
        Found::Now(known) => known,
        Found::Asking => received.recv_timeout(Duration::from_secs(30)).expect("an answer"),
    }
}

/// The statements of the guide, by the first word of their block.
fn of_the_guide(begins: &str) -> String {
    let guide = std::fs::read_to_string(GUIDE).unwrap();
    let mut blocks = guide.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.starts_with(begins)).unwrap_or_else(|| panic!("no block {begins}")).to_owned()
}

#[test]
fn clients_log_in_whom_only_the_server_knows() {
    let mut server = Server::start(None);
    let mut own = server.connection();
    own.run(
        "CREATE ROLE expired LOGIN PASSWORD 'x' VALID UNTIL '2001-01-01'; CREATE ROLE nologin PASSWORD 'x'; CREATE ROLE bare LOGIN",
    )
    .unwrap();
    let pooler = Pooler::start(server.socket(), asking(&server.url(), QUERY), true);
    for user in ["scram", "hashed", "scram"] {
        assert_eq!(pooler.psql(user, PASSWORD).as_deref(), Ok(user), "{}", pooler.told());
    }
    for user in ["nobody", "expired", "nologin", "bare"] {
        let told = pooler.psql(user, "x").unwrap_err();
        says(user, &told, &format!("password authentication failed for user \"{user}\""));
        says(user, &pooler.told(), "Nobody");
    }
    // The password changes. The kept answer fails once, and is forgotten then.
    std::thread::sleep(Duration::from_millis(1_100));
    own.run("ALTER ROLE scram PASSWORD 'another'").unwrap();
    pooler.psql("scram", "another").unwrap_err();
    assert_eq!(pooler.psql("scram", "another").as_deref(), Ok("scram"), "{}", pooler.told());
    // The server restarts: the connection of the questions is made again.
    drop(own);
    server.own.restart().unwrap();
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(pooler.psql("other", PASSWORD).as_deref(), Ok("other"), "{}", pooler.told());
}

#[test]
fn answers_without_a_use_let_nobody_in() {
    let server = Server::start(None);
    let source = Source::default();
    let url = server.url();
    let origin = |query: &str, user: &str| find(&source, &asking(&url, query), user).origin;
    assert_eq!(origin("SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = $1", "scram"), Origin::Server);
    for query in [
        "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1 UNION ALL SELECT $1, 'x'",
        "SELECT 'other', rolpassword FROM pg_authid WHERE rolname = $1",
        "SELECT rolname, NULL FROM pg_authid WHERE rolname = $1",
        "SELECT NULL::text, 'x' WHERE $1 <> ''",
        "SELECT $1::text, 'SCRAM-SHA-256$x'",
        "SELECT $1::text",
        "SELECT $1::text, x FROM missing",
        "SELECT $1::text, (1 / (length($1) - 5))::text",
        "this is no statement $1",
        "SELECT $1::text, 'x'; SELECT 1",
    ] {
        assert_eq!(origin(query, "scram"), Origin::Nobody, "{query}");
    }
    // An error of one question leaves the others alone.
    let query = "SELECT $1::text, 'x' || (1 / (length($1) - 5))::text";
    assert_eq!((origin(query, "scram"), origin(query, "other1")), (Origin::Nobody, Origin::Server));
    // A question that takes too long ends in time, and so do those behind it.
    let began = Instant::now();
    assert_eq!(origin("SELECT $1::text, 'x' FROM pg_sleep(60)", "scram"), Origin::Nobody);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(origin(QUERY, "scram"), Origin::Server);
}

/// What the guide says runs as it stands, and the role may see nothing else.
#[test]
fn the_function_of_the_guide_answers_a_role_without_rights() {
    let server = Server::start(None);
    server.connection().run(&of_the_guide("CREATE ROLE plimsoll_logins").replace('…', "asks")).unwrap();
    let url = ServerUrl {
        user: "plimsoll_logins".to_owned(),
        password: Some(Password::new("asks")),
        database: server.own.database().to_owned(),
        ..server.url()
    };
    let guide = std::fs::read_to_string(GUIDE).unwrap();
    let query = guide.lines().find_map(|line| line.strip_prefix("auth_query = \"")?.strip_suffix('"')).unwrap();
    let pooler = Pooler::start(server.socket(), asking(&url, query), true);
    assert_eq!(pooler.psql("scram", PASSWORD).as_deref(), Ok("scram"), "{}", pooler.told());
    pooler.psql("nobody", PASSWORD).unwrap_err();
    // Superusers are not looked up, and the default question is refused.
    server.connection().run("CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'x'").unwrap();
    pooler.psql("boss", "x").unwrap_err();
    assert_eq!(find(&Source::default(), &asking(&url, QUERY), "scram").origin, Origin::Nobody);
}

#[test]
fn the_check_asks_once() {
    let server = Server::start(None);
    let folder = tempfile::tempdir().unwrap();
    let (file, users) = (folder.path().join("plimsoll.toml"), folder.path().join("users.txt"));
    let url = server.url();
    let check = |login: &str| {
        let text = format!(
            "server = \"postgres:///?host={}&port={}\"\n[login]\nusers_file = \"users.txt\"\n{login}\n",
            server.own.socket_folder().display(),
            url.port
        );
        std::fs::write(&file, text).unwrap();
        match check(&file, true, false) {
            Ok(report) => report.to_string(),
            Err(error) => error.to_string(),
        }
    };
    std::fs::write(&users, "\"scram\" \"x\"\n").unwrap();
    let told = check(&format!("auth_user = \"{}\"", url.user));
    says("a superuser", &told, "auth_query");
    assert!(!told.contains("FAILED: auth_query") && !told.contains("FAILED  auth_query"), "{told}");
    let told = check("auth_user = \"trusted\"");
    says("a role without rights", &told, "may not read that");
    let told = check(&format!("auth_user = \"{}\"\nauth_query = \"SELECT a, b FROM missing WHERE a = $1\"", url.user));
    says("no table", &told, "search_path is empty");
    std::fs::write(&users, "\"scram\" \"x\"\nbad\n\"scram\" \"y\"\n").unwrap();
    let told = check("");
    says("bad lines", &told, "users.txt:2: the name is not in double quotes");
    says("bad lines", &told, "users.txt:3: the user \"scram\" is on line 1, too");
}
