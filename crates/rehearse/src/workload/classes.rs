//! Classes of units: the kinds that took most time by name, the others together.

use std::collections::BTreeSet;

use crate::plan::Plan;

/// How many kinds have a class of their own.
const NAMED_MAX: usize = 9;

/// The class of all other kinds.
const OTHER: &str = "other";

/// Names are at most this long, so that they fit a column of a table.
const NAME_MAX: usize = 32;

/// The classes of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Classes {
    /// Their names.
    pub names: Vec<String>,
    /// The first kind of each, in the same order: the only one, unless it is that of all others.
    pub shapes: Vec<usize>,
    /// The class of each kind.
    of_shape: Vec<usize>,
}

impl Classes {
    pub fn of(plan: &Plan) -> Classes {
        let mut times = vec![0_u64; plan.shapes.len()];
        let mut has_units = vec![false; plan.shapes.len()];
        for unit in plan.units().filter(|unit| unit.skip.is_none()) {
            times[unit.shape] += unit.took_us;
            has_units[unit.shape] = true;
        }
        let mut order: Vec<usize> = (0..plan.shapes.len()).filter(|shape| has_units[*shape]).collect();
        order.sort_by_key(|shape| (std::cmp::Reverse(times[*shape]), plan.shapes[*shape].fingerprint));
        // One more needs no class for all others.
        let named = if order.len() <= NAMED_MAX + 1 { order.len() } else { NAMED_MAX };
        let mut names: Vec<String> = Vec::new();
        for shape in &order[..named] {
            names.push(distinct(name_of(&plan.shapes[*shape].text), &names));
        }
        let mut shapes = order[..named].to_vec();
        let mut of_shape = vec![0; plan.shapes.len()];
        if let Some(first) = order.get(named) {
            names.push(distinct(OTHER.to_owned(), &names));
            shapes.push(*first);
        }
        for (at, shape) in order.iter().enumerate() {
            of_shape[*shape] = at.min(names.len() - 1);
        }
        Classes { names, shapes, of_shape }
    }

    /// The class of a kind.
    pub fn of_shape(&self, shape: usize) -> usize {
        self.of_shape[shape]
    }

    /// Of each class its name, its kinds, how many units it has, its share of the recorded time, and the text of its first kind.
    pub fn told<'a>(
        &'a self,
        plan: &'a Plan,
    ) -> impl Iterator<Item = (&'a str, BTreeSet<usize>, usize, f64, &'a str)> + 'a {
        let sent = || plan.units().filter(|unit| unit.skip.is_none());
        let all = sent().map(|unit| unit.took_us).sum::<u64>().max(1);
        self.names.iter().enumerate().map(move |(class, name)| {
            let own = || sent().filter(|unit| self.of_shape[unit.shape] == class);
            let shapes = own().map(|unit| unit.shape).collect();
            let share = own().map(|unit| unit.took_us).sum::<u64>() as f64 / all as f64;
            let text = if name == OTHER { "all others" } else { &plan.shapes[self.shapes[class]].text };
            (name.as_str(), shapes, own().count(), share, text)
        })
    }
}

/// A name that is not taken.
fn distinct(name: String, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut all = std::iter::once(name.clone()).chain(numbered);
    all.find(|name| !taken.contains(name)).expect("there are more numbers than names")
}

/// A name for statements in their normal form: what the first does, and to which table.
fn name_of(text: &str) -> String {
    let mut words =
        text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or("unit").to_ascii_lowercase();
    // In a normal form names stand as they were written.
    let first = text.split(';').next().unwrap_or_default().to_ascii_lowercase();
    let mark = match verb.as_str() {
        "select" | "delete" | "with" => Some("from "),
        "insert" | "merge" => Some("into "),
        "update" => Some("update "),
        "copy" => Some("copy "),
        _ => None,
    };
    let after =
        mark.and_then(|mark| first.match_indices(mark).map(|(at, _)| &first[at + mark.len()..]).find_map(table));
    let name = after.map_or(verb.clone(), |table| format!("{verb}_{table}"));
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(NAME_MAX).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("unit_{name}") }
}

/// The table at the beginning of a text, without its schema.
fn table(text: &str) -> Option<&str> {
    let text = text.trim_start().trim_start_matches("only ");
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '"'))).unwrap_or(text.len());
    let name = text[..end].rsplit('.').next()?.trim_matches('"');
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Selection;
    use crate::testing::events;

    #[test]
    fn names_say_what_is_done_to_which_table() {
        for (text, expect) in [
            ("select name from public.items where id = ?", "select_items"),
            ("insert into orders ( customer ) values ( ? )", "insert_orders"),
            ("update \"order lines\" set a = ?", "update_order"),
            ("select ? from ( select x from inner_one ) as y", "select_inner_one"),
            ("delete from only t", "delete_t"),
            ("commit", "commit"),
            ("select now ( )", "select"),
            ("( select ? ) union ( select ? )", "select"),
            ("(prepares statements)", "prepares"),
        ] {
            assert_eq!(name_of(text), expect, "{text}");
        }
        assert_eq!(distinct("a".to_owned(), &["a".to_owned(), "a_2".to_owned()]), "a_3");
    }

    #[test]
    fn kinds_that_took_most_time_have_classes_of_their_own() {
        let line = |at: usize| format!("1 | {}-{} | I | select c{at} from t{at}\n", 100 * at, 100 * at + at + 1);
        let few: String = (0..10).map(line).collect();
        let plan = Plan::of(events(&few), &Selection::ALL);
        let classes = Classes::of(&plan);
        assert_eq!((classes.names.len(), classes.names[0].as_str()), (10, "select_t9"));
        let many: String = (0..20).map(line).collect();
        let plan = Plan::of(events(&many), &Selection::ALL);
        let classes = Classes::of(&plan);
        assert_eq!((classes.names.len(), classes.names[9].as_str()), (10, "other"));
        let told: Vec<_> = classes.told(&plan).collect();
        assert_eq!((told[0].2, told[9].2, told[9].1.len()), (1, 11, 11));
        assert!((told.iter().map(|(_, _, _, share, _)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(plan.units().all(|unit| classes.of_shape(unit.shape) < 10));
    }
}
