//! Why a session keeps its server connection.

use std::fmt;

/// Something in the server's session that cannot be moved to another connection, or that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pin {
    /// LISTEN.
    Listens,
    /// A temporary table, view or sequence, or a name in the schema of temporary objects.
    Temporary,
    /// DECLARE … WITH HOLD.
    HeldCursor,
    /// PREPARE and EXECUTE by SQL.
    Prepares,
    /// LOAD.
    Loads,
    /// An advisory lock of the session.
    SessionLock,
    /// SET SESSION AUTHORIZATION.
    Authorization,
    /// `setseed`: random numbers follow from it.
    Seed,
    /// `dblink_connect`: a connection of the session to another server.
    RemoteConnection,
    /// The session is that of a replication origin.
    ReplicationOrigin,
    /// A setting whose name the text does not show.
    ComputedSetting,
    /// More settings than are followed.
    ManySettings,
    /// A function drops prepared statements, or discards something.
    Deallocates,
    /// A block runs SQL that it puts together.
    Dynamic,
    /// A text too long to be read.
    Unread,
    /// A name in a form that is not read: `U&"…"`.
    UnreadName,
    /// A function called by its number.
    FunctionCall,
    /// A function, by its name, that may leave anything.
    Unknown(Box<str>),
    /// More code than is followed.
    MuchCode,
    /// A text that the server has not been asked about yet.
    Unasked,
    /// More such texts than are kept.
    ManyUnasked,
    /// The session is only relayed.
    Ungoverned,
}

impl Pin {
    /// The word used in metrics and logs; it must not change.
    pub fn name(&self) -> &'static str {
        match self {
            Pin::Listens => "listen",
            Pin::Temporary => "temporary-object",
            Pin::HeldCursor => "held-cursor",
            Pin::Prepares => "prepare",
            Pin::Loads => "load",
            Pin::SessionLock => "session-lock",
            Pin::Authorization => "session-authorization",
            Pin::Seed => "seed",
            Pin::RemoteConnection => "remote-connection",
            Pin::ReplicationOrigin => "replication-origin",
            Pin::ComputedSetting => "computed-setting",
            Pin::ManySettings => "many-settings",
            Pin::Deallocates => "deallocate",
            Pin::Dynamic => "dynamic-sql",
            Pin::Unread => "unread",
            Pin::UnreadName => "unread-name",
            Pin::FunctionCall => "function-call",
            Pin::Unknown(_) => "function",
            Pin::MuchCode => "much-code",
            Pin::Unasked => "unasked",
            Pin::ManyUnasked => "many-unasked",
            Pin::Ungoverned => "ungoverned",
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pin::Listens => "it listens for notifications",
            Pin::Temporary => "it may have temporary tables, views or sequences",
            Pin::HeldCursor => "it may have a cursor that outlives its transaction (WITH HOLD)",
            Pin::Prepares => "it prepares or runs statements by SQL (PREPARE, EXECUTE)",
            Pin::Loads => "it has loaded a library",
            Pin::SessionLock => "it may hold an advisory lock for the session",
            Pin::Authorization => "it has changed its session authorization",
            Pin::Seed => "it has chosen the random numbers that follow",
            Pin::RemoteConnection => "it may have a connection to another server (dblink_connect)",
            Pin::ReplicationOrigin => "it replays for a replication origin",
            Pin::ComputedSetting => "it changes a setting whose name is computed",
            Pin::ManySettings => "it has changed more settings than are carried along",
            Pin::Deallocates => "a function that it may run drops prepared statements or discards",
            Pin::Dynamic => "a block runs SQL that it puts together (EXECUTE)",
            Pin::Unread => "it has run a statement too long to be read",
            Pin::UnreadName => "it has used a name with Unicode escapes (U&\"…\")",
            Pin::FunctionCall => "it calls functions by their number",
            Pin::Unknown(function) => {
                return write!(f, "it may run \"{function}\", whose effects on the session are not known");
            }
            Pin::MuchCode => "what it may run is too much to be followed",
            Pin::Unasked => "the server has not yet been asked what its statements may run",
            Pin::ManyUnasked => "it runs more different statements than the server can be asked about",
            Pin::Ungoverned => "it is only relayed",
        })
    }
}
