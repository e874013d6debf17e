//! Fixtures for the tests of several modules: a settings file, a certificate, a server, a session, a preemption, and
//! their form on the live page.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::{ClassIndex, Login};
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
pub(crate) use plimsoll_testing::certificate;
use tempfile::TempDir;

use crate::governor::{Governor, LeftAlone, Outcome, PreemptionEvent};
use crate::page::state::{BlockedUnit, Preempted, Queued};
use crate::registry::{BackendKey, EventId, Phase, SessionCard, SessionId};
use crate::settings::{Settings, for_tests};

/// A settings file and its folder.
pub(crate) fn settings_file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plimsoll.toml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

/// A private server with these settings.
pub(crate) fn server(settings: &[(&str, &str)]) -> PrivateServer {
    let mut all = ServerSettings::for_this_machine();
    settings.iter().for_each(|(name, value)| all.set(name, value).unwrap());
    PrivateServer::start(all).unwrap_or_else(|error| panic!("this test needs a PostgreSQL server: {error}"))
}

/// The URL of a server for its superuser.
pub(crate) fn url(server: &PrivateServer) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database())
}

/// A governor with the settings for tests, changed.
pub(crate) fn governor(change: impl FnOnce(&mut Settings)) -> Arc<Governor> {
    let mut settings = for_tests();
    change(&mut settings);
    Arc::new(Governor::new(settings, Instant::now()))
}

/// A session with that server process, in its first unit.
pub(crate) fn session(governor: &Governor, process: i32, class: ClassIndex, now: Instant) -> Arc<SessionCard> {
    let login = Login { user: "ann".to_owned(), database: "shop".to_owned(), application_name: String::new() };
    let card = Arc::new(SessionCard::new(governor.registry.next_id(), 0, "here".to_owned(), login, class, now));
    card.key.set(BackendKey { process, secret: Box::default() }).expect("set once");
    (card.state().phase, card.state().transaction, card.state().unit) = (Phase::Active, 1, 1);
    governor.registry.insert(card.clone());
    card
}

/// A preemption of session 11 for session 12.
pub(crate) fn preemption() -> PreemptionEvent {
    PreemptionEvent {
        id: EventId(0),
        at: SystemTime::UNIX_EPOCH,
        victim: (SessionId(11), 111),
        victim_class: "low".to_owned(),
        waiter: (SessionId(12), 112),
        waiter_class: "high".to_owned(),
        lever: "pow".to_owned(),
        waited: Duration::from_millis(3),
        victim_was: "waited for a lock",
        done: "cancelled",
        outcome: Outcome::Pending,
        stake: None,
    }
}

/// A preemption in the form of the live page.
pub(crate) fn preempted() -> Preempted {
    Preempted {
        at: "2026-01-02T03:04:04.123Z".to_owned(),
        victim: 11,
        victim_class: "low".to_owned(),
        victim_was: "waited for its client".to_owned(),
        waiter: 8,
        waiter_class: "high".to_owned(),
        waited_s: 0.0416,
        lever: "pow".to_owned(),
        done: "rolled back".to_owned(),
        outcome: "40001: answer 12 differed".to_owned(),
        lost_s: Some(0.012),
        won_s: None,
    }
}

/// A unit that waits for a lock, in the form of the live page.
pub(crate) fn blocked() -> BlockedUnit {
    BlockedUnit {
        waiter: 8,
        waiter_class: "high".to_owned(),
        waited_s: 3.0,
        holder: Some(11),
        holder_process: 111,
        holder_class: Some("low".to_owned()),
        holder_was: "waited for its client".to_owned(),
        left_alone: Some(LeftAlone::NoRetry.to_string()),
    }
}

/// A queued transaction in the form of the live page.
pub(crate) fn queued() -> Queued {
    Queued {
        session: 12,
        user: Some("report".to_owned()),
        database: Some("shop".to_owned()),
        class: "low".to_owned(),
        waited_s: 1.25,
        why: "class mpl 4 is full".to_owned(),
    }
}
