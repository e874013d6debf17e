//! Every supported version: users of a users file log in at the gate, and at the server with what remains.

use std::fs::write;
use std::sync::Arc;

use plimsoll_governor::credentials::{FailureKind, ServerCredentials};
use plimsoll_governor::settings::Login;
use plimsoll_governor::settings::users::Users;
use plimsoll_pg::connection::SUPPORTED;
use plimsoll_pg::secret::Secret;
use plimsoll_testing::{postgres_version, says};

use crate::pooler::Pooler;
use crate::server::{PASSWORD, Server, log_in};

/// Settings with a users file of that text.
pub fn with_users(text: &str) -> Login {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.txt");
    write(&file, text).unwrap();
    let users = Users::load(&file).unwrap_or_else(|faults| panic!("{}", faults.join("\n"))).users;
    Login { users: Some(Arc::new(users)), ..Login::default() }
}

/// The password of the tests, in quotes as in a users file.
fn quoted() -> String {
    format!("\"{}\"", PASSWORD.replace('"', "\"\""))
}

#[test]
fn every_version_lets_in_whom_the_users_file_names() {
    for major in SUPPORTED {
        let Some(folder) = postgres_version(major) else { return };
        let server = Server::start(Some(&folder));
        assert_eq!(server.own.version().major, major);
        check(&server);
        without_clients(&server);
    }
}

fn check(server: &Server) {
    // The server's own verifiers and hashes, and one password, of a role that the server asks for it.
    let own: String =
        server.users().lines().filter(|line| !line.starts_with("\"plain\"")).map(|line| format!("{line}\n")).collect();
    let users = format!("{own}\"plain\" {}\n", quoted());
    let pooler = Pooler::start(server.socket(), with_users(&users), true);
    for user in ["scram", "hashed", "plain", "other"] {
        assert_eq!(pooler.psql(user, PASSWORD).as_deref(), Ok(user), "{}", pooler.told());
        // Once more, with what was kept of the first login.
        assert_eq!(pooler.psql(user, PASSWORD).as_deref(), Ok(user), "{}", pooler.told());
    }
    for user in ["scram", "hashed", "plain", "nobody"] {
        let told = pooler.psql(user, "wrong").unwrap_err();
        let expect = format!("FATAL:  password authentication failed for user \"{user}\"");
        assert!(told.contains(&expect), "{told}");
    }
    assert!(pooler.told().contains("Nobody"));

    // The server lets these in without asking: the governor's account, not the client, is what it trusts.
    for user in ["trusted", "peered"] {
        let told = pooler.psql(user, PASSWORD).unwrap_err();
        let (reason, is_trusted) = (pooler.told(), user == "trusted");
        assert!(reason.contains(if is_trusted { "unasked: " } else { "refused: " }), "{reason}");
        assert!(told.contains(if is_trusted { "does not let us in" } else { "Peer authentication failed" }), "{told}");
    }
    let trusting = Pooler::start(server.socket(), with_users(&users), false);
    assert_eq!(trusting.psql("trusted", PASSWORD).as_deref(), Ok("trusted"));

    // The same password was set again, so that the server has another salt; the users file has the old verifier.
    // Before PostgreSQL 14 the default is md5.
    let again = format!("SET password_encryption = 'scram-sha-256'; ALTER ROLE scram PASSWORD '{PASSWORD}'");
    server.connection().run(&again).unwrap();
    pooler.psql("scram", PASSWORD).unwrap_err();
    let told = pooler.told();
    assert!(told.contains("wrong secret: the server's verifier of role \"scram\" is not the one"), "{told}");
    pooler.reload(with_users(&server.users()));
    assert_eq!(pooler.psql("scram", PASSWORD).as_deref(), Ok("scram"));
    // And a password that has expired at the server.
    server.connection().run("ALTER ROLE other VALID UNTIL '2001-01-01'").unwrap();
    let told = pooler.psql("other", PASSWORD).unwrap_err();
    assert!(told.contains("password authentication failed"), "{told}");
    says("expired", &pooler.told(), "VALID UNTIL");
}

/// Logins with credentials that come from no client.
fn without_clients(server: &Server) {
    let database = server.own.database();
    let at = |user: &str, credentials: ServerCredentials| {
        log_in(&server.socket(), user, database, credentials, true).map(|(session, _)| session)
    };
    let Ok(Secret::Clear(clear)) = Secret::parse("scram", PASSWORD) else { panic!("it is a password") };
    let clear = || ServerCredentials::Clear(clear.clone());
    for user in ["scram", "hashed", "plain"] {
        let session = at(user, clear()).unwrap_or_else(|failure| panic!("{user}: {failure}"));
        let has = |name: &str, value: &str| session.parameters.contains(&(name.into(), value.into()));
        assert!(has("session_authorization", user) && has("application_name", "logins"), "{session:?}");
        assert!(session.key.is_some());
    }
    let failure = at("scram", ServerCredentials::None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Credentials, "{failure}");
    let failure = at("missing", clear()).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::Secret | FailureKind::Refused), "{failure}");
    let failure = log_in(&server.socket(), "scram", "nowhere", clear(), true).map(drop).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
    assert!(failure.error.is_some_and(|error| error.starts_with(b"E")) && failure.message.contains("3D000"));

    // No connection is left, and later there is one again.
    let mut own = server.connection();
    own.run("ALTER ROLE scram CONNECTION LIMIT 0").unwrap();
    let failure = at("scram", clear()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotReady, "{failure}");
    own.run("ALTER ROLE scram CONNECTION LIMIT -1").unwrap();
    at("scram", clear()).unwrap();
}
