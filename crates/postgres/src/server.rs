//! A private PostgreSQL server, which exists for as long as its value.
//!
//! [`PrivateServer::start`] finds an installation (`installation`), creates a cluster in a temporary folder (`home`),
//! and starts the server as a user with few rights if we are root. `settings` and `options` describe its settings. It
//! is reached only through a socket that only that user and root can access.
//!
//! Dropping it ends its processes and removes its folder. A process that is killed drops nothing: then a shell that
//! watches over the server ends it (`running`). A record (`record`), written before anything was created, lets the next
//! process that starts a server, or calls [`clean_up_leftovers`], remove the rest.
//!
//! The server has no control group of its own while nothing is limited. The hierarchy that shares out cores counts a
//! group as one: all backends together would get as much as a single thread of a client beside them, and measurements
//! without limits would in fact be limited. A limit makes a group, and moves the first process and all of its
//! descendants into it; later ones are born in it. So the footprint names the first process only, which stays the same
//! from limit to limit while backends and workers start and end.

pub(crate) mod account;
mod cluster;
mod configuration;
mod disk;
mod error;
mod home;
mod installation;
mod leftovers;
mod log;
pub(crate) mod options;
mod quantity;
mod record;
mod room;
mod running;
mod settings;
mod shared_memory;
mod standby;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_pg::url::ServerUrl;
use plimsoll_workload::database::Footprint;

use account::Account;
use cluster::{DATABASE, USER};
use configuration::PORT;
pub(crate) use configuration::SLOT;
pub use error::ServerError;
use home::{Home, default_bases};
pub use installation::{Installation, Version};
pub use leftovers::clean_up_leftovers;
pub use options::{DOP_MAX, Effect, SERVER_OPTIONS, ServerOption};
use running::Running;
pub use settings::{Isolation, ServerSettings};
use standby::Standby;

use crate::copy::copy;

/// A running private server. Dropping it stops it and removes everything it had.
#[derive(Debug)]
pub struct PrivateServer {
    /// `None` also while it is recreated. Dropped first, so that it does not look for a primary that has stopped.
    standby: Option<Standby>,
    /// `None` only during a restart. Dropped before the home, in which it lives.
    running: Option<Running>,
    home: Home,
    installation: Installation,
    account: Option<Account>,
    settings: ServerSettings,
    socket_folder: PathBuf,
    data_folder: PathBuf,
    log_file: PathBuf,
    has_statement_statistics: bool,
}

/// How new settings were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// They equal the old ones.
    Nothing,
    /// Sessions that are opened from now on have them.
    InSessions,
    /// The server has them.
    Reloaded,
    /// The server was restarted with its data; every session has ended.
    Restarted,
    /// Nothing was done: they need a new server.
    NeedsNewServer,
}

/// The longest time until a server has reloaded its configuration.
const RELOAD_MAX: Duration = Duration::from_secs(10);

impl PrivateServer {
    /// Creates a new server and waits until it accepts connections. First cleans up after servers whose owners were
    /// killed.
    pub fn start(settings: ServerSettings) -> Result<PrivateServer, ServerError> {
        let state = plimsoll_machine::limiter::default_state_folder();
        leftovers::clean_up(&state, &default_bases());
        let installation = Installation::find(settings.bin_folder())?;
        let account = Account::choose()?;
        let mut home = Home::make(&settings, account.as_ref(), &state)?;
        let data = home.data();
        cluster::make(&installation, &data, account.as_ref())?;
        let has_statement_statistics = cluster::make_database(&installation, &data, account.as_ref())?;
        write_configuration(&home, &settings, has_statement_statistics)?;
        let running = Running::start(&settings.wrapper(), &installation, &mut home, account.as_ref(), false)?;
        let mut server = PrivateServer {
            standby: None,
            running: Some(running),
            socket_folder: home.socket_folder(),
            data_folder: data,
            log_file: home.log(),
            home,
            installation,
            account,
            settings,
            has_statement_statistics,
        };
        if let Some(from) = server.settings.copy_of() {
            copy(&from, &server.url(), &server.installation).map_err(Box::new)?;
        }
        server.make_standby()?;
        Ok(server)
    }

    /// Where its user reaches its database.
    pub fn url(&self) -> ServerUrl {
        ServerUrl::of_socket(self.socket_folder(), self.port(), self.user(), self.database())
    }

    /// Creates the standby that the settings ask for, again if there was one.
    fn make_standby(&mut self) -> Result<(), ServerError> {
        self.standby = None;
        if self.settings.has_standby() {
            self.standby = Some(Standby::make(self, &plimsoll_machine::limiter::default_state_folder())?);
        }
        Ok(())
    }

    /// The folder of the standby's socket, which clients use as the host; `None` without a standby. The port, user and
    /// database are the server's. A restart changes the folder.
    pub fn standby_socket_folder(&self) -> Option<PathBuf> {
        self.standby.as_ref().map(Standby::socket_folder)
    }

    /// The process id of the standby's postmaster; `None` without a standby.
    pub fn standby_postmaster(&self) -> Option<i32> {
        self.standby.as_ref().map(|standby| standby.running().postmaster().id)
    }

    /// The standby's fault, with the end of its log; `None` if it runs, or there is none.
    pub(crate) fn standby_fault(&self) -> Option<String> {
        let standby = self.standby.as_ref().filter(|standby| !standby.is_alive())?;
        Some(format!("the standby has ended; the end of its log:\n{}", standby.log_tail()))
    }

    /// The folder of its socket, `.s.PGSQL.PORT`, which clients use as the host.
    pub fn socket_folder(&self) -> &Path {
        &self.socket_folder
    }

    /// The port in the name of its socket. It does not listen on the network.
    pub fn port(&self) -> u16 {
        PORT
    }

    /// Its only user, a superuser without a password.
    pub fn user(&self) -> &str {
        USER
    }

    /// The database to use.
    pub fn database(&self) -> &str {
        DATABASE
    }

    /// The folder of its data.
    pub fn data_folder(&self) -> &Path {
        &self.data_folder
    }

    /// The last lines of its log, for error messages.
    pub fn log_tail(&self) -> String {
        log::tail(&self.log_file)
    }

    /// The process id of its postmaster, which has started all others. A restart changes it.
    pub fn postmaster(&self) -> i32 {
        self.running.as_ref().map_or(0, |running| running.postmaster().id)
    }

    /// The ids of all of its processes at this moment, the postmaster first.
    pub fn processes(&self) -> Vec<i32> {
        self.running.as_ref().map(Running::processes).unwrap_or_default()
    }

    /// Whether its postmaster runs.
    pub fn is_alive(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_alive)
    }

    /// Its version of PostgreSQL.
    pub fn version(&self) -> Version {
        self.installation.version
    }

    /// Its version of PostgreSQL, and where its programs are.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Its settings.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Whether it keeps statistics of statements, in the view `pg_stat_statements` of its database.
    pub fn has_statement_statistics(&self) -> bool {
        self.has_statement_statistics
    }

    /// The resources of this machine that it uses: see the module.
    pub fn footprint(&self) -> Footprint {
        let primary = self.running.iter().map(|running| running.postmaster().id);
        let processes = primary.chain(self.standby_postmaster()).collect();
        Footprint { processes, folder: Some(self.data_folder.clone()) }
    }

    /// Applies other settings, while no client is connected. If they are refused, the old ones remain in force.
    pub fn apply(&mut self, settings: ServerSettings) -> Result<Applied, ServerError> {
        let Some(effect) = self.settings.effect_of_change_to(&settings) else {
            self.settings = settings;
            return Ok(Applied::Nothing);
        };
        if effect == Effect::NewServer {
            return Ok(Applied::NeedsNewServer);
        }
        let before = std::mem::replace(&mut self.settings, settings);
        let changed = self.write_configuration().and_then(|()| match effect {
            Effect::Restart => self.restart().map(|()| Applied::Restarted),
            Effect::Reload => self.reload().map(|()| Applied::Reloaded),
            // Sessions that do not set them take them from the configuration.
            Effect::Session | Effect::NewServer => self.reload().map(|()| Applied::InSessions),
        });
        if changed.is_err() {
            self.settings = before;
            self.write_configuration()?;
            if effect == Effect::Restart {
                self.restart()?;
            }
        }
        changed
    }

    /// Shuts the server down cleanly and starts it again with its data, with a new standby if it had one. Every session
    /// ends.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        // The primary would wait until it had sent all of its log.
        self.standby = None;
        let is_in_order = self.is_alive() && self.running.take().is_some_and(Running::stop_in_order);
        self.running = None;
        let (wrapper, account) = (self.settings.wrapper(), self.account.as_ref());
        let running = Running::start(&wrapper, &self.installation, &mut self.home, account, !is_in_order)?;
        self.running = Some(running);
        self.make_standby()
    }

    fn write_configuration(&self) -> Result<(), ServerError> {
        let with_statistics = self.has_statement_statistics;
        write_configuration(&self.home, &self.settings, with_statistics)?;
        let standby = self.standby.as_ref();
        standby
            .map_or(Ok(()), |standby| write_configuration(standby.home(), &self.settings.on_standby(), with_statistics))
    }

    fn reload(&self) -> Result<(), ServerError> {
        self.running.as_ref().map_or(Ok(()), |running| reload(running, &self.log_file))?;
        self.standby.as_ref().map_or(Ok(()), |standby| reload(standby.running(), &standby.home().log()))
    }
}

/// Has a server reload its configuration, and waits until its log confirms that.
fn reload(running: &Running, log_file: &Path) -> Result<(), ServerError> {
    const SEEN: &str = "received SIGHUP, reloading configuration files";
    let refused = |why: &str| ServerError::NotApplied { why: why.to_owned(), log: log::tail(log_file) };
    let before = log::length(log_file);
    running.reload().map_err(|error| refused(&error.to_string()))?;
    let began = Instant::now();
    loop {
        let said = log::since(log_file, before);
        if said.contains("contains errors") {
            return Err(refused("there are errors in them"));
        }
        if said.contains(SEEN) {
            return Ok(());
        }
        if !running.is_alive() || began.elapsed() > RELOAD_MAX {
            return Err(refused("it does not answer"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes the configuration file of a cluster; its account remains the owner.
fn write_configuration(home: &Home, settings: &ServerSettings, with_statistics: bool) -> Result<(), ServerError> {
    let path = home.data().join("postgresql.conf");
    let text = configuration::text(settings, &home.socket_folder(), with_statistics);
    std::fs::write(&path, text).map_err(|error| ServerError::Folder { folder: path, why: error.to_string() })
}
