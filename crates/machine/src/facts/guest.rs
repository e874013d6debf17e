//! Whether this machine is a guest of another, or this process is in a container.

use super::processor::Identity;
use crate::host::Host;

/// The hypervisor, the container, or both separated by a comma, that this process runs in. `None` if it appears to be
/// bare metal.
pub fn virtualised(host: &Host) -> Option<String> {
    let found: Vec<&str> = hypervisor(host).into_iter().chain(container(host)).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// The hypervisor; `hypervisor` if its name is unknown.
pub(crate) fn hypervisor(host: &Host) -> Option<&'static str> {
    if host.text("/sys/hypervisor/type").as_deref() == Some("xen") {
        return Some("xen");
    }
    let named = firmware_name(host).or_else(|| clock_name(host));
    let flagged = Identity::read(host).flags.contains("hypervisor");
    // Cloud vendors put their name on bare-metal machines too, so on x86 the flag decides. Arm has no such flag.
    let has_flags = host.text("/proc/cpuinfo").is_some_and(|text| text.contains("vendor_id"));
    match (flagged, has_flags) {
        (true, _) => Some(named.unwrap_or("hypervisor")),
        (false, true) => None,
        (false, false) => named,
    }
}

/// The hypervisor's name by the firmware's strings.
fn firmware_name(host: &Host) -> Option<&'static str> {
    const NAMES: [(&str, &str); 8] = [
        ("KVM", "kvm"),
        ("QEMU", "kvm"),
        ("Amazon EC2", "kvm"),
        ("Google Compute Engine", "kvm"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Virtual Machine", "hyper-v"),
        ("Xen", "xen"),
    ];
    let files = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"];
    let texts: Vec<String> = files.iter().filter_map(|file| host.text(format!("/sys/class/dmi/id/{file}"))).collect();
    NAMES.iter().find(|(mark, _)| texts.iter().any(|text| text.contains(mark))).map(|(_, name)| *name)
}

/// The hypervisor's name by its clock source, for guests without firmware.
fn clock_name(host: &Host) -> Option<&'static str> {
    let clocks = host.text("/sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    clocks.split_whitespace().find_map(|clock| match clock {
        "kvm-clock" => Some("kvm"),
        "xen" => Some("xen"),
        clock if clock.starts_with("hyperv") => Some("hyper-v"),
        _ => None,
    })
}

/// `container` if a container engine left its marks.
fn container(host: &Host) -> Option<&'static str> {
    const GROUPS: [&str; 5] = ["/docker", "/kubepods", "/lxc", "containerd", "libpod"];
    let marked = host.exists("/.dockerenv") || host.exists("/run/.containerenv");
    let groups = || host.text("/proc/self/cgroup").unwrap_or_default();
    (marked || GROUPS.iter().any(|mark| groups().contains(mark))).then_some("container")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    const FLAG: (&str, &str) =
        ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n");
    const BARE: (&str, &str) = ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu\n");
    const ARM: (&str, &str) = ("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n");
    const EC2: (&str, &str) = ("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");

    #[test]
    fn guests_and_containers() {
        let check = |files: &[(&str, &str)], expect: Option<&str>| {
            assert_eq!(virtualised(&FakeHost::new(files).host()).as_deref(), expect, "{files:?}");
        };
        check(&[], None);
        check(&[BARE], None);
        check(&[FLAG], Some("hypervisor"));
        check(&[FLAG, EC2], Some("kvm"));
        check(&[BARE, EC2], None);
        check(&[ARM, EC2], Some("kvm"));
        check(&[FLAG, ("/sys/class/dmi/id/product_name", "Virtual Machine")], Some("hyper-v"));
        let clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
        check(&[FLAG, (clocks, "tsc kvm-clock \n"), ("/.dockerenv", "")], Some("kvm, container"));
        check(&[("/sys/hypervisor/type", "xen\n")], Some("xen"));
        check(&[BARE, ("/proc/self/cgroup", "0::/kubepods.slice/pod1\n")], Some("container"));
    }
}
