//! The simulated machine and how long it is simulated: the options of the target.

use std::collections::BTreeMap;

use plimsoll_machine::control::LLC_WAYS;
use plimsoll_model::cache_simulator::{CacheShape, LINE_BYTES, Machine, Replacement, WAYS_MOST};
use plimsoll_policy::cache_class::{CacheWays, WayMask};
use serde_json::Value;

use super::Fault;
use super::mask::{self, Mask};

/// An option of the target `simulated:`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatorOption {
    /// Its name in files.
    pub name: &'static str,
    /// Its meaning, with the unit.
    pub meaning: &'static str,
    /// The kind of its value.
    pub value: OptionValue,
}

/// The kind of an option's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionValue {
    /// A number.
    Number {
        /// The default: that of the study's processor (NO III.C).
        default: f64,
        /// The minimum.
        least: f64,
        /// The maximum.
        most: f64,
        /// Whether it must be whole.
        is_whole: bool,
    },
    /// True or false; the default is false.
    Flag,
    /// Ways of the shared cache; the default is all.
    Ways,
}

/// The one list.
pub const OPTIONS: [SimulatorOption; 18] = [
    number("cache_mib", "MiB of the cache that cores share", 55.0, 1e-3, 4096.0),
    whole("cache_ways", "its ways", 20, WAYS_MOST as u64),
    SimulatorOption {
        name: LLC_WAYS,
        meaning: "the ways of it that the experiment may use: the number of lowest ways, or a mask such as 0x3ff; masks of workloads lie within",
        value: OptionValue::Ways,
    },
    whole("closids", "different masks that the processor can have in force at once (classes of service)", 16, 1024),
    SimulatorOption { name: "sparse_masks", meaning: "whether it takes masks with holes", value: OptionValue::Flag },
    number(
        "line_bytes",
        "bytes of a line; no others are simulated",
        LINE_BYTES as f64,
        LINE_BYTES as f64,
        LINE_BYTES as f64,
    ),
    number("private_kib", "KiB of the largest cache that each core has for itself", 256.0, 1.0, 65536.0),
    whole("private_ways", "its ways", 8, WAYS_MOST as u64),
    SimulatorOption {
        name: "non_inclusive",
        meaning: "whether a core keeps for itself what the shared cache evicts",
        value: OptionValue::Flag,
    },
    SimulatorOption {
        name: "least_recently_used",
        meaning: "whether the shared cache replaces the least recently used line, whatever was used more than once",
        value: OptionValue::Flag,
    },
    number(
        "shared_ns",
        "nanoseconds of a hit in the shared cache (assumed; the study does not tell it)",
        18.0,
        0.1,
        1e4,
    ),
    number("memory_ns", "nanoseconds of a read from memory without contention", 80.0, 0.1, 1e5),
    number("memory_gb_s", "most GB (10^9 bytes) per second from memory", 64.0, 1e-3, 1e5),
    whole("machine_cores", "its cores; threads beyond them share a core and its cache with another thread", 22, 4096),
    number(
        "sibling_slowdown",
        "how many times as long a thread computes while another thread of its core computes (assumed; the study does not tell it)",
        1.6,
        1.0,
        100.0,
    ),
    whole("sampling", "one set in this many is simulated; it must divide the sets of both caches", 32, 1 << 16),
    whole("warm_up", "references of all cores together before anything is counted", 16_000_000, 1 << 50),
    whole("references", "references that are counted", 16_000_000, 1 << 50),
];

const fn number(name: &'static str, meaning: &'static str, default: f64, least: f64, most: f64) -> SimulatorOption {
    SimulatorOption { name, meaning, value: OptionValue::Number { default, least, most, is_whole: false } }
}

const fn whole(name: &'static str, meaning: &'static str, default: u64, most: u64) -> SimulatorOption {
    let value = OptionValue::Number { default: default as f64, least: 1.0, most: most as f64, is_whole: true };
    SimulatorOption { name, meaning, value }
}

impl SimulatorOption {
    /// Its default, as written in files.
    pub(crate) fn default_text(&self) -> String {
        match self.value {
            OptionValue::Number { default, .. } => default.to_string(),
            OptionValue::Flag => "false".to_owned(),
            OptionValue::Ways => "all".to_owned(),
        }
    }

    /// The text as a number; true is 1, and ways have no number here. An error says why it is not valid.
    fn read(&self, text: &str) -> Result<f64, String> {
        let name = self.name;
        match self.value {
            OptionValue::Number { least, most, is_whole, .. } => {
                let number = text
                    .parse::<f64>()
                    .ok()
                    .filter(|number| (least..=most).contains(number) && (!is_whole || number.fract() == 0.0));
                let what = if is_whole { "a whole number" } else { "a number" };
                number.ok_or_else(|| format!("`{name}` is {what} from {least} to {most}; this is {text}"))
            }
            OptionValue::Flag => match text {
                "true" => Ok(1.0),
                "false" => Ok(0.0),
                _ => Err(format!("`{name}` is true or false; this is {text}")),
            },
            OptionValue::Ways => text.parse::<Mask>().map(|_| 0.0),
        }
    }
}

/// The options of a setting, all of them read.
#[derive(Debug)]
pub(super) struct Options {
    numbers: BTreeMap<&'static str, f64>,
    llc_ways: Mask,
}

impl Options {
    pub(super) fn of(given: &BTreeMap<String, String>) -> Result<Self, Fault> {
        let mut options = Options { numbers: BTreeMap::new(), llc_ways: Mask::All };
        for option in &OPTIONS {
            let text = given.get(option.name).cloned().unwrap_or_else(|| option.default_text());
            let number = option.read(&text).map_err(|why| Fault::option(option.name, why))?;
            options.numbers.insert(option.name, number);
            if option.value == OptionValue::Ways {
                options.llc_ways = text.parse().expect("it was just read");
            }
        }
        Ok(options)
    }

    /// A number that was read.
    pub(super) fn number(&self, name: &str) -> f64 {
        self.numbers[name]
    }

    pub(super) fn machine(&self) -> Machine {
        let shape = |bytes: f64, ways: &str| CacheShape { bytes: bytes as u64, ways: self.number(ways) as u32 };
        Machine {
            shared: shape(self.number("cache_mib") * f64::from(1 << 20), "cache_ways"),
            private: shape(self.number("private_kib") * 1024.0, "private_ways"),
            inclusive: self.number("non_inclusive") == 0.0,
            replacement: match self.number("least_recently_used") {
                0.0 => Replacement::Rrip,
                _ => Replacement::LeastRecentlyUsed,
            },
            shared_ns: self.number("shared_ns"),
            memory_ns: self.number("memory_ns"),
            memory_bytes_per_s: self.number("memory_gb_s") * 1e9,
            cores: self.number("machine_cores") as u32,
            sibling_slowdown: self.number("sibling_slowdown"),
        }
    }

    /// The shared cache as the policy sees it, its `llc_ways` checked.
    pub(super) fn ways(&self) -> Result<CacheWays, Fault> {
        let Machine { shared, .. } = self.machine();
        let all = WayMask::run(0, shared.ways);
        let cache = CacheWays {
            bytes: shared.bytes,
            ways: shared.ways,
            allowed: all,
            sparse: self.number("sparse_masks") == 1.0,
            groups_free: self.number("closids") as u32,
        };
        let wrong = |why: String| Fault::option(LLC_WAYS, why);
        let allowed = match self.llc_ways {
            Mask::Class => {
                return Err(wrong(
                    "`llc_ways` does not belong to an operator, so it has no class; write a number of ways".to_owned(),
                ));
            }
            Mask::All => all,
            Mask::Lowest(count) => WayMask::run(0, count),
            Mask::Ways(mask) => mask,
        };
        let cache = CacheWays { allowed, ..cache };
        mask::check(&cache, LLC_WAYS, allowed).map_err(wrong)?;
        Ok(cache)
    }
}

/// The value of an option as it is recorded: equal values alike, independently of their spelling.
pub(super) fn told(text: &str) -> Value {
    text.parse::<f64>().map_or_else(|_| text.into(), |number| number.to_string().into())
}
