//! The word `cores` in an experiment file: the number of cores it is sized for.

use std::collections::BTreeMap;

use plimsoll_notation::At;

use super::typed::{TypedExperiment, TypedValue, TypedValues};

/// The word that means the number of cores.
const WORD: &str = "cores";

/// By default an experiment is for this many cores, so that figures from different machines are about the
/// same thing.
const COUNT: usize = 2;

/// How many cores an experiment is sized for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// The value of the word `cores`.
    pub count: usize,
    /// The number of cores that can be used.
    usable: usize,
    /// Whether the number was asked for.
    is_asked: bool,
}

impl Cores {
    /// Two, or all usable cores if there are fewer.
    pub fn usual(usable: usize) -> Cores {
        Cores { count: COUNT.min(usable), usable, is_asked: false }
    }

    /// The requested number of cores. The error gives the number of usable ones.
    pub fn asked(count: usize, usable: usize) -> Result<Cores, String> {
        if (1..=usable).contains(&count) {
            return Ok(Cores { count, usable, is_asked: true });
        }
        Err(format!("an experiment can be sized for 1 to {usable} cores here, or `all`; this is {count}"))
    }

    /// The number of cores that everything must be confined to, if it must: an experiment that is sized for fewer cores than
    /// there are must not use the others.
    pub(super) fn confined_to(self, uses_word: bool) -> Option<usize> {
        (self.count < self.usable && (self.is_asked || uses_word)).then_some(self.count)
    }
}

/// The experiment with the word `cores` replaced by its number in every value, and whether the word occurs.
pub(super) fn sized(typed: &TypedExperiment, cores: usize) -> (TypedExperiment, bool) {
    let mut sizing = Sizing { cores: i64::try_from(cores).unwrap_or(i64::MAX), is_used: false };
    let mut sized = typed.clone();
    sizing.values(&mut sized.target.options);
    sizing.values(&mut sized.machine);
    sizing.values(&mut sized.quick.set);
    sizing.lists(&mut sized.sweep);
    sizing.lists(&mut sized.quick.sweep);
    for workload in &mut sized.workloads {
        workload.change(|workload| {
            sizing.values(&mut workload.parameters);
            for value in [&mut workload.clients, &mut workload.scale].into_iter().flatten() {
                value.change(|value| sizing.value(value));
            }
        });
    }
    (sized, sizing.is_used)
}

struct Sizing {
    cores: i64,
    is_used: bool,
}

impl Sizing {
    fn values(&mut self, table: &mut BTreeMap<At<String>, At<TypedValue>>) {
        table.values_mut().for_each(|value| value.change(|value| self.value(value)));
    }

    fn value(&mut self, value: &mut TypedValue) {
        if *value == TypedValue::Text(WORD.to_owned()) {
            *value = TypedValue::Integer(self.cores);
            self.is_used = true;
        }
    }

    fn lists(&mut self, table: &mut BTreeMap<At<String>, At<TypedValues>>) {
        for values in table.values_mut() {
            values.change(|values| match values {
                TypedValues::List(list) => list.iter_mut().for_each(|value| value.change(|value| self.value(value))),
                TypedValues::Range(text) => {
                    // `1..cores`, `1..cores by x2`.
                    if let Some((first, rest)) = text.split_once("..")
                        && let Some(step) = rest.trim_start().strip_prefix(WORD)
                    {
                        *text = format!("{first}..{}{step}", self.cores);
                        self.is_used = true;
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;

    #[test]
    fn the_word_becomes_a_number_where_it_stands_for_one() {
        let text = r#"
name = "x"
[target]
options = { dop = "cores" }
[[workload]]
kind = "tpcc"
clients = "cores"
[sweep]
cores = "1..cores by x2"
"tpcc.clients" = [1, "cores"]
"#;
        let experiment = parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"));
        let (sized, is_used) = sized(&experiment.typed, 16);
        assert!(is_used);
        let told = format!("{sized:?}");
        assert!(!told.contains("\"cores\") }"), "{told}");
        let clients = sized.workloads[0].value().clients.as_ref().map(|clients| clients.value().clone());
        assert_eq!(clients, Some(TypedValue::Integer(16)));
        let range =
            sized.sweep.iter().find(|(key, _)| key.value() == "cores").map(|(_, values)| values.value().clone());
        assert_eq!(range, Some(TypedValues::Range("1..16 by x2".to_owned())));
        let (_, is_used) = super::sized(&parse("name = \"x\"\n", "x.toml").expect("it is one").typed, 16);
        assert!(!is_used);
    }

    #[test]
    fn an_experiment_for_fewer_cores_than_there_are_is_confined_to_them() {
        assert_eq!(Cores::usual(2).confined_to(true), None);
        assert_eq!(Cores::usual(16).confined_to(true), Some(2));
        assert_eq!(Cores::usual(16).confined_to(false), None);
        assert_eq!(Cores::asked(4, 16).map(|cores| cores.confined_to(false)), Ok(Some(4)));
        assert_eq!(Cores::asked(16, 16).map(|cores| cores.confined_to(true)), Ok(None));
        assert!(Cores::asked(17, 16).is_err() && Cores::asked(0, 16).is_err());
        assert_eq!(Cores::usual(1).count, 1);
    }
}
