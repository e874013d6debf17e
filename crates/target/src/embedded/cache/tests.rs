//! The option on a machine without cache allocation.

use plimsoll_machine::host::Host;
use plimsoll_machine::resctrl::Resctrl;
use plimsoll_workload::database::{Database, OptionChange};

use super::super::EmbeddedOptions;
use crate::embedded::Embedded;

fn open(options: &[&str]) -> Embedded {
    Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap()
}

#[test]
fn the_option_makes_pools_and_tells_once_why_they_are_unbound() {
    let database = open(&["dop=2", "cache_classes=on"]);
    assert_eq!(database.query_threads().len(), 2, "one pool for all classes");
    match Resctrl::open(&Host::real()) {
        Ok(_) => assert_eq!(database.warnings(), [""; 0]),
        Err(absent) => {
            let warnings = database.warnings();
            assert!(warnings.len() == 1 && warnings[0].contains(&absent.reason), "{warnings:?} for {absent}");
        }
    }
    assert_eq!(database.set_option("cache_switch", "per_pool"), Ok(OptionChange::Applied));
    assert_eq!(database.query_threads().len(), 6, "two threads for each of three classes");
    assert_eq!(database.set_option("cache_classes", "off"), Ok(OptionChange::Applied));
    assert_eq!((database.query_threads().len(), database.warnings(), database.cache_jobs()), (2, vec![], None));
    for (option, part) in [("cache_classes=yes", "`on` or `off`"), ("cache_switch=per_pol", "did you mean `per_pool`")]
    {
        let told = EmbeddedOptions::parse([option]).unwrap_err().to_string();
        assert!(told.contains(part), "{told}");
    }
}
