//! One question to the server about one user, and what its answer means.

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_pg::secret::Secret;
use plimsoll_pg::url::ServerUrl;

use super::{Asks, PATIENCE};

/// The name of the connection in pg_stat_activity.
const NAME: &str = "plimsoll logins";

/// The meaning of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Finding {
    /// The user's secret.
    Secret(Secret),
    /// The user has none, and why.
    None(String),
    /// The server could not be asked, or what it says makes no sense.
    Failed(String),
}

impl Finding {
    /// Reports an answer with which no client is let in.
    pub(super) fn log(&self, user: &str) {
        match self {
            Finding::Secret(_) => {}
            Finding::None(why) => tracing::info!(user, "auth_query: {why}"),
            Finding::Failed(why) => tracing::warn!(user, "auth_query: {why}"),
        }
    }
}

/// A connection to ask on, made when it is needed.
#[derive(Debug)]
pub(crate) struct Asker {
    asks: Asks,
    up: Option<(Connection, Prepared)>,
}

impl Asker {
    pub(crate) fn new(asks: Asks) -> Self {
        Asker { asks, up: None }
    }

    pub(super) fn is_for(&self, asks: &Asks) -> bool {
        self.asks == *asks
    }

    /// Whether there is a connection.
    pub(super) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Asks about a user.
    pub(crate) fn ask(&mut self, user: &str) -> Finding {
        let was_up = self.up.is_some();
        match self.try_ask(user) {
            // The connection may have ended long ago, when the server was restarted.
            Err(_) if was_up && self.up.is_none() => self.try_ask(user),
            outcome => outcome,
        }
        .unwrap_or_else(Finding::Failed)
    }

    fn try_ask(&mut self, user: &str) -> Result<Finding, String> {
        let (connection, prepared) = match &mut self.up {
            Some(up) => up,
            none => none.insert(open(&self.asks)?),
        };
        let (mut rows, mut first) = (0_usize, (None, None));
        let asked = connection.prepared_text_rows(prepared, &[user], &mut |row| {
            if rows == 0 {
                let cell = |place: usize| row.get(place).copied().flatten().map(str::to_owned);
                first = (cell(0), cell(1));
            }
            rows += 1;
        });
        if connection.lost().is_some() {
            self.up = None;
        }
        asked.map_err(|error| explained(&error, &self.asks))?;
        Ok(finding(user, rows, first))
    }
}

/// What the rows mean: their number, and the first one's name and password.
fn finding(user: &str, rows: usize, first: (Option<String>, Option<String>)) -> Finding {
    match (rows, first) {
        (0, _) => {
            Finding::None("there is no such user, or it may not log in (NOLOGIN): the question has no row".to_owned())
        }
        (1, (Some(name), _)) if name != user => {
            Finding::Failed(format!("the question has the row of another user, \"{name}\"; compare the name with $1"))
        }
        // A function with OUT parameters has a row for an unknown user, too.
        (1, (None, None)) => Finding::None("there is no such user: the question has a row without values".to_owned()),
        (1, (None, Some(_))) => {
            Finding::Failed("the question has a row without a name; its first column must be the name".to_owned())
        }
        (1, (Some(_), None)) => Finding::None("the user has no password, or it has expired (VALID UNTIL)".to_owned()),
        (1, (Some(_), Some(password))) => match Secret::parse(user, &password) {
            Ok(secret) => Finding::Secret(secret),
            Err(why) => Finding::Failed(format!("the user's password at the server is of no use: {why}")),
        },
        (rows, _) => {
            Finding::Failed(format!("the question has {rows} rows, and must have one; compare the name with $1"))
        }
    }
}

/// Opens a connection and prepares the question.
fn open(asks: &Asks) -> Result<(Connection, Prepared), String> {
    let url = ServerUrl {
        connect_timeout: asks.url.connect_timeout.min(PATIENCE),
        application_name: NAME.to_owned(),
        ..asks.url.clone()
    };
    let failed = |error: WireError| explained(&error, asks);
    let mut connection = Connection::open_isolated(&url).map_err(failed)?;
    connection.set_timeout(Some(PATIENCE)).map_err(failed)?;
    let prepared = connection.prepare_text("login", &asks.query).map_err(failed)?;
    if prepared.parameters().len() != 1 {
        return Err(format!("the question has {} parameters, and only the user is known", prepared.parameters().len()));
    }
    if prepared.columns().len() < 2 {
        let count = prepared.columns().len();
        return Err(format!("the question has {count} columns, and must have two: the name and the password"));
    }
    Ok((connection, prepared))
}

/// An error of the server with the remedy.
fn explained(error: &WireError, asks: &Asks) -> String {
    let user = &asks.url.user;
    let remedy = match error.server().map(|error| error.code.as_str()) {
        Some("42501") => format!(
            "; \"{user}\" may not read that: ask a function of a superuser's (SECURITY DEFINER) in auth_query, as \
             docs/governor-login.md shows"
        ),
        Some("42883" | "42P01") => "; write its schema: search_path is empty for the question".to_owned(),
        _ => String::new(),
    };
    format!("{error}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_told_from_the_others() {
        let told = |rows, name: Option<&str>, password: Option<&str>| match finding(
            "ann",
            rows,
            (name.map(str::to_owned), password.map(str::to_owned)),
        ) {
            Finding::Secret(_) => "a secret".to_owned(),
            Finding::None(why) => format!("none: {why}"),
            Finding::Failed(why) => format!("failed: {why}"),
        };
        for (rows, name, password, expect) in [
            (0, None, None, "none: there is no such user"),
            (1, Some("ann"), Some("geheim"), "a secret"),
            (1, Some("ann"), None, "none: the user has no password"),
            (1, Some("Ann"), Some("geheim"), "failed: the question has the row of another user, \"Ann\""),
            (1, None, None, "none: there is no such user"),
            (1, None, Some("geheim"), "failed: the question has a row without a name"),
            (1, Some("ann"), Some(""), "failed: the user's password at the server is of no use"),
            (1, Some("ann"), Some("SCRAM-SHA-256$geheim"), "failed: the user's password at the server is of no use"),
            (2, Some("ann"), Some("geheim"), "failed: the question has 2 rows"),
        ] {
            let told = told(rows, name, password);
            assert!(told.starts_with(expect) && !told.contains("geheim"), "{told}\nis not\n{expect}");
        }
    }
}
