//! Addresses, encryption towards clients, and peers.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use toml::Value;

use super::Source;
use super::connection::pairs;
use super::draft::Draft;
use super::ini::Section;
use super::report::Kind;

/// pgbouncer's own port.
const PORT: u16 = 6432;

pub(super) fn translate(source: &Source<'_>, draft: &mut Draft) {
    addresses(source, draft);
    tls(source, draft);
}

fn addresses(source: &Source<'_>, draft: &mut Draft) {
    let port = source.value("listen_port").and_then(|port| port.parse().ok()).unwrap_or(PORT);
    let mut addresses = Vec::new();
    for name in
        source.value("listen_addr").unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty())
    {
        match addresses_of(name, port) {
            Ok(found) => addresses.extend(found),
            Err(why) => draft.note_all(Kind::Open, "listen_addr", why),
        }
    }
    addresses.dedup();
    let list = |items: Vec<String>| Value::from(items);
    let written = draft.put("listen.addresses", list(addresses.iter().map(ToString::to_string).collect()), None);
    let text = match (&written, addresses.is_empty()) {
        (Err(why), _) => why.clone(),
        (_, true) => "pgbouncer listens at no TCP address, and so does the governor".to_owned(),
        (..) => format!("listen.addresses, port {port}"),
    };
    for key in ["listen_addr", "listen_port"] {
        if let Some(entry) = source.entry(key) {
            draft.note(Kind::Translated, entry, text.clone());
        }
    }
    let folder = source.value("unix_socket_dir");
    if let Some(folder) = folder {
        let _ = draft.put("listen.socket_folders", list(vec![draft.path(folder)]), None);
    }
    match (source.entry("unix_socket_dir"), folder) {
        (Some(entry), Some(_)) => draft.note(Kind::Translated, entry, "listen.socket_folders"),
        (Some(entry), None) => draft.note(Kind::Unneeded, entry, "it is off"),
        (None, _) => {
            let text = "pgbouncer makes a socket in /tmp or /var/run/postgresql if no folder is named, and the governor \
                        none: write socket_folders in [listen] if clients use it";
            draft.note_all(Kind::Differs, "unix_socket_dir", text);
        }
    }
    if addresses.is_empty() && folder.is_none() {
        let text = "clients cannot connect: set `addresses` or `socket_folders` in [listen]";
        draft.note_all(Kind::Open, "listen_addr", text);
    }
}

/// The addresses of a word of `listen_addr`.
fn addresses_of(name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if name == "*" {
        // Of both kinds.
        return Ok(vec![SocketAddr::new(IpAddr::from([0u8; 16]), port)]);
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found = (name, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    found.map_err(|error| format!("`{name}` has no address ({error}); write an IP address into listen.addresses"))
}

fn tls(source: &Source<'_>, draft: &mut Draft) {
    let mode = source.value("client_tls_sslmode").unwrap_or("disable");
    let keys = ["client_tls_sslmode", "client_tls_cert_file", "client_tls_key_file", "client_tls_ca_file"];
    if mode == "disable" {
        for entry in keys.into_iter().filter_map(|key| source.entry(key)) {
            draft.note(Kind::Unneeded, entry, "encryption towards clients is off");
        }
        return;
    }
    let (certificate, key) = (source.value("client_tls_cert_file"), source.value("client_tls_key_file"));
    let (Some(certificate), Some(key)) = (certificate, key) else {
        draft.note_all(
            Kind::Open,
            "client_tls_sslmode",
            "encryption needs client_tls_cert_file and client_tls_key_file",
        );
        return;
    };
    let asks_for_certificates = matches!(mode, "verify-ca" | "verify-full");
    let is_required = asks_for_certificates || mode == "require";
    let mut lines = vec![
        ("listen.tls.certificate", Value::from(draft.path(certificate))),
        ("listen.tls.key", Value::from(draft.path(key))),
    ];
    if is_required {
        lines.push(("listen.tls.required", true.into()));
    }
    if let Some(authority) = source.value("client_tls_ca_file").filter(|_| asks_for_certificates) {
        lines.push(("listen.tls.client_ca", draft.path(authority).into()));
    }
    for (path, value) in lines {
        if let Err(why) = draft.put(path, value, None) {
            draft.note_all(Kind::Open, path, why);
        }
    }
    for entry in keys.into_iter().filter_map(|key| source.entry(key)) {
        let (kind, text) = match entry.key.as_str() {
            "client_tls_ca_file" if !asks_for_certificates => {
                (Kind::Unneeded, "clients are asked for certificates with verify-ca and verify-full only")
            }
            "client_tls_sslmode" if mode == "allow" || mode == "prefer" => {
                (Kind::Translated, "[listen.tls]: offered, and not required")
            }
            _ => (Kind::Translated, "[listen.tls]"),
        };
        draft.note(kind, entry, text);
    }
}

/// `[peers]`: the other processes behind the same address.
pub(super) fn peers(source: &Source<'_>, draft: &mut Draft, faults: &mut String) {
    let mut peers = Vec::new();
    for entry in source.ini.of(Section::Peers) {
        let pairs = match pairs(&entry.value) {
            Ok(pairs) => pairs,
            Err(why) => {
                let _ = writeln!(faults, "{}: peer {}: {why}", entry.place, entry.key);
                continue;
            }
        };
        let get = |key: &str| pairs.iter().rfind(|(other, _)| other == key).map(|(_, value)| value.as_str());
        let (Some(host), port) = (get("host"), get("port").unwrap_or("6432")) else {
            let _ = writeln!(faults, "{}: peer {} has no host; add host=…", entry.place, entry.key);
            continue;
        };
        peers.push(match host {
            folder if folder.starts_with('/') => format!("{folder}/.s.PGSQL.{port}"),
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        });
        let text = "a name in listen.peers; one governor has several threads, so several processes of one machine become \
                    one, without peers";
        draft.note(Kind::Differs, entry, text);
    }
    if !peers.is_empty()
        && let Err(why) = draft.put("listen.peers", peers.into(), None)
    {
        draft.note_all(Kind::Missing, "[peers]", why);
    }
}
