//! A PostgreSQL server of our own, that comes and goes.
//!
//! [`PrivateServer::start`] finds what is installed (`installation`), makes a cluster in a folder that will be removed
//! (`home`), and starts the server as a user with few rights if we are root. `settings` and `options` say how it is
//! set. It is reached through a socket that only that user and root can get at, and through nothing else.
//!
//! Dropping it ends its processes and removes its folder. A process that is killed drops nothing: then a shell that
//! watches over the server ends it (`running`), and a record (`record`), written before anything was made, lets the next
//! one that starts a server, or asks for it with [`clean_up_leftovers`], remove what is left.
//!
//! The server has no control group of its own while nothing is limited. A group in the hierarchy that shares out cores
//! counts as one there: all backends together would get as much as a single thread of a client beside them, and what is
//! measured without limits would not be without. A limit makes a group, and takes in the first process and everything
//! that it has started; what it starts later is born within. So the footprint names the first process only, which stays the
//! same from limit to limit while backends and workers come and go.

mod account;
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

use plimsoll_workload::database::Footprint;

use account::Account;
use cluster::{DATABASE, USER};
use configuration::PORT;
pub(crate) use configuration::SLOT;
pub use error::ServerError;
use home::{Home, default_bases};
pub use installation::{Installation, SUPPORTED, Version};
pub use leftovers::clean_up_leftovers;
pub use options::{DOP_MAX, Effect, SERVER_OPTIONS, ServerOption};
use running::Running;
pub use settings::{Isolation, ServerSettings};
use standby::Standby;

/// A running server of ours. Dropping it stops it and removes everything it had.
#[derive(Debug)]
pub struct PrivateServer {
    /// `None` also while it is made anew. Dropped first, so that it does not look for a primary that has gone.
    standby: Option<Standby>,
    /// `None` only while it is started again. Dropped before the home, in which it lives.
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

/// What became of new settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// They were no other than before.
    Nothing,
    /// Sessions that are opened from now on have them.
    InSessions,
    /// The server has them.
    Reloaded,
    /// The server was started again with its data; every session has ended.
    Restarted,
    /// Nothing was done: only a new server can have them.
    NeedsNewServer,
}

/// Until a server has read its configuration again.
const RELOAD_MAX: Duration = Duration::from_secs(10);

impl PrivateServer {
    /// Makes a new server and waits until it takes connections. Before that, cleans up after others that were killed.
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
        let running = Running::start(&installation, &mut home, account.as_ref(), false)?;
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
        server.make_standby()?;
        Ok(server)
    }

    /// Makes the standby that the settings ask for, anew if there was one.
    fn make_standby(&mut self) -> Result<(), ServerError> {
        self.standby = None;
        if self.settings.has_standby() {
            self.standby = Some(Standby::make(self, &plimsoll_machine::limiter::default_state_folder())?);
        }
        Ok(())
    }

    /// The folder of the standby's socket, as clients take it for a host; `None` without a standby. The port, user and database are
    /// the server's. Another folder after a restart.
    pub fn standby_socket_folder(&self) -> Option<PathBuf> {
        self.standby.as_ref().map(Standby::socket_folder)
    }

    /// The number of the standby's first process; `None` without a standby.
    pub fn standby_postmaster(&self) -> Option<i32> {
        self.standby.as_ref().map(|standby| standby.running().postmaster().id)
    }

    /// What is wrong with the standby, with the end of its log; `None` if it runs, or there is none.
    pub(crate) fn standby_fault(&self) -> Option<String> {
        let standby = self.standby.as_ref().filter(|standby| !standby.is_alive())?;
        Some(format!("the standby has ended; the end of its log:\n{}", standby.log_tail()))
    }

    /// The folder of its socket, `.s.PGSQL.PORT`, as clients take it for a host.
    pub fn socket_folder(&self) -> &Path {
        &self.socket_folder
    }

    /// The number in the name of its socket. It does not listen on the network.
    pub fn port(&self) -> u16 {
        PORT
    }

    /// Its only user, who may do everything and has no password.
    pub fn user(&self) -> &str {
        USER
    }

    /// The database to work in.
    pub fn database(&self) -> &str {
        DATABASE
    }

    /// The folder of its data.
    pub fn data_folder(&self) -> &Path {
        &self.data_folder
    }

    /// The last lines of its log, for messages of errors.
    pub fn log_tail(&self) -> String {
        log::tail(&self.log_file)
    }

    /// The number of its first process, which has started all others. Another one after a restart.
    pub fn postmaster(&self) -> i32 {
        self.running.as_ref().map_or(0, |running| running.postmaster().id)
    }

    /// The numbers of all of its processes at this moment, the first one first.
    pub fn processes(&self) -> Vec<i32> {
        self.running.as_ref().map(Running::processes).unwrap_or_default()
    }

    /// Whether its first process has not ended.
    pub fn is_alive(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_alive)
    }

    /// Which PostgreSQL it is.
    pub fn version(&self) -> Version {
        self.installation.version
    }

    /// Which PostgreSQL it is, and where its programs are.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// How it is set.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Whether it keeps statistics of statements, in the view `pg_stat_statements` of its database.
    pub fn has_statement_statistics(&self) -> bool {
        self.has_statement_statistics
    }

    /// What of this machine it uses: see the module.
    pub fn footprint(&self) -> Footprint {
        let primary = self.running.iter().map(|running| running.postmaster().id);
        let processes = primary.chain(self.standby_postmaster()).collect();
        Footprint { processes, folder: Some(self.data_folder.clone()) }
    }

    /// Goes over to other settings, while no client is connected. If they are refused, those from before hold.
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
            // The configuration is where sessions have them from that do not say otherwise.
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

    /// Stops the server in order and starts it again with its data, with a new standby if it had one. Every session ends.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        // The primary would wait until it has sent all of its log.
        self.standby = None;
        let is_in_order = self.is_alive() && self.running.take().is_some_and(Running::stop_in_order);
        self.running = None;
        let running = Running::start(&self.installation, &mut self.home, self.account.as_ref(), !is_in_order)?;
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

/// Has a server read its configuration again, and waits until it says in its log that it has.
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

/// Writes the configuration file of a cluster, which stays its account's.
fn write_configuration(home: &Home, settings: &ServerSettings, with_statistics: bool) -> Result<(), ServerError> {
    let path = home.data().join("postgresql.conf");
    let text = configuration::text(settings, &home.socket_folder(), with_statistics);
    std::fs::write(&path, text).map_err(|error| ServerError::Folder { folder: path, why: error.to_string() })
}
