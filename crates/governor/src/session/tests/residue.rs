//! What pooled sessions are said to leave, against what real servers say is left.

mod blocks;

use std::path::Path;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use super::story::{Sent, framed};
use super::*;
use crate::statement::residue::{Pin, Residue};
use blocks::{CODE, TEXTS};

fn server(folder: Option<&Path>) -> PrivateServer {
    let mut settings = ServerSettings::for_this_machine();
    for (name, value) in [("shared_buffers", "32MB"), ("fsync", "off")] {
        settings.set(name, value).unwrap();
    }
    if let Some(folder) = folder {
        settings.set("bin_folder", folder.to_str().unwrap()).unwrap();
    }
    PrivateServer::start(settings).expect("these tests need a PostgreSQL server")
}

fn url(server: &PrivateServer) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database())
}

/// A pooled session at a real server.
struct Pooled {
    session: Session,
    governor: Arc<Governor>,
    connection: Connection,
    now: Instant,
    /// Settings that the connection has had from its beginning.
    begins_with: Vec<String>,
}

impl Pooled {
    fn new(server: &PrivateServer) -> Pooled {
        let now = Instant::now();
        Pooled::of(Arc::new(Governor::new(for_tests(), now)), server, now)
    }

    fn of(governor: Arc<Governor>, server: &PrivateServer, now: Instant) -> Pooled {
        let connection = Connection::open(&url(server)).unwrap();
        let version = connection.server_version_num();
        let mut session = session(&governor, "high_user", now);
        session.reported.version = version;
        session.set_pooled(true);
        let mut pooled = Pooled { session, governor, connection, now, begins_with: Vec::new() };
        pooled.begins_with = pooled.settings();
        pooled
    }

    fn query(&mut self, sql: &str) {
        self.client(&framed(b'Q', format!("{sql}\0").as_bytes()));
    }

    fn parse(&mut self, name: &str, sql: &str) {
        let parse = framed(b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        self.client(&[parse, framed(b'S', b"")].concat());
    }

    fn execute(&mut self, name: &str) {
        let bind = framed(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
        self.client(&[bind, framed(b'E', b"\0\0\0\0\0"), framed(b'S', b"")].concat());
    }

    fn client(&mut self, bytes: &[u8]) {
        let mut out = Sent::default();
        let taken = self.session.on_client(bytes, self.now, &mut out).unwrap();
        assert_eq!(taken, bytes.len());
        self.exchange(out);
        assert_eq!(self.session.is_idle(), self.session.status == Status::Idle);
    }

    fn exchange(&mut self, mut out: Sent) {
        while !out.server.is_empty() {
            let (request, mut answers) = (std::mem::take(&mut out.server), Vec::new());
            self.connection.relay(&request, |tag, body| answers.extend(framed(tag, body))).unwrap();
            let taken = self.session.on_server(&answers, self.now, &mut out).unwrap();
            assert_eq!(taken, answers.len());
        }
    }

    fn all(&mut self, sql: &str) -> Vec<String> {
        let mut all = Vec::new();
        self.connection.text_rows(sql, &mut |row| all.push(row[0].unwrap_or_default().to_owned())).unwrap();
        all
    }

    fn settings(&mut self) -> Vec<String> {
        self.all("select lower(name) from pg_settings where source = 'session'")
    }

    /// What is left according to the server, and not covered by what the session says.
    fn uncovered(&mut self) -> Vec<String> {
        let residue = self.session.residue().clone();
        if residue.pin.is_some() {
            return Vec::new();
        }
        let mut left = self.all(
            "select 'lock' from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() \
             union all select 'channel ' || c from pg_listening_channels() c \
             union all select 'cursor ' || name from pg_cursors where is_holdable \
             union all select 'statement ' || name from pg_prepared_statements where from_sql \
             union all select 'relation ' || relname from pg_class where relnamespace = pg_my_temp_schema()",
        );
        let begins_with = self.begins_with.clone();
        let is_said = |name: &String| residue.settings.contains(name.as_bytes());
        left.extend(self.settings().into_iter().filter(|name| !begins_with.contains(name) && !is_said(name)));
        // Settings of applications are not in the view.
        for name in
            ["name", "sql", "after", "default", "later", "block", "direct", "quoted", "config", "local", "dynamic"]
        {
            let name = format!("app.{name}");
            let value = self.all(&format!("select current_setting('{name}', true)")).remove(0);
            if !value.is_empty() && !is_said(&name) {
                left.push(name);
            }
        }
        if !residue.sequences && self.connection.text("select lastval()").is_ok() {
            left.push("value of a sequence".to_owned());
        }
        left
    }

    /// The connection is given back: it is cleaned, and another session begins.
    fn give_back(&mut self) {
        self.connection.run("discard all").unwrap();
        self.session.clear_residue();
        self.session.knows_settings(b"\"$user\", public", b"none");
    }

    fn left_after(&mut self, texts: &[&str]) -> Residue {
        texts.iter().for_each(|text| self.query(text));
        let left = self.session.residue().clone();
        let uncovered = self.uncovered();
        assert_eq!(uncovered, Vec::<String>::new(), "after {texts:?}, said {left:?}");
        self.give_back();
        left
    }
}

/// The installed server, the oldest and the newest supported one.
fn each_server(mut check: impl FnMut(&PrivateServer)) {
    check(&server(None));
    for major in [13, 18] {
        if let Some(folder) = plimsoll_testing::postgres_version(major) {
            check(&server(Some(&folder)));
        }
    }
}

fn with_code(server: &PrivateServer) {
    let mut connection = Connection::open(&url(server)).unwrap();
    CODE.iter().for_each(|sql| connection.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
}

#[test]
fn what_code_leaves_is_found_in_the_catalogs() {
    each_server(|server| {
        with_code(server);
        let mut pooled = Pooled::new(server);
        let lock = Some(Pin::SessionLock);
        for (text, expect) in [
            ("select 1 + 2, lower('A')", None),
            ("select clean(1)", None),
            ("insert into plain values (1)", None),
            ("select sets_its_own()", None),
            ("select sets()", None),
            ("select locks(1)", lock.clone()),
            ("select hidden.locks_too()", lock.clone()),
            ("select by_default()", lock.clone()),
            ("call proceeds()", lock.clone()),
            ("insert into checked values (1)", lock.clone()),
            ("insert into triggered values (1)", lock.clone()),
            ("copy triggered from stdin", lock.clone()),
            ("delete from referred where a = 3", lock.clone()),
            ("truncate top cascade", Some(Pin::MuchCode)),
            ("select * from over_it", lock.clone()),
            ("select 5::guarded", lock.clone()),
            ("select 1 ~~~> 2", lock.clone()),
            ("select summed(a) from plain", lock.clone()),
            ("select other.clean(1)", lock.clone()),
            ("set local search_path = other; select clean(1)", lock.clone()),
            ("do $$ begin perform locks(1); end $$", lock),
            ("select listens()", Some(Pin::Listens)),
            ("select makes()", Some(Pin::Temporary)),
            ("create table made_of (a int); drop table made_of", None),
            ("begin; set local search_path = public, other; create table again (a int); rollback", None),
            ("select makes_elsewhere()", Some(Pin::Temporary)),
            (
                "do $$ begin perform set_config('search_path', 'pg' || '_temp', true); create table t (a int); end $$",
                Some(Pin::Temporary),
            ),
            ("select dynamic('select 1')", Some(Pin::Unknown("dynamic".into()))),
            ("select query_to_xml('select locks(1)', true, false, '')", Some(Pin::Unknown("query_to_xml".into()))),
            ("select random(), pg_cancel_backend(0), now()", None),
            ("vacuum plain", None),
        ] {
            assert_eq!(pooled.left_after(&[text]).pin, expect, "{text}");
        }
        let settings = |residue: Residue| {
            let names = residue.settings.iter().map(|name| String::from_utf8_lossy(name).into_owned());
            (names.collect::<Vec<_>>().join(" "), residue.sequences)
        };
        for (text, expect) in [
            ("select sets()", ("app.name", false)),
            ("select sets_by_statement()", ("work_mem", false)),
            ("select sets_in_sql()", ("app.sql", false)),
            ("select resets()", ("app.after", false)),
            ("insert into ruled values (1)", ("app.name", false)),
            ("insert into deferring values (1)", ("app.name", false)),
            ("call commits()", ("app.later", false)),
            ("select numbers()", ("", true)),
            ("insert into numbered (a) values (1)", ("", true)),
            ("insert into identified (a) values (1)", ("", true)),
            ("select * from numbered", ("", false)),
        ] {
            let (names, sequences) = settings(pooled.left_after(&[text]));
            assert_eq!((names.as_str(), sequences), expect, "{text}");
        }
        pooled.session.set_clean_functions(vec!["dynamic".to_owned()].into());
        pooled.query("select dynamic('select 1')");
        assert_eq!(pooled.session.residue().pin, None);
    });
}

/// A session has asked; another one, and the same one again, need not ask, until code is changed.
#[test]
fn what_is_known_is_not_asked_again_until_code_changes() {
    let server = server(None);
    with_code(&server);
    let mut pooled = Pooled::new(&server);
    let mut other = Pooled::of(pooled.governor.clone(), &server, pooled.now);
    let asks = |pooled: &mut Pooled, sql: &str| {
        let mut out = Sent::default();
        let bytes = framed(b'Q', format!("{sql}\0").as_bytes());
        pooled.session.on_client(&bytes, pooled.now, &mut out).unwrap();
        assert_eq!(pooled.session.residue().pin.is_some(), pooled.session.residue().pin == Some(Pin::Unasked));
        let is_unasked = pooled.session.residue().pin.is_some();
        pooled.exchange(out);
        is_unasked
    };
    assert!(asks(&mut pooled, "select clean(1)"));
    assert!(!asks(&mut pooled, "select clean(2)"));
    assert!(!asks(&mut other, "SELECT clean( 3 )"));
    assert_eq!(other.session.residue(), &Residue::NOTHING);
    other.query("create or replace function clean(int) returns int language sql as 'select 1 from locks($1)'");
    other.give_back();
    assert!(asks(&mut pooled, "select clean(4)"));
    assert_eq!(pooled.session.residue().pin, Some(Pin::SessionLock));
    // After a minute, in any case.
    other.now += Duration::from_secs(5);
    assert!(asks(&mut other, "select 1"));
    other.now += Duration::from_secs(30);
    assert!(!asks(&mut other, "select 1"));
    other.now += Duration::from_secs(31);
    assert!(asks(&mut other, "select 1"));
}

/// A prepared statement leaves something each time it is run, not when it is prepared.
#[test]
fn prepared_statements_count_when_they_are_run() {
    let server = server(None);
    with_code(&server);
    let mut pooled = Pooled::new(&server);
    for (name, sql) in [("l", "select locks(1)"), ("s", "set app.direct = 1"), ("c", "select clean(1)"), ("b", "begin")]
    {
        pooled.parse(name, sql);
    }
    assert_eq!(pooled.session.residue(), &Residue::NOTHING);
    for (name, pin, settings) in [("c", None, 0), ("s", None, 1), ("l", Some(Pin::SessionLock), 0), ("s", None, 1)] {
        pooled.execute(name);
        let left = pooled.session.residue();
        assert_eq!((&left.pin, left.settings.len()), (&pin, settings), "{name}");
        pooled.session.clear_residue();
    }
    // Refused, so the first one stays: nobody knew meanwhile.
    pooled.parse("c", "select locks(2)");
    pooled.execute("c");
    assert_eq!(pooled.session.residue().pin, None);
    pooled.parse("", "select listens()");
    pooled.execute("");
    assert_eq!(pooled.session.residue().pin, Some(Pin::Listens));
}

/// A session that is not pooled notes nothing; one that is relayed only may have left anything.
#[test]
fn what_is_not_governed_is_not_known() {
    let mut story = Story::new("high_user");
    story.play("= Q:listen_a => C:LISTEN Z:I");
    assert_eq!(story.session.residue(), &Residue::NOTHING);
    let mut story = Story::new("high_user");
    story.session.set_pooled(true);
    story.play("= Q:listen_a => C:LISTEN Z:I");
    assert_eq!(story.session.residue().pin, Some(Pin::Listens));
    story.session.clear_residue();
    story.play("< Z:I => C[Z:I]");
    assert_eq!(story.session.residue().pin, Some(Pin::Ungoverned));
    let mut story = Story::new("high_user");
    story.session.set_pooled(true);
    let long = format!("select '{}'\0", "x".repeat(INSPECT_MAX));
    let mut out = Sent::default();
    story.session.on_client(&framed(b'Q', long.as_bytes()), story.now, &mut out).unwrap();
    assert_eq!(story.session.residue().pin, Some(Pin::Unread));
    // How the second text is read depends on the first.
    let mut story = Story::new("high_user");
    story.session.set_pooled(true);
    story.play(
        "> P::set_standard%conforming%strings=off B:: E P::set_a.b=1 B:: E S => \
                S[P::set_standard%conforming%strings=off B:: E P::set_a.b=1 B:: E S]",
    );
    assert_eq!(story.session.residue().pin, Some(Pin::Unread));
}

/// While the server cannot be asked, the session keeps its connection, and tries again.
#[test]
fn a_text_that_cannot_be_asked_about_pins_until_it_can() {
    let mut story = Story::new("high_user");
    story.session.set_pooled(true);
    story.is_known = false;
    story.governor.foresight.has_taken_for_residue(Duration::from_secs(11));
    story.play("= Q:select_f() => C:SELECT Z:I");
    assert_eq!(story.session.residue().pin, Some(Pin::Unasked));
    let again = story.session.wakes_at().expect("it tries again");
    story.now = again;
    story.play("! time => ");
    assert_eq!(story.session.residue().pin, Some(Pin::Unasked));
    story.now += Duration::from_secs(60);
    story.learns("! time");
    assert_eq!(story.session.residue(), &Residue::NOTHING);
    assert_eq!(story.session.wakes_at(), None);
}

/// Random texts: whatever the server says is left, the session has said that it may be.
#[test]
fn nothing_is_left_that_is_not_said() {
    each_server(|server| {
        with_code(server);
        let mut pooled = Pooled::new(server);
        let mut clean = 0;
        for seed in 1..=400_u64 {
            let texts = random_texts(seed);
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let left = pooled.left_after(&texts);
            clean += u32::from(left.pin.is_none());
        }
        assert!(clean > 80, "{clean} of 400 were not pinned");
    });
}

/// Texts made of [`TEXTS`], some in a block, some several at once.
fn random_texts(seed: u64) -> Vec<String> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut below = |count: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % count
    };
    let mut texts: Vec<String> = (0..=below(4)).map(|_| TEXTS[below(TEXTS.len())].to_owned()).collect();
    match below(4) {
        0 => texts = vec![texts.join(";\n/* ; */ ")],
        1 => {}
        kind => {
            texts.insert(0, "begin".to_owned());
            texts.push(if kind == 2 { "commit" } else { "rollback" }.to_owned());
        }
    }
    if texts[0] == "begin" && below(2) == 0 {
        texts = vec![texts.join("; ")];
    }
    // A block may be open, or has failed.
    texts.push("rollback".to_owned());
    texts
}

/// Without a look at triggers, the tests above would fail.
#[test]
fn a_session_that_forgets_triggers_is_caught() {
    let server = server(None);
    with_code(&server);
    let mut pooled = Pooled::new(&server);
    pooled.query("insert into triggered values (1)");
    assert_eq!((pooled.session.residue().pin.clone(), pooled.uncovered()), (Some(Pin::SessionLock), vec![]));
    pooled = Pooled::new(&server);
    pooled.governor.foresight.skips_triggers.store(true, Ordering::Relaxed);
    pooled.query("insert into triggered values (1)");
    assert_eq!(pooled.uncovered(), ["lock"]);
}
