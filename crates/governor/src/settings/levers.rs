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

/// A lever of the governor and whether it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lever {
    /// `admission`, `preemption`, `replay`, `retry`, `cpu shares`, `inheritance`, `awake cores`.
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

/// The levers whose state depends on settings alone.
pub(crate) fn own_levers(settings: &Settings) -> Vec<Lever> {
    if settings.is_beside {
        let why = "the governor works beside the server, so that no transaction passes through it";
        return ["admission", "replay"].map(|name| own(name, false, why.to_owned())).into();
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
        own("admission", is_limiting, admission),
        own("replay", rolls_back && !replayed.is_empty(), replay),
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
    own("retry", !tracks && !retried.is_empty(), why)
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

    use super::{AWAKE, PREEMPTION};
    use crate::testing;

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
