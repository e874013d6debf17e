//! Clients of several workers, which share connections.

use std::collections::BTreeSet;
use std::env;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use plimsoll_testing::until;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Answer, Client, Failure};
use super::requests::{bind, execute, parse, query, sync};
use super::world::World;

const WORKERS: u32 = 3;
const CLIENTS: u64 = 9;
const ROUNDS: usize = 40;
const SEEDS: u64 = 3;
const SEEDS_LONG: u64 = 200;

/// A client that can tell whether something of another one has reached it.
struct Life<'w> {
    world: &'w World,
    number: u64,
    client: Client,
    has_prepared: bool,
    tenant: Option<u64>,
    rng: Pcg64Mcg,
    /// How many increments of all clients were acknowledged.
    acknowledged: &'w AtomicU64,
}

impl Life<'_> {
    fn ask(&mut self, bytes: &[u8]) -> Answer {
        self.client.send(bytes).unwrap();
        let answer = self.client.answer().unwrap_or_else(|failure| panic!("client {}: {failure}", self.number));
        assert_eq!(answer.refusal, None, "client {}", self.number);
        answer
    }

    fn round(&mut self) {
        match self.rng.random_range(0..6) {
            0 => {
                let value: u64 = self.rng.random_range(0..1000);
                self.ask(&query(&format!("SET app.tenant = '{value}'")));
                self.tenant = Some(value);
            }
            1 => {
                let answer = self.ask(&query("SELECT nullif(current_setting('app.tenant', true), '')"));
                assert_eq!(answer.rows, [[self.tenant.map(|tenant| tenant.to_string())]]);
            }
            2 | 3 => {
                let mut unit = Vec::new();
                if !std::mem::replace(&mut self.has_prepared, true) {
                    unit.extend(parse("mine", &format!("SELECT {}", self.number)));
                }
                let answer = self.ask(&[unit, bind("mine", &[]), execute(), sync()].concat());
                assert_eq!(answer.value(), Some(&*self.number.to_string()));
            }
            4 => {
                self.ask(&query("BEGIN"));
                self.ask(&query("UPDATE counted SET n = n + 1"));
                self.ask(&query("COMMIT"));
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            _ => {
                self.client = self.world.client("ann");
                (self.has_prepared, self.tenant) = (false, None);
            }
        }
    }
}

fn stress(world: &World, seed: u64) {
    let mut own = world.connection();
    own.run("CREATE TABLE IF NOT EXISTS counted (n int); GRANT ALL ON counted TO public").unwrap();
    own.run("DELETE FROM counted; INSERT INTO counted VALUES (0)").unwrap();
    let acknowledged = AtomicU64::new(0);
    let workers = thread::scope(|scope| {
        for number in 0..CLIENTS {
            let rng = Pcg64Mcg::seed_from_u64(seed * CLIENTS + number);
            let (client, acknowledged) = (world.client("ann"), &acknowledged);
            let mut life = Life { world, number, client, has_prepared: false, tenant: None, rng, acknowledged };
            scope.spawn(move || (0..ROUNDS).for_each(|_| life.round()));
        }
        world.governor.registry.all().iter().map(|card| card.worker).collect::<BTreeSet<_>>()
    });
    assert!(workers.len() > 1, "all clients came to one worker");
    let counted = own.text("SELECT n FROM counted").unwrap();
    assert_eq!(counted, Some(acknowledged.load(Ordering::Relaxed).to_string()), "seed {seed}");
    let views = || world.governor.pools.view();
    until("nobody has a connection or waits", || views().iter().all(|pool| pool.in_use == 0 && pool.waiting == 0));
}

#[test]
fn clients_of_several_workers_share_one_pool() {
    let only = env::var("PLIMSOLL_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let count = if env::var_os("PLIMSOLL_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    for (size, has_users) in [(1, true), (2, true), (2, false)] {
        let world = World::new(size, has_users, |settings| settings.listen.workers = WORKERS);
        for seed in only.map_or(1..count + 1, |seed| seed..seed + 1) {
            stress(&world, seed);
        }
        let open: u32 = world.governor.pools.view().iter().map(|pool| pool.open).sum();
        assert!(open <= size, "{open} connections");
    }
}

/// A client whose connection may end at any time: it connects again.
fn go_on(world: &World, rounds: usize) {
    let mut client = world.client("ann");
    for _ in 0..rounds {
        match client.query("SELECT 1") {
            Ok(_) => {}
            Err(Failure::Lost(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("a client waits for ever: {:?}", world.governor.pools.view())
            }
            Err(_) => client = world.client("ann"),
        }
    }
}

/// A connection that ended on its way to a client of another worker was missed by both: the client waited for ever, and the
/// pool had one connection less from then on.
#[test]
fn connections_that_end_on_their_way_are_not_missed() {
    const SIZE: u32 = 2;
    let world = World::new(SIZE, true, |settings| settings.listen.workers = WORKERS);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut own = world.connection();
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann' AND state = 'idle'";
            while !is_over.load(Ordering::Relaxed) {
                own.run(end).unwrap();
            }
        });
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| go_on(&world, ROUNDS))).collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "some client did not go on");
    });
    let _clients: Vec<Client> = (0..SIZE).map(|_| holding(&world)).collect();
}

/// A client that has a connection. One that was ended last may be lent before that is noticed.
fn holding(world: &World) -> Client {
    loop {
        let mut client = world.client("ann");
        match client.query("BEGIN") {
            Ok(_) => return client,
            Err(Failure::Lost(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("a client waits for ever: {:?}", world.governor.pools.view())
            }
            Err(_) => {}
        }
    }
}
