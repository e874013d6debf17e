//! Converts the typed file to [`Settings`]: checks every value and fills in every default.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_notation::{At, Problem, Problems, did_you_mean, listed};
use plimsoll_pg::url::{ServerHost, ServerUrl};
use plimsoll_policy::{PreemptionPolicy, StarvationBound, preemption_policies};

use super::typed::{TypedAdmin, TypedHttp, TypedListen, TypedLog, TypedMode, TypedPreemption, TypedSettings};
use super::{Surroundings, admin, classes, quantity, tls};
use crate::settings::{Cpu, DiskLimits, Http, Listen, Log, PassingOn, Preemption, Settings};

/// The default port for clients.
const PORT: u16 = 6432;
/// The default port of metrics and the live page.
const HTTP_PORT: u16 = 6433;

/// At shorter intervals, looks would take all the time.
pub(crate) const LOOK_LEAST: Duration = Duration::from_micros(100);

/// The settings of a file.
pub(super) struct Resolved {
    /// The settings with their warnings, or the problems.
    pub(super) settings: Result<(Settings, Vec<String>), Vec<Problem>>,
    /// The server, if that key is valid, even if others are not.
    pub(super) server: Option<ServerUrl>,
    /// The control connection; likewise.
    pub(super) control: Option<ServerUrl>,
}

/// Checks every value and fills in the defaults.
pub(super) fn resolve(typed: &TypedSettings, surroundings: &Surroundings<'_>) -> Resolved {
    let is_beside = typed.mode.is_beside();
    let mut read = Reader { surroundings, is_beside, problems: Problems::default(), warnings: Vec::new() };
    let control = typed.control.as_ref().map(|url| read.url(url));
    let governs_direct = read.mode(&typed.mode, control.is_some());
    let server = match &typed.server {
        Some(url) => read.url(url),
        None if is_beside => control.clone().flatten(),
        None => read.problems.note_at(0..0, Err("the key `server` is missing here; add it".to_owned())),
    };
    let servers = (server.clone(), control.clone().flatten());
    let listen = if is_beside { read.console(&typed.admin) } else { read.listen(&typed.listen) };
    let classes = classes::resolve(typed, &mut read);
    let total_mpl = typed.admission.mpl.as_ref().and_then(|mpl| read.number(mpl, 1..=1_000_000));
    let preemption = read.preemption(&typed.preemption);
    let admin = admin::resolve(&typed.admin, &mut read);
    let http = read.http(&typed.http);
    read.clashes(typed, listen.as_ref(), http.as_ref(), server.as_ref());
    let log = read.log(&typed.log);
    let cpu = Cpu {
        shares: typed.cpu.shares.unwrap_or(true),
        inheritance: typed.cpu.inheritance.unwrap_or(true),
        awake: typed.cpu.awake.unwrap_or(false),
    };
    let disk = DiskLimits {
        limits: typed.disk.limits.unwrap_or(true),
        floor_percent: read.number_or(typed.disk.floor_percent.as_ref(), 10..=90, 50),
    };
    let passing_on = PassingOn {
        trust_clients: typed.trust_clients,
        announce_class: typed.announce_class.unwrap_or(true),
        proxy_protocol: typed.proxy_protocol,
    };
    let break_glass = typed.break_glass.iter().map(|user| user.value().clone()).collect();
    // Each value that could not be resolved was noted as a problem; then there are no settings.
    let all = || {
        let (classes, rules) = classes?;
        Some(Settings {
            is_beside,
            governs_direct,
            listen: listen?,
            server: server?,
            passing_on,
            // A value that was given but could not be read is a problem.
            control: control.flatten(),
            classes,
            rules,
            total_mpl,
            auto_mpl: typed.admission.auto_mpl.unwrap_or(true),
            preemption: preemption?,
            cpu,
            disk,
            admin,
            http: http?,
            break_glass,
            log: log?,
        })
    };
    let settings = all();
    let settings = read
        .problems
        .check()
        .map(|()| (settings.expect("nothing was wrong, so everything was resolved"), read.warnings));
    Resolved { settings, server: servers.0, control: servers.1 }
}

/// The context of reading, and the problems found.
pub(super) struct Reader<'a> {
    pub(super) surroundings: &'a Surroundings<'a>,
    /// Whether the governor works beside its server.
    pub(super) is_beside: bool,
    pub(super) problems: Problems,
    pub(super) warnings: Vec<String>,
}

impl Reader<'_> {
    /// Whether a governor in the connection path governs sessions at the server, too. They are seen by the control
    /// connection.
    fn mode(&mut self, typed: &TypedMode, has_control: bool) -> bool {
        let direct = typed.direct_sessions.as_ref().filter(|direct| *direct.value() && !self.is_beside);
        if self.is_beside && !has_control {
            let message =
                "the key `control` is missing here: beside a server the governor has no other connection; add it";
            self.problems.add(0..0, message);
        }
        if let Some(direct) = direct.filter(|_| !has_control) {
            let message = "sessions at the server are seen by the connection `control`, which is missing; add it";
            self.problems.add(direct.span(), message);
        }
        direct.is_some()
    }

    pub(super) fn number<T: TryFrom<i64>>(&mut self, typed: &At<i64>, bounds: RangeInclusive<i64>) -> Option<T> {
        let number = Some(*typed.value()).filter(|number| bounds.contains(number));
        let (least, most) = bounds.into_inner();
        let wrong = || format!("{} is not between {least} and {most}", typed.value());
        self.problems.note_at(typed.span(), number.and_then(|number| T::try_from(number).ok()).ok_or_else(wrong))
    }

    /// A whole number within bounds, or the default.
    fn number_or<T: TryFrom<i64>>(&mut self, typed: Option<&At<i64>>, bounds: RangeInclusive<i64>, default: T) -> T {
        typed.and_then(|typed| self.number(typed, bounds)).unwrap_or(default)
    }

    /// A duration of at least `least`.
    pub(super) fn length(&mut self, typed: &At<String>, least: Duration) -> Option<Duration> {
        let length = self.problems.note_at(typed.span(), quantity::duration(typed.value()))?;
        if length < least {
            let least = quantity::write_duration(least);
            self.problems.add(typed.span(), format!("`{}` is shorter than {least}, the shortest", typed.value()));
            return None;
        }
        Some(length)
    }

    /// A duration, or the default.
    pub(super) fn length_or(&mut self, typed: Option<&At<String>>, least: Duration, default: Duration) -> Duration {
        typed.and_then(|typed| self.length(typed, least)).unwrap_or(default)
    }

    pub(super) fn pattern(&mut self, typed: &At<String>) -> Option<glob::Pattern> {
        let wrong = |error: glob::PatternError| {
            format!("`{}` is not a pattern: {}; write * for any letters, ? for one", typed.value(), error.msg)
        };
        self.problems.note_at(typed.span(), glob::Pattern::new(typed.value()).map_err(wrong))
    }

    /// One of the given words.
    pub(super) fn word<T: Copy>(&mut self, typed: &At<String>, what: &str, words: &[(&str, T)]) -> Option<T> {
        let word = typed.value().as_str();
        if let Some((_, value)) = words.iter().find(|(name, _)| *name == word) {
            return Some(*value);
        }
        let names = || words.iter().map(|(name, _)| *name);
        let meant = did_you_mean(word, names());
        self.problems.add(typed.span(), format!("`{word}` is not a {what}{meant}; there are {}", listed(names())));
        None
    }

    /// A file's path, relative to the folder of the settings.
    pub(super) fn path(&self, typed: &At<String>) -> PathBuf {
        self.surroundings.folder.join(typed.value())
    }

    fn url(&mut self, typed: &At<String>) -> Option<ServerUrl> {
        let url = ServerUrl::parse_in(typed.value(), self.surroundings.environment);
        self.problems.note_at(typed.span(), url.map_err(|error| error.to_string()))
    }

    fn address(&mut self, typed: &At<String>) -> Option<SocketAddr> {
        let text = typed.value().as_str();
        let wrong = || {
            format!(
                "`{text}` is not an address; write an IP address and a port, as \"127.0.0.1:{PORT}\", \"[::1]:{PORT}\", or \
                 \"0.0.0.0:{PORT}\" for every network of this machine"
            )
        };
        self.problems.note_at(typed.span(), parsed(text).ok_or_else(wrong))
    }

    fn ip(&mut self, typed: &At<String>) -> Option<IpAddr> {
        let wrong = |_| format!("`{}` is not an IP address", typed.value());
        self.problems.note_at(typed.span(), typed.value().parse().map_err(wrong))
    }

    fn listen(&mut self, typed: &TypedListen) -> Option<Listen> {
        let usual = || if typed.socket_folders.is_empty() { vec![(Ipv4Addr::LOCALHOST, PORT).into()] } else { vec![] };
        let addresses = match &typed.addresses {
            Some(addresses) => addresses.iter().filter_map(|address| self.address(address)).collect(),
            None => usual(),
        };
        if let Some(none) = typed.addresses.as_ref().filter(|all| all.is_empty() && typed.socket_folders.is_empty()) {
            let place = none.first().map_or(0..0, At::span);
            self.problems.add(place, "clients cannot connect: set addresses or socket_folders in [listen]");
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.number_or(typed.workers.as_ref(), 1..=256, (processors / 2).max(1));
        let clients_max: u32 = self.number_or(typed.clients_max.as_ref(), 1..=1_000_000, 2000);
        let usual_logins = (clients_max / 2).max(10);
        let logins_max = self.number_or(typed.logins_max_per_address.as_ref(), 1..=1_000_000, usual_logins);
        let proxy_protocol_from = typed.proxy_protocol_from.iter().filter_map(|address| self.ip(address)).collect();
        let (least, usual) = (Duration::from_millis(100), Duration::from_secs(15));
        let login_timeout = self.length_or(typed.login_timeout.as_ref(), least, usual);
        let (tls, certificate) = match &typed.tls {
            Some(tls) => tls::resolve(tls, self).map(|(tls, certificate)| (Some(tls), Some(certificate)))?,
            None => (None, None),
        };
        Some(Listen {
            addresses,
            socket_folders: typed.socket_folders.iter().map(|folder| self.path(folder)).collect(),
            clients_max,
            logins_max_per_address: logins_max,
            login_timeout,
            proxy_protocol_from,
            handover: typed.handover.as_ref().map(|file| self.path(file)),
            workers,
            tls,
            certificate,
            tls_required: typed.tls.as_ref().is_some_and(|tls| tls.required),
        })
    }

    /// The address of the console beside a server; clients do not connect there.
    fn console(&mut self, typed: &TypedAdmin) -> Option<Listen> {
        const OPERATORS_MAX: u32 = 100;
        let usual = || if typed.socket_folder.is_none() { vec![(Ipv4Addr::LOCALHOST, PORT).into()] } else { vec![] };
        let addresses = match &typed.address {
            Some(address) => vec![self.address(address)?],
            None => usual(),
        };
        Some(Listen {
            addresses,
            socket_folders: typed.socket_folder.iter().map(|folder| self.path(folder)).collect(),
            clients_max: OPERATORS_MAX,
            logins_max_per_address: OPERATORS_MAX,
            login_timeout: Duration::from_secs(15),
            proxy_protocol_from: Vec::new(),
            workers: 1,
            tls: None,
            certificate: None,
            tls_required: false,
            handover: None,
        })
    }

    fn preemption(&mut self, typed: &TypedPreemption) -> Option<Preemption> {
        let policy = match &typed.policy {
            Some(policy) => self.problems.note_at(policy.span(), preemption_policy(policy.value())),
            None => PreemptionPolicy::parse("track"),
        };
        let least = LOOK_LEAST;
        let usual = Duration::from_millis(2);
        let rollbacks = self.number_or(typed.rollbacks_max.as_ref(), 0..=1_000_000, 5);
        let replay = typed.replay_bytes_max.as_ref();
        let replay = replay.and_then(|size| self.problems.note_at(size.span(), quantity::size(size.value())));
        Some(Preemption {
            threshold: self.length_or(typed.threshold.as_ref(), least, usual),
            look_interval: self.length_or(typed.look_interval.as_ref(), least, usual),
            weigh: typed.weigh.unwrap_or(true),
            idle_counts_as_waiting: typed.idle_counts_as_waiting.unwrap_or(true),
            bound: NonZeroU32::new(rollbacks).map_or_else(StarvationBound::none, StarvationBound::after),
            replay_bytes_max: replay.unwrap_or(1 << 20),
            replay_functions: typed.replay_functions.iter().map(|name| name.value().clone()).collect(),
            policy: policy?,
        })
    }

    /// `None` for an unreadable value, `Some(None)` for `off`.
    fn http(&mut self, typed: &TypedHttp) -> Option<Option<Http>> {
        let hosts = typed.hosts.iter().map(|host| host.value().to_ascii_lowercase()).collect();
        let address = match &typed.address {
            Some(off) if off.value() == "off" => return Some(None),
            Some(address) => self.address(address)?,
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, HTTP_PORT)),
        };
        Some(Some(Http { address, hosts }))
    }

    /// Addresses that only one of two can listen at, and a server that is the governor itself.
    fn clashes(
        &mut self,
        typed: &TypedSettings,
        listen: Option<&Listen>,
        http: Option<&Option<Http>>,
        server: Option<&ServerUrl>,
    ) {
        let listened = listen.map_or(&[][..], |listen| &listen.addresses);
        let mut earlier: Vec<SocketAddr> = Vec::new();
        for given in typed.listen.addresses.iter().flatten() {
            let Some(address) = parsed(given.value()) else { continue };
            if let Some(other) = earlier.iter().find(|other| clash(address, **other)) {
                self.problems.add(given.span(), format!("{address} and {other} are the same address; remove one"));
            }
            earlier.push(address);
        }
        if let Some(http) = http.and_then(Option::as_ref)
            && let Some(other) = listened.iter().find(|other| clash(http.address, **other))
        {
            let place = typed.http.address.as_ref().map_or(0..0, At::span);
            let message = format!(
                "the live page at {} has the same address as {}, {other}; give it another `address` in [http], or \"off\"",
                http.address,
                if self.is_beside { "the console" } else { "clients" }
            );
            self.problems.add(place, message);
        }
        let of_server = server.filter(|_| !self.is_beside).and_then(address_of);
        if let Some(other) = of_server.and_then(|of_server| listened.iter().find(|other| clash(of_server, **other))) {
            let place = typed.server.as_ref().map_or(0..0, At::span);
            let message =
                format!("`server` is the governor itself, which listens at {other}; name the server's own port");
            self.problems.add(place, message);
        }
    }

    fn log(&mut self, typed: &TypedLog) -> Option<Log> {
        let formats = [("text", false), ("json", true)];
        let is_json = typed.format.as_ref().map_or(Some(false), |format| self.word(format, "format", &formats));
        let levels = [
            ("error", tracing::Level::ERROR),
            ("warn", tracing::Level::WARN),
            ("info", tracing::Level::INFO),
            ("debug", tracing::Level::DEBUG),
            ("trace", tracing::Level::TRACE),
        ];
        let usual = Some(tracing::Level::INFO);
        let level = typed.level.as_ref().map_or(usual, |level| self.word(level, "level", &levels));
        Some(Log { is_json: is_json?, level: level? })
    }
}

/// An IP address and a port.
fn parsed(text: &str) -> Option<SocketAddr> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    local.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).or_else(|| text.parse().ok())
}

/// The address of a server, if its URL has one rather than a name to be looked up.
fn address_of(url: &ServerUrl) -> Option<SocketAddr> {
    let ServerHost::Tcp(host) = &url.host else { return None };
    let ip = if host == "localhost" { IpAddr::from(Ipv4Addr::LOCALHOST) } else { host.parse().ok()? };
    Some(SocketAddr::new(ip, url.port))
}

/// Whether only one of two can listen there. `0.0.0.0` is every address of its kind; `[::]` is all of them.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |one: IpAddr, other: IpAddr| one.is_unspecified() && (one.is_ipv6() || other.is_ipv4());
    let is_same = one.ip() == other.ip() || covers(one.ip(), other.ip()) || covers(other.ip(), one.ip());
    is_same && one.port() == other.port() && one.port() != 0
}

pub(crate) fn preemption_policy(name: &str) -> Result<PreemptionPolicy, String> {
    let wrong = || {
        let known = || preemption_policies().map(|kind| kind.example);
        format!("there is no policy `{name}`{}; there are {}", did_you_mean(name, known()), listed(known()))
    };
    PreemptionPolicy::parse(name).ok_or_else(wrong)
}

/// The place of a list: that of its first item.
pub(super) fn place_of<T>(items: &[At<T>]) -> Range<usize> {
    items.first().map_or(0..0, At::span)
}
