//! The cache lines that an operator reads, one after the other. A [`Program`] is its work for each row; a [`Trace`] is a
//! core that repeats the program forever.
//!
//! A reference reads a whole line: several rows that read one line of a column make one reference. A trace makes one at
//! a time and allocates nothing; equal seeds make equal traces.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use super::cache::LINE_BYTES;

/// How lines of a structure are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// One line after the other of the core's part of a column, and from the beginning again.
    Stream,
    /// Any line of a structure that all cores of the workload share.
    Random,
    /// Any line of a structure that each core has for itself.
    RandomOwn,
    /// A line of one level of a shared tree, on the path to the row's key. All such accesses of a program follow one key
    /// for a unit.
    Path,
}

/// The use of one structure by a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Access {
    /// Its name, for people: `dictionary`.
    pub name: &'static str,
    /// How its lines are chosen.
    pub pattern: Pattern,
    /// Its bytes: of [`Pattern::Stream`] the whole column, of [`Pattern::RandomOwn`] those of each core.
    pub bytes: u64,
    /// References of a unit, above 0: a mean, which need not be whole.
    pub per_unit: f64,
    /// How many of its misses are under way at once: a miss costs this part of its latency. At least 1.
    pub overlap: f64,
}

impl Access {
    /// Lines of one instance of the structure, of `cores` that divide a stream; at least one.
    fn lines(&self, cores: u32) -> u64 {
        let parts = if self.pattern == Pattern::Stream { u64::from(cores) } else { 1 };
        self.bytes.div_ceil(LINE_BYTES * parts).max(1)
    }

    /// How many instances `cores` have.
    fn instances(&self, cores: u32) -> u64 {
        match self.pattern {
            Pattern::Stream | Pattern::RandomOwn => u64::from(cores),
            Pattern::Random | Pattern::Path => 1,
        }
    }
}

/// The work that an operator repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Rows (or requests) of a unit.
    pub rows: f64,
    /// Nanoseconds of a unit without waiting, references that hit in the core's own cache included.
    pub compute_ns: f64,
    /// The reads of a unit, in order.
    pub accesses: Vec<Access>,
}

impl Program {
    /// Lines of all structures that `cores` need.
    pub fn lines(&self, cores: u32) -> u64 {
        self.accesses
            .iter()
            .fold(0, |sum, access| sum.saturating_add(access.lines(cores).saturating_mul(access.instances(cores))))
    }

    /// A trace for each of `cores`. Structures lie from the line `first` on. Each core draws its own numbers.
    ///
    /// # Panics
    /// If there are not [`lines`](Self::lines) from `first` up to 2^32, or the program reads nothing.
    pub fn traces(&self, cores: u32, first: u32, seed: u64) -> Vec<Trace> {
        let mut next = u64::from(first);
        let mut cursors: Vec<Vec<Cursor>> = vec![Vec::with_capacity(self.accesses.len()); cores as usize];
        for access in &self.accesses {
            let lines = access.lines(cores);
            for (core, cursors) in cursors.iter_mut().enumerate() {
                let instance = if access.instances(cores) == 1 { 0 } else { core as u64 };
                cursors.push(Cursor {
                    pattern: access.pattern,
                    first: (next + instance * lines) as u32,
                    lines: lines as u32,
                    position: 0,
                    per_unit: access.per_unit,
                    due: 0.0,
                });
            }
            next += lines * access.instances(cores);
        }
        assert!(next <= 1 << 32, "the structures have more lines than numbers");
        cursors.into_iter().enumerate().map(|(core, cursors)| Trace::new(cursors, seed, core as u64)).collect()
    }
}

/// One read of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Its number, never 0.
    pub line: u32,
    /// The position of its access in the program.
    pub access: usize,
    /// Units that have ended since the reference before it.
    pub units_ended: u32,
}

/// Where a core is within one structure.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    pattern: Pattern,
    first: u32,
    lines: u32,
    /// The next line of a stream.
    position: u32,
    per_unit: f64,
    /// References that the units so far require and that were not made yet.
    due: f64,
}

/// The references of one core, without end.
#[derive(Debug, Clone)]
pub struct Trace {
    cursors: Vec<Cursor>,
    at: usize,
    /// The key of the unit, as a share of 2^32 of all keys.
    key: u32,
    random: Pcg32,
}

impl Trace {
    fn new(mut cursors: Vec<Cursor>, seed: u64, core: u64) -> Self {
        assert!(!cursors.is_empty(), "a program reads something");
        let mut random = Pcg32::seed_from_u64(seed ^ (core + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Staggers the cores, so that they do not reach the ends of lines at the same time.
        cursors.iter_mut().for_each(|cursor| cursor.due = random.random::<f64>());
        let key = random.random();
        Trace { cursors, at: 0, key, random }
    }

    /// The next reference.
    pub fn next_reference(&mut self) -> Reference {
        let mut units_ended = 0;
        loop {
            let cursor = &mut self.cursors[self.at];
            if cursor.due >= 1.0 {
                cursor.due -= 1.0;
                let within = |number: u32, lines: u32| ((u64::from(number) * u64::from(lines)) >> 32) as u32;
                let offset = match cursor.pattern {
                    Pattern::Stream => {
                        let position = cursor.position;
                        cursor.position = if position + 1 == cursor.lines { 0 } else { position + 1 };
                        position
                    }
                    Pattern::Random | Pattern::RandomOwn => within(self.random.random(), cursor.lines),
                    Pattern::Path => within(self.key, cursor.lines),
                };
                return Reference { line: cursor.first + offset, access: self.at, units_ended };
            }
            self.at += 1;
            if self.at == self.cursors.len() {
                self.at = 0;
                units_ended += 1;
                self.key = self.random.random();
            }
            let next = &mut self.cursors[self.at];
            next.due += next.per_unit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(pattern: Pattern, lines: u64, per_unit: f64) -> Access {
        Access { name: "structure", pattern, bytes: lines * LINE_BYTES, per_unit, overlap: 1.0 }
    }

    fn program(accesses: &[Access]) -> Program {
        Program { rows: 1.0, compute_ns: 1.0, accesses: accesses.to_vec() }
    }

    fn take(trace: &mut Trace, count: usize) -> Vec<Reference> {
        (0..count).map(|_| trace.next_reference()).collect()
    }

    #[test]
    fn a_stream_is_read_in_parts_and_again() {
        let mut traces = program(&[access(Pattern::Stream, 6, 1.0)]).traces(2, 10, 0);
        let lines = |trace: &mut Trace| take(trace, 5).iter().map(|reference| reference.line).collect::<Vec<_>>();
        assert_eq!(lines(&mut traces[0]), [10, 11, 12, 10, 11]);
        assert_eq!(lines(&mut traces[1]), [13, 14, 15, 13, 14]);
    }

    #[test]
    fn references_come_as_often_as_a_unit_has_them() {
        let parts = [
            access(Pattern::Stream, 1_000, 0.04),
            access(Pattern::Random, 50, 1.0),
            access(Pattern::RandomOwn, 50, 2.5),
        ];
        let mut trace = program(&parts).traces(1, 1, 9).remove(0);
        let references = take(&mut trace, 35_400);
        let units: u32 = references.iter().map(|reference| reference.units_ended).sum();
        let count = |at: usize| references.iter().filter(|reference| reference.access == at).count() as f64;
        assert!((f64::from(units) - 10_000.0).abs() <= 2.0, "{units}");
        for (at, expect) in [400.0, 10_000.0, 25_000.0].into_iter().enumerate() {
            assert!((count(at) - expect).abs() <= 3.0, "{at}: {}", count(at));
        }
    }

    #[test]
    fn structures_are_shared_or_not_and_do_not_overlap() {
        let parts =
            [access(Pattern::Random, 8, 1.0), access(Pattern::RandomOwn, 8, 1.0), access(Pattern::Stream, 8, 1.0)];
        let program = program(&parts);
        assert_eq!(program.lines(2), 8 + 16 + 8);
        let ranges: Vec<Vec<(u32, u32)>> = program
            .traces(2, 1, 0)
            .iter_mut()
            .map(|trace| {
                let references = take(trace, 3_000);
                let of = |at: usize| {
                    references.iter().filter(move |reference| reference.access == at).map(|reference| reference.line)
                };
                (0..3).map(|at| (of(at).min().unwrap(), of(at).max().unwrap())).collect()
            })
            .collect();
        assert_eq!(ranges, [[(1, 8), (9, 16), (25, 28)], [(1, 8), (17, 24), (29, 32)]]);
    }

    #[test]
    fn a_path_goes_to_one_leaf() {
        let parts = [1, 4, 16].map(|lines| access(Pattern::Path, lines, 1.0));
        let mut trace = program(&parts).traces(1, 1, 0).remove(0);
        let references = take(&mut trace, 3_000);
        let begin = references.iter().position(|reference| reference.access == 0).unwrap();
        for path in references[begin..].chunks_exact(3) {
            let [root, inner, leaf] = [path[0].line - 1, path[1].line - 2, path[2].line - 6];
            assert_eq!((root, inner), (0, leaf / 4), "{path:?}");
        }
    }

    #[test]
    fn equal_seeds_make_equal_traces_and_cores_differ() {
        let program = program(&[access(Pattern::Random, 1_000, 1.0)]);
        let first = |seed: u64, core: usize| take(&mut program.traces(2, 1, seed)[core], 20);
        assert_eq!(first(4, 0), first(4, 0));
        assert_ne!(first(4, 0), first(4, 1));
        assert_ne!(first(4, 0), first(5, 0));
    }
}
