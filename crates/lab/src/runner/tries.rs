//! The tries of a run while others use the machine.

use std::sync::atomic::Ordering;

use super::patience::Patience;
use super::{RunError, RunProgress, Runner, StoreError, Watch};
use crate::others;
use crate::plan::{Disturbed, RunPlan};
use crate::record::{RunId, RunRecord};

impl Runner<'_> {
    /// Runs one setting and arm, and repeats it if other processes on the machine disturb it. The kept run says why
    /// earlier tries were discarded; if the last one is disturbed, too, it is invalid, unless the plan keeps such runs.
    pub(super) fn run_one(
        &mut self,
        id: RunId,
        at: (usize, usize),
        patience: &mut Patience,
        watch: &mut Watch<'_>,
    ) -> Result<RunRecord, RunError> {
        let mut thrown_away = Vec::new();
        loop {
            let mut record = self.try_one(id, at, watch)?;
            let RunPlan { others_max, tries, disturbed, .. } = self.plan.run;
            let disturbance = (self.disturbance)(&record.point, others_max);
            if let Some(why) = &disturbance {
                if !std::mem::replace(&mut self.is_told, true) {
                    let remedy = match disturbed {
                        Disturbed::Discard => others::REMEDY,
                        Disturbed::Keep => others::REMEDY_BESIDE,
                    };
                    (watch.progress)(RunProgress::Disturbed { why, remedy });
                }
                let took = self.plan.estimated_time(1);
                if patience.tries_again(thrown_away.len() as u32 + 1, tries, took) {
                    thrown_away.push(why.clone());
                    if watch.stop.load(Ordering::Relaxed) {
                        return Err(RunError::Store(StoreError::Stopped));
                    }
                    continue;
                }
            }
            patience.note(disturbance.is_some());
            if let Some(why) = disturbance {
                record.point.disturbed = true;
                if disturbed == Disturbed::Discard {
                    record.point.valid = false;
                    record.point.why_invalid.get_or_insert(why);
                }
            }
            record.point.thrown_away = thrown_away;
            return Ok(record);
        }
    }
}
