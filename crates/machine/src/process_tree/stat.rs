//! The few fields of `/proc/PID/stat` that are needed here.
//!
//! The name of a program is any bytes, and a file may break off when its process ends; both are read without complaint.

use std::path::Path;
use std::time::Duration;

use crate::host::Host;

/// Fields of a process or of one of its threads (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The id of the parent.
    pub(crate) parent: i32,
    /// User and system time, clock ticks. Of a process, that of all threads it ever had.
    pub(crate) cpu_ticks: u64,
    /// The part of it in user mode.
    pub(crate) user_ticks: u64,
    /// The same of children that were waited for.
    pub(crate) children_ticks: u64,
    /// When it began, clock ticks since boot.
    pub(crate) began: u64,
    /// Waiting for block I/O, clock ticks; 0 where the kernel does not measure it.
    pub(crate) block_io_ticks: u64,
}

impl Stat {
    /// Reads a file; `None` if it is gone or cannot be understood.
    pub(crate) fn read(host: &Host, path: impl AsRef<Path>) -> Option<Stat> {
        Stat::read_named(host, path).map(|(_, stat)| stat)
    }

    /// As [`Stat::read`], with the name of the program: its first 15 bytes.
    pub(crate) fn read_named(host: &Host, path: impl AsRef<Path>) -> Option<(String, Stat)> {
        let text = std::fs::read(host.path(path)).ok()?;
        let text = String::from_utf8_lossy(&text);
        Some((name(&text).to_owned(), Stat::parse(&text)?))
    }

    fn parse(text: &str) -> Option<Stat> {
        let (_, behind_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        // Fields are numbered as in the manual; the first behind the name is the third.
        let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok());
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            cpu_ticks: field(14)? + field(15)?,
            user_ticks: field(14)?,
            children_ticks: field(16)? + field(17)?,
            began: field(22)?,
            block_io_ticks: field(42).unwrap_or(0),
        })
    }
}

/// The name is in parentheses and may hold some itself.
fn name(text: &str) -> &str {
    let inside = text.rsplit_once(')').and_then(|(before, _)| before.split_once('('));
    inside.map_or("", |(_, name)| name)
}

/// The folder of a thread of this process or of another one.
pub(crate) fn thread_folder(host: &Host, thread: i32) -> String {
    let own = format!("/proc/self/task/{thread}");
    if host.exists(&own) { own } else { format!("/proc/{thread}/task/{thread}") }
}

/// The kernel's clock ticks, 10 ms each, as time.
pub(crate) fn from_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000) / procfs::ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_kind_and_files_that_break_off() {
        let fields =
            "S 5 1 1 0 -1 4194560 1 2 3 4 50 6 70 8 20 0 1 0 999 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 33 0";
        let expect =
            Stat { parent: 5, cpu_ticks: 56, user_ticks: 50, children_ticks: 78, began: 999, block_io_ticks: 33 };
        for name in ["(sh)", "(a) b)", "(a b (c) d)", "()"] {
            let text = format!("7 {name} {fields}\n");
            assert_eq!(Stat::parse(&text), Some(expect), "{name}");
            assert_eq!(format!("({})", super::name(&text)), name);
        }
        let old = fields.split(' ').take(25).collect::<Vec<&str>>().join(" ");
        assert_eq!(Stat::parse(&format!("7 (sh) {old}")), Some(Stat { block_io_ticks: 0, ..expect }));
        for broken in ["", "(", ")", "7 (sh)", "7 (sh) S", "7 (sh) S 5 1 1", "7 (sh) S x 1 1 0 -1 4 1 2 3 4 5 6 7"] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }
}
