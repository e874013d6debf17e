//! Undoes one change from its note. Doing so twice does no harm, and a process, thread or file that has replaced the
//! changed one is left alone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::threads::{parent, started, threads};
use crate::control::{Origin, Undo};
use crate::groups::{OURS, PROCESSES, groups_of_ours_in, has_prefix, is_of_plimsoll, name_prefix};
use crate::host::Host;
use crate::process_tree::tree_of;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undone {
    /// There was nothing left to undo.
    Nothing,
    Done(String),
    Failed(String),
}

/// A group may be busy for moments after its last member has left.
const TRIES_MAX: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);
/// Other errors of the kernel do not go away by waiting.
const REFUSALS_MAX: usize = 3;

impl Undo {
    /// The folder to remove, if it is a group.
    pub(super) fn group(&self) -> Option<&str> {
        match self {
            Undo::RemoveGroup { folder, .. } | Undo::RemoveControlGroup { folder, .. } => Some(folder),
            _ => None,
        }
    }

    /// Whether both restore the same object, as noted at two moments.
    pub(super) fn is_about_the_same(&self, other: &Undo) -> bool {
        match (self, other) {
            (Undo::WriteFile { path: one, .. }, Undo::WriteFile { path: other, .. }) => one == other,
            (Undo::Affinity { thread: one, started: since, .. }, Undo::Affinity { thread, started, .. })
            | (Undo::Nice { thread: one, started: since, .. }, Undo::Nice { thread, started, .. }) => {
                (one, since) == (thread, started)
            }
            (Undo::Register { register: one, .. }, Undo::Register { register, .. }) => one == register,
            _ => self.group().is_some() && self.group() == other.group(),
        }
    }
}

/// Undoes a change that the process `owner` made.
pub(crate) fn undo(host: &Host, undo: &Undo, owner: u32) -> Undone {
    match undo {
        Undo::RemoveGroup { folder, tasks_to } => {
            let above = Path::new(folder).parent().unwrap_or(Path::new("/"));
            let to = tasks_to.as_deref().map_or(above, Path::new);
            remove_group(host, Path::new(folder), OURS, &|_| to.to_owned())
        }
        Undo::RemoveControlGroup { folder, came_from } => {
            let to = |task: i32| origin(host, task, came_from, Path::new(folder));
            remove_group(host, Path::new(folder), &name_prefix(owner), &to)
        }
        Undo::WriteFile { path, text } => write_file(host, path, text),
        Undo::Affinity { thread, started, cores, since } => {
            let set = |thread: i32| host.set_affinity(thread, cores);
            for_thread(host, *thread, *started, *since, &set, &format!("may run on cores {cores:?} again"))
        }
        Undo::Nice { thread, started, nice, since } => {
            let set = |thread: i32| host.set_nice(thread, *nice);
            for_thread(host, *thread, *started, *since, &set, &format!("has nice value {nice} again"))
        }
        Undo::Register { register, values } => write_registers(host, *register, values),
    }
}

/// Moves the tasks of a group to their origins and removes the folder.
fn remove_group(host: &Host, folder: &Path, prefix: &str, to: &dyn Fn(i32) -> PathBuf) -> Undone {
    let shown = folder.display();
    if !has_prefix(folder, prefix) {
        return Undone::Failed(format!("{shown} is not a group of ours"));
    }
    if !host.exists(folder) {
        return Undone::Nothing;
    }
    // Control groups list whole processes, resctrl lists threads.
    let list = if host.exists(folder.join(PROCESSES)) { PROCESSES } else { "tasks" };
    let mut moved = 0;
    let (mut last_error, mut refusals) = (String::new(), 0);
    for _ in 0..TRIES_MAX {
        let refused_before = refusals;
        // A governor that was killed may have left groups of its own within.
        let below = groups_of_ours_in(host, folder);
        let folders = below.iter().map(PathBuf::as_path).chain([folder]);
        let listed: Vec<String> = folders.filter_map(|folder| host.text(folder.join(list))).collect();
        for task in listed.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().parse::<i32>().ok()) {
            let target = existing(host, to(task)).join(list);
            match host.write(&target, &task.to_string()) {
                Ok(()) => moved += 1,
                Err(_) if started(host, task).is_none() => {}
                Err(error) => {
                    refusals += usize::from(!is_busy(&error));
                    last_error = format!("task {task} to {}: {error}", target.display());
                }
            }
        }
        // A group that is not empty yet also prevents the removal of ours.
        below.iter().for_each(|group| drop(host.remove_folder(group)));
        match host.remove_folder(folder) {
            Ok(()) => return Undone::Done(format!("removed the group {shown}, {moved} tasks moved back")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Undone::Nothing,
            Err(error) => {
                refusals += usize::from(!is_busy(&error));
                if last_error.is_empty() {
                    last_error = error.to_string();
                }
            }
        }
        match refusals {
            REFUSALS_MAX.. => break,
            _ if refusals == refused_before => std::thread::sleep(PAUSE),
            _ => {}
        }
    }
    Undone::Failed(format!("cannot remove the group {shown}: {last_error}"))
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The folder, or the nearest existing one above it.
fn existing(host: &Host, folder: PathBuf) -> PathBuf {
    folder.ancestors().find(|folder| host.exists(folder)).map(Path::to_owned).unwrap_or(folder)
}

/// The origin of a process; if it began in the group, that of its nearest ancestor with one.
fn origin(host: &Host, process: i32, came_from: &[Origin], folder: &Path) -> PathBuf {
    const GENERATIONS_MAX: usize = 64;
    let mut ancestor = Some(process);
    for _ in 0..GENERATIONS_MAX {
        let Some(number) = ancestor else { break };
        let known = came_from.iter().find(|origin| {
            origin.process == number && started(host, number).is_none_or(|started| started == origin.started)
        });
        if let Some(origin) = known {
            return PathBuf::from(&origin.folder);
        }
        ancestor = parent(host, number).filter(|parent| *parent > 1);
    }
    match came_from.first() {
        Some(origin) => PathBuf::from(&origin.folder),
        None => folder.parent().unwrap_or(folder).to_owned(),
    }
}

fn write_file(host: &Host, path: &str, text: &str) -> Undone {
    // Plimsoll changes only such files, and a journal may contain anything.
    let is_of_kernel = ["/proc/", "/sys/"].iter().any(|start| path.starts_with(start));
    // Control groups and resctrl may be mounted anywhere; there Plimsoll writes only to files of its own groups.
    let is_of_ours = Path::new(path).parent().is_some_and(is_of_plimsoll);
    if path.contains("/../") || !(is_of_kernel || is_of_ours) {
        return Undone::Failed(format!("{path} is not a file of the kernel"));
    }
    match host.write(path, text) {
        Ok(()) => Undone::Done(format!("wrote {:?} to {path}", text.trim())),
        // Its original group no longer exists.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Undone::Nothing,
        Err(error) => Undone::Failed(format!("cannot write {:?} to {path}: {error}", text.trim())),
    }
}

/// Restores a thread; if it is the first of its process, also the threads that have inherited from it since.
fn for_thread(
    host: &Host,
    thread: i32,
    began: u64,
    since: Option<u64>,
    set: &dyn Fn(i32) -> io::Result<()>,
    told: &str,
) -> Undone {
    if started(host, thread) != Some(began) {
        return Undone::Nothing;
    }
    let mut affected = vec![thread];
    if let Some(since) = since {
        let heirs = tree_of(host, &[thread]).into_iter().flat_map(|process| threads(host, process));
        let later = heirs.filter(|heir| heir.started >= since && heir.id != thread);
        affected.extend(later.map(|heir| heir.id));
    }
    let mut failed = None;
    for thread in &affected {
        if let Err(error) = set(*thread)
            && started(host, *thread).is_some()
        {
            failed.get_or_insert_with(|| format!("cannot set thread {thread} back: {error}"));
        }
    }
    if let Some(failed) = failed {
        return Undone::Failed(failed);
    }
    Undone::Done(format!(
        "thread {thread} {told}{}",
        match affected.len() {
            1 => String::new(),
            all => format!(", with {} that it passed it on to", all - 1),
        }
    ))
}

fn write_registers(host: &Host, register: u32, values: &BTreeMap<usize, u64>) -> Undone {
    let mut failed = None;
    // An offline core must not prevent restoring the others.
    for (core, value) in values {
        if let Err(error) = host.set_register(*core, register, *value) {
            failed.get_or_insert_with(|| {
                format!("cannot write {value:#x} to register {register:#x} of core {core}: {error}")
            });
        }
    }
    if let Some(failed) = failed {
        return Undone::Failed(failed);
    }
    Undone::Done(format!("register {register:#x} of {} cores has its value again", values.len()))
}
