//! An experiment file as typed: every key with its place, nothing checked beyond its type.
//!
//! The descriptions here are also those of the JSON schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use plimsoll_notation::At;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An experiment of Plimsoll: what is run at which settings, and what must come out.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(title = "Plimsoll experiment", deny_unknown_fields)]
pub struct TypedExperiment {
    /// The experiment's name, also the beginning of its run directory's: letters, digits, `.`, `_` and `-`.
    pub name: At<String>,
    /// What it is about, in a sentence.
    pub title: Option<String>,
    /// The study whose exhibit it reproduces.
    pub study: Option<TypedStudy>,
    /// In what it differs from the study, beside the machine: what a reader must know who compares figures.
    /// `{NAME.scale}` stands for the scale at which the workload runs.
    #[serde(default)]
    pub differs: Vec<At<String>>,
    /// Who runs at each setting: `alone:NAME`, `alone` (each alone), `A+B`, `pairs` (every two), `together` (all). Without it
    /// each alone and all together.
    pub arms: Option<At<Vec<At<String>>>>,
    /// The database.
    #[serde(default)]
    pub target: TypedTarget,
    /// What of the machine may be used, and what else runs on it, where it is not swept: `cores = 1`, `write_mb_s = 50`.
    #[serde(default)]
    pub machine: BTreeMap<At<String>, At<TypedValue>>,
    /// The workloads, one table each.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<At<TypedWorkload>>,
    /// What is swept: a key `WORKLOAD.FIELD`, `WORKLOAD.PARAMETER`, a field of the only workload, an option of the target, or
    /// a limit of the machine, and its values, the key that changes slowest first.
    #[serde(default)]
    pub sweep: BTreeMap<At<String>, At<TypedValues>>,
    /// How runs are run.
    #[serde(default)]
    pub run: TypedRun,
    /// What `--quick` changes.
    #[serde(default)]
    pub quick: TypedQuick,
    /// What must come out, one table each.
    #[serde(default, rename = "claim")]
    pub claims: Vec<TypedClaim>,
}

/// The study whose exhibit an experiment reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum TypedStudy {
    /// Sen and Ramachandra: resource sensitivity.
    SR,
    /// Sirin: micro-architecture, HTAP interference.
    SI,
    /// McWherter: prioritisation and performance isolation.
    MW,
    /// Gawade, Kersten and Simitsis: parallel plans under concurrency.
    GA,
    /// Noll et al.: cache partitioning.
    NO,
}

/// The database under test.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedTarget {
    /// Its URL; without it `embedded:`, the engine in the same process.
    pub url: Option<At<String>>,
    /// Its options.
    #[serde(default)]
    pub options: BTreeMap<At<String>, At<TypedValue>>,
}

/// A benchmark with its scale and its clients.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedWorkload {
    /// The benchmark: `tpcc`, `tpch`, …, or `file:` and the path of your own, relative to the experiment's.
    pub kind: At<String>,
    /// Its name in this experiment; without it the benchmark's.
    pub name: Option<At<String>>,
    /// The benchmark's scale; without it the benchmark's own default.
    #[schemars(with = "Option<f64>")]
    pub scale: Option<At<TypedValue>>,
    /// The number of clients that run at once, or `cores` for one for each core that the experiment is sized for: 1 without it.
    #[schemars(with = "Option<TypedValue>")]
    pub clients: Option<At<TypedValue>>,
    /// How long a client waits between requests: `none`, `const 5ms`, `exp 10ms`; `none` without it.
    #[schemars(with = "Option<String>")]
    pub think: Option<At<TypedValue>>,
    /// How long it takes from the answer to a statement of a transaction until the next one, or the commit, arrives: `none`,
    /// `const 1ms`, `exp 1ms`; `none` without it.
    #[schemars(with = "Option<String>")]
    pub round_trip: Option<At<TypedValue>>,
    /// Requests per second of all clients together, however fast the database answers; without it, as fast as it answers.
    #[schemars(with = "Option<f64>")]
    pub rate: Option<At<TypedValue>>,
    /// The priority of requests: `high`, `low`, `level2` to `level254` above high, `high:0.1` for a tenth of them high, or
    /// several shares as in `level2:0.05, high:0.1`; `high:0.25 of clients` for all requests of a quarter of the clients; or
    /// a table with the priority of each kind of transaction, as in `{ payment = "high" }`, where "*" stands for all others.
    /// `low` without it, and for the rest.
    pub priority: Option<At<TypedPriority>>,
    /// The name of an instance: tables of its own in the same database, for a second workload of the same benchmark with other data. Without it the
    /// workload uses the benchmark's tables, as all others without it do.
    pub instance: Option<At<String>>,
    /// The user of the server as whom its clients log in; without it the user of the target's URL. A governor with
    /// settings of your own (`governor_config`) then takes the class from its rules, and clients name none.
    pub user: Option<At<String>>,
    /// The application name that its clients send; without it that of Plimsoll. A governor that pools shares connections by it.
    pub application: Option<At<String>>,
    /// Parameters of the benchmark beyond its scale.
    #[serde(default)]
    pub parameters: BTreeMap<At<String>, At<TypedValue>>,
}

/// How runs are run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedRun {
    /// What comes before each window: a length as `5s`, `steady` (until throughput is), or `steady 30s` (but at most so long);
    /// `2s` without it.
    pub warmup: Option<At<String>>,
    /// The length of each window, as `20s`: `10s` without it.
    pub measure: Option<At<String>>,
    /// How often each arm of each setting runs: 5 without it.
    pub repeats: Option<At<u32>>,
    /// The order of runs and everything that clients draw follows from it: 7 without it.
    pub seed: Option<u64>,
    /// When data is loaded again; the default is `when-grown`.
    #[serde(default)]
    pub reload: TypedReload,
    /// Which settings are run; `grid` without it.
    pub search: Option<At<TypedSearch>>,
    /// With `search = "size"`: the time that runs may take, loading included; `5min` without it.
    pub budget: Option<At<String>>,
    /// With `search = "size"`: a promise on response times, as `p95 < 20ms`, that sufficient amounts keep.
    pub promise: Option<At<String>>,
    /// What happens when the server goes away in the middle of a run, which is then invalid; `go-on` without it.
    #[serde(default)]
    pub server_lost: TypedServerLost,
    /// How many cores others on the machine may keep busy during a window, per core that can be used: a run in which they take
    /// more is repeated, and invalid if it stays so. 0.1 without it.
    #[schemars(with = "Option<f64>")]
    pub others_max: Option<At<f64>>,
    /// How often a run is tried while others take more than that: 3 without it.
    pub tries: Option<At<u32>>,
    /// What becomes of a run in which others took more than that at every try; `discard` without it.
    #[serde(default)]
    pub disturbed: TypedDisturbed,
    /// Whether some runs are made twice in each block, so that the difference of equal runs is known: `true` without it.
    pub again: Option<bool>,
    /// The share of a workload's requests that may fail, 0 to 1: a run in which more fail is invalid. 0.05 without it.
    #[schemars(with = "Option<f64>")]
    pub failed_max: Option<At<f64>>,
    /// How many requests of each run are counted on a simulated processor (Valgrind), in place of a window that is measured.
    /// Without it runs are measured.
    pub simulated_requests: Option<At<u64>>,
}

/// What becomes of a run that others on the machine disturbed at every try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedDisturbed {
    /// It is invalid. If a whole round is, the experiment ends.
    #[default]
    Discard,
    /// It counts, and intervals of comparisons are wider by what others took.
    Keep,
}

/// What happens when a server goes away in the middle of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedServerLost {
    /// It is opened again, and the next run begins.
    #[default]
    GoOn,
    /// The experiment ends; what was measured is kept.
    Stop,
}

/// When data is loaded again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedReload {
    /// Before each run of a workload whose data an earlier run has made grow.
    #[default]
    WhenGrown,
    /// Before each run of a workload that has written at all.
    WhenWritten,
    /// Never: each run finds what the one before has left.
    Never,
}

/// Which settings of a sweep are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedSearch {
    /// All of them.
    Grid,
    /// Those that find the knee of the one numeric sweep, by bisection.
    Knee,
    /// Those that bracket the least sufficient amount of each sweep, beside the last value of every other sweep.
    Size,
}

/// What `--quick` changes. Whatever is not told here keeps to the rule: warm-up at most 1 s, windows at most 2 s, at most 5
/// repeats.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedQuick {
    /// As in `[run]`.
    pub warmup: Option<At<String>>,
    /// As in `[run]`.
    pub measure: Option<At<String>>,
    /// As in `[run]`.
    pub repeats: Option<At<u32>>,
    /// As in `[run]`.
    pub simulated_requests: Option<At<u64>>,
    /// Other values for what is not swept; keys as in `[sweep]`.
    #[serde(default)]
    pub set: BTreeMap<At<String>, At<TypedValue>>,
    /// Other values for what is swept; keys as in `[sweep]`.
    #[serde(default)]
    pub sweep: BTreeMap<At<String>, At<TypedValues>>,
}

/// A sentence with a number that the experiment must show.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedClaim {
    /// What is claimed, in words.
    pub text: String,
    /// What must hold, as an expression: `gain(pow, high) >= 0.95 * gain(pabort, high)`.
    pub holds: At<String>,
    /// What was published, in words, with its place in the study.
    pub published: Option<String>,
    /// The published figure, if the study has one, and ours that is graded by it.
    pub near: Option<TypedNear>,
}

/// A published figure, and ours: `{ ours = "gain(nprio, high)", published = 3.7 }`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedNear {
    /// Our figure, as an expression.
    pub ours: At<String>,
    /// The published figure, or the lowest and the highest of several; `inf` where there is no highest.
    pub published: At<TypedPublished>,
    /// How many times ours may be larger or smaller and still be a match. Without it 1.5.
    pub factor: Option<f64>,
    /// What the figure would be if there were nothing to report. Without it 1, for most figures are ratios.
    pub no_effect: Option<f64>,
}

/// A number or two.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or two in brackets, the lower one first")]
pub enum TypedPublished {
    /// One figure.
    One(f64),
    /// The lowest and the highest of several.
    Several([f64; 2]),
}

/// A text, a number, true or false, or several texts.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text, a number, true or false, or several texts")]
pub enum TypedValue {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any number.
    Float(f64),
    /// A text.
    Text(String),
    /// Several texts, where a parameter takes more than one.
    Texts(Vec<String>),
}

/// The priority of requests: a rule for all of them, or one for each kind of transaction.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text as \"high:0.1\", or a table as { payment = \"high\" }")]
pub enum TypedPriority {
    /// A rule: `high`, `high:0.1`, `payment=high, high:0.1`, `high:0.25 of clients`.
    Rule(String),
    /// Rules by kind of transaction; "*" stands for all others.
    ByTransaction(BTreeMap<String, String>),
}

/// Values of a sweep: a list, or a range of whole numbers as text: `1..32`, `0..50 by 10`, `1..64 by x2`, `1..cores`.
#[derive(Debug, Clone, PartialEq)]
pub enum TypedValues {
    /// Each value.
    List(Vec<At<TypedValue>>),
    /// A range, both ends included.
    Range(String),
}

impl TypedWorkload {
    /// The place of the value of a field or parameter; the place of the kind, if the value is not given.
    pub(super) fn place_of(&self, field: &str) -> Range<usize> {
        if let Some(priority) = self.priority.as_ref().filter(|_| field == "priority") {
            return priority.span();
        }
        let value = match field {
            "scale" => self.scale.as_ref(),
            "clients" => self.clients.as_ref(),
            "think" => self.think.as_ref(),
            "round_trip" => self.round_trip.as_ref(),
            "rate" => self.rate.as_ref(),
            parameter => self.parameters.iter().find(|(key, _)| key.value() == parameter).map(|(_, value)| value),
        };
        value.map_or_else(|| self.kind.span(), At::span)
    }
}

impl TypedPriority {
    /// The rule as one text.
    pub fn text(&self) -> String {
        match self {
            TypedPriority::Rule(text) => text.clone(),
            TypedPriority::ByTransaction(rules) => {
                let parts = rules
                    .iter()
                    .flat_map(|(name, rule)| rule.split(',').map(move |part| format!("{name}={}", part.trim())));
                parts.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl TypedValue {
    /// The same in JSON; null for a number that is not finite.
    pub fn json(&self) -> Value {
        match self {
            TypedValue::Bool(value) => (*value).into(),
            TypedValue::Integer(value) => (*value).into(),
            TypedValue::Float(value) => (*value).into(),
            TypedValue::Text(value) => value.as_str().into(),
            TypedValue::Texts(values) => values.iter().map(String::as_str).collect(),
        }
    }
}

impl JsonSchema for TypedValues {
    fn schema_name() -> Cow<'static, str> {
        "TypedValues".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<TypedValue>();
        json_schema!({
            "description": "Values of a sweep: a list, or a range of whole numbers as text, both ends included.",
            "anyOf": [
                { "type": "array", "items": value, "minItems": 1, "uniqueItems": true },
                { "type": "string", "examples": ["1..32", "0..50 by 10", "1..64 by x2", "1..cores"] },
            ],
        })
    }
}

impl<'de> Deserialize<'de> for TypedValues {
    /// By hand, because an untagged enum would lose the places of the values.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;

        impl<'de> Visitor<'de> for Values {
            type Value = TypedValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of values, or a range as \"1..32\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<TypedValues, E> {
                Ok(TypedValues::Range(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<TypedValues, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = sequence.next_element()? {
                    values.push(value);
                }
                Ok(TypedValues::List(values))
            }
        }

        deserializer.deserialize_any(Values)
    }
}
