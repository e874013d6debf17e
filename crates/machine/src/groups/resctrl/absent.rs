//! Where resctrl is mounted, or why it is not, and the remedy.

use std::path::PathBuf;

use procfs::process::MountInfo;

use super::bandwidth::BandwidthUnit;
use crate::availability::Availability;
use crate::facts::guest;
use crate::facts::processor::Identity;
use crate::host::Host;

/// Why a mounted resctrl lacks something: the processor has none of `flags`, a boot parameter of the kernel disables `option`,
/// or the reason is `otherwise`.
pub(crate) fn missing(host: &Host, flags: &[&str], option: &str, otherwise: &str) -> Availability {
    if let Err(absent) = processor_has(host, flags) {
        return absent;
    }
    let arguments = host.text("/proc/cmdline").unwrap_or_default();
    let off = format!("!{option}");
    let of_rdt = |word: &&str| word.strip_prefix("rdt=").is_some_and(|list| list.split(',').any(|part| part == off));
    let argument = arguments.split_whitespace().find(of_rdt);
    Availability::no(otherwise, argument.map(|argument| format!("boot the kernel without {argument}")).as_deref())
}

#[derive(Debug, PartialEq)]
pub(super) struct Mount {
    pub(super) folder: PathBuf,
    pub(super) unit: BandwidthUnit,
}

const WHERE: &str = "/sys/fs/resctrl";

/// Finds the mount. Never mounts.
pub(super) fn find_mount(host: &Host) -> Result<Mount, Availability> {
    let mounts: Vec<MountInfo> = host.mounts().into_iter().filter(|mount| mount.fs_type == "resctrl").collect();
    let Some(mount) = mounts.iter().find(|mount| mount.root == "/") else {
        return Err(match mounts.first() {
            Some(part) => {
                let folder = part.mount_point.display();
                let reason = format!("only the group {} of resctrl can be seen here, at {folder}", part.root);
                Availability::no(reason, Some("run outside the container, or give it the whole of /sys/fs/resctrl"))
            }
            None => not_mounted(host),
        });
    };
    let folder = mount.mount_point.clone();
    if mount.mount_options.contains_key("ro") || mount.super_options.contains_key("ro") {
        let remedy = format!("as root: mount -o remount,rw {}; in a container, run outside of it", folder.display());
        return Err(Availability::no(format!("resctrl is mounted read-only at {}", folder.display()), Some(&remedy)));
    }
    if !host.writable(folder.join("tasks")) {
        let reason = format!("resctrl is mounted at {}, and not ours to write", folder.display());
        return Err(Availability::no(reason, Some("run as root")));
    }
    Ok(Mount { unit: unit(host, mount), folder })
}

fn unit(host: &Host, mount: &MountInfo) -> BandwidthUnit {
    if mount.super_options.contains_key("mba_MBps") {
        BandwidthUnit::MebibytesPerSecond
    } else if ["AuthenticAMD", "HygonGenuine"].contains(&Identity::read(host).vendor.as_str()) {
        BandwidthUnit::EighthGigabytes
    } else {
        BandwidthUnit::Percent
    }
}

/// Why it is not mounted: the processor, the kernel, or because no user has mounted it.
fn not_mounted(host: &Host) -> Availability {
    let inside = guest::virtualised(host).is_some_and(|found| found.contains("container"));
    if let Err(absent) = processor_has(host, &["cat_l3", "cat_l2", "mba", "cqm_llc"]) {
        return absent;
    }
    let file_systems = host.text("/proc/filesystems").unwrap_or_default();
    if !file_systems.split_whitespace().any(|word| word == "resctrl") {
        let arguments = host.text("/proc/cmdline").unwrap_or_default();
        let reason = match arguments.split_whitespace().find(|word| word.starts_with("rdt=")) {
            Some(argument) => format!("the kernel offers no resctrl file system, and it was booted with {argument}"),
            None => "the kernel has no resctrl file system".to_owned(),
        };
        let remedy = "a kernel with CONFIG_X86_CPU_RESCTRL (or CONFIG_ARM64_MPAM), not booted with rdt=!l3cat,!mba";
        return Availability::no(reason, Some(remedy));
    }
    let remedy =
        format!("as root{}: mount -t resctrl resctrl {WHERE}", if inside { ", outside the container" } else { "" });
    Availability::no("resctrl is not mounted", Some(&remedy))
}

/// Whether the processor reports any of these flags. Only x86 does; for others (Arm MPAM) only the kernel knows.
pub(crate) fn processor_has(host: &Host, flags: &[&str]) -> Result<(), Availability> {
    let identity = Identity::read(host);
    let is_x86 = ["AuthenticAMD", "GenuineIntel", "HygonGenuine"].contains(&identity.vendor.as_str());
    if !is_x86 || flags.iter().any(|flag| identity.flags.contains(*flag)) {
        return Ok(());
    }
    let flags = flags.join(", ");
    Err(match guest::hypervisor(host) {
        Some(hypervisor) => {
            let reason =
                format!("the processor of this guest ({hypervisor}) does not have it (flags: none of {flags})");
            let remedy = "run on bare metal whose processor has it (Intel RDT, AMD QoS); hypervisors rarely pass it on";
            Availability::no(reason, Some(remedy))
        }
        None => Availability::no(format!("the processor does not have it (flags: none of {flags})"), None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    const INTEL: (&str, &str) = ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: cat_l3 mba\n");
    const AMD: (&str, &str) = ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: cat_l3 mba\n");
    const OLD: (&str, &str) = ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu\n");
    const GUEST: (&str, &str) =
        ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n");
    const KERNEL: (&str, &str) = ("/proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n");
    const OTHER: (&str, &str) = ("/proc/filesystems", "nodev\tsysfs\n");
    const TASKS: (&str, &str) = ("/sys/fs/resctrl/tasks", "1\n");

    fn mounted(root: &str, options: &str, kernel_options: &str) -> String {
        format!("40 30 0:35 {root} /sys/fs/resctrl {options},relatime shared:1 - resctrl resctrl {kernel_options}\n")
    }

    #[test]
    fn each_absence_has_its_reason_and_remedy() {
        let check = |files: &[(&str, &str)], reason: &str, remedy: Option<&str>| {
            let absent = find_mount(&FakeHost::new(files).host()).unwrap_err();
            assert!(absent.reason.contains(reason), "{absent:?}");
            match (&absent.remedy, remedy) {
                (Some(found), Some(expect)) => assert!(found.contains(expect), "{absent:?}"),
                (found, expect) => assert_eq!(found.as_deref(), expect, "{absent:?}"),
            }
        };
        check(&[INTEL, KERNEL], "not mounted", Some("as root: mount -t resctrl resctrl /sys/fs/resctrl"));
        check(&[INTEL, KERNEL, ("/.dockerenv", "")], "not mounted", Some("outside the container: mount"));
        check(&[INTEL, OTHER], "the kernel has no resctrl", Some("CONFIG_X86_CPU_RESCTRL"));
        check(
            &[INTEL, OTHER, ("/proc/cmdline", "quiet rdt=!l3cat\n")],
            "booted with rdt=!l3cat",
            Some("not booted with"),
        );
        check(&[OLD, KERNEL], "the processor does not have it (flags: none of cat_l3", None);
        check(&[GUEST, OTHER], "the processor of this guest (hypervisor) does not have it", Some("bare metal"));
        check(&[], "the kernel has no resctrl", Some("CONFIG_"));
        let part = mounted("/db", "rw", "rw");
        check(&[INTEL, KERNEL, ("/proc/self/mountinfo", &part)], "only the group /db", Some("outside the container"));
        let fixed = mounted("/", "ro", "rw");
        check(&[INTEL, TASKS, ("/proc/self/mountinfo", &fixed)], "read-only at /sys/fs/resctrl", Some("remount,rw"));
        let nothing = mounted("/", "rw", "rw");
        check(&[INTEL, ("/proc/self/mountinfo", &nothing)], "not ours to write", Some("run as root"));
    }

    #[test]
    fn a_mount_and_its_unit() {
        let check = |processor, options: &str, unit| {
            let line = mounted("/", "rw", options);
            let fake = FakeHost::new(&[processor, TASKS, ("/proc/self/mountinfo", &line)]);
            assert_eq!(find_mount(&fake.host()), Ok(Mount { folder: PathBuf::from(WHERE), unit }), "{options}");
        };
        check(INTEL, "rw", BandwidthUnit::Percent);
        check(INTEL, "rw,cdp,mba_MBps", BandwidthUnit::MebibytesPerSecond);
        check(AMD, "rw", BandwidthUnit::EighthGigabytes);
    }
}
