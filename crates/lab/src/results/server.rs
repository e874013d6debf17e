//! The state of a server in one run: the sampled states of its processes, and its own counts and background work.

use serde::{Deserialize, Serialize};

/// The state of a server within the window of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// How its processes were sampled, and the cost of sampling.
    pub sampler: Sampler,
    /// Its background work, in order of time.
    pub marks: Vec<Mark>,
    /// The statements that took most of its time, longest first; `None` if it keeps no statistics of statements.
    pub statements: Option<Vec<StatementUse>>,
}

/// How a server's processes were sampled within a window, and the cost of sampling.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampler {
    /// Looks taken. A count.
    pub looks: u64,
    /// Looks per second of window.
    pub looks_per_s: f64,
    /// Looks that began more than half a period after they were due. A count.
    pub late: u64,
    /// Looks that were skipped because the previous one was still in progress when they were due. A count.
    pub left_out: u64,
    /// Mean length of a look, microseconds; `None` if there was none.
    pub look_mean_us: Option<f64>,
    /// The longest look, microseconds; `None` if there was none.
    pub look_max_us: Option<f64>,
    /// Share of the window in which a look was in progress.
    pub duty: f64,
    /// CPU time of the thread that looks, seconds; `None` if the kernel does not report it.
    pub cpu_thread_s: Option<f64>,
    /// CPU time of the server's process that answers it, seconds; `None` if it cannot be observed.
    pub cpu_server_s: Option<f64>,
    /// Why looking ended before the window did; `None` if it did not.
    pub ended: Option<String>,
}

/// An event of a server's background work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Seconds after the window's opening; checked once per second, so up to one second late.
    pub at_s: f64,
    /// The event: `checkpoint begins`, `checkpoint ends`, `vacuum of orders begins`, `vacuum of orders ends`.
    pub what: String,
}

/// The use of one kind of statement within the window, by the server's own statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementUse {
    /// The statement, without its constants.
    pub text: String,
    /// How often it was run. A count.
    pub calls: u64,
    /// Time spent in running it, seconds.
    pub time_s: f64,
    /// Rows returned or changed. A count.
    pub rows: u64,
    /// Pages found in the server's own cache. A count.
    pub pages_hit: u64,
    /// Pages read from outside of it. A count.
    pub pages_read: u64,
}

/// The activity of the server's processes for one workload within the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadOnServer {
    /// The states of the processes of its clients' sessions, each counted at each look.
    pub seen: StateCounts,
    /// Looks at clients with a request in flight. A count.
    pub under_way: u64,
    /// Of those, how many found the client at another request, or at none, when the look was over. A count.
    pub changed: u64,
    /// Looks in which the process of a client's session was not listed. A count.
    pub absent: u64,
    /// Time that these processes were on cores, seconds, by the scheduler's accounts; `None` if the kernel does not
    /// report it.
    pub cpu_run_s: Option<f64>,
    /// Time that they waited for a core, seconds.
    pub cpu_wait_s: Option<f64>,
    /// Time that our own clients' threads were on cores, seconds.
    pub clients_cpu_run_s: Option<f64>,
    /// Time that they waited for a core, seconds.
    pub clients_cpu_wait_s: Option<f64>,
    /// Parallel workers of its sessions' processes; `None` if no look found any.
    pub workers: Option<Workers>,
    /// The factor by which the waits that looks saw were scaled to fit beside the scheduler's accounts: on a machine
    /// without a free core, looks still find a process waiting that was woken but has no core yet. `None` if they
    /// fitted.
    #[serde(default)]
    pub waits_scaled: Option<f64>,
    /// Throughput in each second of the window, per second, for comparison with the server's background work; the last
    /// one may be short.
    #[serde(default)]
    pub throughput_by_second: Vec<f64>,
}

/// Parallel workers of one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Workers {
    /// Their states, each worker counted at each look.
    pub seen: StateCounts,
    /// Mean number of workers at a look.
    pub mean: f64,
    /// The number of different workers seen. A count.
    pub different: u64,
    /// Time that they were on cores, seconds, up to the last look at each; `None` if the kernel does not report it.
    /// Workers that lived between two looks are missed.
    pub cpu_run_s: Option<f64>,
    /// Time that they waited for a core, seconds.
    pub cpu_wait_s: Option<f64>,
}

/// How often processes were found in each state. Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCounts {
    /// Waiting for nothing: on a core or waiting for one.
    pub running: u64,
    /// Waiting for a lock that another transaction holds.
    pub lock: u64,
    /// Waiting for a device.
    pub io: u64,
    /// Waiting for another process that reads or writes the same page, or the log.
    pub io_latch: u64,
    /// Waiting for the client within a transaction.
    pub client: u64,
    /// Waiting for something else.
    pub other: u64,
    /// Serving no request.
    pub idle: u64,
}

impl StateCounts {
    /// All of them. A count.
    pub fn sum(&self) -> u64 {
        let StateCounts { running, lock, io, io_latch, client, other, idle } = *self;
        running + lock + io + io_latch + client + other + idle
    }
}
