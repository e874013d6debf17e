//! Pools without sockets.

use super::*;
use crate::settings::Settings;
use crate::testing;

fn key() -> PoolKey {
    PoolKey { database: "shop".into(), user: "ann".into(), parameters: 0 }
}

fn means() -> Means {
    Means { credentials: ServerCredentials::None, parameters: Vec::new() }
}

fn settings() -> Arc<Settings> {
    testing::governor(|settings| settings.pool.size = 2).settings()
}

/// A connection that was being opened during RECONNECT was taken for a new one: a client could get a connection to the server
/// from before a failover, and WAIT_CLOSE did not wait for it.
#[test]
fn a_connection_that_is_being_opened_is_replaced_too() {
    let (pools, settings, key) = (Pools::default(), settings(), key());
    let of = (&*settings, 1);
    let began = Instant::now();
    let after = |millis| began + Duration::from_millis(millis);
    let client = Place { worker: 0, pair: 1 };
    assert!(pools.admits(&key, means(), client, of).is_none());
    assert!(pools.opens(&key, began, of).is_some());
    pools.renew(None, after(1));
    assert!(pools.are_being_renewed(None));
    let welcome = Welcome { reported: Reported::default(), reports: Arc::default() };
    assert_eq!(pools.joins(&key, began, welcome.clone(), of), [client]);
    let idle = Idle { place: client, share: CpuShare::Untouched, process: 7, made: began, since: after(2) };
    assert_eq!(pools.offer(&key, idle, None, Duration::ZERO, of), Offered::Closed);
    assert!(!pools.are_being_renewed(None));
    // One that begins after it is kept.
    pools.joins(&key, after(3), welcome, of);
    let idle = Idle { made: after(3), ..idle };
    assert_eq!(pools.offer(&key, idle, None, Duration::ZERO, of), Offered::Kept);
}

#[test]
fn an_attempt_that_failed_is_no_longer_waited_for() {
    let (pools, settings, key) = (Pools::default(), settings(), key());
    let (of, began) = ((&*settings, 1), Instant::now());
    pools.admits(&key, means(), Place { worker: 0, pair: 1 }, of);
    assert!(pools.opens(&key, began, of).is_some());
    let later = began + Duration::from_millis(1);
    pools.renew(None, later);
    pools.open_failed(&key, (began, later), of);
    assert!(!pools.are_being_renewed(None));
}
