//! Against a real server: adversaries hide statements that must not run twice, and ordinary transactions are found
//! safe.

mod changes;
mod hostile;
mod reach;
mod tables;
mod values;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use super::*;

/// An inquiry into a transaction of one text.
pub(super) fn inquiry(text: &str) -> Inquiry {
    Inquiry::new([text.as_bytes()], TextRules::default(), [], &[], 150_000)
}

/// One server for all tests, each of which has a database of its own. It ends with the last test.
fn server() -> Arc<PrivateServer> {
    static SHARED: Mutex<Weak<PrivateServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let mut settings = ServerSettings::for_this_machine();
        for (name, value) in [("shared_buffers", "32MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
            settings.set(name, value).unwrap();
        }
        let server = Arc::new(PrivateServer::start(settings).expect("these tests need a PostgreSQL server"));
        *shared = Arc::downgrade(&server);
        server
    })
}

/// A database, and a client in it.
struct Client {
    connection: Connection,
    database: String,
    rules: TextRules,
    executed: Vec<&'static str>,
    allowed: Vec<String>,
    /// The server's version, which determines the questions.
    version: u32,
    /// How many questions the last verdict took.
    questions: u32,
    /// The last transaction that has changed what the last verdict rests on.
    newest: u64,
    /// What had ended when the transaction began; `None` for forecasts.
    horizon: Option<Horizon>,
    cache: Cache,
    _server: Arc<PrivateServer>,
}

impl Client {
    /// A client in a new database, after the given statements.
    fn new(database: &str, setup: &[&str]) -> Client {
        let server = server();
        let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
        Connection::open(&url).unwrap().run(&format!("create database {database}")).unwrap();
        let url = ServerUrl { database: database.to_owned(), ..url };
        let connection = Connection::open(&url).unwrap();
        let (rules, executed, allowed, cache) = (TextRules::default(), Vec::new(), Vec::new(), Cache::default());
        let version = connection.server_version_num();
        let database = database.to_owned();
        let mut client = Client {
            connection,
            database,
            rules,
            executed,
            allowed,
            version,
            questions: 0,
            newest: 0,
            horizon: None,
            cache,
            _server: server,
        };
        setup.iter().for_each(|sql| client.run(sql));
        client
    }

    fn run(&mut self, sql: &str) {
        self.connection.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The verdict on the given texts.
    fn verdict(&mut self, texts: &[&str]) -> Result<Safe, Unsafe> {
        let texts = texts.iter().map(|text| text.as_bytes());
        let executed = self.executed.iter().map(|name| name.as_bytes());
        let mut inquiry = Inquiry::new(texts, self.rules, executed, &self.allowed, self.version);
        if self.horizon.is_some() {
            inquiry = inquiry.of_transaction(self.horizon);
        }
        loop {
            self.cache.look_up("d", &mut inquiry);
            let (sql, parameters) = match inquiry.next() {
                Next::Known(verdict) => {
                    (self.questions, self.newest) = (inquiry.questions, inquiry.newest());
                    self.cache.keep("d", &inquiry);
                    return verdict;
                }
                Next::Ask(question) => (question.sql.to_owned(), question.parameters),
            };
            let is_answered = self.ask(&sql, &parameters, &mut inquiry);
            inquiry.on_answered(is_answered);
        }
    }

    /// A transaction begins.
    fn begins(&mut self) {
        // Transactions of other tests may be older than the last change of this one.
        let last = self.last();
        self.begins_after(last);
    }

    /// The number of a transaction that has just ended.
    fn last(&mut self) -> u64 {
        self.connection.text("select pg_current_xact_id()").unwrap().unwrap().parse().unwrap()
    }

    /// A transaction begins, after all transactions before the given one have ended.
    fn begins_after(&mut self, number: u64) {
        loop {
            let horizon = self.connection.text(crate::watch::statements::HORIZON).unwrap().unwrap();
            self.horizon = Horizon::of_text(&horizon);
            if self.horizon.unwrap().number() >= number {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Another session in the same database.
    fn another(&self) -> Connection {
        let server = &self._server;
        let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
        Connection::open(&ServerUrl { database: self.database.clone(), ..url }).unwrap()
    }

    /// Asks as a session does: by an unnamed statement and an unnamed portal, with parameters as text.
    fn ask(&mut self, sql: &str, parameters: &[Vec<u8>], inquiry: &mut Inquiry) -> bool {
        let parameters: Vec<&str> = parameters.iter().map(|value| std::str::from_utf8(value).unwrap()).collect();
        self.connection.run(LIMITS).unwrap();
        let Ok(question) = self.connection.prepare_text("", sql) else { return false };
        let mut row = |columns: &[Option<&str>]| {
            let columns: Vec<Option<&[u8]>> = columns.iter().map(|column| column.map(str::as_bytes)).collect();
            inquiry.on_row(&columns);
        };
        let asked = self.connection.prepared_text_rows(&question, &parameters, &mut row);
        let refused = asked.as_ref().is_err_and(|error| error.server().is_some_and(|error| error.code == "42501"));
        assert!(asked.is_ok() || refused, "{asked:?}: {sql}");
        asked.is_ok()
    }

    fn is_safe(&mut self, text: &str) {
        assert_eq!(self.verdict(&[text]).map(|_| ()), Ok(()), "{text}");
    }

    fn is_unsafe(&mut self, text: &str, because: Unsafe) {
        assert_eq!(self.verdict(&[text]), Err(because), "{text}");
    }
}

/// A function that takes a session lock when it is called for a row.
const LOCKER: &str = "create function locker(int) returns bool language plpgsql volatile as \
    $$ begin perform pg_advisory_lock($1); return true; end $$";

#[test]
fn what_pgbench_and_tpcc_do_is_safe() {
    let mut client = Client::new(
        "ordinary",
        &[
            "create table pgbench_branches (bid int primary key, bbalance int, filler text)",
            "create table pgbench_accounts (aid int primary key, bid int references pgbench_branches, abalance int)",
            "create table pgbench_history (tid int, aid int, delta int, mtime timestamp default current_timestamp)",
            "create table orders (id bigint generated always as identity primary key, made timestamptz default now(), \
             total numeric check (total >= 0), tax numeric generated always as (total * 0.2) stored, \
             token uuid default gen_random_uuid(), parent bigint references orders on delete cascade)",
            "create index on orders (lower(token::text)) where total > 0",
            "create function touch() returns trigger language plpgsql as \
             $$ begin new.made := now(); if new.total > 5 then new.total = round(new.total, 2); end if; return new; end $$",
            "create trigger touch before update on orders for each row when (old.total is distinct from new.total) \
             execute function touch()",
            "create view recent as select id, total, upper(token::text) from orders where made > now() - interval '1 day'",
            "create domain amount as numeric check (value >= 0)",
            "create function total_of(a amount) returns numeric language sql stable as 'select sum(total) + a from orders'",
            "create extension pgcrypto; create extension \"uuid-ossp\"; create extension hstore; create extension citext",
            "create table made (id uuid default uuid_generate_v4(), salt text default gen_salt('bf'), name citext)",
        ],
    );
    for text in [
        "UPDATE pgbench_accounts SET abalance = abalance + 5 WHERE aid = 7; SELECT abalance FROM pgbench_accounts",
        "INSERT INTO pgbench_history (tid, aid, delta, mtime) VALUES (1, 2, 3, CURRENT_TIMESTAMP)",
        "select count(*), sum(bbalance) from pgbench_branches where bid = any ($1) for update",
        "insert into orders (total) values (5) returning id",
        "update orders set total = total_of(3) where id = 1",
        "delete from orders where id = 4",
        "select * from recent where id < 100 order by total desc limit 10",
        "insert into made (name) values ('a')",
        "select nextval('orders_id_seq'), currval('orders_id_seq'), gen_random_uuid()",
        "create table staging as select * from orders; drop table staging",
        "with moved as (delete from orders where total = 0 returning *) insert into pgbench_history select 1, 2, 3",
        "lock table orders in share mode; savepoint a; rollback to a",
        "",
    ] {
        client.is_safe(text);
        assert!(client.questions <= 12, "{text}: {} questions", client.questions);
    }
}

/// A transaction calls a function that takes an advisory lock, or that runs a text. The governor saw only the name of
/// the function and replayed the transaction, and the lock was held twice.
#[test]
fn functions_are_followed() {
    let mut client = Client::new(
        "functions",
        &[
            LOCKER,
            "create schema hidden",
            "create function hidden.helper() returns bool language sql stable as 'select public.locker(1)'",
            "create function \"Odd \"\"name\"() returns bool language sql as 'select hidden.helper()'",
            "create function dynamic(text) returns void language plpgsql as $$ begin execute $1; end $$",
            "create function looped() returns int language plpgsql as \
             $$ declare r record; begin for r in execute 'select 1' loop end loop; return 1; end $$",
            "create function parsed() returns bool begin atomic select pg_try_advisory_lock(1); end",
            "create function returned() returns bool return public.locker(2)",
            "create function by_default(a bool default public.locker(3)) returns int language sql as 'select 1'",
            "create function mutual(int) returns int language plpgsql as $$ begin return mutual($1 - 1); end $$",
            "create type pair as (a int, b int)",
            "create function taken(pair) returns bool language plpgsql as $$ begin return locker(1); end $$",
            "create function locked_step(int, int) returns int language plpgsql as \
             $$ begin perform locker(1); return 1; end $$",
            "create aggregate locked(int) (sfunc = locked_step, stype = int)",
            "create function untrusted() returns int language c as '$libdir/plpgsql', 'plpgsql_validator'",
            "create function steady() returns int language c stable as '$libdir/plpgsql', 'plpgsql_validator'",
        ],
    );
    for text in [
        "select locker(1)",
        "select LOCKER(1)",
        "select hidden.helper()",
        "select \"Odd \"\"name\"()",
        "select parsed()",
        "select returned()",
        "select by_default()",
        "select (row(1, 2)::pair).taken",
        "select locked(a) from t",
        "select 1 where exists (select from hidden.helper())",
        "update t set a = case when hidden.helper() then 1 end",
    ] {
        client.is_unsafe(text, Unsafe::SessionLock);
    }
    client.is_unsafe("select dynamic('select 1')", Unsafe::Function);
    client.is_unsafe("select looped()", Unsafe::Function);
    client.is_unsafe("select untrusted()", Unsafe::Function);
    client.is_unsafe("create function f() returns int language sql as 'select 1'", Unsafe::Function);
    client.is_unsafe("select pg_advisory_xact_lock(1)", Unsafe::AdvisoryLock);
    client.is_unsafe("select U&\"locker\"(1)", Unsafe::OutsideEffect);
    client.is_safe("select mutual(1), steady(), 'locker(1)', $$dynamic()$$ -- locker(1)");
    client.allowed = ["dynamic", "untrusted", "helper"].map(str::to_owned).to_vec();
    client.is_safe("select dynamic('select 1'), untrusted(), hidden.helper()");
    client.is_unsafe("select dynamic('select 1'), looped()", Unsafe::Function);
}

/// Operators, casts and support functions of indexes run without being named.
#[test]
fn what_runs_without_a_name_is_followed() {
    let ways = [
        ("create operator ~~~> (leftarg = int, rightarg = int, function = locker_2)", "select 1 ~~~> 2 from t"),
        ("create operator = (leftarg = mood, rightarg = int, function = locker_of)", "select 'good'::mood in (1, 2)"),
        ("create cast (mood as int) with function locker_of_mood as implicit", "select * from moods"),
        (
            "create operator class backwards for type int using btree as operator 1 <, operator 2 <=, operator 3 =, \
             operator 4 >=, operator 5 >, function 1 locker_2 (int, int)",
            "select 1 + 2 from t",
        ),
        // The server's own function, by another name.
        ("create operator ~~~> (leftarg = int, rightarg = int, function = pg_try_advisory_lock)", "select 1~~~>2"),
    ];
    for (number, (way, text)) in ways.iter().enumerate() {
        let mut client = Client::new(
            &format!("unnamed_{number}"),
            &[
                LOCKER,
                "create type mood as enum ('good'); create table moods (m mood)",
                "create function locker_2(int, int) returns int language plpgsql immutable as \
                 $$ begin perform locker($1); return 0; end $$",
                "create function locker_of(mood, int) returns bool language sql as 'select locker($2)'",
                "create function locker_of_mood(mood) returns int language sql immutable as 'select locker(1)::int'",
                "create table t (a int)",
            ],
        );
        client.is_safe(text);
        client.run(way);
        client.is_unsafe(text, Unsafe::SessionLock);
    }
    let mut client = Client::new(
        "events",
        &[
            LOCKER,
            "create function on_event() returns event_trigger language plpgsql as $$ begin perform locker(1); end $$",
            "create event trigger e on ddl_command_end execute function on_event()",
        ],
    );
    client.is_unsafe("create table t (a int)", Unsafe::SessionLock);
    client.is_unsafe("grant select on t to public", Unsafe::SessionLock);
    client.is_safe("insert into t values (1)");
}

/// An inquiry into a transaction that binds one older statement, which according to the server was prepared with the
/// given text.
fn prepared(name: &str, sql: &str) -> Inquiry {
    let mut inquiry = Inquiry::new([&b"select 1"[..]], TextRules::default(), [name.as_bytes()], &[], 150_000);
    assert!(matches!(inquiry.next(), Next::Ask(_)));
    inquiry.on_row(&[Some(name.as_bytes()), Some(sql.as_bytes())]);
    inquiry.on_answered(true);
    inquiry
}

/// A client runs by EXECUTE, or by a Bind, a statement that it has prepared before its transaction.
#[test]
fn prepared_statements_are_read() {
    let mut client = Client::new(
        "prepared",
        &[
            LOCKER,
            "create table t (a int)",
            "prepare safe as select * from t",
            "prepare \"Unsafe\" (int) as select locker($1)",
            "prepare locking as select pg_advisory_lock(1)",
        ],
    );
    client.is_safe("execute safe");
    client.is_safe("explain analyze execute safe");
    client.is_unsafe("execute \"Unsafe\"(1)", Unsafe::SessionLock);
    client.is_unsafe("create table u as execute \"Unsafe\"(1)", Unsafe::SessionLock);
    client.is_unsafe("execute locking", Unsafe::SessionLock);
    client.is_unsafe("execute missing", Unsafe::PreparedStatement);
    client.run("set standard_conforming_strings = off");
    client.run("prepare hiding as select '\\'' || locker(1) || '\\''");
    client.run("set standard_conforming_strings = on");
    client.is_unsafe("execute hiding", Unsafe::SessionLock);
    // Parse can prepare any statement; PREPARE accepts only queries.
    for (name, sql) in
        [("ending", "commit"), ("dropping", "deallocate safe"), ("setting", "set client_encoding = sjis")]
    {
        assert_eq!(prepared(name, sql).next(), Next::Known(Err(Unsafe::PreparedStatement)), "{sql}");
    }
    // pgbench and JDBC drivers keep a prepared BEGIN. While that counted as unsafe, none of their transactions were
    // replayed.
    for sql in ["begin", "start transaction isolation level serializable read write"] {
        assert!(matches!(prepared("b", sql).next(), Next::Ask(_)), "what it runs is asked for next: {sql}");
    }
    client.executed = vec!["safe", "Unsafe"];
    client.is_unsafe("select 1", Unsafe::SessionLock);
    client.executed = vec!["safe"];
    client.is_safe("select 1");
    client.executed = vec!["safe", "a\"b\\c"];
    client.is_unsafe("select 1", Unsafe::PreparedStatement);
}

/// A function moves a cursor WITH HOLD of an earlier transaction, under a computed name.
#[test]
fn older_cursors_are_seen() {
    let mut client = Client::new(
        "cursors",
        &[
            "create function moved() returns int language plpgsql as \
             $$ declare c refcursor := 'older'; r int; begin fetch c into r; return r; end $$",
            "create table t (a int)",
        ],
    );
    let declared = "declare c cursor for select 1; fetch c";
    client.is_safe("select moved()");
    client.is_safe(declared);
    client.run("declare older cursor with hold for select generate_series(1, 5)");
    client.is_unsafe("select moved()", Unsafe::Cursor);
    client.is_unsafe(declared, Unsafe::Cursor);
    client.is_safe("select * from t");
}

/// The questions for servers before PostgreSQL 14 can be asked of any server.
#[test]
fn older_servers_are_asked_in_their_way() {
    let mut client = Client::new("older", &[LOCKER, "create table t (a int default 1, b bool check (locker(a)))"]);
    client.version = 130_000;
    client.is_unsafe("insert into t values (1)", Unsafe::SessionLock);
    client.is_safe("select lower('A')");
}

/// An inquiry stops when reading takes too long: a verdict costs the client's time.
#[test]
fn large_transactions_are_not_inquired_about() {
    let words: Vec<String> = (0..NAMES_MAX + 10).map(|number| format!("w{number}")).collect();
    let text = format!("select {}", words.join(", "));
    assert_eq!(inquiry(&text).next(), Next::Known(Err(Unsafe::Function)));
    let mut inquiry = inquiry("select f()");
    let mut oid = 20_000;
    while matches!(inquiry.next(), Next::Ask(_)) {
        oid += 1;
        inquiry.on_row(&[Some(b"R"), None, Some(oid.to_string().as_bytes())]);
        inquiry.on_answered(true);
        assert!(inquiry.questions <= QUESTIONS_MAX);
    }
    assert_eq!(inquiry.next(), Next::Known(Err(Unsafe::Function)));
}

/// The server does not answer: a right was revoked, or a time-out expired. Nothing is known then, so nothing is proved.
#[test]
fn without_an_answer_nothing_is_proved() {
    for sql in ["select 1", "fetch c"] {
        let mut inquiry = inquiry(sql);
        assert!(matches!(inquiry.next(), Next::Ask(_)));
        inquiry.on_answered(false);
        assert_eq!(inquiry.next(), Next::Known(Err(Unsafe::Function)));
    }
    let mut inquiry = inquiry("select 1");
    assert!(matches!(inquiry.next(), Next::Ask(_)));
    inquiry.on_row(&[Some(b"X"), None]);
    assert_eq!(inquiry.next(), Next::Known(Err(Unsafe::Function)));
}
