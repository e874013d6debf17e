//! The figures of sensors reach runs and their seconds.

use super::*;
use crate::figures::given_by;

const ONE: &str = r#"
name  = "sensed"
[target]
url   = "memory:"
[[workload]]
name  = "ints"
kind  = "rows"
scale = 0.001
[run]
warmup  = "1ms"
measure = "1200ms"
repeats = 1
"#;

#[test]
fn figures_of_the_machine_are_in_the_run_and_in_its_seconds_or_a_reason_is() {
    let (_, records, _) = run(ONE);
    let [record] = &records[..] else { panic!("{} runs", records.len()) };
    let (point, samples) = (&record.point, &record.samples);
    assert_eq!(samples.len(), 2, "a second and the rest");
    for figure in given_by("device") {
        let value = |device| figure.of_device(device);
        // The times of disks are per operation, and a second may have no operation; memory reads are counted in turns.
        let may_lack = figure.key.ends_with("_ms") || figure.key == "device.dram_read_gb_s";
        let is_known = samples.iter().any(|sample| value(&sample.device).is_some());
        assert!(may_lack || is_known == value(&point.device).is_some(), "{figure:?}");
    }
    let check = |sensor: &str, is_there: bool| {
        let why = point.unmeasured.get(sensor);
        assert!(is_there || why.is_some_and(|why| !why.reason.is_empty()), "{sensor}: {:?}", point.unmeasured);
    };
    check("pressure", point.device.pressure.is_some());
    check("frequency", point.device.mhz.is_some());
    check("steal", point.device.stolen.is_some());
    check("control groups of the group", point.device.group.is_some());
    check("hardware counters", point.counters.is_some());
    check("block I/O delay", point.workloads[0].block_io_s.is_some());
    check("thread times", samples.iter().all(|sample| sample.cpu_run_s.is_some() && sample.cpu_wait_s.is_some()));
    if let Some(share) = point.workloads[0].all.time_share {
        let by_second = samples.iter().filter_map(|sample| sample.cpu_run_s).sum::<f64>();
        assert!(share.cpu_run.is_none() || by_second > 0.0, "clients ran: {share:?}");
    }
}
