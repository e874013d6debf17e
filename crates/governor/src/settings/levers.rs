//! Levers: those whose state depends on settings alone, and whether settings ask for the others.

use super::Settings;
pub(crate) const PREEMPTION: &str = "preemption";
pub(crate) const SHARES: &str = "cpu shares";
pub(crate) const INHERITANCE: &str = "inheritance";
pub(crate) const CONTROL_GROUPS: &str = "control groups";
/// Whether the activity of sessions at the server can be seen.
pub(crate) const SESSIONS: &str = "sessions";
pub(crate) const IDLE_BOUND: &str = "idle bound";
pub(crate) const DISK: &str = "disk limits";
pub(crate) const CACHE: &str = "cache";
pub(crate) const AWAKE: &str = "awake cores";
const ADMISSION: &str = "admission";
const REPLAY: &str = "replay";
const RETRY: &str = "retry";
/// Which levers remain without the server's machine.
const HOST: &str = "host";

/// The levers that work on the server's processes and its machine.
pub(crate) const OF_HOST: [&str; 5] = [SHARES, INHERITANCE, CONTROL_GROUPS, DISK, CACHE];

/// A lever of the governor and whether it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lever {
    /// `admission`, `preemption`, `replay`, `retry`, `cpu shares`, `inheritance`, `awake cores`; or `host`, which says what
    /// remains where the server's machine is out of reach.
    pub name: &'static str,
    /// Whether it works.
    pub is_on: bool,
    /// Whether the settings ask for it.
    pub is_wanted: bool,
    /// Why it does not work, and what to do; or how it works.
    pub why: String,
}

impl Lever {
    /// Its state in a word: `works`; `off` if the settings do not ask for it; otherwise `failing`.
    pub fn state(&self) -> &'static str {
        match (self.is_on, self.is_wanted) {
            (true, _) => "works",
            (false, false) => "off",
            (false, true) => "failing",
        }
    }
}

/// What the server leaves of the levers whose state depends on settings otherwise.
pub(crate) struct Server<'a> {
    /// Whether the number of its cores is known.
    pub(crate) has_cores: bool,
    /// Why nothing is replayed on its version, if so.
    pub(crate) replay_off: Option<&'a str>,
    /// Why only SQL is possible, if so, and whether the server's machine is out of reach.
    pub(crate) by_sql_alone: Option<(&'a str, bool)>,
}

/// Takes away what the server does not allow, and says first which levers remain where only SQL is possible.
pub(crate) fn at_server(levers: &mut Vec<Lever>, settings: &Settings, server: &Server<'_>) {
    for lever in levers.iter_mut() {
        match (lever.name, server.replay_off) {
            (REPLAY | RETRY, Some(why)) if lever.is_on => (lever.is_on, lever.why) = (false, why.to_owned()),
            (ADMISSION, _) if lever.is_on && !server.has_cores && is_searched_only(settings) => {
                (lever.is_on, lever.is_wanted, lever.why) = (false, false, NO_CORES.to_owned());
            }
            // What is not available wherever the governor stands must not be reported as failing.
            (name, _)
                if server.by_sql_alone.is_some_and(|(_, is_elsewhere)| is_elsewhere) && OF_HOST.contains(&name) =>
            {
                lever.is_wanted = false;
            }
            _ => {}
        }
    }
    if let Some((why, _)) = server.by_sql_alone {
        let works = |lever: &&Lever| lever.is_on && !OF_HOST.contains(&lever.name) && lever.name != AWAKE;
        let remaining: Vec<&str> = levers.iter().filter(works).map(|lever| lever.name).collect();
        levers.insert(0, own(HOST, false, by_sql_alone(why, &remaining)));
    }
}

/// Which levers remain, and which do not.
pub(crate) fn by_sql_alone(why: &str, remaining: &[&str]) -> String {
    let remain = match remaining {
        [] => "nothing that the settings ask for works".to_owned(),
        [one] => format!("{one} works"),
        several => format!("{} work", several.join(", ")),
    };
    format!("by SQL alone: {remain}; {} do not: {why}", OF_HOST.join(", "))
}

/// Why no mpl is chosen at a server on another machine.
pub(crate) const NO_CORES: &str = "no class has an mpl, and none is chosen: the number of the server's cores is not known; \
    set `server_cores` in [mode], or an `mpl`";

/// Whether admission limits a class only if the governor chooses an mpl for it.
pub(crate) fn is_searched_only(settings: &Settings) -> bool {
    settings.total_mpl.is_none() && settings.classes.iter().all(|class| class.limits.mpl.is_none())
}

/// The levers whose state depends on settings alone.
pub(crate) fn own_levers(settings: &Settings) -> Vec<Lever> {
    if settings.is_beside {
        let why = "the governor works beside the server, so that no transaction passes through it";
        return [ADMISSION, REPLAY].map(|name| own(name, false, why.to_owned())).into();
    }
    let limited = settings.names_of(|class| class.limits.mpl.is_some());
    let searched: Vec<&str> = settings.searched().map(|(_, class)| class.name.as_str()).collect();
    let admission = match (limited.is_empty(), settings.total_mpl) {
        (true, None) if !searched.is_empty() => {
            format!("limits {} where that costs no throughput", searched.join(", "))
        }
        (true, None) => "no class has an mpl, and there is none for all of them".to_owned(),
        (false, None) => format!("limits {limited}"),
        (true, Some(mpl)) => format!("limits all classes together to {mpl}"),
        (false, Some(mpl)) => format!("limits {limited}, and all classes together to {mpl}"),
    };
    let replayed = settings.names_of(|class| class.preemptible && class.replay);
    let rolls_back = settings.control.is_some() && settings.preemption.policy.acts();
    let replay = match (rolls_back, replayed.is_empty()) {
        (false, _) => "nothing is rolled back".to_owned(),
        (true, true) => "no class is preemptible and has replay".to_owned(),
        (true, false) => format!("replays rolled back transactions of {replayed}"),
    };
    let is_limiting = !limited.is_empty() || settings.total_mpl.is_some() || !searched.is_empty();
    let promised = settings.classes.iter().filter_map(|class| Some(format!("{} {}", class.name, class.target?)));
    let promised: Vec<String> = promised.collect();
    let mut levers = vec![
        own(ADMISSION, is_limiting, admission),
        own(REPLAY, rolls_back && !replayed.is_empty(), replay),
        retry_lever(settings),
    ];
    if !promised.is_empty() {
        let why = format!("limits classes below for {}", promised.join(", "));
        levers.push(own("targets", true, why));
    }
    levers
}

/// Whether transactions that the server aborts are replayed.
fn retry_lever(settings: &Settings) -> Lever {
    let retried = settings.names_of(|class| class.replay && class.retry_aborted > 0);
    let tracks = settings.preemption.policy.only_tracks();
    let why = match (tracks, retried.is_empty()) {
        (true, _) => "the policy is track: errors of the server go to the clients".to_owned(),
        (false, true) => "no class has retry_aborted and replay".to_owned(),
        (false, false) => format!("replays transactions of {retried} that the server aborts"),
    };
    own(RETRY, !tracks && !retried.is_empty(), why)
}

/// Whether a lever should work. One that does not although it should is failing; others are off, and nothing is
/// wrong.
pub(crate) fn wants(settings: &Settings, lever: &str) -> bool {
    let opts_in = |class: &super::ClassSettings| class.preemptible && (class.retries || !settings.is_beside);
    let asks = match lever {
        PREEMPTION => settings.preemption.policy.acts() && settings.classes.iter().any(opts_in),
        SHARES => settings.cpu.shares,
        INHERITANCE => settings.cpu.inheritance,
        CONTROL_GROUPS => settings.classes.iter().any(|class| !class.control_groups.is_empty()),
        DISK => !settings.disk_yielders().is_empty(),
        CACHE => !settings.cache_confined().is_empty(),
        SESSIONS => settings.observes(),
        IDLE_BOUND => {
            settings.is_beside && settings.classes.iter().any(|class| class.idle_in_transaction_timeout.is_some())
        }
        AWAKE => return settings.cpu.awake,
        _ => false,
    };
    asks && settings.control.is_some()
}

/// A lever that settings alone switch on or off.
fn own(name: &'static str, is_on: bool, why: String) -> Lever {
    Lever { name, is_on, is_wanted: is_on, why }
}

#[cfg(test)]
mod tests {
    use plimsoll_policy::PreemptionPolicy;

    use super::{AWAKE, OF_HOST, PREEMPTION, SHARES};
    use crate::testing;

    /// On a rented server everything that needs its machine failed for ever, and nothing said what was left.
    #[test]
    fn without_the_machine_what_remains_is_said_and_nothing_fails() {
        let governor = testing::governor(|settings| {
            settings.preemption.policy = PreemptionPolicy::parse("pow").expect("a policy");
            settings.control = Some(settings.server.clone());
            settings.classes[1].limits.mpl = Some(2);
            (settings.cpu.shares, settings.cpu.inheritance) = (true, true);
        });
        governor.report(PREEMPTION, Ok("by pg_cancel_backend".to_owned()));
        OF_HOST.iter().for_each(|name| governor.report(name, Err("the server is on another machine".to_owned())));
        let state = |name: &str| governor.lever(name).expect("it was reported").state();
        assert_eq!(state(SHARES), "failing");
        assert!(governor.lever("host").is_none());
        let mut away = ("the server is on another machine".to_owned(), false);
        governor.health.lock().by_sql_alone = Some(away.clone());
        assert_eq!(state(SHARES), "failing", "it could be had");
        away.1 = true;
        governor.health.lock().by_sql_alone = Some(away);
        OF_HOST.iter().for_each(|name| assert_eq!(state(name), "off", "{name}"));
        let host = governor.lever("host").expect("it is said");
        assert_eq!(host.state(), "off");
        assert!(host.why.starts_with("by SQL alone: admission, replay, preemption work; cpu shares, "), "{}", host.why);
        assert!(host.why.ends_with(" do not: the server is on another machine"), "{}", host.why);
    }

    /// `SHOW LEVERS` said that a class is limited, and at a server on another machine it never was.
    #[test]
    fn an_mpl_that_cannot_be_chosen_limits_nothing() {
        let admission = |cores: Option<u32>, said: Option<u32>| {
            let governor = testing::governor(|settings| {
                settings.preemption.policy = PreemptionPolicy::parse("pow").expect("a policy");
                settings.control = Some(settings.server.clone());
                (settings.total_mpl, settings.auto_mpl, settings.server_cores) = (None, true, said);
                settings.classes.iter_mut().for_each(|class| (class.limits.mpl, class.target) = (None, None));
            });
            governor.health.lock().control_up = Some(std::time::SystemTime::now());
            governor.health.lock().server_cores = cores;
            governor.lever("admission").expect("a lever")
        };
        assert!(admission(Some(2), None).is_on && admission(None, Some(8)).is_on);
        let off = admission(None, None);
        assert!(!off.is_on && off.why.contains("server_cores"), "{off:?}");
    }

    #[test]
    fn on_an_unknown_version_nothing_is_replayed_and_the_reason_is_said() {
        let governor = testing::governor(|settings| {
            settings.preemption.policy = PreemptionPolicy::parse("pow").expect("a policy");
            settings.control = Some(settings.server.clone());
        });
        let lever = || governor.lever("replay").expect("a lever");
        assert!(lever().is_on && !governor.trusts_version(190_000));
        governor.trust_version(None, Some("the server is PostgreSQL 19".to_owned()));
        assert_eq!((lever().state(), lever().why.as_str()), ("failing", "the server is PostgreSQL 19"));
        governor.trust_version(Some(19), None);
        assert!(lever().is_on && governor.trusts_version(190_001) && !governor.trusts_version(200_000));
    }

    /// An operator looked for what fails, and `SHOW LEVERS` marked everything that the settings do not ask for in the same
    /// way.
    #[test]
    fn what_is_off_is_told_from_what_fails() {
        let state = |policy: &str, works: Result<String, String>| {
            let governor = testing::governor(|settings| {
                settings.preemption.policy = PreemptionPolicy::parse(policy).expect("a policy");
                settings.control = Some(settings.server.clone());
            });
            governor.report(PREEMPTION, works);
            governor.report(AWAKE, Err("turned off in the settings".to_owned()));
            [PREEMPTION, AWAKE].map(|name| governor.lever(name).expect("it was reported").state())
        };
        assert_eq!(state("pow", Err("the connection is down".to_owned())), ["failing", "off"]);
        assert_eq!(state("track", Err("only counted".to_owned())), ["off", "off"]);
        assert_eq!(state("pow", Ok("by pg_cancel_backend".to_owned())), ["works", "off"]);
    }
}
