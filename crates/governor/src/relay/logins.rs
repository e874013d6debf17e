//! Clients that are logging in, counted by address: one address cannot occupy all places with logins that never finish.
//!
//! Clients that have logged in do not count, so a pooler may have any number of connections.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many clients of each address are logging in.
#[derive(Debug, Default)]
pub(super) struct Logins(Mutex<HashMap<IpAddr, u32>>);

/// The place of one login, until this is dropped.
#[derive(Debug)]
pub(super) struct LoginPlace {
    logins: Arc<Logins>,
    address: IpAddr,
}

impl Logins {
    /// Counts one more login; `None` if the address already has `max` of them.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr, max: u32) -> Option<LoginPlace> {
        // An IPv4 client of an IPv6 socket has the same address.
        let address = address.to_canonical();
        let mut logins = self.0.lock();
        let count = logins.entry(address).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(LoginPlace { logins: Arc::clone(self), address })
    }
}

impl Drop for LoginPlace {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.logins.0.lock().entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count() {
        let logins = Arc::new(Logins::default());
        let [ann, bob] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let (first, second) = (logins.enter(ann, 2), logins.enter("::ffff:10.0.0.1".parse().unwrap(), 2));
        assert!(first.is_some() && second.is_some() && logins.enter(ann, 2).is_none());
        assert!(logins.enter(bob, 2).is_some());
        drop(first);
        assert!(logins.enter(ann, 2).is_some());
        drop(second);
        assert!(logins.0.lock().is_empty());
    }
}
