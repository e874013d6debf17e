//! How the sessions of clients are opened: at the server, through a governor, beside it, or at the standby.

use plimsoll_pg::url::ServerUrl;
use plimsoll_workload::database::{DatabaseError, Session};
use plimsoll_workload::schema::Schema;

use super::split::SplitSession;
use super::standby::{StandbySession, StandbyWatch, with_fault};
use super::{PostgresDatabase, Server, check_tables, schema_sql};
use crate::failure::{database_error, past_conflicts};
use crate::governor::name_of_class;
use crate::session::{PostgresSession, SessionOptions};

impl PostgresDatabase {
    pub(super) fn open_session(&self, schema: &Schema, user: Option<&str>) -> Result<Box<dyn Session>, DatabaseError> {
        let (url, tells_class) = self.client_url(user)?;
        let options = SessionOptions { tells_class, ..self.session_options() };
        if self.settings().governor().is_some_and(|governor| governor.mode.split) {
            return Ok(Box::new(self.split_session(schema, url, options)?));
        }
        let mut connection = self.connections.open(&url).map_err(database_error)?;
        check_tables(&mut connection, schema)?;
        let name = schema_sql::schema_name(schema);
        Ok(Box::new(PostgresSession::new(connection, Some(&name), &options, &self.warnings)?))
    }

    /// A session that goes to `governed` for low priority and to the server itself for high priority.
    fn split_session(
        &self,
        schema: &Schema,
        governed: ServerUrl,
        options: SessionOptions,
    ) -> Result<SplitSession, DatabaseError> {
        let direct = ServerUrl { host: self.url.host.clone(), port: self.url.port, ..governed.clone() };
        // The session's own connections are opened only when it needs them; missing tables are reported now.
        check_tables(&mut self.connections.open(&direct).map_err(database_error)?, schema)?;
        let mut ways = [governed, direct];
        for (class, url) in ways.iter_mut().enumerate() {
            url.application_name = name_of_class(class);
        }
        let (name, warnings) = (schema_sql::schema_name(schema), self.warnings.clone());
        let connections = self.connections.clone();
        let open = move |class: usize| {
            PostgresSession::new(
                connections.open(&ways[class]).map_err(database_error)?,
                Some(&name),
                &options,
                &warnings,
            )
        };
        Ok(SplitSession::new(Box::new(open)))
    }

    /// Where clients that only run queries connect; `None` without a standby.
    pub(super) fn standby_url(&self) -> Option<ServerUrl> {
        let Server::Private(server) = &self.server else { return None };
        let folder = server.read().standby_socket_folder()?;
        Some(ServerUrl::of_socket(folder, self.url.port, &self.url.user, &self.url.database))
    }

    fn standby_fault(&self) -> Option<String> {
        let Server::Private(server) = &self.server else { return None };
        server.read().standby_fault()
    }

    /// Waits until a standby has replayed every committed change.
    pub(super) fn freshen(&self, standby: &ServerUrl) -> Result<(), DatabaseError> {
        let fault = || self.standby_fault();
        let mut watch = StandbyWatch::open(&self.url, standby).map_err(|error| with_fault(error, &fault))?;
        watch.wait_until_fresh(&fault)
    }

    pub(super) fn open_on_standby(
        &self,
        standby: ServerUrl,
        schema: &Schema,
        user: Option<&str>,
    ) -> Result<Box<dyn Session>, DatabaseError> {
        let url = match user {
            None => standby,
            Some(user) => {
                self.make_user(user)?;
                self.freshen(&standby)?;
                standby.with_user(user)
            }
        };
        let Server::Private(server) = &self.server else { unreachable!("only a server of ours has a standby") };
        // Before the server's lock: `set_option` takes this lock while it holds that one.
        let degrees = self.degrees.lock().clone();
        let options = SessionOptions {
            tells_class: false,
            names_class: false,
            snapshot: "as replayed",
            degrees,
            ..SessionOptions::from(&server.read().settings().on_standby())
        };
        let told = |error| with_fault(error, &|| self.standby_fault());
        let (name, warnings) = (schema_sql::schema_name(schema), self.warnings.clone());
        let begin = move |connection| PostgresSession::new(connection, Some(&name), &options, &warnings);
        let first = past_conflicts(|| {
            let mut connection = self.connections.open(&url).map_err(database_error)?;
            check_tables(&mut connection, schema)?;
            begin(connection)
        });
        let connections = self.connections.clone();
        let again = move || begin(connections.open(&url).map_err(database_error)?);
        Ok(Box::new(StandbySession::new(first.map_err(told)?, Box::new(again))))
    }
}
