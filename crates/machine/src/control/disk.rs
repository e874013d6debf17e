//! `read_mb_s`, `write_mb_s`, `read_iops`, `write_iops`: limits on the subject's reads and writes per second on its
//! disk.
//!
//! The kernel slows down requests where they are submitted. Reading, and writing past the page cache, is submitted by the
//! process itself. The kernel writes back the page cache later: version 2 charges that to the group that
//! made the pages dirty (if memory and io controllers are both on, and the file system takes part); version 1 charges
//! it to no group, and it bypasses the limit. A limit on writing is therefore only trusted after a look at the disk itself.

pub(crate) mod device;
mod verify;

use std::path::Path;

use super::{Amount, Control, ControlContext, ControlError, Observation, Subject, Unknown, Verdict, Window, amount};
use crate::availability::Availability;
use crate::groups::{self, DISK, Group, field, recursive_text};
use crate::host::Host;
use device::Device;

/// One of the four; see the module.
#[derive(Debug)]
pub(crate) struct Disk {
    key: &'static str,
    unit: &'static str,
    meaning: &'static str,
    /// An amount of 1 in the kernel's unit.
    scale: f64,
    least: f64,
    /// Version 1: the file of the limit, the file of the amounts done, and the word that its lines contain.
    v1_limit: &'static str,
    v1_done: &'static str,
    v1_word: &'static str,
    /// Version 2: the keys within `io.max` and `io.stat`.
    v2_limit: &'static str,
    v2_done: &'static str,
}

const BYTES_V1: &str = "blkio.throttle.io_service_bytes";
const REQUESTS_V1: &str = "blkio.throttle.io_serviced";

pub(crate) static READ_MB_S: Disk = Disk {
    key: "read_mb_s",
    unit: "MB/s (10^6 bytes)",
    meaning: "bytes read per second from the disk that holds the data",
    scale: 1e6,
    least: 0.1,
    v1_limit: "blkio.throttle.read_bps_device",
    v1_done: BYTES_V1,
    v1_word: "Read",
    v2_limit: "rbps",
    v2_done: "rbytes",
};

pub(super) static WRITE_MB_S: Disk = Disk {
    key: "write_mb_s",
    unit: "MB/s (10^6 bytes)",
    meaning: "bytes written per second to the disk that holds the data",
    scale: 1e6,
    least: 0.1,
    v1_limit: "blkio.throttle.write_bps_device",
    v1_done: BYTES_V1,
    v1_word: "Write",
    v2_limit: "wbps",
    v2_done: "wbytes",
};

pub(super) static READ_IOPS: Disk = Disk {
    key: "read_iops",
    unit: "requests/s",
    meaning: "read requests per second to the disk that holds the data",
    scale: 1.0,
    least: 1.0,
    v1_limit: "blkio.throttle.read_iops_device",
    v1_done: REQUESTS_V1,
    v1_word: "Read",
    v2_limit: "riops",
    v2_done: "rios",
};

pub(super) static WRITE_IOPS: Disk = Disk {
    key: "write_iops",
    unit: "requests/s",
    meaning: "write requests per second to the disk that holds the data",
    scale: 1.0,
    least: 1.0,
    v1_limit: "blkio.throttle.write_iops_device",
    v1_done: REQUESTS_V1,
    v1_word: "Write",
    v2_limit: "wiops",
    v2_done: "wios",
};

impl Control for Disk {
    fn key(&self) -> &'static str {
        self.key
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn probe(&self, host: &Host) -> Availability {
        let mut groups = groups::probe(host, DISK);
        if groups.available {
            match device(host, &Subject::default()) {
                Ok(device) => groups.reason = format!("{}; temporary files are on {}", groups.reason, device.name),
                Err(reason) => groups.reason = format!("{}; for temporary files not: {reason}", groups.reason),
            }
        }
        groups
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        self.limit(amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let limit = self.limit(amount)?;
        let device = device(context.host, context.subject).map_err(|reason| {
            ControlError::unavailable(self.key, reason, Some("put the data on a disk with a device of its own"))
        })?;
        let group = groups::join(context, self.key, DISK)?;
        let order = |limit| self.order(group.unified, &device, limit);
        group.set(context, self.key, self.file(group.unified), &order(Some(limit)), &order(None))
    }

    fn observe(&self, host: &Host, subject: &Subject) -> Observation {
        let found = || Some((groups::find(host, subject, DISK).ok()?, device(host, subject).ok()?));
        found().map(|(group, device)| self.figures(host, &group, &device)).unwrap_or_default()
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let Window { host, subject, .. } = *window;
        let limit = self.limit(window.amount)?;
        let group = groups::find(host, subject, DISK)?;
        let device = device(host, subject)?;
        let set = self.in_force(host, &group, &device);
        if set != Some(limit) {
            return Err(format!("the limit in force is {set:?} a second, not {limit}").into());
        }
        let now = self.figures(host, &group, &device);
        self.judge(limit as f64, window.earlier, &now, window.length)
    }
}

impl Disk {
    /// The limit in the kernel's unit, bytes or requests per second.
    fn limit(&self, amount: &Amount) -> Result<u64, ControlError> {
        // A terabyte, or a thousand million requests, is beyond every disk.
        let number = amount::number(self.key, amount, self.least, 1e12 / self.scale.max(1e3), self.unit)?;
        Ok((number * self.scale).round() as u64)
    }

    /// The limit that applies to the group and all groups below it.
    ///
    /// Version 1 limits each group separately. Groups that a governor made below have a part of the limit, and the
    /// group has the rest. A group below without a part is not limited at all.
    fn in_force(&self, host: &Host, group: &Group, device: &Device) -> Option<u64> {
        let own = self.limit_of(host, group.folder(), group.unified, device)?;
        if group.unified {
            return Some(own);
        }
        let below = group.below(host).into_iter().map(|folder| self.limit_of(host, &folder, false, device));
        below.sum::<Option<u64>>().map(|below| own + below)
    }

    /// The file of the limit in a group's folder.
    pub(crate) fn file(&self, unified: bool) -> &'static str {
        if unified { "io.max" } else { self.v1_limit }
    }

    /// The text to write to that file to limit a group to `limit` bytes or requests per second; `None` lifts the limit.
    pub(crate) fn order(&self, unified: bool, device: &Device, limit: Option<u64>) -> String {
        let number = device.number();
        match (unified, limit) {
            (true, Some(limit)) => format!("{number} {}={limit}", self.v2_limit),
            (true, None) => format!("{number} {}=max", self.v2_limit),
            (false, limit) => format!("{number} {}", limit.unwrap_or(0)),
        }
    }

    /// The limit of one group alone, bytes or requests per second; `None` if it has none.
    pub(crate) fn limit_of(&self, host: &Host, folder: &Path, unified: bool, device: &Device) -> Option<u64> {
        let text = host.text(folder.join(self.file(unified)))?;
        let line = device.line(&text)?;
        match unified {
            true => field(line, self.v2_limit),
            false => line.trim().parse().ok(),
        }
    }

    /// The group's transfers on the disk so far, bytes or requests; 0 if there were none.
    fn done(&self, host: &Host, group: &Group, device: &Device) -> Option<u64> {
        if group.unified {
            let text = host.text(group.file("io.stat"))?;
            let Some(line) = device.line(&text) else { return Some(0) };
            return field(line, self.v2_done);
        }
        // The subject may have made groups below ours.
        let text = recursive_text(host, group.folder(), self.v1_done)?;
        let mut lines = text.lines().filter_map(|line| device.line(line));
        let done = lines.find_map(|line| line.trim().strip_prefix(self.v1_word)?.trim().parse().ok());
        Some(done.unwrap_or(0))
    }
}

fn device(host: &Host, subject: &Subject) -> Result<Device, String> {
    let folder = subject.data_folder.clone().unwrap_or_else(std::env::temp_dir);
    Device::of(host, &folder)
}
