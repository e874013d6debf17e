//! Possible values of options, and their effects.

use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

fn settings(memory_bytes: u64, cores: u32) -> ServerSettings {
    ServerSettings::for_machine(MachineSize { memory_bytes, cores })
}

fn with(options: &[(&str, &str)]) -> ServerSettings {
    settings(16 * GIB, 4).with(options).unwrap()
}

/// Options are kept with results, and shown.
#[test]
fn a_copy_is_of_a_url_without_a_password() {
    for url in ["postgres://me:secret@db/shop", "postgres://me@db/shop?password=secret", "secret"] {
        let error = settings(16 * GIB, 4).with(&[("copy_of", url)]).unwrap_err().to_string();
        assert!(error.contains("PGPASSWORD") && !error.contains("secret"), "{error}");
    }
    let copy = with(&[("copy_of", "postgres://me@db.example/shop")]);
    assert_eq!(copy.get("copy_of"), Some("postgres://me@db.example/shop".into()));
    assert_eq!(copy.copy_of().map(|url| url.database), Some("shop".to_owned()));
    assert!(!copy.all_parameters().iter().any(|(name, _)| name == "copy_of"), "it is not one of PostgreSQL's");
    assert_eq!(with(&[]).effect_of_change_to(&copy), Some(Effect::NewServer));
    assert_eq!(with(&[("copy_of", "none")]).copy_of(), None);
}

#[test]
fn defaults_fit_the_machine() {
    let check = |memory_bytes, cores, name: &str, expect: &str| {
        let value = settings(memory_bytes, cores).get(name).unwrap();
        assert_eq!(value.to_string().trim_matches('"'), expect, "{name} at {memory_bytes}");
    };
    check(16 * GIB, 4, "shared_buffers", "4GB");
    check(256 * GIB, 64, "shared_buffers", "4GB");
    check(2 * GIB, 1, "shared_buffers", "512MB");
    check(GIB / 16, 1, "shared_buffers", "32MB");
    check(16 * GIB, 4, "effective_cache_size", "12GB");
    check(16 * GIB, 4, "work_mem", "64MB");
    check(GIB, 4, "work_mem", "4MB");
    check(16 * GIB, 4, "dop", "4");
    check(16 * GIB, 200, "dop", "64");
    check(16 * GIB, 4, "isolation", "read committed");
    check(16 * GIB, 4, "fsync", "on");
    check(16 * GIB, 4, "jit", "off");
    check(16 * GIB, 4, "checkpoint_timeout", "5min");
    check(16 * GIB, 4, "random_page_cost", "1.1");
    check(16 * GIB, 4, "folder", "null");
}

#[test]
fn every_default_could_be_said_and_every_value_is_read_back() {
    for memory in [GIB / 4, 2 * GIB, 16 * GIB, 1 << 44] {
        let defaults = settings(memory, 4);
        for option in SERVER_OPTIONS {
            let text = defaults.value(option).text();
            if text.is_empty() {
                continue;
            }
            let mut said = settings(memory, 4);
            said.set(option.name, &text).unwrap();
            assert_eq!(said.get(option.name), defaults.get(option.name));
            assert!(said.is_set(option.name) && !defaults.is_set(option.name));
            assert_eq!(said.effect_of_change_to(&defaults), None, "{}", option.name);
        }
    }
    assert!(SERVER_OPTIONS.is_sorted_by_key(|option| option.name));
    assert_eq!(settings(GIB, 1).get("no_such"), None);
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (name, value, expect) in [
        ("shared_bufers", "1GB", "did you mean `shared_buffers`?"),
        ("shared_buffers", "64", "an amount from 1MB to 14GB with its unit"),
        ("shared_buffers", "100TB", "an amount from 1MB to 14GB"),
        ("shared_buffers", "0kB", "an amount from 1MB"),
        ("shared_buffers", "1GB'\nfsync='off", "an amount from"),
        ("work_mem", "-1", "an amount from 64kB to 16GB"),
        ("max_wal_size", "1MB", "an amount from 32MB to 1TB"),
        ("checkpoint_timeout", "1s", "a time from 30s to 1d"),
        ("deadlock_timeout", "soon", "a time from 1ms"),
        ("fsync", "yes", "`on` or `off`"),
        ("synchronous_commit", "remote_apply", "`on` or `off` or `local`"),
        ("max_connections", "0", "a number from 10 to 10000"),
        ("max_connections", "1000000", "a number from 10 to 10000"),
        ("random_page_cost", "NaN", "a number from 0"),
        ("random_page_cost", "inf", "a number from 0"),
        ("dop", "0", "a number from 1 to 64"),
        ("standby", "2", "a number from 0 to 1"),
        ("max_standby_streaming_delay", "-1", "`none` or a time from 0us to 1d with its unit"),
        ("max_standby_streaming_delay", "2d", "`none` or a time"),
        ("isolation", "read uncommitted", "`read committed` or `repeatable read` or `serializable`"),
        ("cpu_policy", "p-cpu", "`none` or `cpu-prio`; the others must be asked"),
        ("folder", "relative", "the absolute path of a folder"),
        ("folder", "", "the absolute path of a folder"),
        ("folder", "/a,/b", "without commas"),
        ("folder", "/a\nfsync=off", "without commas"),
    ] {
        let error = settings(16 * GIB, 4).set(name, value).expect_err(value).to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn sessions_set_what_was_said_and_nothing_else() {
    assert_eq!(with(&[("shared_buffers", "1GB"), ("fsync", "off")]).session_settings(), []);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let said = with(&[("work_mem", "8MB"), ("isolation", "repeatable-read"), ("dop", "1"), ("jit", "on")]);
    assert_eq!(
        said.session_settings(),
        [
            pair("max_parallel_workers_per_gather", "0"),
            pair("max_parallel_workers", "4"),
            pair("default_transaction_isolation", "repeatable read"),
            pair("jit", "on"),
            pair("work_mem", "8MB"),
        ]
    );
    assert_eq!((said.isolation(), said.dop()), (Isolation::RepeatableRead, 1));
    assert_eq!(with(&[("dop", "9")]).session_settings()[1], pair("max_parallel_workers", "8"));
    assert_eq!(with(&[("cpu_policy", "cpu-prio")]).cpu_policy().name(), "cpu-prio");
}

#[test]
fn two_servers_need_twice_the_disk() {
    let room = |options: &[(&str, &str)]| with(options).room().expect("a folder for temporary files").free_bytes;
    let small = ("max_wal_size", "64MB");
    let (one, two) = (room(&[small]), room(&[small, ("standby", "1")]));
    // Other processes write to that disk between the two looks.
    assert!(two < one * 6 / 10 && two > one * 4 / 10, "{one} {two}");
}

#[test]
fn a_change_has_the_farthest_reaching_effect_of_its_parts() {
    let check = |options: &[(&str, &str)], expect: Option<Effect>| {
        assert_eq!(with(&[]).effect_of_change_to(&with(options)), expect, "{options:?}");
    };
    check(&[], None);
    check(&[("fsync", "on")], None);
    check(&[("work_mem", "1MB")], Some(Effect::Session));
    check(&[("work_mem", "1MB"), ("fsync", "off")], Some(Effect::Reload));
    check(&[("shared_buffers", "1MB"), ("fsync", "off")], Some(Effect::Restart));
    check(&[("shared_buffers", "1MB"), ("folder", "/data")], Some(Effect::NewServer));
}

proptest! {
    #[test]
    fn no_text_reaches_the_configuration_unread(name in 0..SERVER_OPTIONS.len(), value in ".*") {
        let mut settings = settings(16 * GIB, 4);
        if settings.set(SERVER_OPTIONS[name].name, &value).is_ok() {
            for (_, text) in settings.all_parameters() {
                prop_assert!(!text.contains(['\'', '\n', '\\', ';']));
            }
        }
    }
}
