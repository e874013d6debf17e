//! CPU floors for classes that get idle cores.

use plimsoll_testing::says;

use super::{faults, file, good};

#[test]
fn a_floor_is_for_work_that_gets_idle_cores() {
    let settings = good(&file("", "", "cpu = \"idle\"\ncpu_floor_percent = 20")).settings;
    assert_eq!(settings.classes[1].cpu_floor_percent, Some(20));
    assert_eq!(good(&file("", "", "cpu = \"idle\"")).settings.classes[1].cpu_floor_percent, None);
    let check = |low: &str, expect: &str| {
        let file = file("", "", low);
        says(&file, &faults(&file), expect);
    };
    let only_idle = "x.toml:9:21: class `low` has no `cpu = \"idle\"`, and only that needs a floor";
    check("cpu_floor_percent = 20", only_idle);
    check("cpu_floor_percent = 20\ncpu = \"nice 5\"", only_idle);
    check("cpu_floor_percent = 95\ncpu = \"idle\"", "95 is not between 1 and 90");
    let own = "cpu_floor_percent = 20\ncpu = \"idle\"\ncontrol_groups = [\"/sys/fs/cgroup/reports\"]";
    check(own, "class `low` has control groups of its own, whose weights are yours to set");
}
