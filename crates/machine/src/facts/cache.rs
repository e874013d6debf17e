//! The caches of core 0, and how many of each the machine has.

use std::collections::BTreeSet;

use super::Cache;
use super::processor::online_cores;
use crate::host::Host;

/// Reads the caches of core 0, nearest first. A cache without a reported level, kind or size is left out; in some
/// containers the list is empty.
pub(super) fn read(host: &Host) -> Vec<Cache> {
    let online = online_cores(host);
    let Some(first) = online.first() else { return Vec::new() };
    let mut caches: Vec<Cache> =
        indices(host, *first).iter().filter_map(|index| read_one(host, &online, *first, index)).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn read_one(host: &Host, online: &[usize], core: usize, index: &str) -> Option<Cache> {
    let folder = folder(core, index);
    let (level, kind) = level_and_kind(host, core, index)?;
    let size_bytes = parse_size(&host.text(format!("{folder}/size"))?)?;
    let sharing: BTreeSet<Vec<usize>> =
        online.iter().filter_map(|other| sharing_of(host, *other, level, &kind)).collect();
    Some(Cache {
        level,
        size_bytes,
        // The kernel writes 0 for "fully associative" and for "unknown".
        ways: host.value(format!("{folder}/ways_of_associativity")).filter(|ways| *ways > 0),
        shared_by: host.cores(format!("{folder}/shared_cpu_list")).map_or(1, |cores| cores.len()),
        // If sharing is not reported, assume one cache per core.
        count: if sharing.is_empty() { online.len() } else { sharing.len() },
        kind,
    })
}

/// The cores that share the cache of this level and kind with `core`. Its index may differ between cores.
fn sharing_of(host: &Host, core: usize, level: u8, kind: &str) -> Option<Vec<usize>> {
    let index = indices(host, core)
        .into_iter()
        .find(|index| level_and_kind(host, core, index).is_some_and(|found| found.0 == level && found.1 == kind))?;
    host.cores(format!("{}/shared_cpu_list", folder(core, &index)))
}

fn level_and_kind(host: &Host, core: usize, index: &str) -> Option<(u8, String)> {
    let folder = folder(core, index);
    Some((host.value(format!("{folder}/level"))?, host.text(format!("{folder}/type"))?.to_lowercase()))
}

fn indices(host: &Host, core: usize) -> Vec<String> {
    let mut names = host.names(format!("/sys/devices/system/cpu/cpu{core}/cache"));
    names.retain(|name| name.starts_with("index"));
    names
}

fn folder(core: usize, index: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{core}/cache/{index}")
}

/// Reads `32K`, `1M` or a bare number of bytes. An empty text and a size of 0 are `None`.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    fn write_cache(fake: &FakeHost, core: usize, index: usize, files: &[(&str, &str)]) {
        for (file, text) in files {
            fake.write(&format!("/sys/devices/system/cpu/cpu{core}/cache/index{index}/{file}"), text);
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expect| assert_eq!(parse_size(text), expect, "{text}");
        check("32K", Some(32 << 10));
        check("2M", Some(2 << 20));
        check("512", Some(512));
        check("0K", None);
        check("", None);
        check("K", None);
        check("32KiB", None);
        check("99999999999999999999K", None);
        check("99999999999999999G", None);
    }

    #[test]
    fn two_complexes_of_two_cores() {
        let fake = FakeHost::new(&[("/sys/devices/system/cpu/online", "0-3\n")]);
        for core in 0..4 {
            let (own, complex) = (core.to_string(), if core < 2 { "0-1" } else { "2-3" });
            // Indices are not always in the order of levels.
            write_cache(&fake, core, 0, &[("level", "3"), ("type", "Unified"), ("size", "32768K")]);
            write_cache(&fake, core, 0, &[("ways_of_associativity", "16"), ("shared_cpu_list", complex)]);
            write_cache(&fake, core, 1, &[("level", "1"), ("type", "Data"), ("size", "32K")]);
            write_cache(&fake, core, 1, &[("ways_of_associativity", "8"), ("shared_cpu_list", &own)]);
        }
        let caches = read(&fake.host());
        let told: Vec<_> =
            caches.iter().map(|c| (c.level, c.kind.as_str(), c.size_bytes, c.ways, c.shared_by, c.count)).collect();
        assert_eq!(told, [(1, "data", 32 << 10, Some(8), 1, 4), (3, "unified", 32 << 20, Some(16), 2, 2)]);
    }

    #[test]
    fn odd_caches() {
        let fake = FakeHost::new(&[("/sys/devices/system/cpu/online", "0-1\n")]);
        write_cache(&fake, 0, 0, &[("level", "1"), ("type", "Data"), ("size", "64K"), ("ways_of_associativity", "0")]);
        write_cache(&fake, 0, 1, &[("level", "2"), ("type", "Unified")]);
        write_cache(&fake, 0, 2, &[("level", "300"), ("type", "Unified"), ("size", "1K")]);
        write_cache(&fake, 0, 3, &[("level", "3"), ("type", "Unified"), ("size", "junk")]);
        fake.write("/sys/devices/system/cpu/cpu0/cache/uevent", "");
        let caches = read(&fake.host());
        assert_eq!(caches.len(), 1, "no size, no level, no sense: {caches:?}");
        assert_eq!((caches[0].ways, caches[0].shared_by, caches[0].count), (None, 1, 2));
        assert!(read(&FakeHost::new(&[]).host()).is_empty());
    }
}
