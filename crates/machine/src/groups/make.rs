//! Where a control group of ours may be made.
//!
//! It lies below the group that the subject is in, so that existing limits still apply. In version 2 a group that has
//! processes offers no controllers to groups below it (the rule of no internal processes), and its maker decides what it
//! offers. Our group therefore lies below the nearest group above the subject that offers the controller, provided that no
//! group in between limits anything.

mod cores;
pub mod disk;
pub mod idle;
pub(super) mod own;
pub mod quota;

use std::path::{Path, PathBuf};

use super::members::Member;
use super::{CORES, CPU, Cgroups, Controller, DISK, MEMORY, PROCESSES, is_ours};
use crate::availability::Availability;
use crate::host::Host;

const WANTED: [Controller; 4] = [CPU, CORES, MEMORY, DISK];

const DELEGATE: &str = "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes PROGRAM";
const WRITABLE: &str =
    "let the container write to its control groups (docker run --cgroupns=private --privileged), or run outside of it";

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

impl Site {
    /// In words for an operator.
    fn describe(&self) -> String {
        format!("control groups version {} below {}", version(self.unified), self.base.display())
    }
}

fn version(unified: bool) -> u8 {
    if unified { 2 } else { 1 }
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

/// As [`site`], where the children can also be moved back.
fn site_of_server(host: &Host, postmaster: i32, controller: Controller) -> Result<Site, String> {
    let site = site(host, postmaster, controller)?;
    let home = site.home.join(PROCESSES);
    if host.writable(&home) {
        Ok(site)
    } else {
        Err(format!("processes cannot be moved back to {}: give it to this user", home.display()))
    }
}

/// Whether this process could be moved into a group with the controller; the mechanism in words.
pub(crate) fn probe(host: &Host, controller: Controller) -> Availability {
    let found = || {
        let cgroups = Cgroups::read(host);
        let (unified, groups) = cgroups.standing(controller)?;
        let groups = if is_ours(&groups[0]) { &groups[1..] } else { groups };
        Ok((unified, base(host, groups, unified, controller)?))
    };
    match found() {
        Ok((unified, base)) => {
            let (version, name) = (version(unified), controller.name(unified));
            Availability::yes(format!("control groups version {version}, {name}, below {}", base.display()))
        }
        Err(refusal) => refusal,
    }
}

/// The folder below which a group with the controller can be made, for processes that are all in or below `groups[0]`.
pub(super) fn base(
    host: &Host,
    groups: &[PathBuf],
    unified: bool,
    controller: Controller,
) -> Result<PathBuf, Availability> {
    let own = groups.first().ok_or_else(|| Availability::no("there is no group above", None))?;
    let base = if unified { offering(host, groups, controller)? } else { own };
    if let Some(mount) = host.mount_of(base).filter(|mount| mount.mount_options.contains_key("ro")) {
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
    let mut refusal = None;
    for (at, group) in groups.iter().enumerate() {
        let offered = host.text(group.join("cgroup.subtree_control")).unwrap_or_default();
        let offers = |wanted: Controller| offered.split_whitespace().any(|name| name == wanted.v2);
        let count = WANTED.iter().filter(|wanted| offers(**wanted)).count();
        if offers(controller) && best.is_none_or(|(most, _)| count > most) {
            if let Some(limit) = groups[..at].iter().find_map(|passed| limit_of(host, passed)) {
                let (group, name) = (group.display(), controller.v2);
                let reason = format!("{group} offers the {name} controller, but a group there would escape {limit}");
                let remedy = "take that limit away, or run in a scope without limits: systemd-run --scope PROGRAM";
                refusal = Some(Availability::no(reason, Some(remedy)));
                break;
            }
            best = Some((count, group));
        }
    }
    let none = || {
        let (own, name) = (groups[0].display(), controller.v2);
        let reason = format!("no group at or above {own} offers the {name} controller to new groups");
        let remedy = "let systemd turn it on: systemd-run --scope -p Delegate=yes PROGRAM (as a user with --user)";
        Availability::no(reason, Some(remedy))
    };
    best.map(|(_, group)| group).ok_or_else(|| refusal.unwrap_or_else(none))
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
