//! A server with two equal databases, one of them behind a governor.

mod side;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use plimsoll_governor::config::{self, Surroundings};
use plimsoll_governor::governor::Governor;
use plimsoll_governor::registry::SessionCard;
use plimsoll_governor::relay::{self, Running};
use plimsoll_governor::settings::Address;
use plimsoll_governor::watch;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use super::interposer::Interposer;
use super::rival::{self, Rival};
use super::script::{SHAPES, User, replacing};
use super::wire::{Client, Destination, Failure, PASSWORD, PATIENCE};
pub use side::Side;

/// The versions of PostgreSQL on which seeds are run in turns; `None` is the installed one.
pub const VERSIONS: [Option<u32>; 3] = [None, Some(13), Some(18)];

/// The users of the sessions under test: see [`User`].
const USERS: &str = "
    CREATE ROLE report LOGIN;
    CREATE ROLE steady LOGIN IN ROLE report;
    CREATE ROLE once LOGIN IN ROLE report";

/// The schema of both databases. Values that differ each time are texts that begin with `g` and a digit, or are in columns
/// whose names begin with `gen_`.
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
    CREATE TABLE orders (
      id serial PRIMARY KEY, ref uuid NOT NULL DEFAULT gen_random_uuid(), made timestamptz NOT NULL DEFAULT now(), what text);
    CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text);
    CREATE TABLE checked (n int);
    CREATE FUNCTION check_late() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF NEW.n < 0 THEN RAISE EXCEPTION 'below zero'; END IF;
        UPDATE accounts SET v = v + NEW.n WHERE id = 3;
        RETURN NULL;
      END $$;
    CREATE CONSTRAINT TRIGGER late AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION check_late();
    CREATE TABLE mailed (n int);
    CREATE FUNCTION mail_late() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM mail(''deferred''); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER late AFTER INSERT ON mailed DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION mail_late();
    CREATE FUNCTION redefine(body text) RETURNS void LANGUAGE plpgsql AS $$
      BEGIN
        EXECUTE format('CREATE OR REPLACE FUNCTION shape(account int) RETURNS int LANGUAGE sql AS %L', body);
      END $$;
    GRANT ALL ON ALL TABLES IN SCHEMA public TO report;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO report;
    GRANT ALL ON SCHEMA public TO report;
    ALTER ROLE report SET escape_string_warning = off;
    ALTER ROLE steady SET escape_string_warning = off;
    ALTER ROLE once SET escape_string_warning = off";

/// What a database has outside of it, which is the same database here: rows that are committed by themselves.
const OUTSIDE: &str = "
    CREATE EXTENSION postgres_fdw;
    CREATE EXTENSION dblink;
    CREATE SCHEMA far;
    CREATE TABLE far.rows (n int, who text);
    CREATE TABLE far.mails (what text);
    GRANT ALL ON SCHEMA far TO report;
    GRANT ALL ON ALL TABLES IN SCHEMA far TO report;
    CREATE FUNCTION socket_folder() RETURNS text LANGUAGE sql AS
      'SELECT trim(BOTH ''\"'' FROM current_setting(''unix_socket_directories''))';
    CREATE FUNCTION mail(what text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
      BEGIN
        PERFORM dblink_exec(
          format('host=%s port=%s dbname=%s user=%s', socket_folder(), current_setting('port'),
            current_database(), current_user),
          format('INSERT INTO far.mails VALUES (%L)', what));
        RETURN 1;
      END $$;
    DO $$ BEGIN
      EXECUTE format('CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
        socket_folder(), current_setting('port'), current_database());
    END $$;
    GRANT USAGE ON FOREIGN SERVER far TO report;
    CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'report', password_required 'false');
    CREATE USER MAPPING FOR report SERVER far OPTIONS (user 'report', password_required 'false');
    CREATE USER MAPPING FOR steady SERVER far OPTIONS (user 'report', password_required 'false');
    CREATE USER MAPPING FOR once SERVER far OPTIONS (user 'report', password_required 'false');
    CREATE FOREIGN TABLE remote (n int, who text) SERVER far OPTIONS (schema_name 'far', table_name 'rows');
    CREATE VIEW beyond AS SELECT n, who FROM remote;
    GRANT ALL ON remote, beyond TO report";

/// The initial contents of both in each run, made without a change of the catalogs: the rows that an inquiry follows there must be older
/// than a transaction for it to be replayed.
const BEGINNING: &str = "
    DROP TABLE IF EXISTS extra;
    DELETE FROM accounts; DELETE FROM log; DELETE FROM later; DELETE FROM orders; DELETE FROM items;
    DELETE FROM checked; DELETE FROM mailed; DELETE FROM far.rows; DELETE FROM far.mails;
    INSERT INTO accounts SELECT id, id * 10 FROM generate_series(1, 5) AS id;
    INSERT INTO later VALUES (1);
    SELECT setval('numbers', 1, false), setval('orders_id_seq', 1, false), setval('items_id_seq', 1, false)";

/// After this time the governor knows that the objects of a new database are older than a transaction.
const KNOWN_AFTER: Duration = Duration::from_millis(2500);

/// The state of a server process between transactions.
pub const AT_REST: &str = "idle, no transaction";

/// A session between transactions is at rest after this time, also on a busy machine.
const REST_MAX: Duration = Duration::from_secs(5);

/// The advisory lock that another session holds all the time.
pub const TAKEN: i32 = 99;

/// All state outside of sessions: rows, tables, and locks.
const DATA: &str = "
    SELECT 'accounts', id::text, v::text, gen_note FROM accounts
    UNION ALL SELECT 'log', who, n::text, gen_id FROM log
    UNION ALL SELECT 'later', k::text, NULL, NULL FROM later
    UNION ALL SELECT 'orders ' || what, 'gen_order=' || id, 'gen_made=' || made, 'gen_ref=' || ref FROM orders
    UNION ALL SELECT 'items', what, 'gen_item=' || id, NULL FROM items
    UNION ALL SELECT 'checked', n::text, NULL, NULL FROM checked
    UNION ALL SELECT 'mailed', n::text, NULL, NULL FROM mailed
    UNION ALL SELECT 'far rows', n::text, who, NULL FROM far.rows
    UNION ALL SELECT 'far mails', what, NULL, NULL FROM far.mails
    UNION ALL SELECT 'shape', prosrc, NULL, NULL FROM pg_proc WHERE proname = 'shape'
    UNION ALL SELECT 'table', relname, NULL, NULL FROM pg_class
      WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'advisory lock', classid::text, objid::text, mode FROM pg_locks
      WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// One server of each version for all worlds; it ends with the last of them.
fn server(version: Option<u32>) -> Arc<PrivateServer> {
    static SHARED: Mutex<BTreeMap<Option<u32>, Weak<PrivateServer>>> = Mutex::new(BTreeMap::new());
    // A test that fails while it starts the server fails alone; the next one tries again.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.get(&version).and_then(Weak::upgrade).unwrap_or_else(|| {
        let server = Arc::new(start(version));
        shared.insert(version, Arc::downgrade(&server));
        server
    })
}

/// A server with a database that has the schema. If the version is not available, it is the installed one.
fn start(version: Option<u32>) -> PrivateServer {
    let mut settings = ServerSettings::for_this_machine();
    if let Some(folder) = version.and_then(plimsoll_testing::postgres_version) {
        settings.set("bin_folder", folder.to_str().unwrap()).unwrap();
    }
    for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
        settings.set(name, value).unwrap();
    }
    let server =
        PrivateServer::start(settings).unwrap_or_else(|error| panic!("these tests need a PostgreSQL server: {error}"));
    let place = Destination::Unix(socket(&server));
    let connect = |database: &str| Client::connect(&place, server.user(), database).unwrap();
    let mut client = connect(server.database());
    client.query(USERS).unwrap();
    client.query("CREATE DATABASE model").unwrap();
    let shape = format!("{}; ALTER FUNCTION shape OWNER TO report", replacing(0));
    for sql in [OUTSIDE, SCHEMA, &shape] {
        connect("model").query(sql).unwrap_or_else(|failure| panic!("{failure}\n{sql}"));
    }
    server
}

fn socket(server: &PrivateServer) -> PathBuf {
    server.socket_folder().join(format!(".s.PGSQL.{}", server.port()))
}

/// The start-up parameters of all clients. Those of one pool have the same.
pub const PARAMETERS: [(&str, &str); 2] = [("client_encoding", "UTF8"), ("DateStyle", "ISO")];

/// Both databases, and the governor in front of one.
pub struct World {
    pub governed: Side,
    pub plain: Side,
    pub interposer: Interposer,
    pub governor: Arc<Governor>,
    pub patience: Cell<Duration>,
    /// Whether sessions share server connections.
    pub is_pooled: bool,
    _users: tempfile::TempDir,
    _watcher: watch::Watcher,
    _running: Running,
    _server: Arc<PrivateServer>,
}

impl World {
    /// Two new databases of a server of that version.
    pub fn new(version: Option<u32>) -> World {
        World::start(version, false)
    }

    /// The same with a pool of one connection for each user.
    pub fn pooled(version: Option<u32>) -> World {
        World::start(version, true)
    }

    fn start(version: Option<u32>, is_pooled: bool) -> World {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (server, number) = (server(version), COUNT.fetch_add(1, Ordering::Relaxed));
        let place = Destination::Unix(socket(&server));
        let connect = |database: &str| Client::connect(&place, server.user(), database).unwrap();
        let mut client = connect(server.database());
        let mut side = |name: &str| {
            let database = format!("{name}_{number}");
            client.query(&format!("CREATE DATABASE {database} TEMPLATE model")).unwrap();
            let mut observer = connect(&database);
            observer.query(&format!("SET lock_timeout = '10s'; SELECT pg_advisory_lock({TAKEN})")).unwrap();
            observer.query(&format!("ALTER SERVER far OPTIONS (SET dbname '{database}')")).unwrap();
            Side { place: place.clone(), database, observer }
        };
        let (plain, mut governed) = (side("plain"), side("governed"));
        let interposer = Interposer::start(socket(&server));
        interposer.set_somebody(connect(&governed.database));
        let users = tempfile::tempdir().unwrap();
        let mut settings = settings(&interposer, is_pooled.then(|| users_file(users.path())));
        settings.control =
            Some(ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), &governed.database));
        let governor = Arc::new(Governor::new(settings, Instant::now()));
        interposer.set_governor(Arc::clone(&governor));
        let running = relay::start(Arc::clone(&governor)).unwrap();
        let tcp = |address: &Address| if let Address::Tcp(address) = address { Some(*address) } else { None };
        governed.place = Destination::Tcp(running.addresses().iter().find_map(tcp).unwrap());
        // If this did not work, everything about foreign rows would fail on both sides, and nothing would be tested.
        for side in [&governed, &plain] {
            let mut client = side.connect(User::Report).unwrap();
            client.query("SELECT mail('check'); INSERT INTO beyond VALUES (1, 'check')").unwrap();
        }
        let watcher = watch::start(Arc::clone(&governor));
        std::thread::sleep(KNOWN_AFTER);
        World {
            governed,
            plain,
            interposer,
            _watcher: watcher,
            governor,
            patience: Cell::new(PATIENCE),
            is_pooled,
            _users: users,
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
                       AND usename IN ('report', 'steady', 'once')";
            let deadline = Instant::now() + PATIENCE;
            while !side.observer.query(end).unwrap().rows.is_empty() {
                assert!(Instant::now() < deadline, "sessions do not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            side.observer.query(BEGINNING).unwrap();
            let shape = side.observer.value("SELECT prosrc FROM pg_proc WHERE proname = 'shape'").unwrap();
            if shape != SHAPES[0] {
                side.observer.query(&replacing(0)).unwrap();
            }
        }
    }

    /// A session on each side: governed, and plain.
    pub fn connect(&self, user: User) -> Result<(Client, Client), Failure> {
        let governed = self.governed.connect(user)?;
        governed.set_patience(self.patience.get())?;
        if let Destination::Tcp(address) = self.governed.place {
            self.interposer.set_client(address, governed.key.clone());
        }
        Ok((governed, self.plain.connect(user)?))
    }

    pub fn card(&self, client: &Client) -> Option<Arc<SessionCard>> {
        let is_its = |card: &Arc<SessionCard>| card.key.get().is_some_and(|key| key.process == client.process());
        self.governor.registry.all().into_iter().find(is_its)
    }

    /// The server process that serves a governed client now, if one does.
    pub fn process_of(&self, client: &Client) -> Option<i32> {
        match self.is_pooled {
            true => self.card(client).and_then(|card| card.process()),
            false => Some(client.process()),
        }
    }

    /// Waits until nothing is left of a governed client with that number.
    pub fn until_gone(&mut self, process: i32) -> Result<(), String> {
        if !self.is_pooled {
            return self.governed.until_gone(process);
        }
        let deadline = Instant::now() + PATIENCE;
        let is_its = |card: &Arc<SessionCard>| card.key.get().is_some_and(|key| key.process == process);
        while self.governor.registry.all().iter().any(is_its)
            || self.governor.pools.view().iter().any(|pool| pool.in_use > 0)
        {
            if Instant::now() > deadline {
                return Err(format!("{:?} stay in use though their client has left", self.governor.pools.view()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Another client of the user's pool, if there are pools.
    pub fn rival(&self, user: User) -> Option<Rival> {
        self.is_pooled.then(|| Rival::connect(&self.governed.place, user.name(), &self.governed.database))
    }
}

/// Writes the passwords with which the governor lets clients in.
fn users_file(folder: &Path) -> PathBuf {
    let file = folder.join("users.txt");
    let users = User::ALL.map(|user| format!("\"{}\" \"{PASSWORD}\"\n", user.name()));
    std::fs::write(&file, users.concat()).unwrap();
    file
}

/// The settings of an operator who has every transaction of reports rolled back. With a users file, sessions are pooled.
fn settings(interposer: &Interposer, users: Option<PathBuf>) -> plimsoll_governor::settings::Settings {
    let pool = users.map_or(String::new(), |users| {
        format!(
            "[pool]\nmode = \"transaction\"\nsize = 1\n[login]\nusers_file = \"{}\"\n[[class]]\nname = \"rival\"\n\
             priority = \"low\"\nqueue_timeout = \"{}\"\n[[rule]]\nclass = \"rival\"\napplication_name = \"{}\"",
            users.display(),
            rival::WAITS,
            rival::RIVAL
        )
    });
    let text = format!(
        "server = \"postgres://report@{}/model?sslmode=disable\"
         default_class = \"low\"
         [listen]
         addresses = [\"127.0.0.1:0\"]
         workers = 1
         {pool}
         [[class]]
         name = \"high\"
         priority = \"high\"
         [[class]]
         name = \"low\"
         priority = \"low\"
         preemptible = true
         retries = true
         [[class]]
         name = \"steady\"
         priority = \"low\"
         preemptible = true
         [[class]]
         name = \"once\"
         priority = \"low\"
         preemptible = true
         retries = true
         replay = false
         [[rule]]
         class = \"steady\"
         user = \"steady\"
         [[rule]]
         class = \"once\"
         user = \"once\"
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
