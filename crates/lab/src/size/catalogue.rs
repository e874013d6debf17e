//! A catalogue of machines, and the cheapest one that suffices.

use plimsoll_notation::did_you_mean;
use serde::Deserialize;

use super::words;
use crate::amounts::Amounts;
use crate::limits::MEMORY_MIB;
use crate::results::{CatalogueChoice, JudgedMachine, SizeStanding, SizedLevel, SizedResource, Sizes};
use plimsoll_display::plain;

/// A machine of a catalogue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueMachine {
    /// Its name.
    pub name: String,
    /// Logical cores.
    pub cores: f64,
    /// Memory, GiB.
    pub memory_gib: f64,
    /// Bytes per second that its disk reads or writes, in millions; not judged without it.
    #[serde(default)]
    pub disk_mb_s: Option<f64>,
    /// Reads or writes per second of its disk; not judged without it.
    #[serde(default)]
    pub disk_iops: Option<f64>,
    /// Its price, in any currency and per any time.
    pub price: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    #[serde(default, rename = "machine")]
    machines: Vec<CatalogueMachine>,
}

const COLUMNS: [&str; 6] = ["name", "cores", "memory_gib", "disk_mb_s", "disk_iops", "price"];

/// The machines of a file, TOML with a `[[machine]]` for each, or CSV with a line of names first if its name ends in
/// `.csv`. The error names the file, the place and the remedy.
pub fn read_catalogue(file: &str, text: &str) -> Result<Vec<CatalogueMachine>, String> {
    let machines = if file.ends_with(".csv") {
        from_csv(text).map_err(|(line, why)| format!("{file}:{line}: {why}"))?
    } else {
        let catalogue: Catalogue = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        catalogue.machines
    };
    if machines.is_empty() {
        return Err(format!("{file}: it has no machine; write a [[machine]] with {}", COLUMNS.join(", ")));
    }
    let is_right = |one: &CatalogueMachine| {
        let numbers = [Some(one.cores), Some(one.memory_gib), one.disk_mb_s, one.disk_iops];
        let mut numbers = numbers.into_iter().flatten();
        numbers.all(|number| number.is_finite() && number > 0.0) && one.price.is_finite() && one.price >= 0.0
    };
    match machines.iter().find(|one| !is_right(one)) {
        Some(wrong) => Err(format!("{file}: `{}` has an amount that is not above 0; correct it", wrong.name)),
        None => Ok(machines),
    }
}

fn from_csv(text: &str) -> Result<Vec<CatalogueMachine>, (usize, String)> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (first, head) = lines.next().ok_or_else(|| (1, format!("it is empty; begin with {}", COLUMNS.join(","))))?;
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    if let Some(unknown) = names.iter().find(|name| !COLUMNS.contains(name)) {
        let meant = did_you_mean(unknown, COLUMNS);
        return Err((first, format!("there is no column `{unknown}`{meant}; there are {}", COLUMNS.join(", "))));
    }
    let machine = |(at, line): (usize, &str)| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |name: &str| {
            let place = names.iter().position(|one| *one == name)?;
            cells.get(place).copied().filter(|text| !text.is_empty())
        };
        let number = |name: &str| {
            let parsed = cell(name).map(str::parse::<f64>).transpose();
            parsed.map_err(|_| (at, format!("`{name}` is a number; this is `{}`", cell(name).unwrap_or_default())))
        };
        let needed =
            |name: &str| number(name)?.ok_or_else(|| (at, format!("`{name}` is missing; every machine has one")));
        Ok(CatalogueMachine {
            name: cell("name").ok_or_else(|| (at, "`name` is missing".to_owned()))?.to_owned(),
            cores: needed("cores")?,
            memory_gib: needed("memory_gib")?,
            disk_mb_s: number("disk_mb_s")?,
            disk_iops: number("disk_iops")?,
            price: needed("price")?,
        })
    };
    lines.map(machine).collect()
}

/// What a machine has of a resource, in the unit of its key; `None` if the catalogue does not say.
fn supply(machine: &CatalogueMachine, key: &str) -> Option<f64> {
    match key {
        "cpu_quota" => Some(machine.cores),
        MEMORY_MIB => Some(machine.memory_gib * 1024.0),
        "read_mb_s" | "write_mb_s" => machine.disk_mb_s,
        "read_iops" | "write_iops" => machine.disk_iops,
        _ => None,
    }
}

/// The cheapest machine that keeps the promise, or 95 % of full speed without one, resource by resource.
pub fn choose(sizes: &Sizes, catalogue: &[CatalogueMachine]) -> CatalogueChoice {
    let promise = sizes.promise.as_ref().map(|promise| promise.text.as_str());
    let wanted = |level: &&SizedLevel| match promise {
        Some(_) => level.share.is_none(),
        None => level.share == Some(0.95),
    };
    let mut machines: Vec<&CatalogueMachine> = catalogue.iter().collect();
    machines.sort_by(|a, b| a.price.total_cmp(&b.price));
    let judge = |machine: &CatalogueMachine| {
        let mut judged = JudgedMachine {
            name: machine.name.clone(),
            price: machine.price,
            standing: SizeStanding::Kept,
            why_not: Vec::new(),
        };
        for resource in &sizes.resources {
            let Some(level) = resource.levels.iter().find(wanted) else { continue };
            let Some(has) = supply(machine, &resource.key) else { continue };
            let (standing, why) = judge_amount(resource, level, has);
            judged.why_not.extend(why);
            judged.standing = match (judged.standing, standing) {
                (SizeStanding::Broken, _) | (_, SizeStanding::Broken) => SizeStanding::Broken,
                (SizeStanding::Kept, SizeStanding::Kept) => SizeStanding::Kept,
                _ => SizeStanding::Undecided,
            };
        }
        judged
    };
    let machines: Vec<JudgedMachine> = machines.into_iter().map(judge).collect();
    let best = machines.iter().position(|machine| machine.standing == SizeStanding::Kept).filter(|_| !sizes.is_short());
    let goal = promise.map_or_else(|| "95 % of full speed".to_owned(), str::to_owned);
    let sentence = sentence(&goal, &machines, best);
    CatalogueChoice { goal, machines, best, sentence }
}

/// Whether an amount is sufficient, and why not.
fn judge_amount(resource: &SizedResource, level: &SizedLevel, has: f64) -> (SizeStanding, Option<String>) {
    // The full amount of the machine that was measured stands for itself.
    let values: Vec<_> = [&level.more_than, &level.at_most].into_iter().flatten().cloned().collect();
    let amounts = Amounts::of(&values);
    let number = |value: &serde_json::Value| {
        if *value == resource.full { resource.full_amount } else { amounts.amount(value).or_else(|| value.as_f64()) }
    };
    let shown = |number: f64| words::supply(&resource.key, number);
    let (low, high) = (level.more_than.as_ref().and_then(number), level.at_most.as_ref().and_then(number));
    if high.is_some_and(|high| has >= high) {
        return (SizeStanding::Kept, None);
    }
    if let Some(low) = low.filter(|low| has <= *low) {
        let why = format!("it has {}, and more than {} is needed", shown(has), shown(low));
        return (SizeStanding::Broken, Some(why));
    }
    let most = high.map_or_else(|| "an unknown amount is".to_owned(), |high| format!("up to {} may be", shown(high)));
    (SizeStanding::Undecided, Some(format!("it has {}, and {most} needed", shown(has))))
}

fn sentence(goal: &str, machines: &[JudgedMachine], best: Option<usize>) -> String {
    let Some(best) = best else {
        let undecided = machines.iter().find(|machine| machine.standing == SizeStanding::Undecided);
        return match undecided {
            Some(one) => format!(
                "no machine of the catalogue surely keeps {goal}; the cheapest that may is {}: {}; a longer --budget narrows that",
                one.name,
                one.why_not.join("; ")
            ),
            None => format!("no machine of the catalogue keeps {goal}"),
        };
    };
    let chosen = &machines[best];
    let cheaper = best.checked_sub(1).map(|at| &machines[at]);
    let why = cheaper.map_or_else(
        || "there is no cheaper one".to_owned(),
        |one| format!("the next cheaper, {}, does not surely do: {}", one.name, one.why_not.join("; ")),
    );
    format!("the cheapest machine that keeps {goal} is {} (price {}); {why}", chosen.name, plain(chosen.price))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TOML: &str = "[[machine]]\nname = \"small\"\ncores = 1\nmemory_gib = 2\nprice = 10\n\
        [[machine]]\nname = \"large\"\ncores = 4\nmemory_gib = 16\ndisk_iops = 3000\nprice = 80\n\
        [[machine]]\nname = \"medium\"\ncores = 2\nmemory_gib = 4\nprice = 25\n";

    fn resource(key: &str, full: f64, more_than: Option<Value>, at_most: Option<Value>) -> SizedResource {
        let level = SizedLevel { share: Some(0.95), more_than, at_most, is_narrow: true, is_open: false };
        SizedResource {
            key: key.to_owned(),
            name: super::super::resources::of_key(key).expect("it is listed").name.to_owned(),
            unit: String::new(),
            full: json!("unlimited"),
            full_amount: Some(full),
            levels: vec![level],
            trials: Vec::new(),
            why_not: None,
            sentence: String::new(),
        }
    }

    fn chosen(cores: (Option<Value>, Option<Value>), memory: (Option<Value>, Option<Value>)) -> CatalogueChoice {
        let resources =
            vec![resource("cpu_quota", 2.0, cores.0, cores.1), resource("memory_mib", 8192.0, memory.0, memory.1)];
        let sizes = Sizes { resources, ..Sizes::default() };
        choose(&sizes, &read_catalogue("x.toml", TOML).expect("a catalogue"))
    }

    #[test]
    fn the_cheapest_that_suffices_is_named_and_why_the_next_does_not() {
        let found = chosen((Some(json!(1)), Some(json!(1.25))), (None, Some(json!(64))));
        assert_eq!(found.best.map(|at| found.machines[at].name.as_str()), Some("medium"));
        assert_eq!(
            found.sentence,
            "the cheapest machine that keeps 95 % of full speed is medium (price 25); the next cheaper, small, does not surely do: \
             it has 1 core, and more than 1 core is needed"
        );
        let small = chosen((None, Some(json!(0.5))), (None, Some(json!(64))));
        assert!(small.sentence.ends_with("is small (price 10); there is no cheaper one"), "{}", small.sentence);
    }

    #[test]
    fn a_wide_bracket_leaves_machines_undecided() {
        let found = chosen((Some(json!(0.5)), Some(json!("unlimited"))), (None, Some(json!(64))));
        assert_eq!(found.machines[0].standing, SizeStanding::Undecided);
        assert!(found.sentence.contains("up to 2 cores may be needed"), "{}", found.sentence);
        let none = chosen((Some(json!("unlimited")), None), (None, Some(json!(64))));
        assert_eq!(none.machines.iter().map(|one| one.standing).collect::<Vec<_>>()[..2], [SizeStanding::Broken; 2]);
        assert!(none.sentence.starts_with("no machine of the catalogue surely keeps"), "{}", none.sentence);
    }

    #[test]
    fn both_forms_are_read() {
        let csv = "name, cores, memory_gib, price, disk_iops\n# comment\nsmall,1,2,10,\nlarge, 4, 16, 80, 3000\n";
        let of_csv = read_catalogue("x.csv", csv).expect("a catalogue");
        let of_toml = read_catalogue("x.toml", TOML).expect("a catalogue");
        assert_eq!(of_csv, of_toml[..2]);
    }

    #[test]
    fn faults_name_the_place_and_the_remedy() {
        let check = |file: &str, text: &str, expect: &str| {
            let error = read_catalogue(file, text).expect_err(expect);
            assert!(error.starts_with(&format!("{file}:")) && error.contains(expect), "{error}");
        };
        check("x.csv", "name,core,price\n", "there is no column `core`");
        check("x.csv", "name,cores,memory_gib,price\nsmall,two,4,1\n", "x.csv:2: `cores` is a number; this is `two`");
        check("x.csv", "name,cores,memory_gib,price\nsmall,2,4,\n", "`price` is missing");
        check("x.toml", "", "it has no machine; write a [[machine]]");
        check("x.toml", "[[machine]]\nname = \"a\"\n", "missing field `cores`");
        check("x.toml", &TOML.replace("cores = 1", "cores = 0"), "`small` has an amount that is not above 0");
    }
}
