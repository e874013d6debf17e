//! Which client each of a pooler's server connections serves, and for which transactions that is certain.
//!
//! In transaction mode a server process serves another client with each transaction, so that what a pooler showed a
//! moment ago says nothing about now. One thing is certain: **a transaction never changes its client.** If the server
//! showed the transaction before the pooler was asked, and still shows the same one afterwards, then the client that the
//! pooler named in between is that of the transaction ([`Links::are_of`]).
//!
//! The pooler itself is asked three times, for its server connections, its clients, and its server connections again
//! ([`join`]). A connection that serves the same client before and after has served it in between, too, so that the
//! client is not another one that has been given the same place in memory.

use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_policy::Login;

/// The beginning and the end of a question, on the governor's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::watch) struct Span {
    pub began: Instant,
    pub ended: Instant,
}

impl Span {
    /// An instant.
    #[cfg(test)]
    pub(super) fn at(moment: Instant) -> Span {
        Span { began: moment, ended: moment }
    }
}

/// A server process, and the pooler's own port of the connection to it: several servers may number their processes
/// alike. There is no port at a Unix socket.
pub(super) type Process = (i32, Option<u16>);

/// A server connection, as a pooler shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerRow {
    pub process: Process,
    /// Identifies it while it is open.
    pub place: String,
    /// The client that it serves; empty without one.
    pub client: String,
    /// The pooler's name of the database.
    pub database: String,
}

/// A client, as a pooler shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientRow {
    pub place: String,
    /// The server connection that serves it; empty without one.
    pub server: String,
    pub login: Login,
}

/// A pooler's connection to a server process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pooled {
    pub client: Option<Login>,
    pub database: String,
}

/// What a pooler showed.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) span: Span,
    pub(super) pooled: BTreeMap<Process, Pooled>,
    /// The clients of each database, each login once.
    pub(super) clients: BTreeMap<String, Vec<Login>>,
}

impl Links {
    /// Joins three answers that were given during that span, in this order.
    pub(super) fn join(span: Span, before: &[ServerRow], clients: Vec<ClientRow>, after: Vec<ServerRow>) -> Links {
        let before: BTreeMap<Process, &ServerRow> = before.iter().map(|row| (row.process, row)).collect();
        let logins: BTreeMap<&str, &ClientRow> = clients.iter().map(|row| (row.place.as_str(), row)).collect();
        let client_of = |row: &ServerRow| {
            let is_same = before.get(&row.process) == Some(&row) && !row.client.is_empty();
            let client = logins.get(row.client.as_str()).filter(|client| is_same && client.server == row.place)?;
            Some(client.login.clone())
        };
        let mut pooled: BTreeMap<Process, Pooled> = BTreeMap::new();
        for row in after {
            pooled.insert(row.process, Pooled { client: client_of(&row), database: row.database });
        }
        for row in before.into_values() {
            let gone = || Pooled { client: None, database: row.database.clone() };
            pooled.entry(row.process).or_insert_with(gone);
        }
        let mut of_database: BTreeMap<String, Vec<Login>> = BTreeMap::new();
        for ClientRow { login, .. } in clients {
            of_database.entry(login.database.clone()).or_default().push(login);
        }
        for logins in of_database.values_mut() {
            logins.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
            logins.dedup();
        }
        Links { span, pooled, clients: of_database }
    }

    /// Whether a transaction was open all the time while the pooler was asked: a look that ended at `first` showed it,
    /// and so does one that began at `now`.
    pub(super) fn are_of(&self, first: Instant, now: Instant) -> bool {
        first <= self.span.began && self.span.ended <= now
    }
}

fn key(login: &Login) -> (&str, &str) {
    (&login.user, &login.application_name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn login(user: &str) -> Login {
        Login { user: user.to_owned(), database: "shop".to_owned(), application_name: String::new() }
    }

    fn server(process: i32, place: &str, client: &str) -> ServerRow {
        let (place, client, database) = (place.to_owned(), client.to_owned(), "shop".to_owned());
        ServerRow { process: (process, None), place, client, database }
    }

    fn client(place: &str, server: &str, user: &str) -> ClientRow {
        ClientRow { place: place.to_owned(), server: server.to_owned(), login: login(user) }
    }

    /// The user that each process serves.
    fn joined(before: &[ServerRow], clients: Vec<ClientRow>, after: Vec<ServerRow>) -> Vec<(i32, Option<String>)> {
        let links = Links::join(Span::at(Instant::now()), before, clients, after);
        let user = |pooled: Pooled| pooled.client.map(|login| login.user);
        links.pooled.into_iter().map(|((process, _), pooled)| (process, user(pooled))).collect()
    }

    #[test]
    fn a_client_is_named_only_if_all_three_answers_agree() {
        let serves = |client: &str| server(5, "s1", client);
        let ann = || vec![client("c1", "s1", "ann")];
        let known = vec![(5, Some("ann".to_owned()))];
        let unknown = vec![(5, None)];
        assert_eq!(joined(&[serves("c1")], ann(), vec![serves("c1")]), known);
        assert_eq!(joined(&[serves("")], ann(), vec![serves("c1")]), unknown, "it was not served before");
        assert_eq!(joined(&[serves("c1")], ann(), vec![serves("")]), unknown, "nor after");
        assert_eq!(joined(&[serves("c2")], ann(), vec![serves("c1")]), unknown, "it is another one's turn");
        assert_eq!(joined(&[serves("c1")], Vec::new(), vec![serves("c1")]), unknown, "its client is not listed");
        assert_eq!(joined(&[serves("c1")], vec![client("c1", "", "bob")], vec![serves("c1")]), unknown);
        // Another client has its place in memory, and another server connection that of the first.
        let reused = server(6, "s1", "c1");
        let found = joined(&[serves("c1")], vec![client("c1", "s1", "bob")], vec![reused]);
        assert_eq!(found, [(5, None), (6, None)]);
        assert_eq!(joined(&[], Vec::new(), Vec::new()), []);
    }

    #[test]
    fn the_clients_of_a_database_are_listed_once() {
        let clients = vec![client("c1", "", "ann"), client("c2", "", "bob"), client("c3", "", "ann")];
        let links = Links::join(Span::at(Instant::now()), &[], clients, Vec::new());
        assert_eq!(links.clients, BTreeMap::from([("shop".to_owned(), vec![login("ann"), login("bob")])]));
    }

    /// The clients of one server process, one after the other, each for a number of milliseconds; between two of them
    /// it is idle for one.
    fn served(lengths: &[u64]) -> Vec<(u64, u64, u8)> {
        let mut at = 0;
        let transaction = |(number, length): (usize, &u64)| {
            let began = at;
            at += length + 1;
            (began, began + length, number as u8 % 3)
        };
        lengths.iter().enumerate().map(transaction).collect()
    }

    proptest! {
        /// Whatever the order of looks and answers, a transaction is never taken for that of another client. The rule
        /// is not an empty one: where a transaction is long enough, it names its client.
        #[test]
        fn a_stale_link_names_no_client(
            lengths in prop::collection::vec(1u64..40, 1..30), first in 0u64..200, pause in 0u64..30,
            took in 0u64..10, late in 0u64..30,
        ) {
            let start = Instant::now();
            let moment = |ms: u64| start + Duration::from_millis(ms);
            let served = served(&lengths);
            let at = |ms: u64| served.iter().copied().find(|(began, ended, _)| (*began..*ended).contains(&ms));
            // A look, then the pooler's answer, then another look.
            let (asked, answered) = (first + pause, first + pause + took);
            let second = answered + late;
            let links = Links {
                span: Span { began: moment(asked), ended: moment(answered) },
                pooled: BTreeMap::new(),
                clients: BTreeMap::new(),
            };
            let named = (asked..=answered).map(|ms| at(ms).map(|(.., client)| client)).collect::<Vec<_>>();
            if let (Some(one), Some(other)) = (at(first), at(second))
                && one == other
            {
                prop_assert!(links.are_of(moment(first), moment(second)));
                prop_assert!(named.iter().all(|client| *client == Some(one.2)), "{named:?}");
            }
            // A transaction that was first seen after the pooler was asked may be another client's.
            if asked < second {
                prop_assert!(!links.are_of(moment(second), moment(second + 10)));
            }
        }
    }

    /// The canary of the above: by the last answer alone, however fresh, a transaction is taken for another client's.
    #[test]
    fn the_last_answer_alone_would_name_the_wrong_one() {
        let start = Instant::now();
        let moment = |ms: u64| start + Duration::from_millis(ms);
        // Ann's transaction ends at 10 ms, and Bob's begins at 11 ms on the same process.
        let links = Links::join(
            Span { began: moment(9), ended: moment(10) },
            &[server(5, "s1", "c1")],
            vec![client("c1", "s1", "ann")],
            vec![server(5, "s1", "c1")],
        );
        let named = links.pooled[&(5, None)].client.as_ref().map(|login| login.user.as_str());
        assert_eq!(named, Some("ann"), "the answer was right when it was given");
        assert!(!links.are_of(moment(12), moment(13)), "and says nothing about a transaction that was seen later");
    }
}
