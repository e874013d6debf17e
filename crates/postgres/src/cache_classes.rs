//! Cache classes of a private server: each backend is in the resctrl group of its query's class, with its parallel
//! workers.
//!
//! The plan of a query decides its class ([`plan_class`]). The server is asked for the plan of each query template
//! once, before the template's first run and outside of transactions; literals are not part of a template. Statements
//! of transactions are sensitive. A backend is moved only when the class changes. [`CacheBinding`] makes the groups,
//! `workers` finds parallel workers.
//!
//! If the kernel cannot divide the cache, the server is not asked for plans, no process is moved, and a warning gives
//! the reason.

mod binding;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::resctrl::class_groups::ClassSubject;
use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_policy::cache_class::CacheClass;
use plimsoll_policy::cache_class::server_plan::{PlanMemory, PlanVerdict, plan_class};
use plimsoll_policy::query_template;
use plimsoll_workload::database::CacheSwitches;

pub use binding::CacheBinding;
use workers::Workers;

use crate::plan::{CACHE_EXPLAIN, cache_plan};
use crate::server::PrivateServer;

/// The most that a hash table may take. Each session may have its own settings.
const HASH_BYTES: &str =
    "SELECT (pg_size_bytes(current_setting('work_mem')) * current_setting('hash_mem_multiplier')::float8)::bigint";

/// Templates that are remembered. When there are more, all are forgotten, and the server is asked again.
const TEMPLATES_MAX: usize = 4096;

/// A query template at a degree of parallelism, `None` if the server decides that.
type Template = (String, Option<u32>);

/// The classes of a server's backends.
#[derive(Debug)]
pub struct CacheClasses {
    binding: Arc<CacheBinding>,
    postmaster: i32,
    workers: Workers,
    plans: Mutex<BTreeMap<Template, Planned>>,
    moves: Moves,
}

/// How often processes were moved. Relaxed throughout: the numbers are independent of each other.
#[derive(Debug, Default)]
struct Moves {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    verdict: PlanVerdict,
    has_workers: bool,
}

/// The backend of one session, and its class.
#[derive(Debug)]
pub(crate) struct BackendClass {
    classes: Arc<CacheClasses>,
    process: Option<i32>,
    now: CacheClass,
}

/// A query that runs; its workers are looked for until this is dropped.
#[derive(Debug)]
pub(crate) struct ClassedQuery {
    classes: Arc<CacheClasses>,
    process: i32,
}

impl CacheClasses {
    /// The classes for the server's settings: `before` if it is of the same server process; `None` if the settings ask
    /// for none.
    pub(crate) fn of(server: &PrivateServer, before: Option<Arc<CacheClasses>>) -> Option<Arc<CacheClasses>> {
        if !server.settings().has_cache_classes() {
            return None;
        }
        let postmaster = server.postmaster();
        if let Some(before) = before.filter(|before| before.postmaster == postmaster) {
            // Other settings can mean other plans.
            before.plans.lock().clear();
            return Some(before);
        }
        Some(Arc::new(CacheClasses::make_on(&Host::real(), &default_state_folder(), postmaster)))
    }

    /// The same for a host and its state folder.
    fn make_on(host: &Host, state: &std::path::Path, postmaster: i32) -> CacheClasses {
        let binding = Arc::new(CacheBinding::make_on(host, state, ClassSubject::server(postmaster)));
        let workers = Workers::new(host.clone(), postmaster, Arc::clone(&binding));
        CacheClasses { binding, postmaster, workers, plans: Mutex::default(), moves: Moves::default() }
    }

    /// The warning for readers of the figures; `None` if every backend can be in the group of its class.
    pub(crate) fn warning(&self) -> Option<String> {
        self.binding.warning()
    }

    /// How often backends were moved so far, and how long that took. Parallel workers are not counted: no query waits
    /// for their moves.
    pub(crate) fn switches(&self) -> CacheSwitches {
        CacheSwitches {
            count: self.moves.count.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.moves.nanoseconds.load(Ordering::Relaxed)),
            is_bound: self.binding.warning().is_none(),
        }
    }

    /// The class of each template that was asked for, with the reason.
    pub fn verdicts(&self) -> Vec<(String, PlanVerdict)> {
        let plans = self.plans.lock();
        plans.iter().map(|((template, _), planned)| (template.clone(), planned.verdict.clone())).collect()
    }

    fn known(&self, template: &Template) -> Option<Planned> {
        self.plans.lock().get(template).cloned()
    }

    fn remember(&self, template: Template, planned: Planned) {
        let mut plans = self.plans.lock();
        if plans.len() >= TEMPLATES_MAX {
            plans.clear();
        }
        plans.insert(template, planned);
    }

    fn moved(&self, process: i32, class: CacheClass) {
        let began = Instant::now();
        self.binding.put_process(process, class);
        self.moves.count.fetch_add(1, Ordering::Relaxed);
        self.moves.nanoseconds.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

impl BackendClass {
    /// The class of a session's backend, which begins with the whole cache. Follows limits of the experiment.
    pub(crate) fn new(classes: &Arc<CacheClasses>, process: Option<i32>) -> BackendClass {
        classes.binding.follow();
        BackendClass { classes: Arc::clone(classes), process, now: CacheClass::Sensitive }
    }

    /// A statement of a transaction follows.
    pub(crate) fn statement(&mut self) {
        self.enter(CacheClass::Sensitive);
    }

    /// A query follows. The server is asked for its plan if that is not known, unless a transaction is open: then the
    /// query is sensitive. An error is the connection's or the server's. The query itself meets it again, or has no
    /// plan and is sensitive.
    pub(crate) fn query(
        &mut self,
        connection: &mut Connection,
        sql: &str,
        degree: Option<u32>,
        is_open: bool,
    ) -> Result<Option<ClassedQuery>, WireError> {
        let Some(cache_bytes) = self.classes.binding.bound_bytes() else { return Ok(None) };
        let template = (query_template(sql), degree);
        let (planned, failed) = match self.classes.known(&template) {
            Some(planned) => (planned, None),
            None if is_open => (Planned::sensitive("it is within a transaction"), None),
            None => match explain(connection, sql, cache_bytes) {
                Ok(planned) => {
                    self.classes.remember(template, planned.clone());
                    (planned, None)
                }
                Err(error) => (Planned::sensitive("EXPLAIN has failed"), Some(error)),
            },
        };
        self.enter(planned.verdict.class);
        if let Some(error) = failed {
            return Err(error);
        }
        let is_followed = planned.has_workers && planned.verdict.class != CacheClass::Sensitive;
        Ok(self.process.filter(|_| is_followed).map(|process| {
            self.classes.workers.follow(process, planned.verdict.class);
            ClassedQuery { classes: Arc::clone(&self.classes), process }
        }))
    }

    fn enter(&mut self, class: CacheClass) {
        if let Some(process) = self.process.filter(|_| self.now != class) {
            self.classes.moved(process, class);
            self.now = class;
        }
    }
}

impl Drop for ClassedQuery {
    fn drop(&mut self) {
        self.classes.workers.leave(self.process);
    }
}

impl Planned {
    fn sensitive(because: &str) -> Planned {
        let verdict = PlanVerdict { class: CacheClass::Sensitive, because: because.to_owned() };
        Planned { verdict, has_workers: false }
    }
}

/// Asks the server for the plan of a query and decides its class.
fn explain(connection: &mut Connection, sql: &str, cache_bytes: u64) -> Result<Planned, WireError> {
    // The text comes from the user: the server refuses a second statement behind a semicolon and runs neither.
    let text = connection.text_of_one(&format!("{CACHE_EXPLAIN}{sql}"))?.unwrap_or_default();
    let hash_bytes = connection.text(HASH_BYTES)?.and_then(|bytes| bytes.parse().ok());
    Ok(match cache_plan(&text) {
        Ok(plan) => Planned {
            verdict: plan_class(&plan, PlanMemory { cache_bytes, hash_bytes }),
            has_workers: plan.has_workers(),
        },
        Err(why) => Planned::sensitive(&why),
    })
}

#[cfg(test)]
mod tests;
