//! Whole processes in one group: made when first needed, found again by its name, and shared by all controls of resctrl.

use std::collections::BTreeSet;

use super::Resctrl;
use super::group::Group;
use crate::availability::Availability;
use crate::control::threads::thread_ids;
use crate::control::{ControlContext, ControlError, Subject, Undo};
use crate::groups::{is_of_plimsoll, name_prefix};
use crate::host::Host;
use crate::process_tree::tree_of;

/// The name of the group that the controls of this process make for a subject: our own id, and that of its first process. A
/// group that another Plimsoll left behind has another name, so that its limits are never taken for ours.
pub(crate) fn group_name(subject: &Subject) -> String {
    format!("{}{}", name_prefix(std::process::id()), subject.processes.first().copied().unwrap_or(0))
}

/// The name of the group for one class of a subject's threads ([`class_groups`](super::class_groups)).
pub(super) fn class_group_name(subject: &Subject, class: &str) -> String {
    format!("{}-{class}", group_name(subject))
}

/// The groups for classes of a subject's threads, if there are any. Threads in them have fewer ways than the subject, never more.
pub fn class_groups(resctrl: &Resctrl, subject: &Subject) -> Vec<Group> {
    let prefix = class_group_name(subject, "");
    let names = resctrl.group_names().into_iter().filter(|name| name.starts_with(&prefix));
    names.map(|name| resctrl.at(name)).collect()
}

fn in_classes(resctrl: &Resctrl, subject: &Subject) -> BTreeSet<i32> {
    // One that has just gone has no tasks.
    class_groups(resctrl, subject).iter().flat_map(|group| group.tasks().unwrap_or_default()).collect()
}

/// The group of a subject, made if there is none yet. No thread is moved: first the group gets its shares, so that no thread
/// runs with others in between; then [`move_threads`]. The threads go back to the group they came from; a place in one of its
/// monitoring groups is not restored.
pub fn enter(resctrl: &Resctrl, context: &mut ControlContext<'_>, control: &str) -> Result<Group, ControlError> {
    let name = group_name(context.subject);
    let threads = threads(context.host, context.subject);
    if threads.is_empty() {
        return Err(ended(context.subject).error(control));
    }
    if let Some(group) = resctrl.find(&name) {
        // Another control has made it and noted where the threads came from. Noted again, for this control needs it too, it
        // is the first note that counts.
        context.undo.note(Undo::RemoveGroup { folder: group.folder(), tasks_to: None })?;
        return Ok(group);
    }
    let own = threads.difference(&in_classes(resctrl, context.subject)).copied().collect();
    let home = home(resctrl, &own).map_err(|absent| absent.error(control))?;
    resctrl.make(&name, home.map(|home| home.folder()), context.undo)
}

/// Moves every thread of the subject into its group, and looks again until a look finds none outside: a thread that is made
/// by one that was moved already belongs to the group, one that is made by another does not.
pub(crate) fn move_threads(group: &Group, host: &Host, subject: &Subject) -> Result<(), ControlError> {
    /// Each look finds only threads that began during the previous one, so a few looks are enough for any program that
    /// ends.
    const LOOKS_MAX: usize = 32;
    for _ in 0..LOOKS_MAX {
        let outside = outside(group, host, subject)?;
        if outside.is_empty() {
            return Ok(());
        }
        for thread in outside {
            group.add_task_if_alive(thread)?;
        }
    }
    let error = std::io::Error::other(format!("after {LOOKS_MAX} looks there are still threads outside of it"));
    Err(ControlError::Refused { doing: "move all threads to".to_owned(), path: group.folder(), error, told: None })
}

/// The threads of the subject that are neither in the group nor in one for a class.
fn outside(group: &Group, host: &Host, subject: &Subject) -> Result<BTreeSet<i32>, ControlError> {
    // List threads first: a thread that a member starts in between is a member, and must not look like an unrelated
    // one.
    let threads = threads(host, subject);
    let mut inside = group.tasks()?;
    inside.extend(in_classes(group.resctrl(), subject));
    Ok(threads.difference(&inside).copied().collect())
}

/// Why the subject is not all in its group; `None` if it is.
pub(crate) fn why_outside(group: &Group, host: &Host, subject: &Subject) -> Option<String> {
    let all = threads(host, subject);
    if all.is_empty() {
        return Some(ended(subject).reason);
    }
    match outside(group, host, subject) {
        Ok(outside) => outside.first().map(|first| {
            let left: Vec<&i32> = outside.iter().collect();
            format!("{} of {} threads are not in {}, thread {first} for one", left.len(), all.len(), group.folder())
        }),
        Err(error) => Some(error.to_string()),
    }
}

fn ended(subject: &Subject) -> Availability {
    let processes: Vec<String> = subject.processes.iter().map(i32::to_string).collect();
    Availability::no(format!("no process of {} is running", processes.join(", ")), None)
}

/// The group that the threads are in, to which they go back; `None` for the default group.
pub(super) fn home(resctrl: &Resctrl, threads: &BTreeSet<i32>) -> Result<Option<Group>, Availability> {
    let count = |group: Group| {
        let here = group.tasks().map_or(0, |tasks| tasks.intersection(threads).count());
        (here > 0).then_some((group, here))
    };
    let others = resctrl.group_names().into_iter().map(|name| resctrl.at(name));
    let homes: Vec<(Group, usize)> = others.filter_map(count).collect();
    match homes.as_slice() {
        [] => Ok(None),
        [(group, _), ..] if is_of_plimsoll(group.path()) => {
            let reason = format!("its threads are in {}, which another Plimsoll uses or left behind", group.folder());
            Err(Availability::no(reason, Some("wait until it has ended, or run: plimsoll machine --restore")))
        }
        [(group, here)] if *here == threads.len() => Ok(Some(group.clone())),
        homes => {
            let folders: Vec<String> = homes.iter().map(|(group, _)| group.folder()).collect();
            let reason = format!(
                "its threads are in several groups ({} and others), which could not be put back",
                folders.join(", ")
            );
            Err(Availability::no(reason, Some("write all threads to the tasks file of one group first")))
        }
    }
}

/// Every thread of the processes and of their descendants; those that ended are left out. So are the descendants of this
/// very process, where an embedded database is the subject: they are hogs and other helpers beside it.
pub fn threads(host: &Host, subject: &Subject) -> BTreeSet<i32> {
    let is_own = |process: &i32| process.cast_unsigned() == std::process::id();
    let (own, others): (Vec<i32>, Vec<i32>) = subject.processes.iter().copied().partition(is_own);
    let all = tree_of(host, &others).into_iter().chain(own);
    all.flat_map(|process| thread_ids(host, process)).collect()
}
