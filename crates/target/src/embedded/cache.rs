//! Cache classes of query threads: groups of resctrl with the masks of [`plimsoll_policy::cache_class`], for as long as the option is on.
//!
//! Masks lie within the ways that this process may fill, which limits of an experiment change: they are chosen anew for each session.
//! What cannot be put in force is told once, with the reason, and queries go on unbound.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_engine::query::jobs::{CacheBinder, CacheJobs};
use plimsoll_machine::MachineFacts;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::own_group::OwnGroupError;
use plimsoll_machine::resctrl::CacheMask;
use plimsoll_machine::resctrl::class_groups::{CacheHome, ClassGroups, ClassSubject};
use plimsoll_policy::cache_class::{CacheClass, CacheClassError, CacheWays, ClassMasks, WayMask};

use super::EmbeddedOptions;

/// Why threads are not bound.
#[derive(Debug, thiserror::Error)]
enum Unbound {
    #[error(transparent)]
    Groups(#[from] OwnGroupError),
    #[error(transparent)]
    Masks(#[from] CacheClassError),
    #[error("the kernel does not tell how many bytes a way of the cache has")]
    NoSize,
}

/// The classes of this process's query threads.
#[derive(Debug)]
pub(super) struct CacheBinding {
    state: Mutex<State>,
    /// Of the last-level cache of the machine, where there are no groups; `None` if the kernel does not tell.
    machine_bytes: Option<u64>,
}

#[derive(Debug)]
enum State {
    Bound(Box<Bound>),
    /// For this reason.
    Unbound(String),
}

/// The groups, and the ways that their masks were chosen from.
#[derive(Debug)]
struct Bound {
    groups: ClassGroups,
    home: CacheHome,
    /// Bytes of the ways that may be filled.
    bytes: u64,
}

/// The cache in the policy's words.
fn ways(home: &CacheHome) -> Result<CacheWays, Unbound> {
    let ways = home.cache.ways();
    Ok(CacheWays {
        bytes: home.cache.way_bytes.ok_or(Unbound::NoSize)? * u64::from(ways),
        ways,
        allowed: WayMask(home.mask.0),
        sparse: home.cache.sparse,
        groups_free: home.groups_free,
    })
}

/// The masks of the classes within what there is.
fn masks(home: &CacheHome) -> Result<Vec<CacheMask>, Unbound> {
    let masks: ClassMasks = ways(home)?.masks()?;
    Ok(CacheClass::ALL.into_iter().map(|class| CacheMask(masks.of(class).0)).collect())
}

impl Bound {
    fn make(host: &Host, state: &Path) -> Result<Bound, Unbound> {
        let names = CacheClass::ALL.map(CacheClass::name);
        let groups = ClassGroups::make(host, state, ClassSubject::own(), &names, masks)?;
        let home = groups.home()?;
        let bytes = ways(&home)?.allowed_bytes();
        Ok(Bound { groups, home, bytes })
    }

    /// Follows the ways that the process may fill.
    fn follow(&mut self) -> Result<(), Unbound> {
        let now = self.groups.home()?;
        if now != self.home {
            self.groups.set_masks(&masks(&now)?)?;
            self.bytes = ways(&now)?.allowed_bytes();
            self.home = now;
        }
        Ok(())
    }
}

impl CacheBinding {
    /// Makes the groups, or finds out why there are none.
    pub(super) fn make() -> Self {
        CacheBinding::make_on(&Host::real(), &default_state_folder())
    }

    fn make_on(host: &Host, state: &Path) -> Self {
        let last = MachineFacts::read().caches.into_iter().max_by_key(|cache| cache.level);
        let made = Bound::make(host, state).map(|bound| State::Bound(Box::new(bound)));
        let state = made.unwrap_or_else(|reason| State::Unbound(reason.to_string()));
        CacheBinding { state: Mutex::new(state), machine_bytes: last.map(|cache| cache.size_bytes) }
    }

    /// Follows limits of the experiment. Done for each session, before it runs anything.
    pub(super) fn follow(&self) {
        let mut state = self.state.lock();
        if let State::Bound(bound) = &mut *state
            && let Err(reason) = bound.follow()
        {
            *state = State::Unbound(reason.to_string());
        }
    }

    /// What a reader of figures must know; `None` if all threads are bound.
    pub(super) fn warning(&self) -> Option<String> {
        let reason = match &*self.state.lock() {
            State::Bound(bound) => bound.groups.fault()?,
            State::Unbound(reason) => reason.clone(),
        };
        Some(format!("cache_classes=on, but the classes of queries are not bound to ways of the cache: {reason}"))
    }
}

impl CacheBinder for CacheBinding {
    fn bind(&self, thread: i32, class: CacheClass) {
        let mut state = self.state.lock();
        if let State::Bound(bound) = &*state
            && let Err(error) = bound.groups.put(thread, class as usize)
        {
            *state = State::Unbound(error.to_string());
        }
    }

    fn cache_bytes(&self) -> Option<u64> {
        match &*self.state.lock() {
            State::Bound(bound) => Some(bound.bytes),
            State::Unbound(_) => self.machine_bytes,
        }
    }
}

/// The binding that options ask for: the present one, or a new one.
pub(super) fn binding(options: &EmbeddedOptions, present: Option<&Arc<CacheBinding>>) -> Option<Arc<CacheBinding>> {
    options.cache_classes.then(|| present.cloned().unwrap_or_else(|| Arc::new(CacheBinding::make())))
}

/// The same as an option of queries.
pub(super) fn jobs(options: &EmbeddedOptions, binding: Option<&Arc<CacheBinding>>) -> Option<CacheJobs> {
    let binder = Arc::clone(binding?) as Arc<dyn CacheBinder>;
    Some(CacheJobs { binder, switch: options.cache_switch })
}

#[cfg(test)]
mod tests;
