//! Keys that mean something in one mode only: in the connection path, or beside the server.

use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// A key: its table (empty for the top), its name, and what it would need or what to do instead.
type Key = (&'static str, &'static str, &'static str);

/// Keys that mean nothing beside a server, where no client comes through the governor.
const IN_PATH_ONLY: [Key; 13] = [
    ("", "listen", "clients connect to the server itself; the console's own address is `address` in [admin]"),
    ("", "trust_clients", "clients log in at the server itself"),
    ("", "announce_class", "sessions begin without the governor"),
    ("", "proxy_protocol", "clients connect to the server itself"),
    ("", "admission", "no transaction waits for admission"),
    ("class", "mpl", "no transaction waits for admission"),
    ("class", "queue_max", "no transaction waits for admission"),
    ("class", "queue_timeout", "no transaction waits for admission"),
    ("class", "replay", "nothing is replayed"),
    (
        "class",
        "retries",
        "if its applications retry what fails with 57014 (query_canceled), write preemptible = \"retry-by-application\"",
    ),
    ("preemption", "idle_counts_as_waiting", "a transaction whose client thinks cannot be cancelled"),
    ("preemption", "replay_bytes_max", "nothing is replayed"),
    ("preemption", "replay_functions", "nothing is replayed"),
];

/// Keys that mean nothing in the connection path.
const BESIDE_ONLY: [Key; 2] = [
    ("admin", "address", "the console is where clients come in: [listen]"),
    ("admin", "socket_folder", "the console is where clients come in: [listen]"),
];

/// Every key of a file that contradicts its mode. Nothing for a text that is no TOML, whose fault is told elsewhere.
pub(super) fn contradictions(text: &str, is_beside: bool) -> Vec<Problem> {
    let Ok(root) = DeTable::parse(text) else { return Vec::new() };
    let mut problems = of_table("", root.get_ref(), is_beside);
    for (name, value) in root.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) => problems.extend(of_table(name.get_ref(), table, is_beside)),
            DeValue::Array(items) => {
                for item in items {
                    if let DeValue::Table(table) = item.get_ref() {
                        problems.extend(of_table(name.get_ref(), table, is_beside));
                    }
                }
            }
            _ => {}
        }
    }
    problems
}

fn of_table(section: &str, table: &DeTable<'_>, is_beside: bool) -> Vec<Problem> {
    let (foreign, mode) = match is_beside {
        true => (&IN_PATH_ONLY[..], "beside a server ([mode] proxy = false, or --beside)"),
        false => (&BESIDE_ONLY[..], "in the connection path ([mode] proxy = true)"),
    };
    let mut problems = Vec::new();
    for (key, _) in table {
        let name: &str = key.get_ref();
        if let Some((_, _, why)) = foreign.iter().find(|(of, known, _)| *of == section && *known == name) {
            problems.push(Problem::new(key.span(), format!("`{name}` means nothing {mode}: {why}; take it out")));
        }
    }
    problems
}
