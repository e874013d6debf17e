//! The option `cache_classes` of a private server on this machine, which most likely cannot divide its cache.

use std::borrow::Cow;

use plimsoll_machine::host::Host;
use plimsoll_machine::resctrl::Resctrl;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::ServerSettings;
use plimsoll_workload::database::{Database, OptionChange};
use plimsoll_workload::schema::Schema;

use super::shared::new_server;

static SCHEMA: Schema = Schema { name: Cow::Borrowed("cache_classes"), tables: &[] };

#[test]
fn queries_run_bound_or_with_a_warning_and_the_option_can_be_swept() {
    let database = PostgresDatabase::private(new_server(&[("cache_classes", "on")]));
    database.create(&SCHEMA).unwrap();
    let answer = || {
        let mut session = database.session(&SCHEMA).unwrap();
        session.query("select count(*) from pg_class where relname = 'pg_class'").unwrap().batches[0].num_rows()
    };
    for value in ["on", "off", "on"] {
        assert_eq!(database.set_option("cache_classes", value), Ok(OptionChange::Applied));
        assert_eq!(answer(), 1);
        let (warnings, is_on) = (database.warnings(), value == "on");
        assert_eq!(database.cache_switches().is_some(), is_on);
        match Resctrl::open(&Host::real()) {
            Err(absent) if is_on => {
                assert!(warnings.len() == 1 && warnings[0].contains(&absent.reason), "{warnings:?} for {absent}");
                assert!(warnings[0].contains("cache_classes=on"), "{warnings:?}");
            }
            _ => assert_eq!(warnings, [""; 0]),
        }
    }
    let error = database.set_option("cache_classes", "maybe").unwrap_err().to_string();
    assert!(error.contains("it can be `on` or `off`"), "{error}");
}

#[test]
fn a_standby_has_processes_that_are_not_moved() {
    let mut settings = ServerSettings::for_this_machine();
    settings.set("cache_classes", "on").unwrap();
    assert_eq!(settings.conflict(), None);
    settings.set("standby", "1").unwrap();
    let conflict = settings.conflict().unwrap();
    assert!(conflict.contains("`cache_classes`") && conflict.contains("standby=0"), "{conflict}");
}
