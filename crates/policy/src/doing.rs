//! What a process of a database does, as samples show it: the parts of response time.

/// The possible activities of a process (MW 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// It waits for nothing: it is on a core or waits for one.
    Running,
    /// It waits for a lock that another transaction holds.
    Lock,
    /// It waits for a device.
    Io,
    /// It waits for another process that reads or writes the same page, or the log: short waits behind a device, which MW
    /// counts as waits for devices.
    IoLatch,
    /// It waits for its client within a transaction.
    Client,
    /// It waits for something else: a latch of another kind, a worker, a timer.
    Other,
    /// It serves no request.
    Idle,
}
