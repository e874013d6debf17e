//! The control groups of classes: which ones each server process should be in, and a thread that moves it.
//!
//! A move takes the kernel 10 to 20 ms (version 1), so a separate thread does it and the agent does not wait. Moves are
//! therefore too expensive for sessions whose transactions change their class: a process is moved to the groups of a
//! class once its session has served it for [`SETTLED`], or has just begun. Until then it stays in the server's group,
//! so that a limit meant for others does not hold back important work.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_machine::groups::{GroupError, GroupFolder};
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::ProcessFacts;
use plimsoll_policy::ClassIndex;

use super::server::is_postgres;
use crate::settings::Settings;

/// How long a session must serve a class before its process is moved to that class's groups.
pub(super) const SETTLED: Duration = Duration::from_secs(1);

/// Folders of control groups, one for each hierarchy.
pub(super) type Folders = Arc<[PathBuf]>;

/// Requests groups for processes.
#[derive(Debug)]
pub(super) struct Groups {
    host: Host,
    wishes: BTreeMap<i32, Wish>,
    mover: Option<Mover>,
    troubles: Troubles,
    /// Whether a killed governor may have left processes in groups of classes.
    pub(super) may_be_left: bool,
    /// The groups of all classes, in that case.
    of_classes: Folders,
}

/// The groups that a process's session requests.
#[derive(Debug)]
struct Wish {
    folders: Folders,
    /// The class that it serves, and since when.
    class: ClassIndex,
    since: Instant,
    /// The groups last sent to the mover.
    told: Folders,
}

#[derive(Debug)]
struct Mover {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// Where a process must be moved; without folders, to its original groups.
#[derive(Debug)]
struct Order {
    process: i32,
    postmaster: ProcessIdentity,
    folders: Folders,
    /// Groups of classes that it must leave for those of the server's first process, even if another governor moved it
    /// there.
    leaves: Folders,
}

/// Why processes are misplaced, by process ID, and whether that has changed since it was reported.
#[derive(Debug, Clone, Default)]
struct Troubles(Arc<Mutex<(BTreeMap<i32, String>, bool)>>);

impl Groups {
    pub(super) fn new(host: Host) -> Self {
        Groups {
            host,
            wishes: BTreeMap::new(),
            mover: None,
            troubles: Troubles::default(),
            may_be_left: false,
            of_classes: Folders::default(),
        }
    }

    /// The groups of all classes, which processes may have to leave.
    pub(super) fn of_classes(&mut self, settings: &Settings) {
        if self.may_be_left {
            let folders = settings.classes.iter().flat_map(|class| class.control_groups.iter().cloned());
            self.of_classes = folders.collect::<Vec<_>>().into();
        }
    }

    /// Whether any process is, or should be, in a group of a class.
    pub(super) fn has_any(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// Requests the groups for a process that serves a class.
    pub(super) fn wish(
        &mut self,
        process: i32,
        class: ClassIndex,
        folders: &Folders,
        postmaster: ProcessIdentity,
        now: Instant,
    ) {
        if folders.is_empty() && !self.wishes.contains_key(&process) && self.of_classes.is_empty() {
            return;
        }
        let mut begins = false;
        let wish = self.wishes.entry(process).or_insert_with(|| {
            begins = true;
            Wish { folders: Folders::clone(folders), class, since: now, told: Folders::default() }
        });
        if wish.class != class {
            (wish.class, wish.since, begins) = (class, now, false);
        }
        if wish.folders != *folders {
            wish.folders = Folders::clone(folders);
        }
        let is_settled = begins || now.saturating_duration_since(wish.since) >= SETTLED;
        let place = if is_settled || wish.told == wish.folders { &wish.folders } else { &Folders::default() };
        if wish.told != *place || begins && !self.of_classes.is_empty() {
            wish.told = Folders::clone(place);
            let leaves = Folders::clone(&self.of_classes);
            let order = Order { process, postmaster, folders: Folders::clone(place), leaves };
            let mover = self.mover.get_or_insert_with(|| Mover::start(self.host.clone(), self.troubles.clone()));
            // If the mover could not be started, it has reported that.
            let _ = mover.orders.send(order);
        }
    }

    /// Puts a parallel worker in its leader's groups.
    pub(super) fn follow(&mut self, worker: i32, leader: i32, postmaster: ProcessIdentity, now: Instant) {
        // Workers need no group if their leader has none.
        let Some(wish) = self.wishes.get(&leader) else { return };
        let (class, folders) = (wish.class, Folders::clone(&wish.told));
        self.wish(worker, class, &folders, postmaster, now);
    }

    /// Drops processes for which `is_there` is false.
    pub(super) fn keep(&mut self, is_there: impl Fn(i32) -> bool) {
        self.wishes.retain(|process, _| is_there(*process));
        self.troubles.change(|troubles| troubles.retain(|process, _| is_there(*process)));
    }

    /// Moves all processes back to their original groups, and waits for that.
    pub(super) fn put_back(&mut self) {
        self.wishes.clear();
        if let Some(Mover { orders, thread }) = self.mover.take() {
            drop(orders);
            if thread.join().is_err() {
                tracing::error!("the thread that moves processes between control groups has panicked");
            }
        }
        self.troubles.change(BTreeMap::clear);
    }

    /// Whether the list of misplaced processes has changed.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.troubles.0.lock().1)
    }

    /// The misplaced processes, and the reasons.
    pub(super) fn troubles(&self) -> Vec<(i32, String)> {
        self.troubles.0.lock().0.iter().map(|(process, why)| (*process, why.clone())).collect()
    }
}

impl Troubles {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<i32, String>)) {
        let (list, is_new) = &mut *self.0.lock();
        let before = list.len();
        change(list);
        *is_new |= list.len() != before;
    }
}

impl Mover {
    fn start(host: Host, troubles: Troubles) -> Self {
        let (orders, received) = mpsc::channel();
        let work = move || Moves { host, troubles, homes: HashMap::new() }.run(&received);
        let thread = thread::Builder::new().name("groups".to_owned()).spawn(work).unwrap_or_else(|error| {
            tracing::error!("processes cannot be moved between control groups: {error}");
            thread::spawn(|| ())
        });
        Mover { orders, thread }
    }
}

/// The state of the mover.
struct Moves {
    host: Host,
    troubles: Troubles,
    /// The original group of each moved process, in each hierarchy.
    homes: HashMap<ProcessIdentity, Vec<GroupFolder>>,
}

impl Moves {
    fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            // During a move more orders may have arrived; only the last for each process counts.
            let mut last: BTreeMap<i32, Order> = BTreeMap::from([(order.process, order)]);
            last.extend(orders.try_iter().map(|order| (order.process, order)));
            for order in last.into_values() {
                self.carry_out(&order);
            }
            let host = &self.host;
            self.homes.retain(|process, _| process.is_running(host));
        }
        for (process, homes) in std::mem::take(&mut self.homes) {
            self.send_home(process, &homes);
        }
    }

    fn carry_out(&mut self, order: &Order) {
        let facts = ProcessFacts::of(&self.host, order.process);
        let facts = facts.filter(|facts| facts.parent == order.postmaster.id && is_postgres(facts));
        // It has ended, or another process has its number now.
        let Some(process) = facts.map(|facts| facts.identity) else { return };
        if let Some(homes) = self.homes.remove(&process) {
            self.send_home(process, &homes);
        }
        self.leave(process, order);
        let mut trouble = None;
        for folder in order.folders.iter() {
            match self.place(process, folder.clone()) {
                Ok(()) => {}
                Err(GroupError::Ended(_)) => return,
                Err(error) => trouble = Some(error.to_string()),
            }
        }
        self.troubles.change(|troubles| {
            troubles.remove(&process.id);
            troubles.extend(trouble.map(|why| (process.id, why)));
        });
    }

    /// Moves a process out of groups in which a killed governor has left it.
    fn leave(&self, process: ProcessIdentity, order: &Order) {
        for folder in order.leaves.iter() {
            let Ok(group) = GroupFolder::at(&self.host, folder.clone()) else { continue };
            let is_there = group.beside(&self.host, process).as_ref() == Some(&group);
            let home = group.beside(&self.host, order.postmaster).filter(|home| is_there && *home != group);
            self.send_home(process, home.as_slice());
        }
    }

    fn place(&mut self, process: ProcessIdentity, folder: PathBuf) -> Result<(), GroupError> {
        let group = GroupFolder::at(&self.host, folder)?;
        let Some(home) = group.beside(&self.host, process) else { return Err(GroupError::Ended(process.id)) };
        // Noted first, so that even a failed move is undone.
        self.homes.entry(process).or_default().push(home);
        group.take(&self.host, process)
    }

    fn send_home(&self, process: ProcessIdentity, homes: &[GroupFolder]) {
        for home in homes {
            match home.take(&self.host, process) {
                Ok(()) | Err(GroupError::Ended(_)) => {}
                Err(error) => {
                    tracing::warn!(%error, "a server process stays in its class's group until its session ends")
                }
            }
        }
    }
}
