//! Cache classes of query threads: the engine's seam over groups of resctrl, for as long as the option is on.

use std::sync::Arc;

use plimsoll_engine::query::jobs::{CacheBinder, CacheJobs};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::resctrl::class_groups::ClassSubject;
use plimsoll_policy::cache_class::CacheClass;
use plimsoll_postgres::cache_classes::CacheBinding;

use super::EmbeddedOptions;

/// Binds threads of this process.
#[derive(Debug)]
struct QueryThreads(Arc<CacheBinding>);

impl CacheBinder for QueryThreads {
    fn bind(&self, thread: i32, class: CacheClass) {
        self.0.put_thread(thread, class);
    }

    fn cache_bytes(&self) -> Option<u64> {
        self.0.cache_bytes()
    }
}

/// The binding that options ask for: the present one, or a new one.
pub(super) fn binding(options: &EmbeddedOptions, present: Option<&Arc<CacheBinding>>) -> Option<Arc<CacheBinding>> {
    let make = || Arc::new(CacheBinding::make_on(&Host::real(), &default_state_folder(), ClassSubject::own()));
    options.cache_classes.then(|| present.cloned().unwrap_or_else(make))
}

/// The same as an option of queries.
pub(super) fn jobs(options: &EmbeddedOptions, binding: Option<&Arc<CacheBinding>>) -> Option<CacheJobs> {
    let binder = Arc::new(QueryThreads(Arc::clone(binding?)));
    Some(CacheJobs { binder, switch: options.cache_switch })
}

#[cfg(test)]
mod tests;
