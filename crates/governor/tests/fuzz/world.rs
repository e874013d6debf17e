//! A governor without sockets, for sessions that are driven by hand.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use mio::{Poll, Token, Waker};
use plimsoll_governor::config::{self, Surroundings};
use plimsoll_governor::effects::Horizon;
use plimsoll_governor::governor::{Governor, WorkerCommand, WorkerHandle};
use plimsoll_governor::registry::{BackendKey, SessionCard};
use plimsoll_governor::session::{Reported, Session};
use plimsoll_governor::settings::Settings;
use plimsoll_policy::{ClassIndex, Login};

/// Class high is unlimited. Of class low two may be inside, and one may wait for 3 seconds.
const SETTINGS: &str = r#"
    server = "postgres://nobody@localhost:1/none"
    default_class = "low"
    [listen]
    addresses = ["127.0.0.1:0"]
    [[class]]
    name = "high"
    priority = "high"
    [[class]]
    name = "low"
    priority = "low"
    mpl = 2
    queue_max = 1
    queue_timeout = "3s"
    retries = true
    [[rule]]
    class = "high"
    user = "high"
    [preemption]
    policy = "pow"
"#;

pub const LOW: ClassIndex = ClassIndex(1);

/// A governor, and its commands to its one worker.
pub struct World {
    pub governor: Arc<Governor>,
    /// Its commands to sessions.
    pub commands: Receiver<WorkerCommand>,
    _poll: Poll,
}

fn settings() -> Settings {
    static SETTINGS_READ: OnceLock<Settings> = OnceLock::new();
    let read = || {
        let surroundings = Surroundings { folder: Path::new(""), environment: &|_| None, classes: &[] };
        config::parse(SETTINGS, "settings", &surroundings).expect("settings without fault").settings
    };
    SETTINGS_READ.get_or_init(read).clone()
}

impl World {
    pub fn new(now: Instant) -> World {
        let governor = Arc::new(Governor::new(settings(), now));
        governor.horizon.set(Horizon::new(100, 1));
        let poll = Poll::new().expect("a poll");
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let (sender, commands) = mpsc::channel();
        governor.set_workers(vec![WorkerHandle { sender, waker }]);
        World { governor, commands, _poll: poll }
    }

    /// A session whose server is ready.
    pub fn session(&self, user: &str, now: Instant) -> (Session, Arc<SessionCard>) {
        let login = Login { user: user.to_owned(), database: "shop".to_owned(), application_name: String::new() };
        let class = self.governor.settings().rules.of_login(&login).class;
        let id = self.governor.registry.next_id();
        let card = Arc::new(SessionCard::new(id, 0, "test".to_owned(), login, class, now));
        card.key.set(BackendKey { process: 1000 + id.0 as i32, secret: Box::new([0; 4]) }).expect("set once");
        self.governor.registry.insert(Arc::clone(&card));
        (Session::new(Arc::clone(&self.governor), Arc::clone(&card), Reported::default(), now), card)
    }

    /// The current transaction and unit of a session.
    pub fn place(&self, card: &SessionCard) -> (u64, u64) {
        let state = card.state();
        (state.transaction, state.unit)
    }

    /// Fails if a transaction is inside or waits.
    pub fn assert_empty(&self) {
        let inside = (0..2).map(|class| self.governor.inside(ClassIndex(class))).sum::<u32>();
        assert_eq!((inside, self.governor.waiting().len()), (0, 0), "inside and waiting, and nobody is there");
    }
}
