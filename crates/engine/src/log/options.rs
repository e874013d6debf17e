//! The options of the log.

use std::path::PathBuf;
use std::time::Duration;

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing: there is no log.
    #[default]
    None,
    /// A place in the log's buffer, which is written soon.
    Async,
    /// The disk.
    Sync,
}

impl Durability {
    /// Every value, the default first.
    pub const ALL: [Durability; 3] = [Durability::None, Durability::Async, Durability::Sync];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Async => "async",
            Durability::Sync => "sync",
        }
    }
}

/// The options of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// What a commit waits for.
    pub durability: Durability,
    /// Where the folder of a log without a data folder is made; `None` takes the first of the system's temporary
    /// folders that is on a disk.
    pub folder: Option<PathBuf>,
    /// Where the database is kept, log and checkpoints, after the process has ended; `None`: nowhere.
    pub data_folder: Option<PathBuf>,
    /// Bytes of units between checkpoints. Without a data folder there are none.
    pub checkpoint_bytes: u64,
    /// Bytes of a segment, one file of the log. A transaction that needs more gets a segment of its own size.
    pub segment_bytes: u64,
    /// Bytes of units that the log keeps. With a data folder, the log is full when this many have come since the last
    /// checkpoint that succeeded. Without, it forgets the oldest.
    pub bytes_max: u64,
    /// Bytes of units that may wait for the writer; committers wait for room beyond that.
    pub buffer_bytes: usize,
    /// Under `async`: the writer begins when this many bytes wait.
    pub lag_bytes: usize,
    /// Under `async`: the writer begins when a unit has waited this long.
    pub lag: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            durability: Durability::None,
            folder: None,
            data_folder: None,
            checkpoint_bytes: 256 << 20,
            segment_bytes: 64 << 20,
            bytes_max: 8 << 30,
            buffer_bytes: 1 << 20,
            lag_bytes: 256 << 10,
            lag: Duration::from_millis(100),
        }
    }
}
