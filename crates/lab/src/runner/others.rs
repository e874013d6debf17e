//! Whether other processes on the machine disturbed a run.

use plimsoll_machine::facts::cores_usable;

use crate::results::Point;

/// The kernel counts the time of each processor in hundredths of a second, so its figure for a short window may be one
/// step too high.
const STEP_S: f64 = 0.01;

/// Why a run is not valid for its setting: other processes on the machine, or its host, kept more cores busy than
/// allowed. `None` if they did not, or if that is not known. Our own hogs beside the workloads do not count as other
/// processes.
pub(super) fn disturbance(point: &Point, others_max: f64) -> Option<String> {
    too_busy(point, others_max, cores_usable())
}

fn too_busy(point: &Point, others_max: f64, cores: usize) -> Option<String> {
    let busy = point.device.busy_cores_others.filter(|_| point.window_s > 0.0)?;
    let most = others_max * cores as f64;
    let is_busy = busy > most + STEP_S * cores as f64 / point.window_s;
    is_busy.then(|| {
        format!(
            "other processes on this machine, or its host, kept {busy:.2} cores busy, more than the {most:.2} that `others_max` allows ({others_max} for each of {cores})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_run_beside_others_who_take_more_than_they_may_is_disturbed() {
        let point = |busy, window_s| {
            let mut point = fixture::point("alone:tpcc", 1, Vec::new());
            (point.device.busy_cores_others, point.window_s) = (busy, window_s);
            point
        };
        let found = |busy, window_s| too_busy(&point(busy, window_s), 0.1, 2);
        assert_eq!(found(Some(0.2), 10.0), None);
        assert_eq!(found(None, 10.0), None, "what is not known is not judged");
        let why = "other processes on this machine, or its host, kept 0.30 cores busy, more than the 0.20 that `others_max` allows (0.1 for \
            each of 2)";
        assert_eq!(found(Some(0.3), 10.0).as_deref(), Some(why));
        assert_eq!(found(Some(0.3), 0.1), None, "within the steps of the kernel's books");
        assert_eq!(found(Some(0.3), 0.0), None, "a run without a window");
    }
}
