//! The text of `schemata` and `size`: a line for each resource, and in it a value for each domain.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::cache::CacheMask;

/// Values by resource (`L3`, `MB`) and domain, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schemata {
    resources: BTreeMap<String, BTreeMap<u32, String>>,
}

impl Schemata {
    /// Reads lines such as `L3:0=7ff;1=7ff`. The kernel pads names and values with blanks. Other lines are left out.
    pub fn parse(text: &str) -> Schemata {
        let resources = text.lines().filter_map(|line| line.split_once(':')).map(|(name, domains)| {
            let domains = domains.split(';').filter_map(|domain| domain.split_once('='));
            let domains = domains.filter_map(|(id, value)| Some((id.trim().parse().ok()?, value.trim().to_owned())));
            (name.trim().to_owned(), domains.collect())
        });
        Schemata { resources: resources.collect() }
    }

    /// The domains of a resource; none if there is no such resource.
    pub fn domains(&self, resource: &str) -> Vec<u32> {
        self.resources.get(resource).map(|domains| domains.keys().copied().collect()).unwrap_or_default()
    }

    /// The masks of a cache by domain, without those that are no masks.
    pub fn masks(&self, resource: &str) -> BTreeMap<u32, CacheMask> {
        self.values(resource, |text| u32::from_str_radix(text, 16).ok().map(CacheMask))
    }

    /// The numbers of a resource by domain, without those that are no numbers.
    pub fn numbers(&self, resource: &str) -> BTreeMap<u32, u64> {
        self.values(resource, |text| text.parse().ok())
    }

    /// The first value that is not as in `wanted`, in words; these are of the group `folder`. Lines and domains that `wanted`
    /// does not have do not count.
    pub(super) fn difference(&self, wanted: &Schemata, folder: &str) -> Option<String> {
        wanted.resources.iter().find_map(|(resource, domains)| {
            let found = self.resources.get(resource);
            // The kernel pads masks with zeros.
            let plain = |text: &str| text.trim_start_matches('0').to_owned();
            let is_other = |(id, value): &(&u32, &String)| {
                found.and_then(|found| found.get(id)).is_none_or(|found| plain(found) != plain(value))
            };
            let (id, value) = domains.iter().find(is_other)?;
            let shown = |text: &str| match resource.as_str() {
                "MB" => text.to_owned(),
                // Masks of caches are hexadecimal.
                _ => format!("0x{text}"),
            };
            let found = found.and_then(|found| found.get(id)).map_or("none".to_owned(), |found| shown(found));
            Some(format!("{resource} in domain {id} of {folder} is {found} and not {}", shown(value)))
        })
    }

    fn values<T>(&self, resource: &str, read: impl Fn(&str) -> Option<T>) -> BTreeMap<u32, T> {
        let domains = self.resources.get(resource).into_iter().flatten();
        domains.filter_map(|(id, text)| Some((*id, read(text)?))).collect()
    }
}

/// The line that gives each domain of a resource the same value, with the newline that the kernel requires.
pub(super) fn line(resource: &str, domains: &[u32], value: impl Display) -> String {
    let values: Vec<String> = domains.iter().map(|id| format!("{id}={value}")).collect();
    format!("{resource}:{}\n", values.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemata_of_the_kernel_documentation() {
        let text = "    MB:0=2048;1=  16;2=2048;3=2048\n    L3:0=ffff;1=00ff;2=ffff;3=ffff\n";
        let schemata = Schemata::parse(text);
        assert_eq!(schemata.domains("L3"), [0, 1, 2, 3]);
        assert_eq!(schemata.numbers("MB")[&1], 16);
        assert_eq!(schemata.masks("L3")[&1], CacheMask(0xff));
        assert!(schemata.domains("L2").is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let schemata = Schemata::parse("L3:uninitialized\nL2:0=xyz;a=3;1=3\n\nnothing\n");
        assert!(schemata.domains("L3").is_empty());
        assert_eq!(schemata.masks("L2"), BTreeMap::from([(1, CacheMask(3))]));
        assert_eq!(Schemata::parse(""), Schemata::default());
    }

    #[test]
    fn a_difference_is_told_and_padding_is_none() {
        let check = |text: &str, wanted: &str, expect: Option<&str>| {
            let told = Schemata::parse(text).difference(&Schemata::parse(wanted), "/g");
            assert_eq!(told.as_deref(), expect, "{text} {wanted}");
        };
        check("MB:0=  50\nL3:0=00f;1=7ff\n", "L3:0=f;1=7ff\n", None);
        check("L3:0=0;1=7ff\n", "L3:0=0\n", None);
        check("L3:0=f;1=7ff\n", "L3:0=f;1=3\n", Some("L3 in domain 1 of /g is 0x7ff and not 0x3"));
        check("MB:0=50\n", "MB:0=50;1=20\n", Some("MB in domain 1 of /g is none and not 20"));
        check("", "L3CODE:0=3\n", Some("L3CODE in domain 0 of /g is none and not 0x3"));
    }

    #[test]
    fn lines_to_write() {
        assert_eq!(line("L3", &[0, 1], "f0"), "L3:0=f0;1=f0\n");
        assert_eq!(line("MB", &[0], 50), "MB:0=50\n");
    }
}
