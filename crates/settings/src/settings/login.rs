//! How a governor lets clients in itself: whose passwords it knows, and whom it asks about others.

use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_pg::url::ServerUrl;

use crate::users::Users;

/// The sources of passwords.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The users file; `None` without one.
    pub users_file: Option<PathBuf>,
    /// Its users.
    pub users: Option<Arc<Users>>,
    /// The role that asks the server for other passwords; `None` if nothing is asked.
    pub auth_user: Option<String>,
    /// The question.
    pub query: String,
    /// The database in which it is asked.
    pub auth_database: String,
    /// The login with which it is asked: that role at the server.
    pub asks_as: Option<ServerUrl>,
}

impl Login {
    /// Whether the governor knows passwords, or can ask for them.
    pub fn has_source(&self) -> bool {
        self.users.is_some() || self.asks_as.is_some()
    }
}
