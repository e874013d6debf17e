//! The console while the governor waits for sessions to end.

use plimsoll_governor::admin::scram::hash_password;
use plimsoll_governor::settings::AdminUser;
use plimsoll_pg::connection::Connection;

use crate::world::*;

fn with_console() -> World {
    World::with(|settings| {
        let verifier = hash_password("secret");
        settings.admin.users = vec![AdminUser { name: "op".to_owned(), verifier, may_change: true }];
        settings.listen.workers = 2;
    })
}

fn console(world: &World) -> Connection {
    let url = url(&format!("postgres://op:secret@{}/console?sslmode=disable", world.address()));
    Connection::open(&url).unwrap_or_else(|error| panic!("{error}"))
}

/// The value of a key in `SHOW STATE`.
fn state(console: &mut Connection, key: &str) -> String {
    let mut value = String::new();
    let mut each = |row: &[Option<&str>]| {
        if row[0] == Some(key) {
            value = row[1].unwrap_or_default().to_owned();
        }
    };
    console.text_rows("SHOW STATE", &mut each).unwrap_or_else(|error| panic!("{error}"));
    value
}

fn begin(client: &mut Peer, server: &mut Peer) {
    client.send(&query("begin"));
    server.message();
    server.send(&[tagged(b'C', b"BEGIN\0"), ready(b'T')].concat());
    client.until(b'Z');
}

fn commit_and_leave(mut client: Peer, server: &mut Peer) {
    client.send(&query("commit"));
    server.message();
    server.send(&done("COMMIT"));
    client.until(b'Z');
}

/// A deployment asked the governor to end, and it did not. The operator wanted to see in the console what it waited
/// for, and was refused as a new client. An operator who had already logged in was disconnected.
#[test]
fn operators_see_what_a_drain_waits_for() {
    let world = with_console();
    let (mut busy, mut server) = world.session("bob", &[2; 4]);
    let (mut idle, _idle_server) = world.session("ann", &[1; 4]);
    begin(&mut busy, &mut server);
    let mut early = console(&world);
    world.running.drain();
    assert_eq!(idle.error().0, "57P01");
    drop(idle);
    until("the idle session to end", || world.governor.registry.len() == 1);
    // One on each worker.
    let mut late = [console(&world), console(&world)];
    for operator in late.iter_mut().chain([&mut early]) {
        assert_eq!(state(operator, "state"), "draining");
        let waits_for = state(operator, "waits_for");
        assert!(waits_for.starts_with("1 session") && waits_for.contains("idle in transaction"), "{waits_for}");
        assert!(waits_for.contains("bob"), "{waits_for}");
    }
    // Clients are still refused.
    let mut client = world.start_up(&[("user", "carl")]);
    assert_eq!(client.error().0, "57P03");
    // The last session ends, and the governor with it, even with consoles open.
    commit_and_leave(busy, &mut server);
    world.running.join();
    let error = early.run("SHOW STATE").unwrap_err().to_string();
    assert!(error.contains("the governor has ended"), "{error}");
}

/// A standby replicated through the governor, and an operator had left a break-glass session open. The governor did not
/// end, and a deployment waited for it until systemd killed it, with the transactions that it still served.
#[test]
fn a_drain_waits_neither_for_replication_nor_for_users_in_break_glass() {
    let world = World::new();
    let (mut fireman, _fireman_server) = world.session("fireman", &[1; 4]);
    let replica = [("user", "ann"), ("replication", "true")];
    let mut standby = world.start_up(&replica);
    let mut primary = world.accept();
    assert_eq!(primary.packet(), startup(&replica));
    let_in(&mut standby, &mut primary, &[2; 4]);
    let (mut busy, mut server) = world.session("bob", &[3; 4]);
    begin(&mut busy, &mut server);
    world.running.drain();
    // As long as a transaction is open, everybody stays.
    assert!(fireman.is_silent() && standby.is_silent());
    commit_and_leave(busy, &mut server);
    world.running.join();
    assert!(fireman.is_closed() && standby.is_closed() && primary.is_closed());
}
