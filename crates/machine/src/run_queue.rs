//! How many threads want a core at this moment.

use crate::host::Host;

/// Threads of the whole machine that run or are ready to run now, excluding the calling one: the fourth field of
/// `/proc/loadavg` (proc(5)). `None` if the kernel does not report it. Within a container it counts the threads of its
/// host.
///
/// It is one look at a number that changes thousands of times per second; the mean of many looks is the load.
pub fn runnable_threads(host: &Host) -> Option<u32> {
    let text = host.text("/proc/loadavg")?;
    let (running, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    running.parse::<u32>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn the_reader_is_not_counted_and_what_is_not_told_is_not_0() {
        let check = |text: &str, expect| {
            let fake = FakeHost::new(&[("/proc/loadavg", text)]);
            assert_eq!(runnable_threads(&fake.host()), expect, "{text}");
        };
        check("0.20 0.18 0.12 3/80 11206\n", Some(2));
        check("0.00 0.00 0.00 1/80 7", Some(0));
        check("0.00 0.00 0.00 0/80 7", None);
        check("0.00 0.00", None);
        check("", None);
        assert!(runnable_threads(&Host::real()).is_some());
    }
}
