//! Parts of the last-level cache for classes.

use plimsoll_policy::cache_class::{CacheClass, WayMask};
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_testing::says;

use super::{faults, file, good};

const CONTROL: &str = "control = \"postgres://plimsoll@db\"\n";

#[test]
fn a_class_has_a_part_of_the_cache_or_all_of_it() {
    let part = |low: &str| good(&file(CONTROL, "", low)).settings.classes[1].cache;
    assert_eq!(part(""), CacheUse::ALL);
    assert_eq!(part("cache = \"sensitive\""), CacheUse::ALL);
    assert_eq!(part("cache = \"polluting\""), CacheUse::Class(CacheClass::Polluting));
    assert_eq!(part("cache = \"0xf0\""), CacheUse::Ways(WayMask(0xf0)));
    let described = good(&file(CONTROL, "", "cache = \"0xF0\"")).settings.described();
    assert!(described.contains(&("class.low.cache".to_owned(), "0xf0".to_owned())), "{described:?}");
    // Allowed nevertheless if both masks are the operator's own.
    good(&file(CONTROL, "cache = \"0xf0\"", "cache = \"0xf\""));
    assert_eq!(good(&file("", "", "cache = \"sensitive\"")).settings.cache_confined(), []);
}

#[test]
fn what_is_no_part_and_what_contradicts_itself_is_told_at_its_place() {
    let check = |top: &str, high: &str, low: &str, expect: &str| {
        let file = file(top, high, low);
        says(&file, &faults(&file), expect);
    };
    check(
        CONTROL,
        "",
        "cache = \"scans\"",
        "x.toml:10:9: `scans` is not a part of the cache; write `polluting`, `depends`, `sensitive`",
    );
    check(CONTROL, "", "cache = \"0x0\"", "x.toml:10:9: the mask 0x0 has no way; give it 2 at least, such as `0x3`");
    check(CONTROL, "", "cache = \"0x8\"", "the mask 0x8 has 1 way, which slows even scans down; give it 2 at least");
    check("", "", "cache = \"depends\"", "x.toml:9:9: `cache` has no effect without `control`");
    let all = "every class is confined, so that no session may fill more of the cache than the part for `depends`";
    check(CONTROL, "cache = \"polluting\"", "cache = \"depends\"", &format!("x.toml:6:9: {all}"));
}
