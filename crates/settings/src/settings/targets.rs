//! The bounds that targets set for the classes below, and contradictions between settings of targets.

use plimsoll_policy::{ClassIndex, LeverKind};

use super::{ClassSettings, CpuShare, Settings};

/// The bounds that the target of a class above leaves a class now, within its settings. The default leaves everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// How many of its transactions may run at once; `None` for the configured number.
    pub mpl: Option<u32>,
    /// The nice value of its server processes; `None` for the configured one.
    pub nice: Option<i32>,
    /// The disk reads of classes that yield, together, in bytes per second; `None` if unlimited.
    pub disk: Option<u64>,
    /// How many parallel workers a node of its plans may have; `None` for the configured number.
    pub workers: Option<u32>,
}

/// A key of a class that contradicts others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFault {
    /// The class's place.
    pub class: usize,
    /// `target` or `mpl_min`.
    pub key: &'static str,
    /// The fault, and what to do.
    pub message: String,
}

impl ClassSettings {
    /// How many of its transactions may run at once now; `None` if unlimited.
    pub fn mpl_in_force(&self) -> Option<u32> {
        [self.limits.mpl, self.held.mpl].into_iter().flatten().min()
    }

    /// The present CPU share of its server processes.
    pub fn cpu_in_force(&self) -> CpuShare {
        match (self.cpu, self.held.nice) {
            (CpuShare::Nice(own), Some(nice)) => CpuShare::Nice(own.max(nice)),
            (cpu, _) => cpu,
        }
    }

    /// How many parallel workers a node of its statements' plans may have now; `None` for the server's own limit.
    pub fn workers_in_force(&self) -> Option<u32> {
        [self.workers_max, self.held.workers.filter(|_| self.workers_max.is_some())].into_iter().flatten().min()
    }

    /// How many of its transactions may always run at once, even if the target of a class above is missed.
    pub fn mpl_floor(&self) -> u32 {
        self.mpl_min.unwrap_or(1).min(self.limits.mpl.unwrap_or(u32::MAX))
    }

    /// Its CPU share as a lever: how far it may be lowered, or `None` if it may not.
    pub fn share_lever(&self) -> Option<u64> {
        match self.cpu {
            CpuShare::Nice(nice) => Some(LeverKind::share_of_nice(nice)).filter(|share| *share > 0),
            CpuShare::Untouched | CpuShare::Prompt | CpuShare::Idle => None,
        }
    }
}

impl Settings {
    /// Whether an mpl may be chosen for this class: neither an mpl nor a target above is set, and it has the lowest priority of all.
    pub fn is_searched(&self, class: ClassIndex) -> bool {
        let priority = self.class(class).limits.priority;
        let is_above = |other: &ClassSettings| other.limits.priority > priority;
        let is_below = |other: &ClassSettings| other.limits.priority < priority;
        self.auto_mpl
            && !self.is_beside
            && self.preemption.policy.acts()
            && self.class(class).limits.mpl.is_none()
            && self.classes.iter().any(is_above)
            && !self.classes.iter().any(is_below)
            && !self.is_below_target(class)
    }

    /// The classes for which an mpl may be chosen.
    pub fn searched(&self) -> impl Iterator<Item = (ClassIndex, &ClassSettings)> {
        self.indexed().filter(|(class, _)| self.is_searched(*class))
    }

    /// The disk reads that targets leave the classes that yield, in bytes per second; `None` if unlimited.
    pub fn disk_held(&self) -> Option<u64> {
        self.classes.iter().filter_map(|class| class.held.disk).min()
    }

    /// The class whose lever the disk is. One limit covers all that yield, so a target must be above the highest of
    /// them.
    pub fn disk_lever(&self) -> Option<ClassIndex> {
        let yielding = self.indexed().filter(|(class, _)| self.yields_disk(*class));
        yielding.max_by_key(|(_, class)| class.limits.priority).map(|(class, _)| class)
    }

    /// Whether a class above has a target, so that this one may be limited at any time.
    pub fn is_below_target(&self, class: ClassIndex) -> bool {
        let priority = self.class(class).limits.priority;
        self.classes.iter().any(|other| other.target.is_some() && other.limits.priority > priority)
    }
}

/// All contradictions with targets, or between the bounds of their levers.
pub fn target_faults(classes: &[ClassSettings], total_mpl: Option<u32>) -> Vec<TargetFault> {
    let mut faults = Vec::new();
    let mut fault = |class, key, message| faults.push(TargetFault { class, key, message });
    let mut kept = 0;
    for (place, class) in classes.iter().enumerate() {
        let has_below = classes.iter().any(|other| other.limits.priority < class.limits.priority);
        if class.target.is_some() && !has_below {
            let message = "no class is below it, so nothing can be limited for its target; give the target to a class above others";
            fault(place, "target", message.to_owned());
        }
        let Some(least) = class.mpl_min else { continue };
        if let Some(mpl) = class.limits.mpl.filter(|mpl| *mpl < least) {
            fault(place, "mpl_min", format!("{least} is more than the class's mpl of {mpl}"));
        }
        kept += u64::from(least);
        if let Some(total) = total_mpl.filter(|total| u64::from(*total) < kept) {
            fault(
                place,
                "mpl_min",
                format!("with this class, {kept} transactions are promised to run, and [admission] mpl is {total}"),
            );
        }
    }
    faults
}
