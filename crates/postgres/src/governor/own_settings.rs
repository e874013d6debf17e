//! An operator's own settings file for the server of an experiment: only settings that must differ are replaced.

use std::path::Path;

use plimsoll_pg::url::{Password, ServerUrl};
use plimsoll_settings::write::{put, text_of};
use toml::{Table, Value};

use super::CLASSES;
use super::configuration::{CONSOLE, READER};

/// The settings that a governor is started with.
#[derive(Debug)]
pub(super) struct OwnSettings {
    /// The text of the file that the governor reads.
    pub(super) text: String,
    /// Whether it has the classes that our transactions name.
    pub(super) has_our_classes: bool,
    /// The password of the control login, if one is known.
    pub(super) control_password: Option<Password>,
}

/// Reads a settings file, and replaces the server, the control login's server, and the addresses for clients, metrics
/// and the console. Keeps the file's control login, unless the server is private: that role does not exist on it.
pub(super) fn read(
    file: &Path,
    server: &ServerUrl,
    is_ours: bool,
    socket_folder: &Path,
    password: &str,
) -> Result<OwnSettings, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
    let mut settings: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let mut control_password = None;
    if let Some(control) = settings.get_mut("control") {
        let login = match control.as_str().map(ServerUrl::parse) {
            Some(Ok(own)) if !is_ours => server.with_user(&own.user),
            _ => server.clone(),
        };
        *control = login.to_string().into();
        control_password = login.password;
    }
    put(&mut settings, "server", server.to_string());
    put(&mut settings, "listen.addresses", Vec::<String>::new());
    put(&mut settings, "listen.socket_folders", vec![socket_folder.display().to_string()]);
    settings["listen"].as_table_mut().expect("it has addresses").remove("tls");
    // Its users may have their passwords in files that are not meant for experiments.
    settings.remove("admin");
    put(&mut settings, "admin.database", CONSOLE);
    let reader = [("name", READER), ("password", password)].map(|(key, value)| (key.to_owned(), Value::from(value)));
    put(&mut settings, "admin.user", vec![Table::from_iter(reader)]);
    put(&mut settings, "http.address", "off");
    let classes = settings.get("class").and_then(Value::as_array);
    let has =
        |name: &str| classes.into_iter().flatten().any(|class| class.get("name").and_then(Value::as_str) == Some(name));
    let has_our_classes = classes.is_none_or(Vec::is_empty) || CLASSES.iter().all(|name| has(name));
    let head = format!("# Made by plimsoll of {}.\n", file.display());
    Ok(OwnSettings { text: head + &text_of(&settings), has_our_classes, control_password })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
server = "postgres://db.example:5432"
control = "postgres://watcher@db.example:5432/postgres"
default_class = "batch"
[listen]
addresses = ["0.0.0.0:6432"]
clients_max = 77
[listen.tls]
certificate = "server.crt"
key = "server.key"
[[class]]
name = "shop"
priority = "high"
[[class]]
name = "batch"
priority = "low"
mpl = 3
[[rule]]
class = "shop"
user = "shop \\ \"one\""
[preemption]
policy = "pow"
[[admin.user]]
name = "admin"
password_file = "secret"
[http]
address = "0.0.0.0:6433"
hosts = ["db.example"]
"#;

    fn made(text: &str, is_ours: bool) -> (Table, bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        std::fs::write(&file, text).unwrap();
        let server = ServerUrl::of_socket("/tmp/s", 5433, "plimsoll", "plimsoll");
        let own = read(&file, &server, is_ours, Path::new("/tmp/g"), "secret").unwrap();
        (own.text.parse().unwrap_or_else(|error| panic!("{error}: {}", own.text)), own.has_our_classes)
    }

    /// Story: operators who had tuned a governor's settings could only experiment with settings that Plimsoll writes,
    /// and not with the file that they would run.
    #[test]
    fn only_what_must_differ_is_replaced() {
        let (made, has_our_classes) = made(FILE, true);
        let expect: Table = FILE.parse().unwrap();
        for key in ["default_class", "class", "rule", "preemption"] {
            assert_eq!(made[key], expect[key], "{key}");
        }
        assert!(!has_our_classes);
        assert_eq!(
            made["server"].as_str(),
            Some("postgres://plimsoll@/plimsoll?host=/tmp/s&port=5433&sslmode=disable")
        );
        assert_eq!(made["control"], made["server"]);
        let listen = "addresses = []\nsocket_folders = [\"/tmp/g\"]\nclients_max = 77".parse::<Table>().unwrap();
        assert_eq!(made["listen"].as_table(), Some(&listen));
        assert_eq!(made["http"]["address"].as_str(), Some("off"));
        let users: Vec<&Value> = made["admin"]["user"].as_array().unwrap().iter().map(|user| &user["name"]).collect();
        assert_eq!(users, [&Value::from(READER)], "its own users may have secrets in files");
    }

    #[test]
    fn a_server_of_somebody_else_keeps_the_control_login() {
        let (made, _) = made(FILE, false);
        assert_eq!(
            made["control"].as_str(),
            Some("postgres://watcher@/plimsoll?host=/tmp/s&port=5433&sslmode=disable")
        );
    }

    #[test]
    fn our_transactions_name_their_class_where_the_file_has_it() {
        assert!(made("server = \"postgres://a\"", true).1, "without classes there are high and low");
        let named = "server = \"postgres://a\"\n[[class]]\nname = \"low\"\n[[class]]\nname = \"high\"";
        assert!(made(named, true).1);
        assert!(made("server = \"postgres://a\"", true).0.get("control").is_none(), "none is made up");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let server = ServerUrl::of_socket("/tmp/s", 5433, "plimsoll", "plimsoll");
        let error = read(Path::new("/no/such.toml"), &server, true, Path::new("/tmp/g"), "secret").unwrap_err();
        assert!(error.starts_with("/no/such.toml: cannot read it"), "{error}");
    }
}
