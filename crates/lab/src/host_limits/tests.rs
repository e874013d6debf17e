//! Limits on real processes, as far as this machine has control groups.

use std::process::Stdio;

use plimsoll_testing::{Need, skip};

use super::*;

/// A shell with a child, like a server that has started another process; both end with the test.
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
fn hogs_in_force_are_told_by_their_processes() {
    let serve = r#"echo '{"ready":{"hog":"cpu:1"}}'; while read line; do :; done"#;
    let mut limits = HostLimits::new(["sh", "-c", serve].map(OsString::from).to_vec());
    assert_eq!(limits.processes(), Vec::<i32>::new());
    let hog = Limits::from([(HOG.to_owned(), Amount::Text("cpu:1".to_owned()))]);
    limits.set(&Footprint::default(), &hog).unwrap();
    let [process] = limits.processes()[..] else { panic!("{:?}", limits.processes()) };
    let tree = TreeSample::read(&Host::real(), &[std::process::id().cast_signed()]).unwrap();
    assert!(tree.processes().contains(&process), "it is a process of ours");
    limits.set(&Footprint::default(), &Limits::new()).unwrap();
    assert_eq!(limits.processes(), Vec::<i32>::new());
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

/// The hogs that implement limits here, with this much cache, on two cores and without cache allocation.
fn hogs_of(llc_mib: Result<[f64; 2], String>, wanted: f64) -> Result<Vec<String>, String> {
    let limits = HostLimits { llc_mib, llc_count: 1, cores: vec![0, 1], ..HostLimits::new(Vec::new()) };
    let mut translated = LimitPlan { controls: Limits::new(), hogs: BTreeMap::new(), allocated: None };
    limits.share_cache(wanted, &mut translated).map_err(|error| error.to_string())?;
    assert_eq!(translated.controls["cores"].to_string(), "0", "at every amount alike");
    Ok(translated.hogs.values().map(|(spec, cores)| format!("{spec} on {cores:?}")).collect())
}

#[test]
fn all_of_the_cache_is_had_beside_an_idle_pirate() {
    if llc_ways(&Host::real()).is_some() {
        return eprintln!("left out: there is cache allocation here");
    }
    assert_eq!(hogs_of(Ok([30.0, 34.0]), 8.0), Ok(vec!["llc:24 on [1]".to_owned()]), "of what the probe saw");
    assert_eq!(hogs_of(Ok([30.0, 34.0]), 32.0), Ok(vec!["llc:0 on [1]".to_owned()]));
    assert_eq!(hogs_of(Ok([30.0, 34.0]), 64.0), Ok(vec!["llc:0 on [1]".to_owned()]));
    assert_eq!(hogs_of(Err("why".to_owned()), 8.0), Err("llc_mib cannot be limited here: why".to_owned()));
}

#[test]
fn the_size_of_a_cache_is_what_was_seen_of_it() {
    let told = Some(32 << 20);
    assert_eq!(last_level(told, None, None), Ok([32.0, 32.0]));
    assert_eq!(last_level(told, None, Some(None)), Ok([32.0, 32.0]));
    assert_eq!(last_level(told, Some("kvm"), Some(Some([5.0, 7.0]))), Ok([5.0, 7.0]));
    assert_eq!(last_level(told, None, Some(Some([31.0, 33.0]))), Ok([31.0, 33.0]));
    let check = |seen, expect: &str| {
        let why = last_level(told, Some("kvm"), seen).unwrap_err();
        assert!(why.contains("kvm") && why.contains("--probe") && why.contains(expect), "{why}");
    };
    check(None, "less of the last-level cache than it sees");
    check(Some(None), "could not tell");
    assert!(last_level(None, None, None).is_err());
}

#[test]
fn what_a_pirate_leaves_has_the_interval_of_both() {
    let told = |verdicts: BTreeMap<String, Verdict>| {
        let number = |verdict: &Verdict| verdict.achieved.as_ref().map(ToString::to_string).unwrap_or_default();
        verdicts.iter().map(|(key, verdict)| format!("{key} {}", number(verdict))).collect::<Vec<_>>().join(", ")
    };
    let left = |whole, held, interval| told(left_of(whole, held, interval, None).collect());
    assert_eq!(left([30.0, 34.0], 24.0, Some([23.0, 25.0])), "llc_mib 8, llc_mib_high 11, llc_mib_low 5");
    assert_eq!(left([32.0, 32.0], 24.0, None), "llc_mib 8");
    assert_eq!(left([30.0, 34.0], 0.0, None), "llc_mib 32, llc_mib_high 34, llc_mib_low 30", "beside an idle one");
    let short = left_of([32.0, 32.0], 20.0, None, Some("it lost".to_owned())).collect::<BTreeMap<_, _>>();
    assert_eq!(short["llc_mib"].why_not.as_deref(), Some("it lost"));
}
