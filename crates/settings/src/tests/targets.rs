//! Targets in files: valid ones, and contradictions.

use plimsoll_testing::says;

use super::{faults, file, good};

#[test]
fn targets_are_read() {
    for target in ["p95 < 20ms", "p99 < 1.3 x alone"] {
        let settings = good(&file("", &format!("target = \"{target}\""), "mpl = 16\nmpl_min = 2")).settings;
        let [high, low] = &settings.classes[..] else { panic!("two classes") };
        assert_eq!(high.target.map(|target| target.to_string()).as_deref(), Some(target));
        assert_eq!((low.target, low.mpl_min, low.mpl_floor()), (None, Some(2), 2));
    }
    let settings = good(&file("", "target = \"p95 < 20ms\"", "mpl = 0")).settings;
    assert_eq!(settings.classes[1].mpl_floor(), 0, "the operator's mpl is never exceeded");
    let warnings = good(&file("", "", "mpl_min = 2")).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("`mpl_min`, and no class above it has a `target`")));
}

#[test]
fn targets_that_cannot_be_meant_are_told_with_their_place() {
    let check = |high: &str, low: &str, expect: &str| {
        let file = file("", high, low);
        let told = faults(&file);
        says(&file, &told, expect);
        assert_eq!(told.lines().count(), 1, "{told}");
    };
    check(
        "target = \"p101 < 20ms\"",
        "",
        "x.toml:5:10: `p101 < 20ms` is not a target: percentiles lie between p50 and p99.9",
    );
    check("target = \"fast\"", "", "`fast` is not a target: write `p95 < 20ms` or `p95 < 1.3 x alone`");
    check("target = \"p95 < 0.9 x alone\"", "", "nothing is faster than alone");
    check("", "target = \"p95 < 20ms\"", "x.toml:9:10: class `low`: no class is below it, so nothing can be limited");
    check("", "mpl = 4\nmpl_min = 8", "x.toml:10:11: class `low`: 8 is more than the class's mpl of 4");
    check("", "mpl_min = 0", "0 is not between 1 and 1000000");
    let both = file("", "mpl_min = 6", "mpl_min = 6") + "[admission]\nmpl = 10\n";
    says(&both, &faults(&both), "12 transactions are promised to run, and [admission] mpl is 10");
}
