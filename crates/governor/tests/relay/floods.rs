//! Clients that occupy connections without using them.

use crate::world::*;

/// More than may be silent at once, and more than `clients_max` allows.
const MANY: usize = 700;

/// A client opened connections and sent nothing on them, up to the limit. For the fifteen seconds of `login_timeout`,
/// again and again, no client could log in, not even a `break_glass` user to investigate.
#[test]
fn silent_connections_keep_nobody_out() {
    let world = World::with(|settings| settings.listen.clients_max = 5);
    let mut silent: Vec<Peer> = (0..MANY).map(|_| world.client()).collect();
    // Some begin a message and never finish it.
    for peer in silent.iter_mut().skip(MANY - 100) {
        peer.send(&startup(&[("user", "ann")])[..9]);
    }
    let _client = world.session("ann", &[1; 4]);
    let _fireman = world.session("fireman", &[2; 4]);
    let mut console = world.start_up(&[("user", "op"), ("database", "console")]);
    assert_eq!(console.message()[0], b'R');
    // The oldest have been closed, the newest have not.
    assert!(silent[0].is_closed());
    assert!(silent[MANY - 1].is_silent());
}

/// One address began logins without finishing them, until all connections of `clients_max` were taken.
#[test]
fn one_address_cannot_take_all_places_with_logins_that_do_not_end() {
    let world = World::with(|settings| settings.listen.logins_max_per_address = 2);
    let begin = |user: &str| world.start_up(&[("user", user)]);
    let mut hanging = [begin("ann"), begin("ann")].map(|client| (client, world.accept()));
    let mut third = begin("ann");
    third.refused("53300", "logins_max_per_address");
    assert!(third.is_closed());
    let _fireman = world.session("fireman", &[2; 4]);
    // Clients that have logged in do not count: a pooler may have any number of connections.
    for (client, server) in &mut hanging {
        server.packet();
        let_in(client, server, &[1; 4]);
    }
    let _more = [3, 4, 5].map(|key| world.session("ann", &[key; 4]));
}
