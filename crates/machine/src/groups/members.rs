//! Moves the processes that are to be limited into a control group of ours.

pub(super) mod folder;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::make::base;
use super::{CORES, Cgroups, Controller, PROCESSES, groups_of_ours_in, is_ours, make_folder, name_prefix, write};
use crate::availability::Availability;
use crate::control::threads::{Thread, living, started, threads};
use crate::control::{ControlContext, ControlError, Origin, Subject, Undo};
use crate::host::Host;

/// How often we look for a process in the list of its group, and how long we wait in between. Version 1 counts the
/// processes first and then lists that many; if some begin in between, as in a server to which many clients connect, it
/// leaves others out. Also, a process that is just being created appears in the root group, which does not list it.
const LISTINGS: usize = 5;
const LISTING_PAUSE: Duration = Duration::from_millis(10);

/// A group that we made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    folder: PathBuf,
    /// Whether it is of version 2.
    pub unified: bool,
}

/// The groups of one process: its own, then those above it.
pub(super) struct Member {
    process: i32,
    pub(super) unified: bool,
    pub(super) groups: Vec<PathBuf>,
}

impl Member {
    pub(super) fn of(host: &Host, process: i32, controller: Controller) -> Result<Member, Availability> {
        for listing in 0..LISTINGS {
            if listing > 0 {
                std::thread::sleep(LISTING_PAUSE);
            }
            let cgroups = Cgroups::of_process(host, &process.to_string());
            let (unified, groups) = cgroups.standing(controller)?;
            let listed = host.text(groups[0].join(PROCESSES)).unwrap_or_default();
            if listed.lines().any(|line| line.trim().parse() == Ok(process)) {
                return Ok(Member { process, unified, groups: from_ours(groups).to_vec() });
            }
        }
        let reason = format!("the control group of process {process} cannot be seen from here");
        Err(Availability::no(reason, Some("run outside of the container, beside the database")))
    }

    /// The group that it is in, or was in before we moved it to ours, then those above.
    fn origin_groups(&self) -> &[PathBuf] {
        if is_ours(&self.groups[0]) { &self.groups[1..] } else { &self.groups }
    }
}

/// The groups from ours upwards, if there is one. A process in a group below ours, such as a governor's, still counts
/// as in ours.
fn from_ours(groups: &[PathBuf]) -> &[PathBuf] {
    &groups[groups.iter().rposition(|group| is_ours(group)).unwrap_or(0)..]
}

/// The living members of the subject; at least one.
fn members(host: &Host, subject: &Subject, controller: Controller) -> Result<Vec<Member>, Availability> {
    let members: Vec<Member> = living(host, &subject.processes)
        .into_iter()
        .filter_map(|process| match Member::of(host, process, controller) {
            // A process that has ended in the meantime needs no limit.
            Err(_) if living(host, &[process]).is_empty() => None,
            found => Some(found),
        })
        .collect::<Result<_, _>>()?;
    if members.is_empty() {
        return Err(Availability::no("none of the processes to limit is running", None));
    }
    Ok(members)
}

/// Makes a group with the controller, if there is none yet, and moves the subject's processes into it.
pub(crate) fn join(
    context: &mut ControlContext<'_>,
    control: &str,
    controller: Controller,
) -> Result<Group, ControlError> {
    let host = context.host;
    let refuse = |refusal: Availability| refusal.error(control);
    let members = members(host, context.subject, controller).map_err(refuse)?;
    let unified = members[0].unified;
    let folder = match members.iter().find(|member| is_ours(&member.groups[0])) {
        Some(member) => member.groups[0].clone(),
        None => {
            let all_below = |group: &&PathBuf| members.iter().all(|member| member.groups[0].starts_with(group));
            let common: Vec<PathBuf> = members[0].groups.iter().filter(all_below).cloned().collect();
            let base = base(host, &common, unified, controller).map_err(refuse)?;
            base.join(format!("{}{}", name_prefix(std::process::id()), members[0].process))
        }
    };
    let group = Group { folder, unified };
    let mut came_from = Vec::new();
    for member in &members {
        if !unified {
            same_group_for_all_threads(host, member, controller).map_err(refuse)?;
        }
        let Some(from) = member.origin_groups().first() else { continue };
        let Some(started) = started(host, member.process) else { continue };
        came_from.push(Origin { process: member.process, started, folder: from.display().to_string() });
    }
    for member in members.iter().filter(|member| member.groups[0] != group.folder) {
        note_narrow_affinity(context, member, controller)?;
    }
    context.undo.note(Undo::RemoveControlGroup { folder: group.folder.display().to_string(), came_from })?;
    make_folder(host, &group.folder)?;
    if !unified && controller == CORES {
        group.fill_cpuset(host)?;
    }
    for member in members.iter().filter(|member| member.groups[0] != group.folder) {
        group.take(host, member.process)?;
    }
    Ok(group)
}

/// Notes the cores of threads that are bound to fewer cores than their group has. A thread that joins a cpuset may run
/// on all of its cores, and before Linux 6.2 the kernel does not remember the thread's own affinity. This is noted
/// before the group, so it is undone after the thread has returned.
fn note_narrow_affinity(
    context: &mut ControlContext<'_>,
    member: &Member,
    controller: Controller,
) -> Result<(), ControlError> {
    const FILES: [&str; 3] = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    // In version 2 a cpuset may come with any other controller.
    if !member.unified && controller != CORES {
        return Ok(());
    }
    let of_group = |folder: &PathBuf| FILES.iter().find_map(|file| context.host.cores(folder.join(file)));
    let Some(all) = member.groups.iter().find_map(of_group) else { return Ok(()) };
    for thread in threads(context.host, member.process) {
        if thread.cores.len() < all.len() && thread.cores.iter().all(|core| all.contains(core)) {
            let Thread { id, started, cores, .. } = thread;
            context.undo.note(Undo::Affinity { thread: id, started, cores, since: None })?;
        }
    }
    Ok(())
}

/// Version 1 lets threads of one process be in different groups. Moving the process would lose the group of each
/// thread.
fn same_group_for_all_threads(host: &Host, member: &Member, controller: Controller) -> Result<(), Availability> {
    for thread in threads(host, member.process) {
        let cgroups = Cgroups::of_process(host, &format!("{}/task/{}", member.process, thread.id));
        if let Ok((_, groups)) = cgroups.standing(controller)
            && from_ours(groups).first() != member.groups.first()
        {
            let reason = format!("threads of process {} are in different control groups", member.process);
            return Err(Availability::no(reason, Some("move them into one")));
        }
    }
    Ok(())
}

/// Our group that holds the whole subject; otherwise the reason why there is none.
pub(crate) fn find(host: &Host, subject: &Subject, controller: Controller) -> Result<Group, String> {
    let members = members(host, subject, controller).map_err(|refusal| refusal.reason)?;
    let first = &members[0];
    match members.iter().find(|member| !is_ours(&member.groups[0]) || member.groups[0] != first.groups[0]) {
        None => Ok(Group { folder: first.groups[0].clone(), unified: first.unified }),
        Some(member) => Err(format!(
            "process {} is not in the group that is limited, but in {}",
            member.process,
            member.groups[0].display()
        )),
    }
}

impl Group {
    pub fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn parent(&self) -> &Path {
        self.folder.parent().expect("a group of ours lies below another")
    }

    /// Writes to a file of the group; writing `free` lifts the limit again.
    pub fn set(
        &self,
        context: &mut ControlContext<'_>,
        control: &str,
        file: &str,
        text: &str,
        free: &str,
    ) -> Result<(), ControlError> {
        let path = self.file(file);
        if !context.host.exists(&path) {
            let reason = format!("the group {} has no {file}", self.folder.display());
            return Err(ControlError::unavailable(control, reason, Some("a kernel that offers it")));
        }
        context.undo.note(Undo::WriteFile { path: path.clone(), text: free.to_owned() })?;
        self.write(context.host, file, text)
    }

    fn write(&self, host: &Host, file: &str, text: &str) -> Result<(), ControlError> {
        assert!(is_ours(&self.folder), "only groups that we made are ever written to");
        write(host, &self.folder, file, text)
    }

    /// A cpuset of version 1 takes no process before it has cores and memory nodes.
    fn fill_cpuset(&self, host: &Host) -> Result<(), ControlError> {
        for (file, effective) in [("cpuset.cpus", "cpuset.effective_cpus"), ("cpuset.mems", "cpuset.effective_mems")] {
            if host.text(self.file(file)).is_some_and(|text| !text.is_empty()) {
                continue;
            }
            let above = [effective, file].iter().find_map(|name| host.text(self.parent().join(name)));
            self.write(host, file, &above.unwrap_or_default())?;
        }
        Ok(())
    }

    fn take(&self, host: &Host, process: i32) -> Result<(), ControlError> {
        match self.write(host, PROCESSES, &process.to_string()) {
            // It has ended in the meantime.
            Err(_) if living(host, &[process]).is_empty() => Ok(()),
            taken => taken,
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folders of groups that a Plimsoll has made below it.
    pub fn below(&self, host: &Host) -> Vec<PathBuf> {
        groups_of_ours_in(host, &self.folder)
    }

    /// Its processes, including those that began within it and those in groups below.
    pub fn processes(&self, host: &Host) -> Vec<i32> {
        let folders = [vec![self.folder.clone()], self.below(host)].concat();
        let listed = folders.iter().filter_map(|folder| host.text(folder.join(PROCESSES)));
        listed.flat_map(|text| text.lines().filter_map(|line| line.trim().parse().ok()).collect::<Vec<i32>>()).collect()
    }
}
