//! Control groups of our own: where they may be made, and moving processes into them.
//!
//! A group of ours lies below the group that the subject is in, so that existing limits still apply. Plimsoll writes
//! only to such groups. It reads others, and returns processes to the ones they came from.
//!
//! In version 2 a group that has processes offers no controllers to groups below it (the rule of no internal
//! processes), and its maker decides what it offers. Our group therefore lies below the nearest group above the subject
//! that offers the controller, provided that no group in between limits anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::MountInfos;

use super::threads::{Thread, living, started, threads};
use super::{ControlContext, ControlError, Origin, Subject, Undo};
use crate::availability::Availability;
use crate::cgroup::Cgroups;
use crate::host::Host;

/// A controller by its names in either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controller {
    pub v1: &'static str,
    pub v2: &'static str,
}

pub(crate) const CPU: Controller = Controller { v1: "cpu", v2: "cpu" };
/// Version 2 accounts for CPU time wherever the scheduler divides it.
pub(super) const CPU_TIME: Controller = Controller { v1: "cpuacct", v2: "cpu" };
pub(super) const CORES: Controller = Controller { v1: "cpuset", v2: "cpuset" };
pub(super) const MEMORY: Controller = Controller { v1: "memory", v2: "memory" };
pub(crate) const DISK: Controller = Controller { v1: "blkio", v2: "io" };
const WANTED: [Controller; 4] = [CPU, CORES, MEMORY, DISK];

const DELEGATE: &str = "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes PROGRAM";
const WRITABLE: &str =
    "let the container write to its control groups (docker run --cgroupns=private --privileged), or run outside of it";

const PROCESSES: &str = "cgroup.procs";

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
struct Member {
    process: i32,
    unified: bool,
    groups: Vec<PathBuf>,
}

/// The beginning of the names of groups that a Plimsoll with this process number makes.
pub(crate) fn name_prefix(process: u32) -> String {
    format!("plimsoll-{process}-")
}

/// The beginning of the names of groups that any Plimsoll makes.
pub(crate) const OURS: &str = "plimsoll-";

/// The folders of groups in a folder that a Plimsoll has made, this one or another.
pub(crate) fn groups_of_ours_in(host: &Host, folder: &Path) -> Vec<PathBuf> {
    let names = host.names(folder).into_iter().filter(|name| name.starts_with(OURS));
    names.map(|name| folder.join(name)).filter(|folder| host.exists(folder.join(PROCESSES))).collect()
}

/// Where a group for some of a process's children can be made.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The folder in which to make the group.
    pub base: PathBuf,
    /// The group that the process is in.
    pub home: PathBuf,
    /// Whether both are of version 2.
    pub unified: bool,
}

/// Where a group with the controller can be made for children of a process, which itself is not moved; otherwise the
/// reason.
pub(crate) fn site(host: &Host, process: i32, controller: Controller) -> Result<Site, String> {
    let found = || {
        let member = Member::of(host, process, controller)?;
        let base = base(host, &member.groups, member.unified, controller)?;
        Ok(Site { base, home: member.groups[0].clone(), unified: member.unified })
    };
    found().map_err(|refusal: Availability| match refusal.remedy {
        Some(remedy) => format!("{} ({remedy})", refusal.reason),
        None => refusal.reason,
    })
}

fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(&name_prefix(std::process::id()))
}

impl Member {
    fn of(host: &Host, process: i32, controller: Controller) -> Result<Member, Availability> {
        for listing in 0..LISTINGS {
            if listing > 0 {
                std::thread::sleep(LISTING_PAUSE);
            }
            let cgroups = Cgroups::of_process(host, &process.to_string());
            let (unified, groups) = standing(&cgroups, controller)?;
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

fn standing(cgroups: &Cgroups, controller: Controller) -> Result<(bool, &[PathBuf]), Availability> {
    match cgroups.standing(controller.v1, controller.v2) {
        Some((unified, groups)) if !groups.is_empty() => Ok((unified, groups)),
        _ => Err(match cgroups.version() {
            None => Availability::no(
                "no control group file system is mounted",
                Some("as root: mount -t cgroup2 none /sys/fs/cgroup"),
            ),
            Some(version) => Availability::no(
                format!("control groups (version {version}) have no {} controller here", controller.v2),
                Some("a kernel, or a container, with that controller"),
            ),
        }),
    }
}

/// Whether this process could be moved into a group with the controller; the mechanism in words.
pub(super) fn probe(host: &Host, controller: Controller) -> Availability {
    let found = || {
        let cgroups = Cgroups::read(host);
        let (unified, groups) = standing(&cgroups, controller)?;
        let groups = if is_ours(&groups[0]) { &groups[1..] } else { groups };
        let base = base(host, groups, unified, controller)?;
        Ok((unified, base))
    };
    match found() {
        Ok((unified, base)) => {
            let (version, name) = if unified { (2, controller.v2) } else { (1, controller.v1) };
            Availability::yes(format!("control groups version {version}, {name}, below {}", base.display()))
        }
        Err(refusal) => refusal,
    }
}

/// The folder below which a group with the controller can be made, for processes that are all in or below `groups[0]`.
fn base(host: &Host, groups: &[PathBuf], unified: bool, controller: Controller) -> Result<PathBuf, Availability> {
    let own = groups.first().ok_or_else(|| Availability::no("there is no group above", None))?;
    let base = if unified { offering(host, groups, controller)? } else { own };
    let mounts = host.parsed::<MountInfos>("/proc/self/mountinfo").map(|mounts| mounts.0).unwrap_or_default();
    let mount = mounts.iter().filter(|mount| base.starts_with(&mount.mount_point));
    let mount = mount.max_by_key(|mount| mount.mount_point.as_os_str().len());
    if let Some(mount) = mount.filter(|mount| mount.mount_options.contains_key("ro")) {
        let reason = format!("control groups are mounted read-only at {}", mount.mount_point.display());
        return Err(Availability::no(reason, Some(WRITABLE)));
    }
    if !host.writable(base) {
        let reason = format!("the control group {} is not ours to write", base.display());
        return Err(Availability::no(reason, Some(DELEGATE)));
    }
    Ok(base.clone())
}

/// Of the groups that offer the controller, the one that offers the most others; the nearest of equals.
fn offering<'a>(host: &Host, groups: &'a [PathBuf], controller: Controller) -> Result<&'a PathBuf, Availability> {
    let mut best: Option<(usize, &PathBuf)> = None;
    for (at, group) in groups.iter().enumerate() {
        let offered = host.text(group.join("cgroup.subtree_control")).unwrap_or_default();
        let offers = |wanted: Controller| offered.split_whitespace().any(|name| name == wanted.v2);
        let count = WANTED.iter().filter(|wanted| offers(**wanted)).count();
        if offers(controller) && best.is_none_or(|(most, _)| count > most) {
            if let Some(limit) = groups[..at].iter().find_map(|passed| limit_of(host, passed)) {
                return best.map(|(_, group)| group).ok_or_else(|| {
                    let (group, name) = (group.display(), controller.v2);
                    let reason =
                        format!("{group} offers the {name} controller, but a group there would escape {limit}");
                    let remedy = "take that limit away, or run in a scope without limits: systemd-run --scope PROGRAM";
                    Availability::no(reason, Some(remedy))
                });
            }
            best = Some((count, group));
        }
    }
    best.map(|(_, group)| group).ok_or_else(|| {
        let (own, name) = (groups[0].display(), controller.v2);
        let reason = format!("no group at or above {own} offers the {name} controller to new groups");
        let remedy = "let systemd turn it on: systemd-run --scope -p Delegate=yes PROGRAM (as a user with --user)";
        Availability::no(reason, Some(remedy))
    })
}

/// A limit that a group of version 2 sets itself, in words.
fn limit_of(host: &Host, group: &Path) -> Option<String> {
    const FREE: [(&str, &str); 6] = [
        ("cpu.max", "max "),
        ("memory.max", "max"),
        ("memory.high", "max"),
        ("memory.swap.max", "max"),
        ("cpuset.cpus", ""),
        ("io.max", ""),
    ];
    FREE.iter().find_map(|(file, free)| {
        let text = host.text(group.join(file))?;
        let is_free = if free.is_empty() { text.is_empty() } else { text.starts_with(free) };
        (!is_free).then(|| format!("{} of {} ({text})", file, group.display()))
    })
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
pub(super) fn join(
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
    if !host.exists(&group.folder) {
        host.make_folder(&group.folder)
            .map_err(|error| ControlError::refused("make the control group", group.folder.display(), error))?;
    }
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
        if let Some((_, groups)) = cgroups.standing(controller.v1, controller.v2)
            && from_ours(groups).first() != member.groups.first()
        {
            let reason = format!("threads of process {} are in different control groups", member.process);
            return Err(Availability::no(reason, Some("move them into one")));
        }
    }
    Ok(())
}

/// Our group that holds the whole subject; otherwise the reason why there is none.
pub(super) fn find(host: &Host, subject: &Subject, controller: Controller) -> Result<Group, String> {
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
        let path = self.file(file);
        host.write(&path, text).map_err(|error| ControlError::refused(format!("write {text:?} to"), path, error))
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
