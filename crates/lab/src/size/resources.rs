//! The resources whose least sufficient amounts are looked for, and the amounts of each that are tried.

use plimsoll_machine::MachineFacts;
use plimsoll_machine::control::{Amount, CONTROLS};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::host::Host;
use serde_json::Value;

use crate::amounts::Amounts;
use crate::host_limits::llc_ways;
use crate::limits::{MEMORY_MIB, UNLIMITED};
use crate::plan::Setting;
use crate::results::NotTried;

/// The option of a private server for its own cache.
const SHARED_BUFFERS: &str = "shared_buffers";

/// How a resource is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// By a control of the machine.
    Control,
    /// By an option of the target, whose own value is the full amount.
    Option,
}

/// A resource.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The sweep key of experiments.
    pub key: &'static str,
    /// Its name for people, and on the command line.
    pub name: &'static str,
    /// The unit after an amount; empty if amounts have their own.
    pub unit: &'static str,
    pub means: Means,
    /// The amounts that are tried, ascending, as far as they are below the full one.
    ladder: &'static [f64],
    /// What an amount of 1 is written as; empty for a number.
    suffix: &'static str,
}

const fn control(key: &'static str, name: &'static str, unit: &'static str, ladder: &'static [f64]) -> Resource {
    Resource { key, name, unit, means: Means::Control, ladder, suffix: "" }
}

const fn option(key: &'static str, suffix: &'static str, ladder: &'static [f64]) -> Resource {
    Resource { key, name: key, unit: "", means: Means::Option, ladder, suffix }
}

const CORES: &[f64] = &[
    0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0,
    10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0, 40.0, 48.0, 56.0, 64.0, 80.0, 96.0, 112.0, 128.0, 160.0, 192.0,
];
const MEMORY: &[f64] = &[
    64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 1536.0, 2048.0, 3072.0, 4096.0, 6144.0, 8192.0,
    12288.0, 16384.0, 24576.0, 32768.0, 49152.0, 65536.0, 98304.0, 131072.0, 196608.0, 262144.0,
];
const MEGABYTES: &[f64] = &[1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const KILOBYTES: &[f64] =
    &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0];
const PER_SECOND: &[f64] =
    &[50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0];
const MB_PER_SECOND: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0];
const WHOLE: &[f64] =
    &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 14.0, 16.0, 18.0, 20.0, 24.0, 28.0, 32.0, 48.0];

/// Every resource, the most important first.
pub(crate) static RESOURCES: &[Resource] = &[
    control("cpu_quota", "cores", "cores", CORES),
    control(MEMORY_MIB, "memory", "MiB", MEMORY),
    option(SHARED_BUFFERS, "MB", MEGABYTES),
    option("work_mem", "kB", KILOBYTES),
    control("read_mb_s", "read_mb_s", "MB/s", MB_PER_SECOND),
    control("write_mb_s", "write_mb_s", "MB/s", MB_PER_SECOND),
    control("read_iops", "read_iops", "reads/s", PER_SECOND),
    control("write_iops", "write_iops", "writes/s", PER_SECOND),
    control("llc_ways", "llc_ways", "ways", WHOLE),
    option("dop", "", WHOLE),
];

/// The resource of a sweep key.
pub(crate) fn of_key(key: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.key == key)
}

/// What this machine and a target have of each resource.
#[derive(Debug, Clone)]
pub(crate) struct Supply {
    pub cores: f64,
    pub memory_mib: Option<f64>,
    /// The ways of the last-level cache, if they can be allocated.
    pub ways: Option<f64>,
    /// Whether the database is in this process, with its clients.
    pub is_embedded: bool,
    /// The target's options that can be set, with their values.
    pub options: Vec<(String, Value)>,
}

impl Supply {
    /// Of this machine.
    pub(crate) fn here(host: &Host, is_embedded: bool, options: Vec<(String, Value)>) -> Self {
        let facts = MachineFacts::of(host);
        let memory = facts.memory_limit_bytes.map_or(facts.memory_bytes, |limit| limit.min(facts.memory_bytes));
        Supply {
            cores: cores_usable() as f64,
            memory_mib: (memory > 0).then(|| memory as f64 / f64::from(1 << 20)),
            ways: llc_ways(host).map(f64::from),
            is_embedded,
            options,
        }
    }

    /// The full amount of a resource; `None` if it is not known as a number.
    pub(crate) fn full(&self, key: &str) -> Option<f64> {
        match key {
            "cpu_quota" => Some(self.cores),
            MEMORY_MIB => self.memory_mib,
            "llc_ways" => self.ways,
            _ => None,
        }
    }
}

impl Resource {
    /// The values to sweep, ascending, the full amount last.
    pub(crate) fn values(&self, supply: &Supply) -> Result<Vec<Value>, String> {
        let (full, written) = match self.means {
            Means::Control => (supply.full(self.key).unwrap_or(f64::INFINITY), Value::from(UNLIMITED)),
            Means::Option => {
                let own = supply.options.iter().find(|(name, _)| name == self.key);
                let (_, value) = own.ok_or_else(|| format!("this target has no option `{}`", self.key))?;
                // Options are texts, and only a number of its own is a number in a sweep.
                let value = value.as_str().and_then(|text| text.parse::<u32>().ok()).map_or(value.clone(), Value::from);
                let amounts = Amounts::of(std::slice::from_ref(&value));
                let amount = amounts.ascending().first().map(|(amount, _)| *amount);
                (amount.ok_or_else(|| format!("its value, {value}, is no amount"))?, value)
            }
        };
        let below = self.ladder.iter().map(|amount| (self.amount(*amount), self.written(*amount)));
        // An amount just below the full one cannot be told from it.
        let below = below.filter(|(amount, _)| *amount <= full * 0.95).map(|(_, value)| value);
        let values: Vec<Value> = below.chain([written]).collect();
        if values.len() < 2 {
            return Err(format!(
                "there is no smaller amount than the full one, {}",
                plimsoll_display::value(&values[0])
            ));
        }
        Ok(values)
    }

    fn amount(&self, amount: f64) -> f64 {
        match self.suffix {
            "MB" => amount * f64::from(1 << 20),
            "kB" => amount * f64::from(1 << 10),
            _ => amount,
        }
    }

    fn written(&self, amount: f64) -> Value {
        match self.suffix {
            "" if amount.fract() == 0.0 => Value::from(amount as u64),
            "" => Value::from(amount),
            "kB" if amount >= 1024.0 => format!("{}MB", amount / 1024.0).into(),
            suffix => format!("{amount}{suffix}").into(),
        }
    }

    /// Why it cannot be limited on this machine, if so.
    pub(crate) fn obstacle(&self, host: &Host, supply: &Supply) -> Option<NotTried> {
        let refused = |why: String, remedy: Option<String>| NotTried { resource: self.name.to_owned(), why, remedy };
        if self.means == Means::Option {
            return None;
        }
        if self.key == MEMORY_MIB && supply.is_embedded {
            let why =
                "the embedded engine shares its process with the clients, which a limit below their needs would end";
            return Some(refused(why.to_owned(), Some("size it on --target postgres:".to_owned())));
        }
        let control = CONTROLS.iter().find(|control| control.key() == self.key)?;
        let availability = control.probe(host);
        (!availability.available).then(|| refused(availability.reason, availability.remedy))
    }
}

/// A private server whose memory is limited has at most a quarter of it as its own cache, as it would have on a machine of
/// that size. With more it would end as soon as that cache is full, and its size would be that of the cache.
pub(crate) fn fit_buffers(setting: &mut Setting) {
    let Some(Amount::Number(mib)) = setting.limits.get(MEMORY_MIB) else { return };
    let is_private = setting.url.split('?').next() == Some("postgres:");
    let quarter = format!("{:.0}MB", (mib / 4.0).floor().max(1.0));
    let own = setting.options.get(SHARED_BUFFERS).map(|own| Value::from(own.as_str()));
    let smaller = own.is_none_or(|own| {
        let amounts = Amounts::of(&[own.clone(), quarter.clone().into()]);
        amounts.amount(&own) > amounts.amount(&quarter.clone().into())
    });
    if is_private && smaller {
        setting.options.insert(SHARED_BUFFERS.to_owned(), quarter);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn supply() -> Supply {
        Supply {
            cores: 2.0,
            memory_mib: Some(1000.0),
            ways: None,
            is_embedded: false,
            options: vec![("work_mem".to_owned(), json!("1MB")), ("dop".to_owned(), json!("2"))],
        }
    }

    fn values(key: &str) -> Result<Vec<Value>, String> {
        of_key(key).expect("it is listed").values(&supply())
    }

    #[test]
    fn amounts_end_with_the_full_one() {
        let cores = values("cpu_quota").expect("two cores");
        assert_eq!((cores.first(), cores.last()), (Some(&json!(0.1)), Some(&json!("unlimited"))));
        assert_eq!(cores[cores.len() - 2], json!(1.75), "2 of 2 cores is no limit");
        assert_eq!(
            values("work_mem"),
            Ok(vec![json!("64kB"), json!("128kB"), json!("256kB"), json!("512kB"), json!("1MB")])
        );
        assert_eq!(values("dop"), Ok(vec![json!(1), json!(2)]));
        assert_eq!(values("memory_mib").map(|all| all[all.len() - 2].clone()), Ok(json!(768)));
        assert_eq!(values("shared_buffers"), Err("this target has no option `shared_buffers`".to_owned()));
    }

    #[test]
    fn the_cache_of_a_server_fits_into_its_memory() {
        let text = "name = \"size\"\n[target]\nurl = \"postgres:\"\n[[workload]]\nname = \"shop\"\nkind = \"tpcc\"\n\
            [run]\nsearch = \"size\"\n[sweep]\nmemory_mib = [256, \"unlimited\"]\ndop = [1, 2]\n";
        let plan = crate::analysis::made_up::plan(text);
        let buffers = |setting: Setting| setting.options.get("shared_buffers").cloned();
        assert_eq!(buffers(plan.setting(0)).as_deref(), Some("64MB"), "a quarter");
        assert_eq!(buffers(plan.setting(2)), None, "no limit");
        let with = |own: &str| {
            let mut setting = plan.setting(0);
            setting.options.insert("shared_buffers".to_owned(), own.to_owned());
            fit_buffers(&mut setting);
            buffers(setting)
        };
        assert_eq!(
            (with("32MB").as_deref(), with("4GB").as_deref()),
            (Some("32MB"), Some("64MB")),
            "no more than it had"
        );
        let grid = crate::analysis::made_up::plan(&text.replace("search = \"size\"\n", ""));
        assert_eq!(buffers(grid.setting(0)), None, "only a search for sizes does so");
        let given = crate::analysis::made_up::plan(&text.replace("\"postgres:\"", "\"embedded:\""));
        assert_eq!(buffers(given.setting(0)), None);
    }

    /// Every list is one of amounts, which the search needs.
    #[test]
    fn every_list_ascends() {
        for resource in RESOURCES {
            assert!(resource.ladder.is_sorted_by(|a, b| a < b), "{}", resource.key);
            let Ok(all) = resource.values(&supply()) else { continue };
            let amounts = Amounts::of(&all);
            assert!(amounts.are_all(), "{}", resource.key);
            assert_eq!(amounts.ascending().iter().map(|(_, value)| value.clone()).collect::<Vec<_>>(), all);
        }
    }
}
