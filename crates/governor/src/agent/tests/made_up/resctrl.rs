//! Resctrl on the simulated machine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_machine::resctrl::fake::{FakeKernel, Mirror, Shape};

use super::{Machine, POSTMASTER};

impl Machine {
    /// Mounts resctrl; existing threads begin in its default group.
    pub(in crate::agent::tests) fn mount_resctrl(&self, shape: Shape) {
        self.write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: cat_l3 mba\n");
        self.write("/proc/self/mountinfo", "40 30 0:35 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n");
        let threads = self.children.lock().unwrap().iter().copied().chain([1, POSTMASTER]).collect::<Vec<_>>();
        let kernel = Arc::new(FakeKernel::new(shape, threads));
        let mirror = Mirror::of(kernel.clone(), self.folder.path().join("sys/fs/resctrl"));
        assert!(self.kernel.resctrl.set((kernel, mirror)).is_ok(), "mounted once");
    }

    /// The state of resctrl.
    pub(in crate::agent::tests) fn resctrl(&self) -> &FakeKernel {
        &self.kernel.resctrl.get().expect("it is mounted").0
    }

    /// Changes resctrl directly, as another process would.
    pub(in crate::agent::tests) fn change_resctrl(&self, change: impl FnOnce(&FakeKernel) -> io::Result<()>) {
        let (kernel, mirror) = self.kernel.resctrl.get().expect("it is mounted");
        change(kernel).unwrap();
        mirror.show();
    }

    /// How often a thread was moved between groups of resctrl.
    pub(in crate::agent::tests) fn moves(&self) -> usize {
        self.kernel.moves.load(Ordering::Relaxed)
    }
}
