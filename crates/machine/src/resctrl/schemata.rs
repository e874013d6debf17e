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
    fn lines_to_write() {
        assert_eq!(line("L3", &[0, 1], CacheMask(0xf0).hex()), "L3:0=f0;1=f0\n");
        assert_eq!(line("MB", &[0], 50), "MB:0=50\n");
    }
}
