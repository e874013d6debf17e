//! Groups of resctrl with the masks of [`plimsoll_policy::cache_class`], for threads of this process or for processes
//! of a server.
//!
//! Masks lie within the ways that the subject may fill, which limits of an experiment change: they are chosen again for
//! each session ([`CacheBinding::follow`]). If they cannot be put in force, a warning gives the reason, and threads
//! continue unbound.

use std::path::Path;

use parking_lot::Mutex;
use plimsoll_machine::MachineFacts;
use plimsoll_machine::groups::OwnGroupError;
use plimsoll_machine::host::Host;
use plimsoll_machine::resctrl::CacheMask;
use plimsoll_machine::resctrl::class_groups::{CacheHome, ClassGroups, ClassSubject};
use plimsoll_policy::cache_class::{CacheClass, CacheClassError, CacheWays, ClassMasks, WayMask};

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

/// The groups of a subject's classes, or why there are none.
#[derive(Debug)]
pub struct CacheBinding {
    state: Mutex<BindingState>,
    /// Bytes of the machine's last-level cache, used without groups; `None` if the kernel does not report them.
    machine_bytes: Option<u64>,
}

#[derive(Debug)]
enum BindingState {
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

/// The cache in the policy's terms.
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

/// The masks of the classes within the available ways.
fn masks(home: &CacheHome) -> Result<Vec<CacheMask>, Unbound> {
    let masks: ClassMasks = ways(home)?.masks()?;
    Ok(CacheClass::ALL.into_iter().map(|class| CacheMask(masks.of(class).0)).collect())
}

impl Bound {
    fn make(host: &Host, state: &Path, subject: ClassSubject) -> Result<Bound, Unbound> {
        let names = CacheClass::ALL.map(CacheClass::name);
        let groups = ClassGroups::make(host, state, subject, &names, masks)?;
        let home = groups.home()?;
        let bytes = ways(&home)?.allowed_bytes();
        Ok(Bound { groups, home, bytes })
    }

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
    /// Makes the groups, or finds out why there are none. Notes how to undo them below the state folder.
    pub fn make_on(host: &Host, state: &Path, subject: ClassSubject) -> Self {
        let last = MachineFacts::read().caches.into_iter().max_by_key(|cache| cache.level);
        let made = Bound::make(host, state, subject).map(|bound| BindingState::Bound(Box::new(bound)));
        let state = made.unwrap_or_else(|reason| BindingState::Unbound(reason.to_string()));
        CacheBinding { state: Mutex::new(state), machine_bytes: last.map(|cache| cache.size_bytes) }
    }

    /// Follows the ways that the subject may fill. Call this for each session, before the session runs anything.
    pub fn follow(&self) {
        let mut state = self.state.lock();
        if let BindingState::Bound(bound) = &mut *state
            && let Err(reason) = bound.follow()
        {
            *state = BindingState::Unbound(reason.to_string());
        }
    }

    /// The warning for readers of the figures; `None` if all threads are bound.
    pub fn warning(&self) -> Option<String> {
        let reason = match &*self.state.lock() {
            BindingState::Bound(bound) => bound.groups.fault()?,
            BindingState::Unbound(reason) => reason.clone(),
        };
        Some(format!("cache_classes=on, but the classes of queries are not bound to ways of the cache: {reason}"))
    }

    /// Moves a thread to the group of a class, by the kernel's id. If that fails, no thread is bound from then on.
    pub fn put_thread(&self, thread: i32, class: CacheClass) {
        self.put(|groups| groups.put(thread, class as usize));
    }

    /// The same for every thread of a process.
    pub fn put_process(&self, process: i32, class: CacheClass) {
        self.put(|groups| groups.put_process(process, Some(class as usize)));
    }

    fn put<E: std::fmt::Display>(&self, put: impl FnOnce(&ClassGroups) -> Result<(), E>) {
        let mut state = self.state.lock();
        if let BindingState::Bound(bound) = &*state
            && let Err(error) = put(&bound.groups)
        {
            *state = BindingState::Unbound(error.to_string());
        }
    }

    /// Bytes of the cache that may be filled where classes are in force; `None` where they are not.
    pub(crate) fn bound_bytes(&self) -> Option<u64> {
        match &*self.state.lock() {
            BindingState::Bound(bound) => Some(bound.bytes),
            BindingState::Unbound(_) => None,
        }
    }

    /// Bytes of the cache that may be filled; those of the machine if no classes are in force. `None` if the kernel
    /// does not report them.
    pub fn cache_bytes(&self) -> Option<u64> {
        self.bound_bytes().or(self.machine_bytes)
    }
}

#[cfg(test)]
mod tests;
