//! The generators of a transaction's parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rand::RngExt;
use rand_pcg::Pcg64;

use super::datum::Datum;
use super::expression::{Expression, Variables, evaluate};
use super::zipf::Zipf;

/// A generator as declared: bounds may depend on the scale.
#[derive(Debug)]
pub(super) struct GeneratorDeclaration {
    /// The slot that it fills.
    pub(super) slot: usize,
    /// The values that it draws.
    pub(super) source: ValueSource,
    /// Its place in the file, in bytes.
    pub(super) at: usize,
}

/// The values that a generator draws.
#[derive(Debug)]
pub(super) enum ValueSource {
    /// Always the same.
    Constant(Datum),
    /// Whole numbers between two bounds, both included; without an exponent each as often as the others, else by Zipf's
    /// distribution, the lowest most often.
    Range { low: Expression, high: Expression, exponent: Option<f64> },
    /// One of a list, likewise.
    OneOf { values: Arc<[Datum]>, exponent: Option<f64> },
    /// One of the values that a query gave, likewise.
    Query { query: usize, exponent: Option<f64> },
    /// One number after the other.
    Sequence { start: Expression, after: Option<usize>, step: i64, block: i64 },
    /// Random letters and digits, between two lengths.
    Text { low: Expression, high: Expression },
}

/// The longest text that is drawn. A quarter of this is the longest text that a row can hold without storing it apart.
const TEXT_MAX: i64 = 10_000_000;

/// The result of each query, in ascending order.
pub(super) type Values = Vec<Arc<[Datum]>>;

/// How many clients draw from a sequence. Complete before the first of them draws, because all clients are made before any
/// begins.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientCount(Arc<AtomicI64>);

impl ClientCount {
    /// Begins to count the clients of another run.
    pub(super) fn restart(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Counts one client more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A generator at a scale, for one client.
#[derive(Debug, Clone)]
pub(super) enum Generator {
    Constant(Datum),
    Range {
        low: i64,
        high: i64,
    },
    Zipf {
        low: i64,
        zipf: Zipf,
    },
    OneOf {
        values: Arc<[Datum]>,
        zipf: Option<Zipf>,
    },
    Sequence {
        next: i64,
        step: i64,
        left: i64,
        block: i64,
        clients: ClientCount,
    },
    Text {
        low: i64,
        high: i64,
    },
    /// It cannot draw; the text gives the reason.
    Nothing(String),
}

impl GeneratorDeclaration {
    /// The bounds of its values at a scale. The error describes the fault.
    pub(super) fn bounds(&self, scale: &Datum) -> Result<(i64, i64), String> {
        let number = |expression: &Expression| {
            let mut random = Pcg64::new(0, 0);
            let mut variables = Variables { slots: std::slice::from_ref(scale), random: &mut random, default_seed: 0 };
            match evaluate(expression, &mut variables)? {
                Datum::Int(number) => Ok(number),
                // 1000 * 0.25 is a whole number, too.
                Datum::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Ok(number as i64),
                other => Err(format!("{} is not a whole number; round it with int(…)", other.text())),
            }
        };
        match &self.source {
            ValueSource::Constant(_) | ValueSource::OneOf { .. } | ValueSource::Query { .. } => Ok((0, 0)),
            ValueSource::Sequence { start, .. } => number(start).map(|start| (start, start)),
            ValueSource::Range { low, high, .. } => match (number(low)?, number(high)?) {
                (low, high) if low > high => Err(format!("no number lies between {low} and {high}")),
                (low, high) if high.checked_sub(low).is_none_or(|width| width == i64::MAX) => {
                    Err(format!("from {low} to {high} is too wide a range"))
                }
                bounds => Ok(bounds),
            },
            ValueSource::Text { low, high } => match (number(low)?, number(high)?) {
                (low, high) if low < 0 || high > TEXT_MAX || low > high => {
                    Err(format!("a text has from 0 to {TEXT_MAX} characters, the least first; this is {low} to {high}"))
                }
                bounds => Ok(bounds),
            },
        }
    }

    /// The generator of a client, given its bounds and the results of queries.
    pub(super) fn generator(
        &self,
        (low, high): (i64, i64),
        values: &Values,
        client: i64,
        clients: &ClientCount,
    ) -> Generator {
        let zipf = |count: usize, exponent: &Option<f64>| exponent.map(|exponent| Zipf::new(count as u64, exponent));
        match &self.source {
            ValueSource::Constant(value) => Generator::Constant(value.clone()),
            ValueSource::Range { exponent: None, .. } => Generator::Range { low, high },
            ValueSource::Range { exponent: Some(exponent), .. } => {
                Generator::Zipf { low, zipf: Zipf::new((high - low + 1) as u64, *exponent) }
            }
            ValueSource::OneOf { values, exponent } => {
                Generator::OneOf { zipf: zipf(values.len(), exponent), values: Arc::clone(values) }
            }
            ValueSource::Query { query, exponent } => match values.get(*query) {
                Some(values) if values.is_empty() => Generator::Nothing("its query gave no rows".to_owned()),
                Some(values) => Generator::OneOf { zipf: zipf(values.len(), exponent), values: Arc::clone(values) },
                None => Generator::Nothing("its query was not asked".to_owned()),
            },
            ValueSource::Sequence { after, step, block, .. } => {
                let last = match after {
                    None => Ok(0),
                    Some(query) => match values.get(*query).map(|values| &values[..]) {
                        Some([Datum::Int(last)]) => Ok(*last),
                        // As `max` of an empty table.
                        Some([] | [Datum::Null]) => Ok(0),
                        Some([other]) => {
                            Err(format!("its query should give a whole number and gave {}", other.shown()))
                        }
                        Some(more) => {
                            Err(format!("its query should give one whole number and gave {} rows", more.len()))
                        }
                        None => Err("its query was not asked".to_owned()),
                    },
                };
                let first = last.and_then(|last| {
                    let ahead = |blocks: i64| blocks.checked_mul(*block)?.checked_mul(*step);
                    let first = ahead(client).and_then(|ahead| low.checked_add(last)?.checked_add(ahead));
                    let fits = first.and_then(|first| first.checked_add(ahead(1)?)).and(first);
                    fits.ok_or_else(|| OUT_OF_RANGE.to_owned())
                });
                match first {
                    Ok(next) => {
                        let (step, left, block) = (*step, *block, *block);
                        Generator::Sequence { next, step, left, block, clients: clients.clone() }
                    }
                    Err(why) => Generator::Nothing(why),
                }
            }
            ValueSource::Text { .. } => Generator::Text { low, high },
        }
    }
}

/// Why a sequence ends.
const OUT_OF_RANGE: &str = "its numbers are out of the range of bigint";

/// The beginning of a client's next block, from the end of its last one: after a block of each of the others. `None` if the
/// block does not fit into a bigint.
fn next_block(end: i64, step: i64, block: i64, clients: i64) -> Option<i64> {
    let ahead = block.checked_mul(step)?;
    let begin = end.checked_add(ahead.checked_mul(clients.max(1) - 1)?)?;
    begin.checked_add(ahead).map(|_| begin)
}

impl Generator {
    /// Draws the next value.
    pub(super) fn draw(&mut self, random: &mut Pcg64, into: &mut Datum) -> Result<(), String> {
        match self {
            Generator::Constant(value) => into.clone_from(value),
            Generator::Range { low, high } => *into = Datum::Int(random.random_range(*low..=*high)),
            Generator::Zipf { low, zipf } => *into = Datum::Int(*low + (zipf.draw(random) - 1) as i64),
            Generator::OneOf { values, zipf } => {
                let at = match zipf {
                    Some(zipf) => zipf.draw(random) as usize - 1,
                    None => random.random_range(0..values.len()),
                };
                into.clone_from(&values[at]);
            }
            Generator::Sequence { next, step, left, block, clients } => {
                if *left == 0 {
                    *next = next_block(*next, *step, *block, clients.get()).ok_or(OUT_OF_RANGE)?;
                    *left = *block;
                }
                *into = Datum::Int(*next);
                *left -= 1;
                // All numbers of the block were checked when it was made; the number after its end is never drawn.
                *next = next.wrapping_add(*step);
            }
            Generator::Text { low, high } => {
                let length = random.random_range(*low..=*high);
                let mut text = match std::mem::take(into) {
                    Datum::Text(text) => text,
                    _ => String::new(),
                };
                text.clear();
                const CHARACTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -";
                text.extend((0..length).map(|_| char::from(CHARACTERS[random.random_range(0..CHARACTERS.len())])));
                *into = Datum::Text(text);
            }
            Generator::Nothing(why) => return Err(why.clone()),
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn declared(source: ValueSource) -> GeneratorDeclaration {
        GeneratorDeclaration { slot: 0, source, at: 0 }
    }

    fn number(number: i64) -> Expression {
        Expression::Constant(Datum::Int(number))
    }

    fn drawn(declared: &GeneratorDeclaration, values: &Values, client: i64, count: usize) -> Vec<Datum> {
        let bounds = declared.bounds(&Datum::Int(1)).unwrap();
        let mut generator = declared.generator(bounds, values, client, &ClientCount::default());
        let mut random = Pcg64::new(9, client as u128);
        let draw = |_| {
            let mut datum = Datum::Null;
            generator.draw(&mut random, &mut datum).unwrap();
            datum
        };
        (0..count).map(draw).collect()
    }

    #[test]
    fn ranges_have_both_ends_and_every_number_between() {
        let range = declared(ValueSource::Range { low: number(-2), high: number(2), exponent: None });
        let mut counts = [0; 5];
        for datum in drawn(&range, &Values::new(), 0, 50_000) {
            let Datum::Int(number) = datum else { panic!("an integer") };
            counts[usize::try_from(number + 2).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_makes_the_first_ones_hot() {
        let values: Arc<[Datum]> = (0..10).map(Datum::Int).collect();
        let range = declared(ValueSource::Range { low: number(0), high: number(9), exponent: Some(1.0) });
        let list = declared(ValueSource::OneOf { values: Arc::clone(&values), exponent: Some(1.0) });
        let query = declared(ValueSource::Query { query: 0, exponent: Some(1.0) });
        for declared in [range, list, query] {
            let drawn = drawn(&declared, &vec![Arc::clone(&values)], 0, 29_290);
            // 1 / H(10) = 0.3414 of all, and a tenth of that.
            let count = |number| drawn.iter().filter(|datum| **datum == Datum::Int(number)).count();
            assert!((9_700..10_300).contains(&count(0)) && (880..1_120).contains(&count(9)), "{:?}", declared.source);
        }
    }

    #[test]
    fn sequences_of_clients_do_not_meet() {
        let sequence = |block| declared(ValueSource::Sequence { start: number(10), after: Some(0), step: 2, block });
        let values = vec![Arc::from([Datum::Int(100)])];
        let ints = |numbers: &[i64]| numbers.iter().copied().map(Datum::Int).collect::<Vec<_>>();
        assert_eq!(drawn(&sequence(3), &values, 0, 3), ints(&[110, 112, 114]));
        assert_eq!(drawn(&sequence(3), &values, 1, 3), ints(&[116, 118, 120]));
        let (mut random, mut datum) = (Pcg64::new(0, 0), Datum::Null);
        let far = sequence(i64::MAX);
        let mut generator = far.generator((10, 10), &values, 5, &ClientCount::default());
        assert!(generator.draw(&mut random, &mut datum).unwrap_err().contains("out of the range"));
    }

    /// Story: after a million numbers each transaction of a client failed, and its share of the work was missing from then on.
    /// A client that has used up its block takes another one, which no other client has.
    #[test]
    fn a_client_that_has_used_up_its_block_takes_the_next() {
        for step in [1, 3, -2] {
            let sequence = declared(ValueSource::Sequence { start: number(1), after: None, step, block: 4 });
            let clients = ClientCount::default();
            let mut generators: Vec<Generator> =
                (0..3).map(|client| sequence.generator((1, 1), &Values::new(), client, &clients)).collect();
            generators.iter().for_each(|_| clients.add());
            let mut all = Vec::new();
            let mut random = Pcg64::new(0, 0);
            // Ten of each: two and a half blocks.
            for generator in &mut generators {
                for _ in 0..10 {
                    let mut datum = Datum::Null;
                    generator.draw(&mut random, &mut datum).unwrap();
                    let Datum::Int(number) = datum else { panic!("an integer") };
                    all.push((number - 1) / step);
                }
            }
            assert_eq!(all[..10], [0, 1, 2, 3, 12, 13, 14, 15, 24, 25], "by {step}");
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 30, "no number is drawn twice");
        }
        let far = declared(ValueSource::Sequence { start: number(i64::MAX - 3), after: None, step: 1, block: 2 });
        let mut generator = far.generator((i64::MAX - 3, i64::MAX - 3), &Values::new(), 0, &ClientCount::default());
        let mut draw = || generator.draw(&mut Pcg64::new(0, 0), &mut Datum::Null);
        assert_eq!((draw(), draw()), (Ok(()), Ok(())));
        assert_eq!(draw(), Err(OUT_OF_RANGE.to_owned()));
    }

    /// `SELECT max(id)` of an empty table gives NULL: the sequence begins at its start.
    #[test]
    fn a_sequence_after_an_empty_table_begins_at_its_start() {
        let sequence = declared(ValueSource::Sequence { start: number(7), after: Some(0), step: 1, block: 5 });
        for nothing in [Arc::from([Datum::Null]), Arc::from([])] {
            assert_eq!(drawn(&sequence, &vec![nothing], 0, 2), [Datum::Int(7), Datum::Int(8)]);
        }
        let text = vec![Arc::from([Datum::Text("x".to_owned())])];
        let mut generator = sequence.generator((7, 7), &text, 0, &ClientCount::default());
        let error = generator.draw(&mut Pcg64::new(0, 0), &mut Datum::Null).unwrap_err();
        assert!(error.contains("should give a whole number"), "{error}");
    }

    #[test]
    fn texts_have_their_lengths() {
        let text = declared(ValueSource::Text { low: number(0), high: number(3) });
        let mut lengths = [0; 4];
        for datum in drawn(&text, &Values::new(), 0, 4_000) {
            let Datum::Text(text) = datum else { panic!("a text") };
            lengths[text.len()] += 1;
        }
        assert!(lengths.iter().all(|count| (850..1_150).contains(count)), "{lengths:?}");
    }

    #[test]
    fn bounds_depend_on_the_scale_and_are_checked() {
        let scale = Box::new(Expression::Variable(0));
        let times = |number: Expression| {
            Expression::Binary(super::super::expression::Binary::Multiply, Box::new(number), scale.clone())
        };
        let range = declared(ValueSource::Range { low: number(1), high: times(number(1000)), exponent: None });
        assert_eq!(range.bounds(&Datum::Int(4)), Ok((1, 4000)));
        assert_eq!(range.bounds(&Datum::Double(0.25)), Ok((1, 250)));
        assert!(range.bounds(&Datum::Int(0)).unwrap_err().contains("no number lies between 1 and 0"));
        assert!(range.bounds(&Datum::Double(0.0015)).unwrap_err().contains("round it with int"));
        let wide = declared(ValueSource::Range { low: number(i64::MIN), high: number(i64::MAX), exponent: None });
        assert!(wide.bounds(&Datum::Int(1)).unwrap_err().contains("too wide"));
        let text = declared(ValueSource::Text { low: number(5), high: number(4) });
        assert!(text.bounds(&Datum::Int(1)).is_err());
    }

    #[test]
    fn a_query_without_rows_has_nothing_to_draw_from() {
        let query = declared(ValueSource::Query { query: 0, exponent: None });
        for (values, expect) in [(vec![Arc::from([])], "gave no rows"), (Values::new(), "was not asked")] {
            let mut generator = query.generator((0, 0), &values, 0, &ClientCount::default());
            let error = generator.draw(&mut Pcg64::new(0, 0), &mut Datum::Null).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }
}
