//! Warnings about conditions that disturb or falsify measurements on a host.

use crate::facts::guest;
use crate::groups::Cgroups;
use crate::groups::resctrl::conflict;
use crate::host::Host;
use crate::processor_time::{ProcessorTicks, stolen_note};

pub(super) fn read(host: &Host, cgroups: &Cgroups) -> Vec<String> {
    [quota(cgroups), tools(host), stolen(host)].into_iter().flatten().collect()
}

fn quota(cgroups: &Cgroups) -> Option<String> {
    let quota = cgroups.cpu_quota()?;
    Some(format!(
        "a cgroup quota of {quota:.2} cores: threads are stopped when it is used up, which shows as waiting; start the \
         container without a CPU limit, or give it a cpuset instead"
    ))
}

fn tools(host: &Host) -> Option<String> {
    let rival = conflict::rival(host)?;
    let remedy = rival.remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
    Some(format!("{}, so that hardware counters and cache controls are not to be trusted{remedy}", rival.reason))
}

fn stolen(host: &Host) -> Option<String> {
    guest::hypervisor(host)?;
    let note = stolen_note(ProcessorTicks::read(host)?.stolen_share()?)?;
    Some(format!("since boot {note}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn every_warning_says_what_to_do() {
        let check = |files: &[(&str, &str)], expect: &[&str]| {
            let fake = FakeHost::new(files);
            let found = read(&fake.host(), &Cgroups::read(&fake.host()));
            assert_eq!(found.len(), expect.len(), "{found:?}");
            assert!(found.iter().zip(expect).all(|(found, expect)| found.contains(expect)), "{found:?}");
        };
        check(&[], &[]);
        let tool = |name| [("/proc/7/comm", name), ("/proc/8/comm", "postgres\n"), ("/proc/sys/comm", "pcm\n")];
        check(&tool("pqos\n"), &["pqos (process 7) sets the same registers"]);
        check(&tool("pcm-memory.x\n"), &["; stop pcm-memory.x"]);
        check(&tool("pcmanfm\n"), &[]);
        let guest = ("/sys/hypervisor/type", "xen\n");
        check(&[guest, ("/proc/stat", "cpu  10 0 10 70 0 0 0 10 0 0\n")], &["took 10.0 %"]);
        check(&[guest, ("/proc/stat", "cpu  10 0 10 79 0 0 0 1 0 0\n")], &[]);
        let groups = [
            ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ];
        check(&groups, &["a cgroup quota of 1.50 cores"]);
    }
}
