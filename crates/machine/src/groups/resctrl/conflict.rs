//! Programs that set the same registers while bypassing the kernel. They and resctrl overwrite each other's settings,
//! so neither limits nor counters can be trusted (intel-cmt-cat README, "Software Compatibility").

use crate::availability::Availability;
use crate::host::Host;

pub(crate) fn rival(host: &Host) -> Option<Availability> {
    host.numbers("/proc").into_iter().find_map(|process| {
        let name = host.text(format!("/proc/{process}/comm"))?;
        let arguments = || host.text(format!("/proc/{process}/cmdline")).unwrap_or_default();
        bypasses_kernel(&name, arguments).then(|| {
            let reason = format!("{name} (process {process}) sets the same registers past the kernel");
            Availability::no(reason, Some(&format!("stop {name}; where it is pqos, it may run with --iface=os")))
        })
    })
}

/// PCM does always; the tools of intel-cmt-cat do unless they are configured to use resctrl.
fn bypasses_kernel(name: &str, arguments: impl Fn() -> String) -> bool {
    match name {
        "pqos-msr" | "rdtset-msr" => true,
        "pqos" | "rdtset" => {
            let arguments = arguments();
            let words: Vec<&str> = arguments.split('\0').collect();
            !words.iter().any(|word| ["-I", "--iface-os", "--iface=os"].contains(word))
                && !words.windows(2).any(|pair| pair == ["--iface", "os"])
        }
        _ => name == "pcm" || name.starts_with("pcm-") || name.starts_with("pcm."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn programs_that_bypass_the_kernel() {
        let check = |name: &str, arguments: &str, expect: bool| {
            let fake =
                FakeHost::new(&[("/proc/self/comm", "pcm"), ("/proc/77/comm", name), ("/proc/77/cmdline", arguments)]);
            let rival = rival(&fake.host());
            assert_eq!(rival.is_some(), expect, "{name} {arguments}: {rival:?}");
            if let Some(rival) = rival {
                assert!(rival.reason.contains("process 77") && rival.remedy.is_some(), "{rival:?}");
            }
        };
        check("pcm\n", "", true);
        check("pcm-memory\n", "", true);
        check("pcm.x\n", "", true);
        check("pqos-msr\n", "", true);
        check("pqos\n", "pqos\0-m\0all:0\0", true);
        check("pqos\n", "pqos\0--iface=os\0-s\0", false);
        check("pqos\n", "pqos\0-I\0-s\0", false);
        check("pqos\n", "pqos\0--iface\0msr\0", true);
        check("postgres\n", "pqos", false);
        check("pcmanfm\n", "", false);
        assert_eq!(super::rival(&FakeHost::new(&[]).host()), None);
    }
}
