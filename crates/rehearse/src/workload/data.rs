//! The data of a private server: as a file of SQL makes them, or as a dump of a database has them.

use std::path::Path;
use std::time::UNIX_EPOCH;

use plimsoll_pg::connection::Connection;
use plimsoll_workload::benchmark::LoadError;
use plimsoll_workload::captured::DataSource;
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::schema::Schema;

use super::peer::SessionPeer;
use crate::message::{query, row};
use crate::private::{Data, load_data};

/// Loaded rows take about this many times the bytes of their text, with their indexes.
const BYTES_PER_TEXT: u64 = 3;

/// Where the data comes from.
#[derive(Debug)]
pub(super) struct Source {
    data: Data,
    /// Tells it from other data.
    pub identity: String,
    /// How much space it is expected to take.
    pub bytes: u64,
}

impl Source {
    pub fn read(source: &DataSource) -> Result<Source, String> {
        match source {
            DataSource::Setup(file) => {
                let (bytes, changed) = facts(file)?;
                let identity = format!("setup={}:{bytes}:{changed}", file.display());
                Ok(Source { data: Data::Setup(file.clone()), identity, bytes: bytes.saturating_mul(BYTES_PER_TEXT) })
            }
            DataSource::CopyFrom(url) => {
                if has_password(url) {
                    return Err(
                        "the URL of copy_from has a password, which the results of a run would keep; leave it to \
                                ~/.pgpass or PGPASSWORD"
                            .to_owned(),
                    );
                }
                let data = Data::copy_of(url).map_err(|error| error.to_string())?;
                Ok(Source { data, identity: format!("copy_from={url}"), bytes: size_of(url).unwrap_or(0) })
            }
        }
    }
}

/// The size of a file, and when it was changed.
fn facts(file: &Path) -> Result<(u64, u128), String> {
    let told = |error: std::io::Error| format!("setup={}: {error}; name a file of SQL", file.display());
    let facts = file.metadata().map_err(told)?;
    let changed = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok((facts.len(), changed.map_or(0, |since| since.as_nanos())))
}

fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let user = rest.split(['/', '?']).next().and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':')) || url.contains("password=")
}

/// The size of a database; `None` if it cannot be asked now, which loading will report.
fn size_of(url: &str) -> Option<u64> {
    let url = plimsoll_pg::url::ServerUrl::parse(url).ok()?;
    let size = Connection::open(&url).ok()?.text("select pg_database_size(current_database())").ok()??;
    size.parse().ok()
}

/// Loads it into a server of ours, in place of other data. `made` has the schemas that an earlier load has made: those with our mark
/// cannot be distinguished from those of other workloads in another way.
pub(super) fn load(
    source: &Source,
    database: &dyn Database,
    schema: &Schema,
    made: &mut Vec<String>,
) -> Result<(), LoadError> {
    let mut session = database.session(schema)?;
    let there = schemas(&mut *session)?;
    for name in made.drain(..).filter(|name| there.contains(name)) {
        run(&mut *session, &format!("DROP SCHEMA {name} CASCADE"))?;
    }
    run(&mut *session, EMPTY)?;
    let before = schemas(&mut *session)?;
    let loaded = load_data(&source.data, &mut SessionPeer::new(&mut *session), None);
    *made = schemas(&mut *session)?.into_iter().filter(|name| !before.contains(name)).collect();
    loaded.map_err(|error| DatabaseError::Failed(error.to_string()))?;
    // What the dump or the file has set for its session ends with it.
    drop(session);
    for sql in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        database.run_script(schema, sql)?;
    }
    Ok(())
}

/// Drops every schema that is not ours, and makes an empty `public`. The extension that counts statements may lie in it.
const EMPTY: &str = "DO $$ DECLARE \
         counts boolean := EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_stat_statements'); \
         name text; \
     BEGIN \
         DROP EXTENSION IF EXISTS pg_stat_statements; \
         FOR name IN SELECT quote_ident(nspname) FROM pg_namespace \
             WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' \
             AND coalesce(obj_description(oid, 'pg_namespace'), '') NOT LIKE 'made by Plimsoll%' \
         LOOP EXECUTE 'DROP SCHEMA ' || name || ' CASCADE'; END LOOP; \
         CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC; \
         IF counts THEN CREATE EXTENSION pg_stat_statements; END IF; \
     END $$";

const SCHEMAS: &str =
    "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'";

/// The schemas of the database, quoted.
fn schemas(session: &mut dyn Session) -> Result<Vec<String>, DatabaseError> {
    let mut names = Vec::new();
    session.exchange(&query(SCHEMAS), &mut |tag, body| {
        let name = (tag == b'D').then(|| row(body)).flatten().and_then(|values| values.first().copied().flatten());
        names.extend(name.map(|name| String::from_utf8_lossy(name).into_owned()));
    })?;
    Ok(names)
}

fn run(session: &mut dyn Session, sql: &str) -> Result<(), DatabaseError> {
    let mut peer = SessionPeer::new(session);
    let done = plimsoll_postgres::load::execute(&mut peer, sql);
    done.map_err(|error| DatabaseError::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_urls() {
        for (url, expect) in [
            ("postgres://ann@db/shop", false),
            ("postgres://ann:secret@db/shop", true),
            ("postgres://db:5433/shop", false),
            ("postgres://ann@db/shop?password=secret", true),
            ("postgres://ann@[::1]:5433/shop", false),
        ] {
            assert_eq!(has_password(url), expect, "{url}");
        }
        let wrong = Source::read(&DataSource::CopyFrom("postgres://ann:secret@db/shop".to_owned()));
        assert!(wrong.is_err_and(|why| why.contains("PGPASSWORD") && !why.contains("secret")));
        let none = Source::read(&DataSource::Setup("/nowhere.sql".into()));
        assert!(none.is_err_and(|why| why.contains("setup=/nowhere.sql")));
    }
}
