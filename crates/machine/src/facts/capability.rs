//! What this host can measure and limit, and for each "no" the reason and the remedy.

use std::path::PathBuf;

use procfs::process::MountInfos;

use super::processor::Identity;
use super::{Capability, Live, guest};
use crate::cgroup::Cgroups;
use crate::counters::Event;
use crate::cpu_time::ThreadTimes;
use crate::device::DeviceSample;
use crate::host::Host;

/// Every capability, in the order people ask.
pub(super) fn read(host: &Host, cgroups: &Cgroups, live: &Live) -> Vec<Capability> {
    let resctrl = Resctrl::read(host);
    vec![
        hardware_counters(live),
        thread_times(live.thread_times),
        disk_statistics(host),
        unlimited_cpu(cgroups),
        controllers(cgroups),
        resctrl.capability("cache allocation", "cat_l3", "info/L3", |info| {
            let ways = info("cbm_mask").and_then(|mask| u64::from_str_radix(&mask, 16).ok()).map(u64::count_ones);
            Some(format!("{} ways in {} groups", ways?, info("num_closids")?))
        }),
        resctrl.capability("memory bandwidth limit", "mba", "info/MB", |info| {
            Some(format!("in steps of {} in {} groups", info("bandwidth_gran")?, info("num_closids")?))
        }),
    ]
}

fn yes(name: &str, reason: impl Into<String>) -> Capability {
    Capability { name: name.to_owned(), available: true, reason: reason.into(), remedy: None }
}

fn no(name: &str, reason: impl Into<String>, remedy: Option<&str>) -> Capability {
    Capability { name: name.to_owned(), available: false, reason: reason.into(), remedy: remedy.map(str::to_owned) }
}

/// Opening counters says little: virtual ones may open and stand still, so what counts is that cycles were counted.
fn hardware_counters(live: &Live) -> Capability {
    const NAME: &str = "hardware counters";
    let reading = match &live.counters {
        Ok(reading) => reading,
        Err(unavailable) => return no(NAME, unavailable.to_string(), unavailable.remedy().as_deref()),
    };
    let Some(cycles) = reading.figure(Event::Cycles) else {
        return no(NAME, reading.notes.join("; "), Some("stop other profilers, or run on bare metal"));
    };
    // Every group has cycles, so that less than all of the time means that the kernel shares the counters out.
    let covered = format!("coverage {:.0} %", cycles.coverage * 100.0);
    let notes = reading.notes.iter().map(|note| format!("; {note}"));
    yes(NAME, std::iter::once(format!("they count; {covered}")).chain(notes).collect::<String>())
}

fn thread_times(times: Option<ThreadTimes>) -> Capability {
    const NAME: &str = "thread scheduling times";
    match times {
        Some(_) => yes(NAME, "/proc/self/task/TID/schedstat: time on a core and waiting for one"),
        None => no(
            NAME,
            "the kernel keeps no /proc/self/task/TID/schedstat",
            Some("a kernel with CONFIG_SCHEDSTATS, or booted with delayacct"),
        ),
    }
}

fn disk_statistics(host: &Host) -> Capability {
    const NAME: &str = "disk statistics";
    let sample = DeviceSample::read_from(host);
    match sample.disks().as_slice() {
        [] => no(NAME, "no whole disk is in both /proc/diskstats and /sys/block", Some("mount /sys in the container")),
        disks => yes(NAME, format!("/proc/diskstats of {}", disks.join(", "))),
    }
}

fn unlimited_cpu(cgroups: &Cgroups) -> Capability {
    const NAME: &str = "CPU without quota";
    match cgroups.cpu_quota() {
        None => yes(NAME, "no cgroup that can be seen has a CPU quota"),
        Some(quota) => no(
            NAME,
            format!(
                "a cgroup quota of {quota:.2} cores: threads are stopped when it is used up, which shows as waiting"
            ),
            Some("start the container without a CPU limit, or give it a cpuset instead"),
        ),
    }
}

/// The controllers that could limit a workload, by their names in either version.
fn controllers(cgroups: &Cgroups) -> Capability {
    const NAME: &str = "cgroup controllers";
    const WANTED: [[&str; 2]; 4] = [["cpu", "cpu"], ["cpuset", "cpuset"], ["memory", "memory"], ["io", "blkio"]];
    let Some(version) = cgroups.version() else {
        return no(NAME, "no cgroup file system is mounted", Some("mount -t cgroup2 none /sys/fs/cgroup, as root"));
    };
    let (mut ours, mut others, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for names in WANTED {
        match names.iter().find_map(|name| Some((*name, cgroups.controller(name)?))) {
            Some((name, true)) => ours.push(name),
            Some((name, false)) => others.push(name),
            None => absent.push(names[0]),
        }
    }
    let list = |what: &str, names: &[&str]| match names {
        [] => String::new(),
        names => format!("; {what}: {}", names.join(" ")),
    };
    let reason = format!(
        "cgroup version {version}{}{}{}",
        list("writable", &ours),
        list("read-only", &others),
        list("absent", &absent)
    );
    if ours.is_empty() {
        let remedy = "run as root, or delegate a group: systemd-run --user --scope -p Delegate=yes PROGRAM";
        return no(NAME, reason, Some(remedy));
    }
    yes(NAME, reason)
}

/// What the kernel and the processor offer for sharing out caches and memory bandwidth.
struct Resctrl<'a> {
    host: &'a Host,
    identity: Identity,
    supported: bool,
    /// Where it is mounted, usually at `/sys/fs/resctrl`.
    mounted: Option<PathBuf>,
}

impl Resctrl<'_> {
    fn read(host: &Host) -> Resctrl<'_> {
        let file_systems = host.text("/proc/filesystems").unwrap_or_default();
        let mounts = host.parsed::<MountInfos>("/proc/self/mountinfo").map(|mounts| mounts.0).unwrap_or_default();
        Resctrl {
            host,
            identity: Identity::read(host),
            supported: file_systems.split_whitespace().any(|word| word == "resctrl"),
            mounted: mounts.into_iter().find(|mount| mount.fs_type == "resctrl").map(|mount| mount.mount_point),
        }
    }

    /// One thing that resctrl may control: wanted is the processor's `flag`, and that the folder `info` exists once
    /// it is mounted, from which `tell` says how much there is to share out.
    fn capability(
        &self,
        what: &str,
        flag: &str,
        info: &str,
        tell: impl Fn(&dyn Fn(&str) -> Option<String>) -> Option<String>,
    ) -> Capability {
        let name = &format!("{what} (resctrl)");
        // Arm has no flag for it (MPAM); there the kernel alone decides.
        let flagged = self.identity.flags.contains(flag);
        let is_x86 = ["AuthenticAMD", "GenuineIntel", "HygonGenuine"].contains(&self.identity.vendor.as_str());
        if is_x86 && !flagged {
            return match guest::hypervisor(self.host) {
                Some(_) => {
                    let remedy =
                        "run on bare metal whose processor has it (Intel RDT, AMD QoS); hypervisors rarely pass it on";
                    no(name, format!("the processor of this guest does not have it (no {flag} flag)"), Some(remedy))
                }
                None => no(name, format!("the processor does not have it (no {flag} flag)"), None),
            };
        }
        if !self.supported {
            let remedy = "a kernel with CONFIG_X86_CPU_RESCTRL (or CONFIG_ARM64_MPAM), not booted with rdt=!l3cat,!mba";
            return no(name, "the kernel has no resctrl file system", Some(remedy));
        }
        let Some(mounted) = &self.mounted else {
            let remedy = "as root: mount -t resctrl resctrl /sys/fs/resctrl";
            return no(name, "resctrl is not mounted", Some(remedy));
        };
        let info = mounted.join(info);
        if !self.host.exists(&info) {
            return no(name, format!("resctrl is mounted without it (no {})", info.display()), None);
        }
        if !self.host.writable(mounted) {
            return no(name, "resctrl is mounted, and not ours to write", Some("run as root"));
        }
        let told = tell(&|file| self.host.text(info.join(file)));
        yes(name, told.unwrap_or_else(|| "resctrl is mounted and writable".to_owned()))
    }
}
