//! A server with two equal databases, one of them behind a governor.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use plimsoll_governor::config::{self, Surroundings};
use plimsoll_governor::governor::Governor;
use plimsoll_governor::registry::SessionCard;
use plimsoll_governor::relay::{self, Address, Running};
use plimsoll_governor::watch;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_postgres::url::ServerUrl;

use super::interposer::Interposer;
use super::wire::{Client, Destination, Failure, PASSWORD, PATIENCE};

/// The user of the sessions under test: it has the lowest class, whose transactions may be rolled back.
const USER: &str = "report";

/// The schema of both databases. Values that differ each time are texts that begin with `g` and a digit.
const SCHEMA: &str = "
    CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL, gen_note text);
    CREATE SEQUENCE numbers;
    CREATE TABLE log (gen_id text PRIMARY KEY DEFAULT 'g' || nextval('numbers'), who text, n int);
    CREATE TABLE later (k int UNIQUE DEFERRABLE INITIALLY DEFERRED);
    CREATE FUNCTION bump(account int) RETURNS int LANGUAGE plpgsql AS $$
      DECLARE now int;
      BEGIN
        UPDATE accounts SET v = v + 7 WHERE id = account RETURNING v INTO now;
        RETURN now;
      END $$;
    CREATE FUNCTION remember(who text) RETURNS text LANGUAGE sql AS $$
      INSERT INTO log (who, n) VALUES (who, -1) RETURNING gen_id
    $$;
    CREATE FUNCTION guarded(account int) RETURNS text LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO accounts VALUES (account, 0);
        RETURN 'inserted';
      EXCEPTION WHEN unique_violation THEN
        RAISE NOTICE 'account % is there', account;
        RETURN 'there';
      END $$;
    CREATE PROCEDURE stepwise() LANGUAGE plpgsql AS $$
      BEGIN
        UPDATE accounts SET v = v + 100 WHERE id = 1;
        COMMIT;
        UPDATE accounts SET v = v + 1000 WHERE id = 1;
      END $$;
    CREATE VIEW rich AS SELECT id, v FROM accounts WHERE v > 20;
    GRANT ALL ON ALL TABLES IN SCHEMA public TO report;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO report;
    GRANT ALL ON SCHEMA public TO report;
    ALTER ROLE report SET escape_string_warning = off";

/// The initial contents of both in each run.
const BEGINNING: &str = "
    DROP TABLE IF EXISTS extra;
    TRUNCATE accounts, log, later;
    INSERT INTO accounts SELECT id, id * 10 FROM generate_series(1, 5) AS id;
    INSERT INTO later VALUES (1);
    ALTER SEQUENCE numbers RESTART";

/// All state outside of sessions: rows, tables, and locks.
const DATA: &str = "
    SELECT 'accounts', id::text, v::text, gen_note FROM accounts
    UNION ALL SELECT 'log', who, n::text, gen_id FROM log
    UNION ALL SELECT 'later', k::text, NULL, NULL FROM later
    UNION ALL SELECT 'table', relname, NULL, NULL FROM pg_class
      WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'advisory lock', classid::text, objid::text, mode FROM pg_locks
      WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// One server for all worlds; it ends with the last of them.
fn server() -> Arc<PrivateServer> {
    static SHARED: Mutex<Weak<PrivateServer>> = Mutex::new(Weak::new());
    // A test that fails while it starts the server fails alone; the next one tries again.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let mut settings = ServerSettings::for_this_machine();
        for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
            settings.set(name, value).unwrap();
        }
        let server = PrivateServer::start(settings)
            .unwrap_or_else(|error| panic!("these tests need a PostgreSQL server: {error}"));
        let place = Destination::Unix(socket(&server));
        let connect = |database: &str| Client::connect(&place, server.user(), database).unwrap();
        let mut client = connect(server.database());
        client.query(&format!("CREATE ROLE {USER} LOGIN")).unwrap();
        client.query("CREATE DATABASE model").unwrap();
        connect("model").query(SCHEMA).unwrap();
        let server = Arc::new(server);
        *shared = Arc::downgrade(&server);
        server
    })
}

fn socket(server: &PrivateServer) -> PathBuf {
    server.socket_folder().join(format!(".s.PGSQL.{}", server.port()))
}

/// One of the two databases.
pub struct Side {
    /// How the session under test connects to it.
    place: Destination,
    database: String,
    /// A session that observes it from outside.
    observer: Client,
}

impl Side {
    fn connect(&self) -> Result<Client, Failure> {
        let own = [("user", USER), ("database", &self.database), ("client_encoding", "UTF8"), ("DateStyle", "ISO")];
        // The governor announces the session's class to the server, so that SHOW has an answer.
        let is_plain = matches!(self.place, Destination::Unix(_));
        let class = is_plain.then_some(("plimsoll.class", "low"));
        let parameters: Vec<_> = own.into_iter().chain(class).collect();
        Client::log_in(&self.place, &parameters, PASSWORD)
    }

    /// Its contents, in no particular order.
    pub fn data(&mut self) -> Vec<Vec<Option<String>>> {
        self.observer.query(DATA).unwrap().rows
    }

    pub fn change(&mut self, sql: &str) {
        self.observer.query(sql).unwrap();
    }

    pub fn advisory_locks(&mut self, process: i32) -> String {
        let sql = format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {process}");
        self.observer.value(&sql).unwrap()
    }

    pub fn until_gone(&mut self, process: i32) -> Result<(), String> {
        let sql = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {process}");
        let deadline = Instant::now() + PATIENCE;
        while !self.observer.query(&sql).unwrap().rows.is_empty() {
            if Instant::now() > deadline {
                return Err(format!("the server's process {process} stays though its client has left"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Both databases, and the governor in front of one.
pub struct World {
    pub governed: Side,
    pub plain: Side,
    pub interposer: Interposer,
    pub governor: Arc<Governor>,
    pub patience: Cell<Duration>,
    _watcher: watch::Watcher,
    _running: Running,
    _server: Arc<PrivateServer>,
}

impl World {
    /// Two new databases.
    pub fn new() -> World {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (server, number) = (server(), COUNT.fetch_add(1, Ordering::Relaxed));
        let place = Destination::Unix(socket(&server));
        let connect = |database: &str| Client::connect(&place, server.user(), database).unwrap();
        let mut client = connect(server.database());
        let mut side = |name: &str| {
            let database = format!("{name}_{number}");
            client.query(&format!("CREATE DATABASE {database} TEMPLATE model")).unwrap();
            let mut observer = connect(&database);
            observer.query("SET lock_timeout = '10s'").unwrap();
            Side { place: place.clone(), database, observer }
        };
        let (plain, mut governed) = (side("plain"), side("governed"));
        let interposer = Interposer::start(socket(&server));
        interposer.set_somebody(connect(&governed.database));
        let mut settings = settings(&interposer);
        settings.control =
            Some(ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), &governed.database));
        let governor = Arc::new(Governor::new(settings, Instant::now()));
        interposer.set_governor(Arc::clone(&governor));
        let running = relay::start(Arc::clone(&governor)).unwrap();
        let tcp = |address: &Address| if let Address::Tcp(address) = address { Some(*address) } else { None };
        governed.place = Destination::Tcp(running.addresses().iter().find_map(tcp).unwrap());
        World {
            governed,
            plain,
            interposer,
            _watcher: watch::start(Arc::clone(&governor)),
            governor,
            patience: Cell::new(PATIENCE),
            _running: running,
            _server: server,
        }
    }

    /// Restores the initial contents of both databases, after any session.
    pub fn reset(&mut self) {
        self.interposer.arm([]);
        self.interposer.arm_change(None, false);
        self.interposer.take_done();
        for side in [&mut self.governed, &mut self.plain] {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
                       AND usename = 'report'";
            let deadline = Instant::now() + PATIENCE;
            while !side.observer.query(end).unwrap().rows.is_empty() {
                assert!(Instant::now() < deadline, "sessions do not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            side.observer.query(BEGINNING).unwrap();
        }
    }

    /// A session on each side: governed, and plain.
    pub fn connect(&self) -> Result<(Client, Client), Failure> {
        let governed = self.governed.connect()?;
        governed.set_patience(self.patience.get())?;
        if let Destination::Tcp(address) = self.governed.place {
            self.interposer.set_client(address, governed.key.clone());
        }
        Ok((governed, self.plain.connect()?))
    }

    pub fn card(&self, client: &Client) -> Option<Arc<SessionCard>> {
        let process = Some(client.process());
        self.governor.registry.all().into_iter().find(|card| card.process() == process)
    }
}

/// The settings of an operator who has every transaction of reports rolled back.
fn settings(interposer: &Interposer) -> plimsoll_governor::settings::Settings {
    let text = format!(
        "server = \"postgres://report@{}/model?sslmode=disable\"
         default_class = \"low\"
         [listen]
         addresses = [\"127.0.0.1:0\"]
         workers = 1
         [[class]]
         name = \"high\"
         priority = \"high\"
         [[class]]
         name = \"low\"
         priority = \"low\"
         preemptible = true
         retries = true
         [[rule]]
         class = \"high\"
         user = \"shop\"
         [preemption]
         replay_bytes_max = \"200KiB\"
         policy = \"pow\"",
        interposer.address
    );
    let surroundings = Surroundings { folder: Path::new("."), environment: &|_| None, classes: &[] };
    config::parse(&text, "model.toml", &surroundings).unwrap_or_else(|error| panic!("{error}")).settings
}
