//! Rows whose values only mean something together: a rule, encryption, a user of the console. `read` makes one value
//! of them.

use super::kind::Kind::{Said, SaidTruth};
use super::row::{Row, rows};

/// The keys of `[[rule]]`.
pub(crate) static RULE: &[Row<()>] = rows! { ();
    /// The class.
    class = "", Said, required();
    /// The user, as a pattern with `*`.
    user = "", Said;
    /// The database, as a pattern with `*`.
    database = "", Said;
    /// The application's name, as a pattern with `*`.
    application_name = "", Said;
    /// The `class` in a comment of a transaction's first statement (`/*class='x'*/`), as a pattern with `*`.
    tag = "", Said;
    /// The fingerprint of a transaction's first statement, 16 hexadecimal digits as SHOW FINGERPRINT prints them.
    fingerprint = "", Said;
    /// Instead of a fingerprint, a statement that has it: `"select count(*) from orders where day = $1"`.
    statement = "", Said;
};

/// The keys of `[listen.tls]`.
pub(crate) static TLS: &[Row<()>] = rows! { ();
    /// The file with the certificate and those that vouch for it (PEM).
    certificate = "", Said, required();
    /// The file with its key (PEM).
    key = "", Said, required();
    /// Whether clients over TCP that do not ask for encryption are refused.
    required = "false", SaidTruth;
    /// The file with the authorities that must have signed the certificate of every TCP client (PEM); it needs
    /// `required`. A certificate whose common name is the user has proved who the client is. Without it clients are
    /// asked for no certificate.
    client_ca = "", Said;
};

/// The keys of `[[admin.user]]`.
pub(crate) static USER: &[Row<()>] = rows! { ();
    /// The name.
    name = "", Said, required();
    /// What `govern --hash-password` prints: `SCRAM-SHA-256$…`, as PostgreSQL keeps it.
    verifier = "", Said;
    /// A file with the password or a verifier, which only the governor's user can read.
    password_file = "", Said;
    /// An environment variable with the password or a verifier.
    password_variable = "", Said;
    /// The password itself. Prefer a verifier.
    password = "", Said;
    /// Whether it may change settings and end sessions; otherwise it may only look.
    may_change = "false", SaidTruth;
};
