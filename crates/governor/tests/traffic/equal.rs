//! Clients that do not retry never receive 40001 because the governor could not know better: whether a replay can give the
//! same answers is known before the rollback.

use super::contended::{Fate, PASS, TABLES, contend};
use super::governed::Governed;
use super::server::Server;

/// More often than a session needs to learn the texts of a transaction.
const WARM: usize = 8;

const WANTED: &str = "UPDATE hot SET high = high + 1 WHERE id = 1";
const OWN: &str = "UPDATE hot SET low = low + 1 WHERE id = 1";

struct World {
    server: Server,
    governed: Governed,
}

impl World {
    fn start(sql: &str) -> World {
        let server = Server::start();
        server.connection().run(&format!("{TABLES}\n{sql}")).unwrap();
        let governed = Governed::start_strict(&server, false);
        World { server, governed }
    }

    /// The fate of a transaction that runs these statements before it contends, once its texts are known.
    fn fate(&self, statements: &[&str]) -> Fate {
        self.fate_while(statements, || ())
    }

    /// The same, if this happens before it contends.
    fn fate_while(&self, statements: &[&str], happen: impl Fn()) -> Fate {
        let mut low = self.governed.client("low", self.server.database());
        let all = ["BEGIN"].into_iter().chain(statements.iter().copied()).chain([OWN]);
        for _ in 0..WARM {
            all.clone().chain([PASS, "ROLLBACK"]).for_each(|sql| drop(low.query(sql).unwrap()));
        }
        all.for_each(|sql| drop(low.query(sql).unwrap()));
        let low = std::cell::RefCell::new(low);
        happen();
        let begin = || low.borrow_mut().send_query(PASS).unwrap();
        let end = || {
            let refusal = low.borrow_mut().answer().unwrap().refusal;
            low.borrow_mut().query(if refusal.is_some() { "ROLLBACK" } else { "COMMIT" }).unwrap();
            refusal.map(|refusal| refusal.state)
        };
        contend(&self.server, &self.governed, WANTED, begin, end)
    }

    /// It is left alone at its first time, when nobody knows its texts, and once they are known.
    fn is_left_alone(&self, statements: &[&str]) {
        assert_eq!(self.fate(statements), Fate::LeftAlone, "{statements:?}");
    }

    fn is_replayed(&self, statements: &[&str]) {
        assert_eq!(self.fate(statements), Fate::Replayed, "{statements:?}");
    }
}

const GENERATED: &str = "
    CREATE SEQUENCE numbers;
    CREATE TABLE serial_key (id serial PRIMARY KEY, a int);
    CREATE TABLE identity_key (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int);
    CREATE TABLE uuid_key (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, a int);
    CREATE TABLE dated (a int, at timestamptz DEFAULT now());
    CREATE TABLE plain (a int);
    GRANT ALL ON ALL TABLES IN SCHEMA public TO public;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO public;";

/// Each of these got 40001 every time in a class that was promised 40001 only where data has changed, and `track` said
/// that it could be replayed. It is the INSERT of nearly every object-relational mapper.
#[test]
fn a_client_that_has_received_generated_values_keeps_its_transaction() {
    let world = World::start(GENERATED);
    for statement in [
        "INSERT INTO serial_key (a) VALUES (1) RETURNING id",
        "INSERT INTO identity_key (a) VALUES (1) RETURNING id",
        "INSERT INTO uuid_key (a) VALUES (1) RETURNING id",
        "INSERT INTO dated (a) VALUES (1) RETURNING at",
        "INSERT INTO plain (a) VALUES (1) RETURNING xmin",
        "SELECT nextval('numbers'), currval('numbers'), lastval()",
        "SELECT random()",
        "SELECT now()",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT txid_current()",
        "SELECT last_value, is_called FROM numbers",
        "SELECT count(*) FROM pg_locks",
        "SELECT query, query_start FROM pg_stat_activity",
        "SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'hot'",
        "EXPLAIN (ANALYZE) SELECT 1",
        "EXPLAIN UPDATE plain SET a = 1",
        "SELECT a FROM plain FOR UPDATE SKIP LOCKED",
    ] {
        world.is_left_alone(&[statement]);
    }
    world.is_left_alone(&["INSERT INTO dated (a) VALUES (2)", "SELECT at FROM dated WHERE a = 2"]);
}

/// An UPDATE leaves a dead row where it put the new one, so that a replay puts it elsewhere, and a scan finds it in another place.
/// The client got 40001 although nothing had changed.
#[test]
fn a_client_that_has_received_rows_in_the_order_of_a_changed_table_keeps_its_transaction() {
    let world = World::start(
        "CREATE TABLE heap (id int PRIMARY KEY, a int, filler text) WITH (fillfactor = 100, autovacuum_enabled = off);
         INSERT INTO heap SELECT n, n, repeat('x', 500) FROM generate_series(1, 40) n;
         GRANT ALL ON heap TO public;",
    );
    let change = "UPDATE heap SET a = a + 1 WHERE id = 3";
    for statement in [
        "SELECT id FROM heap WHERE id > 1",
        "SELECT array_agg(id) FROM heap",
        "SELECT id FROM heap LIMIT 1",
        "SELECT row_number() OVER (), id FROM heap WHERE id = 3",
    ] {
        world.is_left_alone(&[change, statement]);
    }
    for statement in ["SELECT a - a FROM heap WHERE id = 3", "SELECT count(*), sum(id), max(id) FROM heap"] {
        world.is_replayed(&[change, statement]);
    }
    world.is_replayed(&["SELECT id FROM heap WHERE id > 1", "SELECT id FROM heap LIMIT 1", change]);
}

#[test]
fn values_that_the_client_has_not_received_are_generated_anew() {
    let world = World::start(GENERATED);
    for table in ["serial_key", "identity_key", "uuid_key", "dated"] {
        world.is_replayed(&[&format!("INSERT INTO {table} (a) VALUES (1)")]);
    }
    world.is_replayed(&["SELECT low - low FROM hot WHERE id = 1", "INSERT INTO plain VALUES (1) RETURNING a"]);
}

/// The inquiry once came after the rollback only, and found what it found too late.
#[test]
fn what_must_not_run_twice_is_found_before_the_rollback() {
    let world = World::start(
        "CREATE TABLE told (a int);
         GRANT ALL ON told TO public;
         CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN IF new.a < 0 THEN PERFORM dblink_exec('dbname=x', 'INSERT …'); END IF; RETURN new; END$$;
         CREATE TRIGGER tell BEFORE INSERT ON told FOR EACH ROW EXECUTE FUNCTION tell()",
    );
    world.is_left_alone(&["INSERT INTO told VALUES (1)"]);
}

/// An administrator has revoked the right to read a catalog: no question is answered.
#[test]
fn a_role_that_may_not_read_the_catalogs_keeps_its_transactions() {
    let world = World::start("REVOKE SELECT ON pg_proc FROM public");
    world.is_left_alone(&[]);
}

/// A table was made while a transaction that writes stayed open elsewhere. The inquiry after the rollback could not show that the
/// table's code is older than the transaction, and its client got 40001; then it was left alone, and after that transaction
/// has ended it is replayed. A GRANT on the table makes no difference.
#[test]
fn a_transaction_that_could_not_be_proved_to_run_the_same_code_is_left_alone() {
    let world = World::start("CREATE TABLE elsewhere (a int)");
    let mut old = world.server.connection();
    old.run("BEGIN; INSERT INTO elsewhere VALUES (1)").unwrap();
    world.server.connection().run("CREATE TABLE young (a int); GRANT ALL ON young TO public").unwrap();
    let statements = ["INSERT INTO young VALUES (1)"];
    world.is_left_alone(&statements);
    old.run("COMMIT").unwrap();
    // The horizon is read while transactions begin.
    let console = std::cell::RefCell::new(world.governed.client("low", world.server.database()));
    plimsoll_testing::until("the forecast says that it is possible", || {
        console.borrow_mut().query("SELECT 1").unwrap();
        world.fate(&statements) == Fate::Replayed
    });
    let mut admin = world.server.connection();
    admin.run("BEGIN; GRANT SELECT ON young TO pg_monitor").unwrap();
    let grant = std::cell::RefCell::new(admin);
    assert_eq!(world.fate_while(&statements, || grant.borrow_mut().run("COMMIT").unwrap()), Fate::Replayed);
}

/// A transaction whose texts nobody has asked about is not rolled back to find out.
#[test]
fn the_first_transactions_of_an_application_are_left_alone() {
    let world = World::start("");
    let mut low = world.governed.client("low", world.server.database());
    low.query("BEGIN").unwrap();
    low.query(OWN).unwrap();
    let low = std::cell::RefCell::new(low);
    let begin = || low.borrow_mut().send_query(PASS).unwrap();
    let end = || {
        let refusal = low.borrow_mut().answer().unwrap().refusal;
        low.borrow_mut().query("COMMIT").unwrap();
        refusal.map(|refusal| refusal.state)
    };
    assert_eq!(contend(&world.server, &world.governed, WANTED, begin, end), Fate::LeftAlone);
}
