//! How the sessions of clients are opened: at the server, through a governor, beside it, or at the standby.

use plimsoll_pg::url::ServerUrl;
use plimsoll_workload::database::{DatabaseError, Login, Session};
use plimsoll_workload::schema::Schema;

use super::split::SplitSession;
use super::standby::{StandbySession, StandbyWatch, with_fault};
use super::{PostgresDatabase, Server, check_tables, schema_sql};
use crate::failure::{database_error, past_conflicts};
use crate::governor::{GovernorMode, name_of_class};
use crate::session::{PostgresSession, SessionOptions, opening};

impl PostgresDatabase {
    pub(super) fn open_session(&self, schema: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        let (url, tells_class) = self.client_url(login.user)?;
        let mut url = named(url, login);
        let options = SessionOptions { tells_class, ..self.session_options() };
        let mode = self.settings().governor().map(|governor| governor.mode);
        if let Some(application) = login.application
            && mode.is_some_and(GovernorMode::reads_names)
        {
            let why = "clients send the name of their class instead to a governor that is beside the server or split; leave \
                       `application` out, or use another value of `governor`";
            return Err(DatabaseError::Unsupported(format!("the application name `{application}` is not sent: {why}")));
        }
        if mode.is_some_and(|mode| mode.split) {
            return Ok(Box::new(self.split_session(schema, url, options)?));
        }
        let name = schema_sql::schema_name(schema);
        if options.is_opened_by_pooler {
            url.database = self.pooled_database(&url.user, &name, &options)?;
        }
        let mut connection = self.connections.open(&url).map_err(database_error)?;
        check_tables(&mut connection, schema)?;
        Ok(Box::new(PostgresSession::new(connection, Some(&name), &options, &self.warnings)?))
    }

    /// The database of pgbouncer's for such sessions.
    fn pooled_database(&self, user: &str, schema: &str, options: &SessionOptions) -> Result<String, DatabaseError> {
        if options.degrees.is_some() {
            let why =
                "pgbouncer shares connections, so no client can set the degree of its query; leave `parallelism` out";
            return Err(DatabaseError::Unsupported(why.to_owned()));
        }
        let governor = self.governor.lock();
        let peer = governor.as_ref().expect("its client was sent there");
        peer.pooled_database(user, &opening(Some(schema), options)).map_err(DatabaseError::Failed)
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
        login: Login<'_>,
    ) -> Result<Box<dyn Session>, DatabaseError> {
        let url = match login.user {
            None => standby,
            Some(user) => {
                self.make_user(user)?;
                self.freshen(&standby)?;
                standby.with_user(user)
            }
        };
        let url = named(url, login);
        let Server::Private(server) = &self.server else { unreachable!("only a server of ours has a standby") };
        // Before the server's lock: `set_option` takes this lock while it holds that one.
        let degrees = self.degrees.lock().clone();
        let options = SessionOptions {
            tells_class: false,
            names_class: false,
            is_pooled: false,
            is_opened_by_pooler: false,
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

/// The URL with the client's application name, if it has one.
fn named(url: ServerUrl, login: Login<'_>) -> ServerUrl {
    match login.application {
        Some(name) => ServerUrl { application_name: name.to_owned(), ..url },
        None => url,
    }
}
