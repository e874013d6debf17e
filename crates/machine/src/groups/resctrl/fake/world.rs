//! A fake kernel with its `/proc`, and the undo notes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mirror::Mirror;
use super::{FakeKernel, Shape};
use crate::control::{ControlContext, ControlError, Subject, Undo, UndoNotes};
use crate::groups::resctrl::{BandwidthUnit, Resctrl, ResctrlFiles};
use crate::host::Host;
use crate::host::fake::FakeHost;
use crate::limiter::undo::{Undone, undo};

/// The subject is process 100, with threads 100 to 102, and its child 200. Process 300 is unrelated.
pub(crate) struct World {
    pub(crate) kernel: Arc<FakeKernel>,
    pub(crate) subject: Subject,
    pub(crate) notes: Notes,
    pub(crate) host: Host,
    unit: BandwidthUnit,
    proc: Arc<FakeHost>,
}

/// Undo notes in their order; notes on the same file or group count once, as in the restore journal.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) undo: Vec<Undo>,
}

impl UndoNotes for Notes {
    fn note(&mut self, undo: Undo) -> Result<(), ControlError> {
        let about = |undo: &Undo| match undo {
            Undo::RemoveGroup { folder, .. } => folder.clone(),
            // The lines of two resources in one file are two things.
            Undo::WriteFile { path, text } => format!("{path} {text}"),
            other => panic!("resctrl notes no such thing: {other:?}"),
        };
        if !self.undo.iter().any(|noted| about(noted) == about(&undo)) {
            self.undo.push(undo);
        }
        Ok(())
    }
}

const THREADS: [i32; 5] = [100, 101, 102, 200, 300];

pub(crate) const MOUNT: &str = "/sys/fs/resctrl";

impl World {
    pub(crate) fn new(shape: Shape, unit: BandwidthUnit) -> World {
        let proc = Arc::new(FakeHost::new(&[]));
        let world = World {
            kernel: Arc::new(FakeKernel::new(shape, THREADS)),
            subject: Subject { processes: vec![100], ..Subject::default() },
            notes: Notes::default(),
            host: proc.host(),
            unit,
            proc,
        };
        for (process, thread, parent) in [(100, 100, 1), (100, 101, 1), (100, 102, 1), (200, 200, 100), (300, 300, 1)] {
            world.show(process, thread, parent);
        }
        world
    }

    /// Another kernel over the same `/proc`, as it was at first.
    pub(crate) fn again(&self, shape: Shape) -> World {
        let kernel = Arc::new(FakeKernel::new(shape, THREADS));
        let (subject, notes) = (self.subject.clone(), Notes::default());
        World { kernel, subject, notes, host: self.host.clone(), unit: self.unit, proc: self.proc.clone() }
    }

    pub(crate) fn resctrl(&self) -> Resctrl {
        Resctrl::over(self.kernel.clone(), MOUNT, self.unit)
    }

    /// The machine as a folder on which resctrl is mounted, and what brings the folder up to date.
    pub(crate) fn mounted(&self) -> (Host, Arc<Mirror>) {
        self.proc.write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: cat_l3 mba\n");
        self.proc.write("/proc/self/mountinfo", "40 30 0:35 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n");
        // A file of an earlier mount may no longer exist.
        let _ = std::fs::remove_dir_all(self.host.path(MOUNT));
        let mirror = Arc::new(Mirror::of(self.kernel.clone(), self.host.path(MOUNT)));
        (Host::changed_by(self.host.path("/"), mirror.clone()), mirror)
    }

    pub(crate) fn context(&mut self) -> ControlContext<'_> {
        ControlContext { host: &self.host, subject: &self.subject, undo: &mut self.notes }
    }

    pub(crate) fn begin(&self, process: i32, thread: i32, parent: i32) {
        self.kernel.begin(thread);
        self.show(process, thread, parent);
    }

    pub(crate) fn fork(&self, maker: i32, process: i32, thread: i32) {
        self.kernel.fork(maker, thread);
        self.show(process, thread, 1);
    }

    fn show(&self, process: i32, thread: i32, parent: i32) {
        let zeros = " 0".repeat(40);
        self.proc.write(&format!("/proc/{process}/stat"), &format!("{process} (a) b c) S {parent}{zeros}"));
        self.proc.write(&format!("/proc/{process}/task/{thread}/comm"), "x");
    }

    pub(crate) fn end(&self, process: i32, thread: i32) {
        self.kernel.exit(thread);
        std::fs::remove_dir_all(self.host.path(format!("/proc/{process}/task/{thread}"))).unwrap();
    }

    /// Undoes everything that was noted, the last first.
    pub(crate) fn undo(&mut self) {
        let (host, _) = self.mounted();
        for one in self.notes.undo.drain(..).rev() {
            let done = undo(&host, &one, std::process::id());
            assert!(!matches!(done, Undone::Failed(_)), "{done:?}");
        }
    }

    /// Undoes the making of a group, whether it was noted or not.
    pub(crate) fn remove_group(&self, folder: &str, tasks_to: Option<&str>) -> Undone {
        let made = Undo::RemoveGroup { folder: folder.to_owned(), tasks_to: tasks_to.map(str::to_owned) };
        undo(&self.mounted().0, &made, std::process::id())
    }
}

/// A kernel on which another thread of process 100 begins in the default group whenever one is moved, up to a number.
pub(crate) struct Busy {
    pub(crate) world: Arc<World>,
    pub(crate) left: AtomicU32,
}

impl ResctrlFiles for Busy {
    fn read(&self, path: &str) -> io::Result<String> {
        self.world.kernel.read(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        if path.ends_with("tasks") && self.left.load(Ordering::Relaxed) > 0 {
            let left = self.left.fetch_sub(1, Ordering::Relaxed);
            self.world.begin(100, 1000 + left as i32, 1);
        }
        self.world.kernel.write(path, text)
    }

    fn make_group(&self, path: &str) -> io::Result<()> {
        self.world.kernel.make_group(path)
    }

    fn remove_group(&self, path: &str) -> io::Result<()> {
        self.world.kernel.remove_group(path)
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        self.world.kernel.folders(path)
    }
}
