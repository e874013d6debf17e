//! The option `cache_classes` of a private server on this machine, which usually cannot divide its cache.

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
    // A scan, an aggregation and a join: one of each class.
    let queries = [
        "select max(relname::text) from pg_class where relname < 'pg_d'",
        "select attnum, count(*) from pg_attribute where attrelid < 10000 group by attnum order by attnum",
        "select count(*) from pg_attribute a join pg_class c on c.oid = a.attrelid where c.oid < 10000",
    ];
    let answers = || {
        let mut session = database.session(&SCHEMA).unwrap();
        queries.map(|query| session.query(query).unwrap().batches)
    };
    assert_eq!(database.set_option("cache_classes", "off"), Ok(OptionChange::Applied));
    let expect = answers();
    assert!(expect.iter().all(|batches| batches[0].num_rows() > 0), "{expect:?}");
    for value in ["on", "off", "on"] {
        assert_eq!(database.set_option("cache_classes", value), Ok(OptionChange::Applied));
        // The second time uses the classes that the first has found for each template.
        for _ in 0..2 {
            assert_eq!(answers(), expect, "{value}");
        }
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
    let classes = ServerSettings::for_this_machine().with(&[("cache_classes", "on")]).unwrap();
    assert_eq!(classes.conflict(), None);
    let conflict = classes.with(&[("standby", "1")]).unwrap().conflict().unwrap();
    assert!(conflict.contains("`cache_classes`") && conflict.contains("standby=0"), "{conflict}");
}
