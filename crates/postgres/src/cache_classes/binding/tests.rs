//! Masks of classes within the available ways.

use plimsoll_machine::resctrl::CacheControl;

use super::*;

/// The study's machine: 55 MiB in 20 ways; this process may fill the ways of `mask`.
fn home(mask: u32, groups_free: u32) -> CacheHome {
    let cache = CacheControl {
        level: 3,
        resources: vec!["L3".to_owned()],
        full: CacheMask(0xf_ffff),
        ways_min: 2,
        sparse: false,
        shared: CacheMask(0xc_0000),
        groups_max: 16,
        domains: vec![0],
        way_bytes: Some(11 << 18),
    };
    CacheHome { folder: "/sys/fs/resctrl".to_owned(), cache, mask: CacheMask(mask), groups_free }
}

#[test]
fn masks_lie_within_the_ways_that_the_process_may_fill() {
    let check = |mask: u32, expect: [u32; 3]| {
        assert_eq!(masks(&home(mask, 15)).unwrap(), expect.map(CacheMask), "{mask:#x}");
    };
    check(0xf_ffff, [0x3, 0xfff, 0xf_ffff]);
    check(0x3ff, [0x3, 0x3f, 0x3ff]);
    check(0xff00, [0x300, 0x1f00, 0xff00]);
    check(0x3, [0x3, 0x3, 0x3]);
    assert_eq!(ways(&home(0x3ff, 15)).unwrap().allowed_bytes(), 55 << 19);
}

#[test]
fn what_cannot_be_put_in_force_has_its_numbers_and_a_remedy() {
    let check = |home: &CacheHome, parts: &[&str]| {
        let told = masks(home).unwrap_err().to_string();
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    };
    check(&home(0, 15), &["llc_ways", "has no way", "0x3"]);
    check(&home(0x4, 15), &["0x4", "1 way", "2 at least"]);
    check(&home(0x5, 15), &["0x5", "holes", "use 0x7"]);
    check(&home(0x30_0003, 15), &["0x300000", "outside of the cache", "20 ways"]);
    check(&home(0xf_ffff, 2), &["3 different masks", "2 groups", "equal masks"]);
    let mut unknown = home(0xf_ffff, 15);
    unknown.cache.way_bytes = None;
    check(&unknown, &["how many bytes a way"]);
}
