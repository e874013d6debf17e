//! Invisible data: the reason, the features that work without them, and the remedy.

use plimsoll_notation::sql_name;
use serde::{Deserialize, Serialize};

/// The newest supported version.
pub(super) const MAJOR_NEWEST: u32 = 18;

/// Something that is not visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRight {
    /// Its name.
    pub what: String,
    /// Why.
    pub why: String,
    /// The features that work without it.
    pub works: String,
    /// The remedy; `None` if there is none.
    pub remedy: Option<String>,
}

/// The sessions of a user that the server does not record.
pub(super) fn untracked(user: &str) -> MissingRight {
    MissingRight {
        what: format!("what sessions of {user} do"),
        why: "track_activities is off for this role, its database or these sessions".to_owned(),
        works: "that they block others, throughput and deadlocks by database".to_owned(),
        remedy: Some(format!(
            "as a superuser: ALTER ROLE {} SET track_activities = on; this is for new sessions",
            sql_name(user)
        )),
    }
}

/// Why `pg_stat_statements` does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoStatements {
    /// The extension is not created in this database; whether the server has loaded the library.
    NotCreated { is_loaded: bool },
    /// The server has not loaded the library.
    NotLoaded(String),
    /// The role may not use the schema, or not call the function in it.
    NotGranted { schema: String, error: String },
    /// Another error.
    Failed(String),
}

/// How to load the library.
const LOADING: &str = "add pg_stat_statements to shared_preload_libraries and restart the server";

impl NoStatements {
    fn why(&self) -> String {
        match self {
            NoStatements::NotCreated { .. } => {
                "the extension pg_stat_statements is not created in this database".to_owned()
            }
            NoStatements::NotGranted { error, .. } | NoStatements::NotLoaded(error) | NoStatements::Failed(error) => {
                error.clone()
            }
        }
    }

    fn remedy(&self, role: &str) -> Option<String> {
        let creation = "CREATE EXTENSION pg_stat_statements in the database that is connected to";
        match self {
            NoStatements::NotCreated { is_loaded: true } => Some(format!("run {creation}")),
            NoStatements::NotCreated { is_loaded: false } => Some(format!("{LOADING}; then run {creation}")),
            NoStatements::NotLoaded(_) => Some(LOADING.to_owned()),
            NoStatements::NotGranted { schema, .. } => Some(format!(
                "as their owner: GRANT USAGE ON SCHEMA {schema} TO {role}; \
                 GRANT EXECUTE ON FUNCTION {schema}.pg_stat_statements(boolean) TO {role}",
                schema = sql_name(schema),
                role = sql_name(role)
            )),
            NoStatements::Failed(_) => None,
        }
    }
}

/// Facts about the server and the role that decide what is visible.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Visibility {
    /// The server's major version.
    pub major_version: u32,
    /// The role.
    pub role: String,
    /// Whether it may see what sessions of other roles do.
    pub sees_all: bool,
    /// Whether the server notes what sessions do.
    pub tracks_activities: bool,
    /// `compute_query_id`; empty before version 14.
    pub compute_query_id: String,
    /// Why there is no `pg_stat_statements`, and the remedy; `None` if it answers.
    pub no_statements: Option<NoStatements>,
    /// Why the scheduler's times of server processes are not visible; `None` if they are.
    pub no_times: Option<String>,
}

impl Visibility {
    /// Everything that is not visible.
    pub fn missing(&self) -> Vec<MissingRight> {
        [
            self.version(),
            self.sessions(),
            self.activities(),
            self.statements(),
            self.numbers(),
            self.queues(),
            self.cores(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn version(&self) -> Option<MissingRight> {
        (self.major_version > MAJOR_NEWEST).then(|| MissingRight {
            what: "whatever PostgreSQL has changed since".to_owned(),
            why: format!("version {} is newer than the versions that this was written for", self.major_version),
            works: "everything that the server still answers as before; what it refuses is listed here".to_owned(),
            remedy: Some("use a newer plimsoll if there is one".to_owned()),
        })
    }

    fn sessions(&self) -> Option<MissingRight> {
        (!self.sees_all).then(|| MissingRight {
            what: "what sessions and statements of other roles do".to_owned(),
            why: format!("the role {} is not a member of pg_read_all_stats", self.role),
            works: format!(
                "sessions of {} itself, who waits for whom by process, deadlocks and throughput by database, checkpoints",
                self.role
            ),
            remedy: Some(format!("as a superuser: GRANT pg_monitor TO {}", sql_name(&self.role))),
        })
    }

    fn activities(&self) -> Option<MissingRight> {
        (!self.tracks_activities).then(|| MissingRight {
            what: "what sessions do".to_owned(),
            why: "track_activities is off".to_owned(),
            works: "throughput, deadlocks, checkpoints".to_owned(),
            remedy: Some("ALTER SYSTEM SET track_activities = on; SELECT pg_reload_conf()".to_owned()),
        })
    }

    fn statements(&self) -> Option<MissingRight> {
        self.no_statements.as_ref().map(|no| MissingRight {
            what: "calls and latency of each statement, changes of plans".to_owned(),
            why: no.why(),
            works: "shares of response time by statement, from looks at sessions".to_owned(),
            remedy: no.remedy(&self.role),
        })
    }

    fn numbers(&self) -> Option<MissingRight> {
        let is_on = ["on", "auto", "regress"].contains(&self.compute_query_id.as_str())
            && (self.compute_query_id != "auto" || self.no_statements.is_none());
        (self.no_statements.is_none() && !is_on).then(|| MissingRight {
            what: "which statement of pg_stat_statements a session is in".to_owned(),
            why: if self.major_version < 14 {
                "sessions show the numbers of their statements since version 14".to_owned()
            } else {
                format!("compute_query_id is {}", self.compute_query_id)
            },
            works: "fingerprints of our own, from texts".to_owned(),
            remedy: (self.major_version >= 14)
                .then(|| "ALTER SYSTEM SET compute_query_id = on; SELECT pg_reload_conf()".to_owned()),
        })
    }

    fn queues(&self) -> Option<MissingRight> {
        (self.major_version < 14).then(|| MissingRight {
            what: "the order in which sessions wait for a lock".to_owned(),
            why: "pg_locks says since when sessions wait since version 14".to_owned(),
            works: "who waits for the holder of a lock".to_owned(),
            remedy: None,
        })
    }

    fn cores(&self) -> Option<MissingRight> {
        self.no_times.clone().map(|why| MissingRight {
            what: "how long server processes wait for a core".to_owned(),
            why,
            works: "everything else; running includes waiting for a core".to_owned(),
            remedy: Some("run this on the server's machine, outside of containers that hide its processes".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Visibility {
        Visibility {
            major_version: 15,
            role: "monitor".to_owned(),
            sees_all: true,
            tracks_activities: true,
            compute_query_id: "auto".to_owned(),
            ..Visibility::default()
        }
    }

    fn check(sight: &Visibility, expect: &[&str]) {
        let missing = sight.missing();
        let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(what, expect);
    }

    #[test]
    fn what_is_missing_is_said() {
        const NUMBERS: &str = "which statement of pg_stat_statements a session is in";
        check(&full(), &[]);
        check(&Visibility { sees_all: false, ..full() }, &["what sessions and statements of other roles do"]);
        check(&Visibility { tracks_activities: false, ..full() }, &["what sessions do"]);
        check(
            &Visibility { no_statements: Some(NoStatements::NotCreated { is_loaded: true }), ..full() },
            &["calls and latency of each statement, changes of plans"],
        );
        check(&Visibility { compute_query_id: "off".to_owned(), ..full() }, &[NUMBERS]);
        let old = Visibility { major_version: 13, compute_query_id: String::new(), ..full() };
        check(&old, &[NUMBERS, "the order in which sessions wait for a lock"]);
        check(
            &Visibility { no_times: Some("elsewhere".to_owned()), ..full() },
            &["how long server processes wait for a core"],
        );
        check(&Visibility { major_version: 42, ..full() }, &["whatever PostgreSQL has changed since"]);
    }

    #[test]
    fn remedies_can_be_pasted() {
        let sight = Visibility { sees_all: false, role: "Mon itor".to_owned(), ..full() };
        assert_eq!(sight.missing()[0].remedy.as_deref(), Some("as a superuser: GRANT pg_monitor TO \"Mon itor\""));
        let remedy = |no: NoStatements| Visibility { no_statements: Some(no), ..full() }.missing()[0].remedy.clone();
        let not_granted = NoStatements::NotGranted { schema: "Stat".to_owned(), error: "42501".to_owned() };
        let granted = remedy(not_granted).unwrap();
        assert!(
            granted.contains("GRANT USAGE ON SCHEMA \"Stat\" TO monitor") && !granted.contains("restart"),
            "{granted}"
        );
        assert!(remedy(NoStatements::NotLoaded("55000".to_owned())).unwrap().contains("restart"));
        assert_eq!(remedy(NoStatements::Failed("XX000".to_owned())), None);
    }
}
