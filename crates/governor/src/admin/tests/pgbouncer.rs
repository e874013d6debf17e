//! What tools for pgbouncer rely on: its columns and their types, and its commands.

use std::time::{Duration, Instant};

use plimsoll_policy::ClassIndex;

use super::{Client, governor, message};
use crate::admin::answer::CellType;
use crate::admin::command::COMMANDS;
use crate::admin::wire::first_message;
use crate::registry::Phase;
use crate::testing;

/// The names and types of pgbouncer 1.25 (`s` text, `i` integer, `q` bigint, `N` numeric), by which dashboards, exporters
/// and checks find their figures.
const OF_PGBOUNCER: &[(&str, &str, &str)] = &[
    (
        "POOLS",
        "ssiiiiiiiiiiiiiss",
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel \
         sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts",
    ),
    ("CLIENTS", SOCKET_TYPES, SOCKET_NAMES),
    ("SERVERS", SOCKET_TYPES, SOCKET_NAMES),
    (
        "SOCKETS",
        "ssssssisissiiississiiiiiiiii",
        "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us \
         close_needed ptr link remote_pid tls application_name prepared_statements id recv_pos pkt_pos pkt_remain send_pos \
         send_remain pkt_avail send_avail",
    ),
    (
        "STATS",
        "sNNNNNNNNNNNNNNNNNNNNNNNN",
        "database total_server_assignment_count total_xact_count total_query_count total_received total_sent \
         total_xact_time total_query_time total_wait_time total_client_parse_count total_server_parse_count \
         total_bind_count total_client_login_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv \
         avg_sent avg_xact_time avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count \
         avg_bind_count avg_client_login_count",
    ),
    (
        "STATS_TOTALS",
        "sNNNNNNNNNNNN",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time \
         wait_time client_parse_count server_parse_count bind_count client_login_count",
    ),
    (
        "STATS_AVERAGES",
        "sNNNNNNNNNNNN",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time \
         wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
    ),
    ("TOTALS", "sN", "name value"),
    (
        "DATABASES",
        "ssissiiiissiiiiii",
        "name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode \
         load_balance_hosts max_connections current_connections max_client_connections current_client_connections \
         paused disabled",
    ),
    (
        "USERS",
        "ssssiiii",
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections \
         max_user_client_connections current_client_connections",
    ),
    ("LISTS", "si", "list items"),
    ("PEERS", "isii", "peer_id host port pool_size"),
    ("PEER_POOLS", "iiiii", "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login"),
    ("MEM", "siiii", "name size used free memtotal"),
    ("STATE", "ss", "key value"),
    ("CONFIG", "ssss", "key value default changeable"),
    ("DNS_HOSTS", "sqs", "hostname ttl addrs"),
    ("DNS_ZONES", "sqi", "zonename serial count"),
    ("VERSION", "s", "version"),
];

const SOCKET_TYPES: &str = "ssssssisissiiississii";
const SOCKET_NAMES: &str = "type user database replication state addr port local_addr local_port connect_time \
    request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id";

#[test]
fn answers_begin_with_pgbouncers_columns() {
    for (words, types, names) in OF_PGBOUNCER {
        let command = COMMANDS.iter().find(|command| command.words == *words).unwrap_or_else(|| panic!("no {words}"));
        let own = command.columns.iter().map(|column| {
            let kind = match column.kind {
                CellType::Text => 's',
                CellType::Int => 'q',
                CellType::Int4 => 'i',
                CellType::Numeric => 'N',
                CellType::Float | CellType::Bool => '?',
            };
            (column.name.to_string(), kind)
        });
        let theirs: Vec<(String, char)> = names.split_whitespace().map(str::to_owned).zip(types.chars()).collect();
        assert_eq!(theirs.len(), types.len(), "{words}");
        assert_eq!(own.take(theirs.len()).collect::<Vec<_>>(), theirs, "{words}");
    }
    // pgbouncer_exporter counts these columns.
    let count = |words: &str| COMMANDS.iter().find(|command| command.words == words).unwrap().columns.len();
    assert_eq!((count("CONFIG"), count("LISTS"), count("VERSION")), (4, 2, 1));
}

/// The value of a column in the first row.
fn cell(client: &Client, words: &str, name: &str) -> Option<String> {
    let columns = COMMANDS.iter().find(|command| command.words == words).expect("a command").columns;
    let place = columns.iter().position(|column| column.name == name).expect("a column");
    client.rows().first().expect("a row")[place].clone()
}

#[test]
fn figures_of_pools_are_those_of_their_sessions() {
    let governor = governor();
    let now = Instant::now();
    let (one, other) =
        (testing::session(&governor, 7, ClassIndex(0), now), testing::session(&governor, 8, ClassIndex(1), now));
    other.state().phase = Phase::Queued;
    other.state().since = now - Duration::from_millis(2500);
    let mut client = Client::let_in(&governor, "viewer");
    client.query("SHOW POOLS");
    assert_eq!(client.rows().len(), 1, "one user in one database");
    for (name, expect) in [
        ("database", "shop"),
        ("user", "ann"),
        ("cl_active", "1"),
        ("cl_waiting", "1"),
        ("sv_active", "2"),
        ("sv_idle", "0"),
        ("maxwait", "2"),
        ("pool_mode", "session"),
        ("classes", "high, low"),
        ("admitted", "1"),
    ] {
        assert_eq!(cell(&client, "POOLS", name).as_deref(), Some(expect), "{name}");
    }
    client.query("SHOW CLIENTS");
    for (name, expect) in [("type", "C"), ("state", "active"), ("phase", "active"), ("link", "s7"), ("id", "1")] {
        assert_eq!(cell(&client, "CLIENTS", name).as_deref(), Some(expect), "{name}");
    }
    client.query("SHOW SERVERS");
    for (name, expect) in [("type", "S"), ("ptr", "s7"), ("link", "c1"), ("remote_pid", "7"), ("client", "1")] {
        assert_eq!(cell(&client, "SERVERS", name).as_deref(), Some(expect), "{name}");
    }
    client.query("SHOW LISTS");
    let lists: Vec<(String, String)> = client
        .rows()
        .into_iter()
        .map(|row| (row[0].clone().unwrap_or_default(), row[1].clone().unwrap_or_default()))
        .collect();
    for (list, items) in [("pools", "1"), ("used_clients", "2"), ("free_clients", "0"), ("used_servers", "2")] {
        assert!(lists.contains(&(list.to_owned(), items.to_owned())), "{list}: {lists:?}");
    }
    client.query("SHOW");
    assert_eq!(client.rows().len(), COMMANDS.len(), "SHOW alone lists what there is");
    drop((one, other));
}

#[test]
fn databases_are_closed_and_opened() {
    let governor = governor();
    let mut client = Client::let_in(&governor, "admin");
    let _session = testing::session(&governor, 7, ClassIndex(0), Instant::now());
    assert_eq!(client.query("DISABLE shop"), "CZ");
    assert!(governor.doors.refusal("shop").is_some());
    client.query("SHOW DATABASES");
    assert_eq!(cell(&client, "DATABASES", "disabled").as_deref(), Some("1"));
    assert_eq!(client.query("ENABLE shop"), "CZ");
    assert_eq!(client.query("KILL shop"), "NCZ");
    assert!(governor.doors.refusal("shop").is_some_and(|(_, hint)| hint.contains("RESUME")));
    assert_eq!(client.query("RESUME shop"), "CZ");
    assert_eq!(governor.doors.refusal("shop"), None);
    assert_eq!(client.query("KILL"), "NCZ");
    assert!(governor.doors.refusal("anything").is_some());
    assert_eq!(client.query("RESUME"), "CZ");
    let mut refused = |statement: &str, code: &str| {
        client.query(statement);
        assert_eq!(client.code().as_deref(), Some(code), "{statement}");
    };
    refused("ENABLE shop", "55000");
    refused("RESUME shop", "42704");
    refused("KILL nothing", "3D000");
    refused("KILL plimsoll", "42501");
    refused("DISABLE", "42601");
    refused("RECONNECT a b", "42601");
    refused("SUSPEND", "0A000");
}

/// `WAIT_CLOSE` ends when the sessions have; what the client sends meanwhile waits.
#[test]
fn a_statement_that_waits_holds_up_what_follows() {
    let governor = governor();
    let mut client = Client::let_in(&governor, "admin");
    assert_eq!(client.query("WAIT_CLOSE"), "", "it looks a moment later");
    let session = testing::session(&governor, 7, ClassIndex(0), Instant::now());
    let tick = |client: &mut Client, at: Instant| {
        let mut sent = Vec::new();
        client.console.on_time(at, &mut |bytes| sent.extend_from_slice(bytes));
        let (mut rest, mut tags) = (sent.as_slice(), String::new());
        while let Some((message, length)) = first_message(rest, usize::MAX / 2).expect("answers are messages") {
            tags.push(char::from(message.tag));
            rest = &rest[length..];
        }
        tags
    };
    let start = Instant::now();
    assert_eq!(tick(&mut client, Instant::now()), "CZ", "no session is to reconnect");
    assert_eq!(client.console.wakes_at(), None);
    assert_eq!(client.query("RECONNECT shop"), "NCZ");
    assert_eq!(client.query("WAIT_CLOSE shop; SHOW VERSION"), "");
    assert_eq!(tick(&mut client, start + Duration::from_secs(1)), "");
    let bytes = message(b'Q', b"SHOW LISTS\0");
    assert_eq!(client.send_bytes(&bytes), 0, "it is not taken yet");
    governor.registry.remove(session.id);
    assert_eq!(tick(&mut client, start + Duration::from_secs(2)), "CTDCZ");
    assert_eq!(client.send_bytes(&bytes), bytes.len());
    // By the extended protocol, the end of the statement comes before that of its unit.
    client.received.clear();
    client.send(b'P', b"\0WAIT_CLOSE\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    assert_eq!(client.tags(), "12");
    assert!(client.console.wakes_at().is_some());
}
