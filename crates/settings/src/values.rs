//! Values of settings: how texts become them, and how they are shown.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_notation::did_you_mean;
use plimsoll_policy::{PreemptionPolicy, preemption_policies};

use crate::quantity::{duration, write_duration};
use crate::settings::{ClassSettings, CpuShare, Peer};
use crate::table::{Context, Raw};

/// The value of `preemptible` beside a server with which statements are cancelled.
pub(crate) const RETRY_BY_APPLICATION: &str = "retry-by-application";

/// The default port for clients.
pub(crate) const PORT: u16 = 6432;

/// The items, separated by commas; `none` without any.
pub(crate) fn listed(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

pub(crate) fn texts(items: &[impl Display]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

pub(crate) fn paths(items: &[PathBuf]) -> Vec<String> {
    items.iter().map(|path| path.display().to_string()).collect()
}

/// One of the given words.
pub(crate) fn word<T: Copy>(text: &str, what: &str, words: &[(&str, T)]) -> Result<T, String> {
    let names = || words.iter().map(|(name, _)| *name);
    let wrong = || {
        let meant = did_you_mean(text, names());
        format!("`{text}` is not a {what}{meant}; there are {}", plimsoll_notation::listed(names()))
    };
    words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(wrong)
}

/// The word of a value.
pub(crate) fn name_of<T: PartialEq>(words: &[(&str, T)], value: &T) -> String {
    words.iter().find(|(_, known)| known == value).expect("each value has a word").0.to_owned()
}

/// A duration of at least `least`.
pub(crate) fn length(text: &str, least: Duration) -> Result<Duration, String> {
    let length = duration(text)?;
    let wrong = || format!("`{text}` is shorter than {}, the shortest", write_duration(least));
    Some(length).filter(|length| *length >= least).ok_or_else(wrong)
}

pub(crate) fn pattern(text: &str) -> Result<glob::Pattern, String> {
    let wrong = |error: glob::PatternError| {
        format!("`{text}` is not a pattern: {}; write * for any letters, ? for one", error.msg)
    };
    glob::Pattern::new(text).map_err(wrong)
}

/// An IP address and a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!(
            "`{text}` is not an address; write an IP address and a port, as \"127.0.0.1:{PORT}\", \"[::1]:{PORT}\", or \
             \"0.0.0.0:{PORT}\" for every network of this machine"
        )
    })
}

/// The address of another governor.
pub(crate) fn peer(text: &str, cx: &Context<'_>) -> Result<Peer, String> {
    if text.contains('/') {
        return Ok(Peer::Socket(cx.path(text)));
    }
    let is_address = |(host, port): (&str, &str)| {
        let is_host = if host.contains(':') { host.starts_with('[') && host.ends_with(']') } else { !host.is_empty() };
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    Some(Peer::Tcp(text.to_owned())).filter(|_| text.rsplit_once(':').is_some_and(is_address)).ok_or_else(|| {
        format!("`{text}` is not the address of a governor; write \"db2:{PORT}\", or the path of its socket")
    })
}

pub(crate) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an IP address"))
}

/// A question about the user `$1`.
pub(crate) fn auth_query(text: &str) -> Result<String, String> {
    let has =
        |parameter: &str| text.split(parameter).skip(1).any(|after| !after.starts_with(|c: char| c.is_ascii_digit()));
    match (has("$1"), has("$2")) {
        (true, false) => Ok(text.to_owned()),
        (false, _) => Err("the question does not name the user, whose place is $1".to_owned()),
        (_, true) => Err("the question has a parameter $2, and only the user is known, as $1".to_owned()),
    }
}

pub(crate) fn preemption_policy(name: &str) -> Result<PreemptionPolicy, String> {
    let wrong = || {
        let known = || preemption_policies().map(|kind| kind.example);
        let (meant, known) = (did_you_mean(name, known()), plimsoll_notation::listed(known()));
        format!("there is no policy `{name}`{meant}; there are {known}")
    };
    PreemptionPolicy::parse(name).ok_or_else(wrong)
}

pub(crate) fn cpu_share(text: &str) -> Result<CpuShare, String> {
    let wrong = || {
        format!("`{text}` is not a share of the cores; write `untouched`, `prompt`, `nice 10` (-20 to 19) or `idle`")
    };
    match text {
        "untouched" => Ok(CpuShare::Untouched),
        "prompt" => Ok(CpuShare::Prompt),
        "idle" => Ok(CpuShare::Idle),
        _ => {
            let value = text.strip_prefix("nice ").and_then(|value| value.trim().parse().ok());
            value.filter(|value| (-20..=19).contains(value)).map(CpuShare::Nice).ok_or_else(wrong)
        }
    }
}

/// The folder of a control group. The agent checks whether it exists: it may be created later.
pub(crate) fn control_group(folder: &str) -> Result<PathBuf, String> {
    let example = "\"/sys/fs/cgroup/postgres.slice/reports\"";
    let wrong = || format!("`{folder}` is not a control group; write its folder, such as {example}");
    Some(Path::new(folder)).filter(|path| path.is_absolute()).map(Path::to_owned).ok_or_else(wrong)
}

/// Sets whether transactions of a class may be rolled back. Beside a server, that is also how its applications say
/// that they retry.
pub(crate) fn preemptible(class: &mut ClassSettings, raw: Raw<'_>, cx: &Context<'_>) -> Result<(), String> {
    let retries = raw.text() == Ok(RETRY_BY_APPLICATION);
    if retries && !cx.is_beside {
        let message = "preemptible = \"retry-by-application\" is for a governor beside its server ([mode] proxy = false); \
                       in the connection path write preemptible = true, and retries = true if clients retry after 40001";
        return Err(message.to_owned());
    }
    let wrong = |_| raw.is_not(&format!("true, false or \"{RETRY_BY_APPLICATION}\""));
    class.preemptible = retries || raw.truth().map_err(wrong)?;
    if cx.is_beside {
        // A cancelled statement is retried by the application or not at all.
        class.retries = retries;
    }
    Ok(())
}
