//! Clients that take places and do nothing with them.

use crate::world::*;

/// More than may be silent at once, and than `clients_max` ever allowed.
const MANY: usize = 700;

/// Somebody opened connections and said nothing on them, until there were as many as there may be. For the fifteen seconds of
/// `login_timeout`, again and again, nobody came in: no client, and no `break_glass` user to find out why.
#[test]
fn silent_connections_keep_nobody_out() {
    let world = World::with(|settings| settings.listen.clients_max = 5);
    let mut silent: Vec<Peer> = (0..MANY).map(|_| world.client()).collect();
    // Some begin to speak and never finish.
    for peer in silent.iter_mut().skip(MANY - 100) {
        peer.send(&startup(&[("user", "ann")])[..9]);
    }
    let _client = world.session("ann", &[1; 4]);
    let _fireman = world.session("fireman", &[2; 4]);
    let mut console = world.start_up(&[("user", "op"), ("database", "console")]);
    assert_eq!(console.message()[0], b'R');
    // The oldest have given way, the newest are still there.
    assert!(silent[0].is_closed());
    assert!(silent[MANY - 1].is_silent());
}

/// One address began logins and came to no end with them, until all places of `clients_max` were taken.
#[test]
fn one_address_cannot_take_all_places_with_logins_that_do_not_end() {
    let world = World::with(|settings| settings.listen.logins_max_per_address = 2);
    let begin = |user: &str| world.start_up(&[("user", user)]);
    let mut hanging = [begin("ann"), begin("ann")].map(|client| (client, world.accept()));
    let mut third = begin("ann");
    third.refused("53300", "logins_max_per_address");
    assert!(third.is_closed());
    let _fireman = world.session("fireman", &[2; 4]);
    // Those who are in do not count: a pooler has as many connections as it likes.
    for (client, server) in &mut hanging {
        server.packet();
        let_in(client, server, &[1; 4]);
    }
    let _more = [3, 4, 5].map(|key| world.session("ann", &[key; 4]));
}
