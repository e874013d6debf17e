//! A real private server whose processes are moved between groups of a simulated kernel, by their real ids.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use plimsoll_machine::resctrl::Resctrl;
use plimsoll_machine::resctrl::fake::{FakeKernel, Mirror, Shape};
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::cache_class::CacheClass::{Depends, Polluting, Sensitive};
use plimsoll_workload::database::Session;
use plimsoll_workload::statement::{Rows, Statement};

use super::*;
use crate::server::ServerSettings;
use crate::session::{PostgresSession, SessionOptions, Warnings};

/// A server, and the simulated kernel that it runs on.
struct World {
    // Fields are dropped in this order: groups go before the server, and the server before its kernel.
    classes: Arc<CacheClasses>,
    server: PrivateServer,
    kernel: Arc<FakeKernel>,
    mirror: Arc<Mirror>,
    host: Host,
    _root: tempfile::TempDir,
    _state: tempfile::TempDir,
}

/// Every process that may start has a link to the real one, and is in the default group.
fn proc_of_this_machine(root: &std::path::Path) -> BTreeSet<i32> {
    let proc = root.join("proc");
    std::fs::create_dir_all(proc.join("self")).unwrap();
    std::fs::write(proc.join("cpuinfo"), "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: cat_l3 mba\n").unwrap();
    let mounts = "40 30 0:35 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n";
    std::fs::write(proc.join("self/mountinfo"), mounts).unwrap();
    let most: i32 = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    let processes: BTreeSet<i32> = (1..most.min(1 << 17)).collect();
    processes.iter().for_each(|process| symlink(format!("/proc/{process}"), proc.join(process.to_string())).unwrap());
    processes
}

impl World {
    fn new(options: &[(&str, &str)]) -> World {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let processes = proc_of_this_machine(root.path());
        let kernel = Arc::new(FakeKernel::new(Shape::intel(), processes));
        let mirror = Arc::new(Mirror::of(Arc::clone(&kernel), root.path().join("sys/fs/resctrl")));
        let host = Host::changed_by(root.path(), mirror.clone());
        let all = [&[("shared_buffers", "64MB"), ("fsync", "off"), ("jit", "off"), ("dop", "1")], options].concat();
        let server = PrivateServer::start(ServerSettings::for_this_machine().with(&all).unwrap()).unwrap();
        let classes = Arc::new(CacheClasses::make_on(&host, state.path(), server.postmaster()));
        let world = World { classes, server, kernel, mirror, host, _root: root, _state: state };
        // 300,000 rows are more than the 13.75 MiB of the cache may hold; a hash table of 20,000 is comparable with it.
        let tables = "CREATE TABLE number AS SELECT n, n % 7 AS part, repeat('x', 40) AS filler FROM generate_series(1, 300000) n;
            CREATE TABLE few AS SELECT n FROM generate_series(1, 20000) n;
            ALTER TABLE number SET (parallel_workers = 2); VACUUM ANALYZE number; VACUUM ANALYZE few";
        world.connection().run(tables.split(';').next().unwrap()).unwrap();
        tables.split(';').skip(1).for_each(|sql| world.connection().run(sql).unwrap());
        world
    }

    fn connection(&self) -> Connection {
        let server = &self.server;
        Connection::open(&ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database()))
            .unwrap()
    }

    fn session(&self) -> PostgresSession {
        let options = SessionOptions {
            cache_classes: Some(Arc::clone(&self.classes)),
            ..SessionOptions::from(self.server.settings())
        };
        PostgresSession::new(self.connection(), None, &options, &Warnings::default()).unwrap()
    }

    fn members(&self, class: CacheClass) -> BTreeSet<i32> {
        let resctrl = Resctrl::open(&self.host).unwrap();
        let name =
            resctrl.group_names().into_iter().find(|name| name.ends_with(class.name())).expect("a group of each class");
        resctrl.find(&name).unwrap().tasks().unwrap()
    }

    fn class_of(&self, process: i32) -> Option<CacheClass> {
        CacheClass::ALL.into_iter().find(|class| self.members(*class).contains(&process))
    }
}

const SCAN: &str = "select count(*) from number where part = 3";

#[test]
fn a_backend_is_in_the_group_of_its_query() {
    let world = World::new(&[]);
    let mut session = world.session();
    let backend = session.server_process().unwrap();
    let check = |session: &mut PostgresSession, sql: &str, expect: CacheClass| {
        session.query(sql).unwrap();
        assert_eq!(world.class_of(backend), Some(expect), "{sql}: {:?}", world.classes.verdicts());
    };
    assert_eq!(world.class_of(backend), None, "where the server is");
    check(&mut session, SCAN, Polluting);
    check(&mut session, "select count(*) from number where part = 5", Polluting);
    assert_eq!(world.classes.switches().count, 1, "only a change is a move");
    assert_eq!(
        world.classes.verdicts().len(),
        1,
        "literals are not part of a template: {:?}",
        world.classes.verdicts()
    );
    check(&mut session, "select count(*) from number join few using (n)", Depends);
    check(&mut session, "select n, count(*) from number group by n order by n limit 1", Sensitive);
    check(&mut session, SCAN, Polluting);
    let mut rows = Rows::new();
    session.execute(&Statement { name: "one", sql: "select 1", native: &|_, _, _| Ok(()) }, &[], &mut rows).unwrap();
    assert_eq!(world.class_of(backend), Some(Sensitive), "a statement of a transaction has the whole cache");
    let switches = world.classes.switches();
    assert_eq!(switches.count, 5);
    assert!(switches.time > Duration::ZERO && switches.time / 5 < Duration::from_secs(1), "{switches:?}");
    assert_eq!(world.classes.warning(), None);
}

#[test]
fn no_plan_is_asked_for_within_a_transaction_and_statements_without_one_run() {
    let world = World::new(&[]);
    let mut session = world.session();
    let backend = session.server_process().unwrap();
    session.begin().unwrap();
    session.query(SCAN).unwrap();
    assert_eq!((world.class_of(backend), world.classes.verdicts()), (None, vec![]), "it has the whole cache");
    session.commit().unwrap();
    session.query(SCAN).unwrap();
    assert_eq!(world.class_of(backend), Some(Polluting));
    session.begin().unwrap();
    session.query(SCAN).unwrap();
    assert_eq!(world.class_of(backend), Some(Polluting), "what is known is known in a transaction, too");
    session.commit().unwrap();
    // `SHOW` has no plan.
    session.query("show work_mem").unwrap();
    assert_eq!(world.class_of(backend), Some(Sensitive));
    let error = session.query("select count(*) from nowhere").unwrap_err().to_string();
    assert!(error.contains("nowhere") && !error.contains("EXPLAIN"), "{error}");
    // Both EXPLAIN and the query itself refuse a second statement.
    let refused = session.query("select 1; drop table few");
    assert!(refused.is_err(), "{refused:?}");
    session.query("select count(*) from few").unwrap();
}

#[test]
fn parallel_workers_are_brought_to_the_class_of_their_leader() {
    let world = World::new(&[("dop", "3")]);
    let mut session = world.session();
    let setting = "set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0";
    setting.split("; ").for_each(|sql| drop(session.query(sql)));
    let roots = (0..120).fold("n::float8".to_owned(), |inner, _| format!("sqrt({inner} + 2)"));
    session.query(&format!("select count(*) from number where {roots} > 0")).unwrap();
    let verdicts = world.classes.verdicts();
    let verdict = &verdicts.iter().find(|(template, _)| template.contains("sqrt")).unwrap().1;
    assert_eq!(verdict.class, Polluting, "{verdict:?}");
    let mut members = world.members(Polluting);
    assert!(members.remove(&session.server_process().unwrap()));
    assert!((1..=2).contains(&members.len()), "its workers: {members:?}");
    assert!(!members.contains(&world.server.postmaster()));
}

#[test]
fn a_group_that_vanishes_is_reported_and_queries_go_on() {
    let world = World::new(&[]);
    let mut session = world.session();
    session.query(SCAN).unwrap();
    let resctrl = Resctrl::open(&world.host).unwrap();
    let name = resctrl.group_names().into_iter().find(|name| name.ends_with("sensitive")).unwrap();
    plimsoll_machine::resctrl::ResctrlFiles::remove_group(&*world.kernel, &name).unwrap();
    world.mirror.show();
    session.query("select n from number order by n limit 1").unwrap();
    let warning = world.classes.warning().unwrap();
    assert!(warning.contains("cache_classes=on") && warning.contains("sensitive"), "{warning}");
    session.query(SCAN).unwrap();
}

#[test]
fn groups_go_with_the_option_and_more_than_their_ways_is_reported() {
    let mut world = World::new(&[]);
    let mut session = world.session();
    session.query(SCAN).unwrap();
    let resctrl = Resctrl::open(&world.host).unwrap();
    let name = resctrl.group_names().into_iter().find(|name| name.ends_with("polluting")).unwrap();
    world.kernel.set_counter(&name, 0, "llc_occupancy", 8 << 20);
    world.mirror.show();
    let warning = world.classes.warning().unwrap();
    assert!(warning.contains("hold 8.00 MiB in domain 0"), "{warning}");
    drop(session);
    let none = PathBuf::from("/nonexistent");
    let unbound = CacheClasses::make_on(&Host::at(&none), &none, world.server.postmaster());
    world.classes = Arc::new(unbound);
    assert!(resctrl.group_names().is_empty(), "{:?}", resctrl.group_names());
    // Without resctrl no plans are requested, and the warning gives the reason.
    world.session().query(SCAN).unwrap();
    assert!(world.classes.verdicts().is_empty() && world.classes.switches().count == 0);
    let warning = world.classes.warning().unwrap();
    assert!(warning.contains("cache_classes=on, but the classes of queries are not bound"), "{warning}");
}
