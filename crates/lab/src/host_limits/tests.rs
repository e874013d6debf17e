//! Limits on real processes, as far as this machine has control groups.

use std::process::Stdio;

use plimsoll_testing::{Need, skip};

use super::*;

/// A shell with a child, as a server that has started others; both end with the test.
struct Family {
    shell: std::process::Child,
    child: i32,
}

impl Family {
    fn start() -> Family {
        let mut command = Command::new("sh");
        let command = command.args(["-c", "sleep 1000 & echo $!; read line; kill $!"]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        Family { shell, child: line.trim().parse().unwrap() }
    }

    fn footprint(&self) -> Footprint {
        Footprint { processes: vec![self.shell.id().cast_signed()], folder: None }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[test]
fn everything_that_a_server_has_started_belongs_to_it_and_what_we_have_started_does_not() {
    let family = Family::start();
    let host = Host::real();
    let shell = family.shell.id().cast_signed();
    assert_eq!(with_descendants(&host, &family.footprint()), [shell, family.child]);
    let own = std::process::id().cast_signed();
    let ours = Footprint { processes: vec![own], folder: None };
    assert_eq!(with_descendants(&host, &ours), [own]);
    assert_eq!(with_descendants(&host, &Footprint::default()), Vec::<i32>::new());
}

#[test]
fn a_limit_takes_in_what_was_started_before_it() {
    let probe = CONTROLS.iter().find(|control| control.key() == "cpu_weight").unwrap().probe(&Host::real());
    if !probe.available || !probe.reason.contains("control groups") {
        return skip(Need::Cgroups, format!("cpu_weight: {}", probe.reason));
    }
    let state = tempfile::tempdir().unwrap();
    let family = Family::start();
    let groups = || std::fs::read_to_string(format!("/proc/{}/cgroup", family.child)).unwrap();
    let before = groups();
    let mut limits = HostLimits { state: state.path().to_owned(), ..HostLimits::new(Vec::new()) };
    let wanted = Limits::from([("cpu_weight".to_owned(), Amount::Number(50.0))]);
    limits.set(&family.footprint(), &wanted).unwrap();
    assert_ne!(groups(), before);
    limits.open_window();
    let verdicts = limits.close_window();
    assert_eq!(verdicts["cpu_weight"].why_not, None, "{verdicts:?}");
    limits.lift().unwrap();
    assert_eq!(groups(), before);
}
