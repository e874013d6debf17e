//! Checks before loading whether the data fits, and whether the machine has what the options and the clients require.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_machine::process_room::{Room, file_room, thread_room};
use plimsoll_machine::space::available_memory;
use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::database::Room as DataRoom;

use crate::execution::ExecutionError;
use crate::plan::Plan;
use crate::targets::{Targets, target_of};
use plimsoll_display::bytes;

/// Loading briefly needs the data twice: in the form in which it arrives and in the form in which it is stored.
const LOADING_FACTOR: f64 = 1.5;

/// The number of settings that are checked. A plan with more would take years to run, or sweeps keys that do not affect
/// size.
const SETTINGS_MAX: usize = 10_000;

/// The data cannot fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs about {} of {} while loading, but only {} are free; use a smaller scale", bytes(*needed), room.place, bytes(room.free_bytes))]
pub struct DoesNotFit {
    /// The data to be loaded.
    pub what: String,
    /// Bytes it needs.
    pub needed: u64,
    /// The space available.
    pub room: DataRoom,
}

/// Whether the data of these benchmarks, each of which loads its own, fits into the free space, if that is known.
pub fn check_fits(benchmarks: &[&dyn Benchmark], room: Option<DataRoom>) -> Result<(), DoesNotFit> {
    let needed = (benchmarks.iter().map(|one| one.estimated_bytes() as f64).sum::<f64>() * LOADING_FACTOR) as u64;
    match room {
        Some(room) if needed > room.free_bytes => {
            let names: Vec<_> = benchmarks.iter().map(|one| one.name()).collect();
            Err(DoesNotFit { what: names.join(" with "), needed, room })
        }
        _ => Ok(()),
    }
}

/// Whether a plan can run here: the machine has what it asks for, and the data of each setting fits.
pub(crate) fn check(plan: &Plan, targets: &dyn Targets) -> Result<(), ExecutionError> {
    check_machine(plan, targets).map_err(ExecutionError::Refused)?;
    Ok(check_plan_fits(plan, targets)?)
}

/// Whether the data of each setting of a plan fits.
pub(crate) fn check_plan_fits(plan: &Plan, targets: &dyn Targets) -> Result<(), DoesNotFit> {
    // Asked once for each target and its options, which may change where the data go.
    let mut rooms: BTreeMap<_, Option<DataRoom>> = BTreeMap::new();
    plan.settings().take(SETTINGS_MAX).try_for_each(|setting| {
        // A setting's workloads may share data.
        let made = setting.workloads.iter().filter_map(|workload| plan.benchmark(workload).ok());
        let by_data: BTreeMap<String, Arc<dyn Benchmark>> = made.map(|one| (one.data(), one)).collect();
        let distinct: Vec<&dyn Benchmark> = by_data.values().map(AsRef::as_ref).collect();
        let room = rooms
            .entry((setting.url.clone(), setting.options.clone()))
            .or_insert_with(|| target_of(targets, &setting).ok().and_then(|target| target.room()));
        check_fits(&distinct, room.clone())
    })
}

/// Whether the machine has what the options of each setting and the clients of each arm ask for.
fn check_machine(plan: &Plan, targets: &dyn Targets) -> Result<(), String> {
    // A simulation has the machine of its file.
    if plan.is_simulated() {
        return Ok(());
    }
    let room = ClientRoom::here();
    plan.settings().take(SETTINGS_MAX).try_for_each(|setting| {
        target_of(targets, &setting)?.check_machine()?;
        plan.arms.iter().try_for_each(|arm| {
            let clients = arm.members.iter().map(|member| setting.workloads[*member].clients.clients as u64);
            room.check(clients.fold(0, u64::saturating_add), targets.connects(&setting.url))
        })
    })
}

/// The memory of a client: the touched part of its thread's stack, the session's buffers and the histograms of a few kinds of
/// requests.
const CLIENT_BYTES: u64 = 256 << 10;

/// What the machine has for clients. Each is a thread, so that a million of them took minutes to begin before the first limit was
/// met.
struct ClientRoom {
    threads: Option<Room>,
    files: Option<Room>,
    memory_bytes: Option<u64>,
}

impl ClientRoom {
    fn here() -> ClientRoom {
        ClientRoom { threads: thread_room(), files: file_room(), memory_bytes: available_memory() }
    }

    fn check(&self, clients: u64, connects: bool) -> Result<(), String> {
        let memory = self
            .memory_bytes
            .map(|free| Room { left: free / CLIENT_BYTES, limit: format!("{} of free memory", bytes(free)) });
        let files = self.files.clone().filter(|_| connects);
        let scarcest = [self.threads.clone(), files, memory].into_iter().flatten().min_by_key(|room| room.left);
        match scarcest {
            Some(room) if clients > room.left => Err(format!(
                "{clients} clients cannot run here: {} leaves room for {}; use fewer clients, or raise the limit",
                room.limit, room.left
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::tpcc::Tpcc;

    use super::*;

    #[test]
    fn what_cannot_fit_is_refused_with_both_numbers() {
        let huge = Tpcc::new(100_000, 1);
        let room = || Some(DataRoom { place: "disk (/data)".to_owned(), free_bytes: 8 << 30 });
        let error = check_fits(&[&huge], room()).expect_err("terabytes").to_string();
        assert!(
            error.starts_with("tpcc needs about ")
                && error.contains(" of disk (/data) while loading, but only 8 GiB are free"),
            "{error}"
        );
        assert_eq!(check_fits(&[&Tpcc::new(1, 1)], room()), Ok(()));
        assert_eq!(check_fits(&[&huge], None), Ok(()));
    }

    #[test]
    fn clients_that_the_machine_cannot_hold_are_refused_with_the_scarcest_limit() {
        let room = |left, limit: &str| Some(Room { left, limit: limit.to_owned() });
        let machine = ClientRoom {
            threads: room(32_000, "kernel.pid_max"),
            files: room(1_000, "the limit on open files (ulimit -n)"),
            memory_bytes: Some(16 << 30),
        };
        let files = "2000 clients cannot run here: the limit on open files (ulimit -n) leaves room for 1000; use fewer clients, or raise the limit";
        assert_eq!(machine.check(2_000, true).as_ref().map_err(String::as_str), Err(files));
        assert_eq!(machine.check(2_000, false), Ok(()), "clients of the embedded engine need no files");
        let threads = machine.check(1_000_000, false).expect_err("too many");
        assert!(threads.contains("kernel.pid_max leaves room for 32000"), "{threads}");
        let small = ClientRoom { memory_bytes: Some(64 << 20), ..machine };
        let memory = small.check(300, false).expect_err("too many");
        assert!(memory.contains("64 MiB of free memory leaves room for 256"), "{memory}");
    }
}
