//! `[login]`: the users file, and the login for questions to the server.

use plimsoll_pg::url::SslMode;

use super::{START, faults, good, read, settings_file};

/// Settings with that `[login]`, beside a users file with that text.
fn with_users(users: &str, login: &str) -> Result<crate::read::Config, String> {
    let (folder, file) =
        settings_file(&format!("{START}control = \"postgres://asker:of-control@db\"\n[login]\n{login}"));
    std::fs::write(folder.path().join("users.txt"), users).expect("a file");
    read(&file, &[]).map_err(|error| error.to_string())
}

#[test]
fn the_users_file_is_read_with_the_settings() {
    let config = with_users("\"ann\" \"geheim\"\n", "users_file = \"users.txt\"").unwrap();
    let login = &config.settings.login;
    assert!(login.users.as_ref().is_some_and(|users| users.find("ann").is_some() && users.count() == 1));
    assert!(login.has_source() && login.asks_as.is_none());
    let shown = config.settings.described();
    assert!(!format!("{shown:?} {login:?}").contains("geheim"));
    assert!(!good(START).settings.login.has_source());

    let told = with_users("ann geheim\n\"bob\" \"x\"\n\"bob\" \"y\"\n", "users_file = \"users.txt\"").unwrap_err();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].contains("plimsoll.toml:4:14: 2 faults:"), "{told}");
    assert!(lines[1].contains("users.txt:1: the name is not") && lines[2].contains("users.txt:3: the user"), "{told}");
    let told = with_users("", "users_file = \"none.txt\"").unwrap_err();
    assert!(told.contains("cannot read") && told.contains("none.txt"), "{told}");
}

#[test]
fn questions_have_a_login_of_their_own() {
    let password = |users: &str, user: &str| {
        let config = with_users(users, &format!("users_file = \"users.txt\"\nauth_user = \"{user}\"")).unwrap();
        let url = config.settings.login.asks_as.expect("somebody asks");
        assert_eq!((url.address().as_str(), url.database.as_str()), ("db.example:5433", "postgres"));
        assert_eq!(url.ssl_mode, SslMode::Prefer);
        url.password.map(|password| String::from_utf8(password.bytes().to_vec()).expect("text"))
    };
    assert_eq!(password("\"asker\" \"of the file\"", "asker").as_deref(), Some("of the file"));
    assert_eq!(password("\"other\" \"of the file\"", "asker").as_deref(), Some("of-control"));
    let none = with_users("", "auth_user = \"another\"\nauth_database = \"shop\"").unwrap().settings.login;
    assert_eq!(none.asks_as.expect("somebody asks").database, "shop");
}

#[test]
fn what_nobody_asks_is_a_mistake() {
    let check = |login: &str, expect: &str| {
        let told = faults(&format!("{START}[login]\n{login}\n"));
        assert!(told.contains(expect), "{told}");
    };
    check("auth_database = \"x\"", "`auth_database` has no effect without `auth_user`");
    check("auth_query = \"select $1\"", "`auth_query` has no effect without `auth_user`");
    check("auth_user = \"x\"\nauth_query = \"select 1\"", "does not name the user, whose place is $1");
    check("auth_user = \"x\"\nauth_query = \"select $1, $2\"", "a parameter $2");
    check("auth_user = \"x\"\nauth_query = \"select $10\"", "does not name the user");
    let told = faults("control = \"postgres://a@db\"\n[mode]\nproxy = false\n[login]\nauth_user = \"x\"\n");
    assert!(told.contains("clients log in at the server itself"), "{told}");
}
