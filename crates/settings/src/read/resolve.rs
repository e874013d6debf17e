//! Puts the values of a file into [`Settings`], and checks what several keys mean together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use plimsoll_notation::{Problem, Problems};
use plimsoll_pg::url::{ServerHost, ServerUrl};
use toml::de::DeTable;

use super::tables::{Placed, is_on, place, said, table, texts};
use super::{Surroundings, admin, classes, login, tls};
use crate::settings::{Listen, Settings};
use crate::table::{Context, Mode, Row, TABLES};
use crate::values::{self, PORT};

/// The settings of a file.
pub(super) struct Resolved {
    /// The settings; they are used only if there are no problems.
    pub(super) settings: Settings,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<String>,
    /// The server, if that key is valid, even if others are not.
    pub(super) server: Option<ServerUrl>,
    /// The control connection; likewise.
    pub(super) control: Option<ServerUrl>,
}

/// Checks every value and fills in the defaults. With `is_beside`, the file is read for a governor beside its server,
/// regardless of `[mode]`.
pub(super) fn resolve(root: &DeTable<'_>, surroundings: &Surroundings<'_>, is_beside: bool) -> Resolved {
    let mode = table(root, "mode").map(|(mode, _)| mode);
    let proxy = mode.and_then(|mode| mode.get("proxy")?.get_ref().as_bool());
    let cx = Context { surroundings, is_beside: is_beside || proxy == Some(false) };
    let mut read = Reader { cx, problems: Problems::default(), warnings: Vec::new() };
    let mut all = Settings::blank();
    for table in &TABLES {
        table.rows.iter().for_each(|row| row.put_default(&mut all, &read.cx));
    }
    read.rows(TABLES[0].rows, &mut all, &(root, 0..0));
    for known in TABLES.iter().filter(|known| root.contains_key(known.name)) {
        if let Some(given) = table(root, known.name).filter(|_| read.has_effect(known.mode, root, known.name)) {
            read.rows(known.rows, &mut all, &given);
        }
    }
    all.is_beside = read.cx.is_beside;
    read.servers(root, &mut all);
    if all.is_beside {
        read.console(&mut all.listen)
    } else {
        read.listen(root, &mut all.listen)
    }
    login::resolve(root, &mut all, &mut read);
    classes::resolve(root, &mut all, &mut read);
    all.admin.users = admin::resolve(root, &mut read);
    read.clashes(root, &all);
    let url = |key| said(root, key).and_then(|url| read.cx.url(url.text).ok());
    let (server, control) = (url("server"), url("control"));
    let problems = read.problems.check().err().unwrap_or_default();
    Resolved { settings: all, problems, warnings: read.warnings, server, control }
}

/// The context of reading, and the problems found.
pub(super) struct Reader<'a> {
    pub(super) cx: Context<'a>,
    pub(super) problems: Problems,
    pub(super) warnings: Vec<String>,
}

impl Reader<'_> {
    /// Puts the values of a table in place, and notes the faults of each.
    pub(super) fn rows<Of>(&mut self, rows: &[Row<Of>], of: &mut Of, (table, place): &Placed<'_>) {
        for row in rows {
            match table.get(row.key) {
                None if row.is_required => {
                    self.problems.add(place.clone(), format!("the key `{}` is missing here; add it", row.key));
                }
                Some(value) if self.has_effect(row.mode, table, row.key) => {
                    for problem in row.kind.read(of, value, &self.cx) {
                        self.problems.note::<()>(Err(problem));
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a key of a table has an effect in this mode; notes why not.
    fn has_effect(&mut self, mode: Mode, table: &DeTable<'_>, key: &str) -> bool {
        let Some(why) = mode.fault(self.cx.is_beside) else { return true };
        let here = match self.cx.is_beside {
            true => "beside a server ([mode] proxy = false, or --beside)",
            false => "in the connection path ([mode] proxy = true)",
        };
        let place = table.get_key_value(key).map_or(0..0, |(key, _)| key.span());
        self.problems.add(place, format!("`{key}` has no effect {here}: {why}; remove it"));
        false
    }

    /// The server and the control connection, by which sessions at the server are seen.
    fn servers(&mut self, root: &DeTable<'_>, all: &mut Settings) {
        let has_control = root.contains_key("control");
        if all.is_beside && !has_control {
            let message =
                "the key `control` is missing here: beside a server the governor has no other connection; add it";
            self.problems.add(0..0, message);
        }
        if all.governs_direct && !has_control {
            let message = "sessions at the server are seen by the connection `control`, which is missing; add it";
            let mode = table(root, "mode").map(|(mode, _)| mode);
            self.problems.add(place(mode, "direct_sessions"), message);
        }
        match &all.control {
            _ if root.contains_key("server") => {}
            Some(control) if all.is_beside => all.server = control.clone(),
            _ if all.is_beside => {}
            _ => self.problems.add(0..0, "the key `server` is missing here; add it"),
        }
    }

    fn listen(&mut self, root: &DeTable<'_>, listen: &mut Listen) {
        let given = table(root, "listen").map(|(given, _)| given);
        let is_given = |key: &str| given.is_some_and(|given| given.contains_key(key));
        if listen.socket_folders.is_empty() && !is_given("addresses") {
            listen.addresses = vec![(Ipv4Addr::LOCALHOST, PORT).into()];
        } else if listen.socket_folders.is_empty() && given.is_some_and(|given| texts(given, "addresses").count() == 0)
        {
            self.problems.add(0..0, "clients cannot connect: set addresses or socket_folders in [listen]");
        }
        if !is_given("logins_max_per_address") {
            listen.logins_max_per_address = (listen.clients_max / 2).max(10);
        }
        if !is_given("workers") {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            listen.workers = u32::try_from(processors / 2).expect("few processors").max(1);
        }
        if let Some(given) = given.and_then(|given| table(given, "tls"))
            && let Some((config, certificate)) = tls::resolve(&given, self)
        {
            (listen.tls, listen.certificate) = (Some(config), Some(certificate));
            listen.tls_required = is_on(given.0, "required");
        }
    }

    /// The console beside a server; clients do not connect there.
    fn console(&mut self, listen: &mut Listen) {
        const OPERATORS_MAX: u32 = 100;
        if listen.addresses.is_empty() && listen.socket_folders.is_empty() {
            listen.addresses = vec![(Ipv4Addr::LOCALHOST, PORT).into()];
        }
        (listen.clients_max, listen.logins_max_per_address, listen.workers) = (OPERATORS_MAX, OPERATORS_MAX, 1);
    }

    /// Addresses that only one of two can listen at, and a server that is the governor itself.
    fn clashes(&mut self, root: &DeTable<'_>, all: &Settings) {
        let listened = &all.listen.addresses;
        let mut earlier: Vec<SocketAddr> = Vec::new();
        let given = table(root, "listen").map(|(given, _)| given);
        for given in given.into_iter().flat_map(|given| texts(given, "addresses")) {
            let Ok(address) = values::address(given.text) else { continue };
            if let Some(other) = earlier.iter().find(|other| clash(address, **other)) {
                self.problems.add(given.span, format!("{address} and {other} are the same address; remove one"));
            }
            earlier.push(address);
        }
        if let Some(http) = &all.http
            && let Some(other) = listened.iter().find(|other| clash(http.address, **other))
        {
            let message = format!(
                "the live page at {} has the same address as {}, {other}; give it another `address` in [http], or \"off\"",
                http.address,
                if all.is_beside { "the console" } else { "clients" }
            );
            self.problems.add(place(table(root, "http").map(|(http, _)| http), "address"), message);
        }
        let of_server = Some(&all.server).filter(|_| !all.is_beside).and_then(address_of);
        if let Some(other) = of_server.and_then(|of_server| listened.iter().find(|other| clash(of_server, **other))) {
            let message =
                format!("`server` is the governor itself, which listens at {other}; name the server's own port");
            self.problems.add(place(Some(root), "server"), message);
        }
    }
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
