//! The rule against the study's operators and machine, and against every shape of cache.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// The study's: 55 MiB in 20 ways, 16 groups.
fn study() -> CacheWays {
    CacheWays { bytes: 55 * MIB, ways: 20, allowed: WayMask(0xf_ffff), sparse: false, groups_free: 15 }
}

#[test]
fn operators_of_the_study_get_the_masks_of_the_study() {
    let cache = study();
    let masks = cache.masks().unwrap();
    let check = |operator: CacheOperator, bytes: Option<u64>, class: CacheClass, mask: u32| {
        let found = operator.class(bytes, cache.allowed_bytes());
        assert_eq!((found, masks.of(found)), (class, WayMask(mask)), "{} with {bytes:?}", operator.name());
    };
    let bit_vector = |keys: u64| Some(keys / 8);
    check(CacheOperator::Scan, Some(0), CacheClass::Polluting, 0x3);
    check(CacheOperator::Aggregation, Some(4 * MIB), CacheClass::Sensitive, 0xf_ffff);
    check(CacheOperator::Aggregation, Some(400 * MIB), CacheClass::Sensitive, 0xf_ffff);
    check(CacheOperator::Join, bit_vector(1_000_000), CacheClass::Polluting, 0x3);
    check(CacheOperator::Join, bit_vector(10_000_000), CacheClass::Polluting, 0x3);
    check(CacheOperator::Join, bit_vector(100_000_000), CacheClass::Depends, 0xfff);
    check(CacheOperator::Join, bit_vector(1_000_000_000), CacheClass::Polluting, 0x3);
    check(CacheOperator::Join, None, CacheClass::Sensitive, 0xf_ffff);
    check(CacheOperator::Transaction, None, CacheClass::Sensitive, 0xf_ffff);
    check(CacheOperator::Other, Some(0), CacheClass::Sensitive, 0xf_ffff);
}

#[test]
fn each_operator_is_in_the_list_once() {
    use CacheOperator::{Aggregation, Join, Other, Scan, Transaction};
    for operator in [Scan, Join, Aggregation, Transaction, Other] {
        assert_eq!(CacheOperator::all().filter(|other| *other == operator).count(), 1, "{operator:?}");
        assert_eq!(RULES.iter().filter(|(_, name, _)| *name == operator.name()).count(), 1, "{operator:?}");
    }
}

#[test]
fn a_job_has_the_class_of_its_most_sensitive_operator() {
    let check = |operators: &[(CacheOperator, Option<u64>)], expect| {
        assert_eq!(job_class(operators.iter().copied(), 55 * MIB), expect, "{operators:?}");
    };
    let scan = (CacheOperator::Scan, None);
    check(&[scan], CacheClass::Polluting);
    check(&[scan, (CacheOperator::Aggregation, None)], CacheClass::Sensitive);
    check(&[scan, (CacheOperator::Join, Some(12 * MIB))], CacheClass::Depends);
    check(&[scan, (CacheOperator::Join, Some(1 << 10))], CacheClass::Polluting);
    check(&[], CacheClass::Sensitive);
}

#[test]
fn sizes_are_compared_with_the_ways_that_may_be_used() {
    let half = CacheWays { allowed: WayMask(0x3ff), ..study() };
    assert_eq!(half.allowed_bytes(), 55 * MIB / 2);
    let class = |cache: CacheWays| CacheOperator::Join.class(Some(2 * MIB), cache.allowed_bytes());
    assert_eq!((class(study()), class(half)), (CacheClass::Polluting, CacheClass::Depends));
    assert_eq!(CacheWays { bytes: u64::MAX, ..study() }.allowed_bytes(), u64::MAX, "no overflow");
    assert_eq!(CacheOperator::Join.class(Some(0), 0), CacheClass::Polluting, "no cache, nothing to share");
}

#[test]
fn masks_of_other_caches() {
    let check = |ways: u32, allowed: u32, expect: [u32; 3]| {
        let masks = CacheWays { ways, allowed: WayMask(allowed), ..study() }.masks().unwrap();
        assert_eq!(CacheClass::ALL.map(|class| masks.of(class).0), expect, "{ways} ways, {allowed:#x}");
    };
    check(11, 0x7ff, [0x3, 0x7f, 0x7ff]);
    check(12, 0xff0, [0x30, 0x1f0, 0xff0]);
    check(32, u32::MAX, [0x7, 0x7_ffff, u32::MAX]);
    check(20, 0xc, [0xc, 0xc, 0xc]);
}

#[test]
fn two_ways_cannot_be_shared_out() {
    let masks = CacheWays { allowed: WayMask(0xc), ..study() }.masks().unwrap();
    assert_eq!(masks.distinct(), 1);
    assert!(study().masks().unwrap().distinct() > 1);
}

#[test]
fn faults_have_their_numbers_and_remedies() {
    let right = study().masks().unwrap();
    let check = |cache: CacheWays, masks: ClassMasks, expect: &str| {
        assert_eq!(cache.check(masks).unwrap_err().to_string(), expect);
    };
    let polluting = |mask: u32| ClassMasks { polluting: WayMask(mask), ..right };
    check(study(), polluting(0), "the mask of polluting has no way; give it 2 at least, such as 0x3");
    check(
        study(),
        polluting(0x1),
        "the mask 0x1 of polluting has 1 way, which slows even scans down; give it 2 at least",
    );
    check(
        study(),
        polluting(0x15),
        "the mask 0x15 of polluting has holes, and this processor takes neighbouring ways only; use 0x1f",
    );
    assert_eq!(CacheWays { sparse: true, ..study() }.check(polluting(0x15)), Ok(polluting(0x15)));
    check(
        CacheWays { allowed: WayMask(0xff), ..study() },
        polluting(0x180),
        "the mask 0x180 of polluting has the ways 0x100 outside of llc_ways (0xff, 8 ways); leave them out",
    );
    check(
        CacheWays { allowed: WayMask(0x3f_ffff), ..study() },
        right,
        "the mask 0x3fffff of llc_ways has the ways 0x300000 outside of the cache (0xfffff, 20 ways); leave them out",
    );
    check(
        CacheWays { groups_free: 2, ..study() },
        right,
        "the classes have 3 different masks, and 2 groups (CLOSIDs) are free; give classes equal masks, or remove groups of others \
         below /sys/fs/resctrl",
    );
    let one = study().check_mask("scan", WayMask(0x10_0000)).unwrap_err().to_string();
    assert_eq!(
        one,
        "the mask 0x100000 of scan has the ways 0x100000 outside of llc_ways (0xfffff, 20 ways); leave them out"
    );
    let two = ClassMasks { depends: right.sensitive, ..right };
    assert_eq!(CacheWays { groups_free: 2, ..study() }.check(two), Ok(two));
    let one_way = CacheWays { allowed: WayMask(0x8), ..study() }.masks();
    assert_eq!(one_way, Err(CacheClassError::FewWays { of: "llc_ways".to_owned(), mask: WayMask(0x8) }));
}

proptest! {
    #[test]
    fn every_run_of_ways_is_shared_out_rightly(ways in 2_u32..=32, low in 0_u32..31, count in 2_u32..=32) {
        let count = count.min(ways.saturating_sub(low));
        prop_assume!(count >= 2);
        let allowed = WayMask::run(low, count);
        let masks = CacheWays { ways, allowed, ..study() }.masks().unwrap();
        for class in CacheClass::ALL {
            let mask = masks.of(class);
            prop_assert!(mask.is_contiguous() && mask.ways() >= 2 && mask.is_within(allowed), "{mask} in {allowed}");
        }
        prop_assert!(masks.polluting.is_within(masks.depends) && masks.depends.is_within(masks.sensitive));
        prop_assert_eq!(masks.sensitive, allowed);
    }

    #[test]
    fn more_cache_sensitivity_never_means_fewer_ways(allowed: u32) {
        let cache = CacheWays { ways: 32, allowed: WayMask(allowed), sparse: true, ..study() };
        if let Ok(masks) = cache.masks() {
            prop_assert!(masks.polluting.ways() <= masks.depends.ways() && masks.depends.ways() <= masks.sensitive.ways());
            prop_assert!(CacheClass::ALL.iter().all(|class| masks.of(*class).ways() >= 2));
        } else {
            prop_assert!(allowed.count_ones() < 2);
        }
    }
}
