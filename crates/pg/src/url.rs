//! The URL of a server: `postgres://user:password@host:port/database?sslmode=require`, completed as libpq does.

mod error;
mod password_file;
mod percent;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use error::UrlError;
pub use percent::decoded;

/// The default time that connecting may take.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Default folders in which servers of this machine keep their sockets, most usual first.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// A server, and the user and database of our sessions. Displayed without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Where it listens.
    pub host: ServerHost,
    /// Its port; part of the name of a socket, too.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The password, if one is known.
    pub password: Option<Password>,
    /// The database.
    pub database: String,
    /// Whether the connection is encrypted, and whether the server is verified.
    pub ssl_mode: SslMode,
    /// How encryption begins.
    pub ssl_negotiation: SslNegotiation,
    /// The file with the trusted certificates (PEM), or [`SYSTEM`] for those that this system trusts.
    pub ssl_root_certificate: Option<PathBuf>,
    /// Our own certificate, for a server that asks for one.
    pub ssl_certificate: Option<ClientCertificate>,
    /// Our name in pg_stat_activity.
    pub application_name: String,
    /// How long connecting may take, name lookup excepted.
    pub connect_timeout: Duration,
}

/// The value of `sslrootcert` for the authorities that this system trusts, instead of a file.
pub const SYSTEM: &str = "system";

/// A certificate that is presented to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The file with the certificate and its chain (PEM).
    pub certificate: PathBuf,
    /// The file with its key (PEM, without a passphrase).
    pub key: PathBuf,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerHost {
    /// A host by name or address.
    Tcp(String),
    /// A folder with its socket.
    Socket(PathBuf),
}

/// A password, which is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Keeps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Password(password.into())
    }

    /// The bytes for the server.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Encryption, with libpq's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can.
    Prefer,
    /// Always encrypted; the server's certificate is verified only where root certificates are given.
    Require,
    /// Encrypted, and the certificate comes from an authority that is trusted.
    VerifyCa,
    /// As before, and the certificate names the requested host.
    VerifyFull,
}

impl SslMode {
    /// Every mode, the least strict first.
    pub const ALL: [SslMode; 5] =
        [SslMode::Disable, SslMode::Prefer, SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];

    /// The word used in URLs.
    pub fn name(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

/// How encryption begins, with libpq's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslNegotiation {
    /// The client asks the server for it in plain text (SSLRequest), which every version understands.
    Postgres,
    /// The first byte begins TLS, which saves a round trip; servers understand it since PostgreSQL 17.
    Direct,
}

impl SslNegotiation {
    /// Both.
    pub const ALL: [SslNegotiation; 2] = [SslNegotiation::Postgres, SslNegotiation::Direct];

    /// The word used in URLs.
    pub fn name(self) -> &'static str {
        match self {
            SslNegotiation::Postgres => "postgres",
            SslNegotiation::Direct => "direct",
        }
    }
}

/// The parameters that a URL may have after its `?`, each with the environment variable that libpq reads for it.
const PARAMETERS: [(&str, &str); 12] = [
    ("application_name", "PGAPPNAME"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("dbname", "PGDATABASE"),
    ("host", "PGHOST"),
    ("password", "PGPASSWORD"),
    ("port", "PGPORT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("user", "PGUSER"),
];

/// Values from the URL and the environment, by parameter. Later sources fill only parameters without a value.
type Said = BTreeMap<&'static str, String>;

impl ServerUrl {
    /// Parses a URL, and takes missing values from the environment and the password file.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let account = |name: &str| if name == "LOGNAME" { account_name() } else { None };
        ServerUrl::parse_in(text, &|name| std::env::var(name).ok().or_else(|| account(name)))
    }

    /// Parses a URL in an environment that is given as a function from names of variables to values.
    pub fn parse_in(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, UrlError> {
        let mut said = read(text)?;
        for (parameter, variable) in PARAMETERS {
            if !said.contains_key(parameter) {
                let value = environment(variable).filter(|value| !value.is_empty());
                said.extend(value.map(|value| (parameter, value)));
            }
        }
        let mut url = resolve(said, environment)?;
        if url.password.is_none() {
            url.password = password_file::password_for(&url, environment);
        }
        Ok(url)
    }

    /// A server of this machine by the folder of its socket.
    pub fn of_socket(folder: impl Into<PathBuf>, port: u16, user: &str, database: &str) -> Self {
        ServerUrl {
            host: ServerHost::Socket(folder.into()),
            port,
            user: user.to_owned(),
            password: None,
            database: database.to_owned(),
            ssl_mode: SslMode::Disable,
            ssl_negotiation: SslNegotiation::Postgres,
            ssl_root_certificate: None,
            ssl_certificate: None,
            application_name: "plimsoll".to_owned(),
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
        }
    }

    /// The same server and database as another user, with that user's password from the password file or the
    /// environment.
    pub fn with_user(&self, user: &str) -> Self {
        if user == self.user {
            return self.clone();
        }
        let environment = |name: &str| std::env::var(name).ok();
        let mut url = ServerUrl { user: user.to_owned(), password: None, ..self.clone() };
        let kept = password_file::password_for(&url, &environment);
        url.password = kept.or_else(|| environment("PGPASSWORD").filter(|text| !text.is_empty()).map(Password));
        url
    }

    /// Where the server listens, for messages: `db.example:5432`, `/var/run/postgresql/.s.PGSQL.5432`.
    pub fn address(&self) -> String {
        match &self.host {
            ServerHost::Tcp(host) if host.contains(':') => format!("[{host}]:{}", self.port),
            ServerHost::Tcp(host) => format!("{host}:{}", self.port),
            ServerHost::Socket(_) => self.socket().expect("it is a socket").display().to_string(),
        }
    }

    /// The file of its socket; `None` for a host.
    pub fn socket(&self) -> Option<PathBuf> {
        match &self.host {
            ServerHost::Tcp(_) => None,
            ServerHost::Socket(folder) => Some(folder.join(format!(".s.PGSQL.{}", self.port))),
        }
    }
}

impl fmt::Display for ServerUrl {
    /// A URL that leads to the same server; the password is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, database) = (percent::encoded(&self.user), percent::encoded(&self.database));
        match &self.host {
            ServerHost::Tcp(_) => write!(f, "postgres://{user}@{}/{database}?", self.address())?,
            ServerHost::Socket(folder) => {
                // A slash need not be encoded in a parameter, and reads better.
                let folder = percent::encoded(&folder.to_string_lossy()).replace("%2F", "/");
                write!(f, "postgres://{user}@/{database}?host={folder}&port={}&", self.port)?;
            }
        }
        write!(f, "sslmode={}", self.ssl_mode.name())?;
        match self.ssl_negotiation {
            SslNegotiation::Postgres => Ok(()),
            SslNegotiation::Direct => f.write_str("&sslnegotiation=direct"),
        }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The values in the URL itself.
fn read(text: &str) -> Result<Said, UrlError> {
    let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let rest = rest.ok_or(UrlError::Scheme)?;
    if rest.contains('#') {
        return Err(UrlError::Fragment);
    }
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    // Before an error names any part, because it may be of a password.
    if rest.contains('@') && !authority.contains('@') {
        return Err(UrlError::Unencoded);
    }
    let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let (host, port) = host_and_port(address)?;
    let filled = |part| Some(part).filter(|part: &&str| !part.is_empty());
    let mut said = Said::new();
    for (parameter, name, part) in [
        ("host", "host", filled(host)),
        ("port", "port", filled(port)),
        ("user", "user", filled(user)),
        ("password", "password", password),
        ("dbname", "database", filled(database)),
    ] {
        let part = part.map(|part| percent::decoded(part, name)).transpose()?;
        said.extend(part.map(|part| (parameter, part)));
    }
    for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| UrlError::NoValue(pair.to_owned()))?;
        let name = percent::decoded(name, "parameter")?;
        let value = percent::decoded(value, &name)?;
        let known = PARAMETERS.iter().find(|(parameter, _)| *parameter == name);
        said.insert(known.ok_or_else(|| UrlError::no_such_parameter(&name))?.0, value);
    }
    Ok(said)
}

/// Splits `host:port`, `[::1]:port`, `host` and the empty string.
fn host_and_port(address: &str) -> Result<(&str, &str), UrlError> {
    if address.contains(',') {
        return Err(UrlError::SeveralHosts);
    }
    if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| UrlError::Address(address.to_owned()))?;
        let port = rest.strip_prefix(':').or(rest.is_empty().then_some(""));
        return Ok((host, port.ok_or_else(|| UrlError::Address(address.to_owned()))?));
    }
    match address.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(UrlError::Address(address.to_owned())),
        Some((host, port)) => Ok((host, port)),
        None => Ok((address, "")),
    }
}

/// Gives every parameter its type and its default.
fn resolve(mut said: Said, environment: &dyn Fn(&str) -> Option<String>) -> Result<ServerUrl, UrlError> {
    let host = match said.remove("host") {
        Some(host) if host.starts_with('/') => ServerHost::Socket(host.into()),
        Some(host) => ServerHost::Tcp(host),
        None => default_host(),
    };
    let port = said
        .remove("port")
        .map_or(Ok(5432), |port| port.parse().ok().filter(|port| *port > 0).ok_or(UrlError::Port(port)))?;
    let user = said.remove("user").or_else(|| ["USER", "LOGNAME"].iter().find_map(|name| environment(name)));
    let user = user.filter(|user| !user.is_empty()).ok_or(UrlError::NoUser)?;
    // Any attacker can have a certificate for a name of their own from one of the system's many authorities.
    let is_system = said.get("sslrootcert").is_some_and(|file| file == SYSTEM);
    let usual_mode = if is_system { SslMode::VerifyFull } else { SslMode::Prefer };
    let ssl_mode = said.remove("sslmode").map_or(Ok(usual_mode), |word| {
        SslMode::ALL.into_iter().find(|mode| mode.name() == word).ok_or_else(|| UrlError::ssl_mode(&word))
    })?;
    let ssl_negotiation = said.remove("sslnegotiation").map_or(Ok(SslNegotiation::Postgres), |word| {
        let found = SslNegotiation::ALL.into_iter().find(|negotiation| negotiation.name() == word);
        found.ok_or_else(|| UrlError::ssl_negotiation(&word))
    })?;
    let is_tcp = matches!(host, ServerHost::Tcp(_));
    if is_tcp && is_system && ssl_mode != SslMode::VerifyFull {
        return Err(UrlError::WeakMode {
            mode: ssl_mode.name(),
            parameter: "sslrootcert=system",
            needs: "verify-full",
        });
    }
    if is_tcp && ssl_negotiation == SslNegotiation::Direct && ssl_mode < SslMode::Require {
        return Err(UrlError::WeakMode { mode: ssl_mode.name(), parameter: "sslnegotiation=direct", needs: "require" });
    }
    let ssl_certificate = match (said.remove("sslcert"), said.remove("sslkey")) {
        (Some(certificate), Some(key)) => Some(ClientCertificate { certificate: certificate.into(), key: key.into() }),
        (Some(_), None) if is_tcp => return Err(UrlError::Half { given: "sslcert", missing: "sslkey" }),
        (None, Some(_)) if is_tcp => return Err(UrlError::Half { given: "sslkey", missing: "sslcert" }),
        _ => None,
    };
    let home = environment("HOME").map(PathBuf::from);
    let usual = home.map(|home| home.join(".postgresql/root.crt")).filter(|file| file.is_file());
    Ok(ServerUrl {
        host,
        port,
        database: said.remove("dbname").filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone()),
        user,
        password: said.remove("password").map(Password),
        ssl_mode,
        ssl_negotiation,
        ssl_root_certificate: said.remove("sslrootcert").map(PathBuf::from).or(usual),
        ssl_certificate,
        application_name: said.remove("application_name").unwrap_or_else(|| "plimsoll".to_owned()),
        connect_timeout: said.remove("connect_timeout").map_or(Ok(CONNECT_TIMEOUT_DEFAULT), |value| timeout(&value))?,
    })
}

/// The name of the user that this process runs as, which is libpq's default.
pub fn account_name() -> Option<String> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = accounts.lines().find(|line| line.split(':').nth(2) == Some(user.as_str()))?;
    line.split(':').next().map(str::to_owned)
}

/// Seconds. 0 or less means no limit in libpq, and an hour here, longer than any user waits. 1 is raised to 2, as in
/// libpq, because one second may end at once.
fn timeout(value: &str) -> Result<Duration, UrlError> {
    let seconds: i64 = value.trim().parse().map_err(|_| UrlError::Timeout(value.to_owned()))?;
    Ok(Duration::from_secs(if seconds <= 0 { 3_600 } else { seconds.clamp(2, 3_600).unsigned_abs() }))
}

/// The first of the usual folders that exists; if none does, this machine by TCP.
fn default_host() -> ServerHost {
    let folder = SOCKET_FOLDERS.iter().map(PathBuf::from).find(|folder| folder.is_dir());
    folder.map_or_else(|| ServerHost::Tcp("localhost".to_owned()), ServerHost::Socket)
}

#[cfg(test)]
mod tests;
