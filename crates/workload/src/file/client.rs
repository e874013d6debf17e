//! A client: draws one of the transactions with its parameters, then does its steps.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::benchmark::FileBenchmark;
use super::datum::Datum;
use super::expression::{Expression, Variables, evaluate, is_true};
use super::generator::{Generator, Values};
use super::native::{NativeProgram, NativeStep, now_us};
use super::program::{BUILT_IN, Definition, Execute, KeptColumns, Length, ProgramStep};
use super::scale_datum;
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Refusal, Session};
use crate::statement::{Rows, Value};

/// Statements with more parameters than this need memory for them at each call.
const PARAMETERS_ON_STACK: usize = 32;

pub(super) struct FileClient {
    definition: Arc<Definition>,
    /// The native form of the transactions, on a target that does not run SQL.
    native: Option<Arc<Vec<NativeProgram>>>,
    state: ClientState,
}

/// The state that changes from request to request, apart from the transactions themselves.
struct ClientState {
    /// Sums of weights, so that a number below the last one is a transaction.
    weights: Vec<f64>,
    generators: Vec<Generator>,
    /// Draws transactions and their parameters.
    random: Pcg64,
    /// The generator of the current request, from which each attempt draws the same.
    request: Pcg64,
    /// The variables, by slot. They outlast a transaction, as those of a pgbench client do.
    slots: Vec<Datum>,
    /// The variables at the beginning of the current request.
    before: Vec<Datum>,
    current: usize,
    is_tried: bool,
    /// Why the parameters of the current request could not be drawn.
    fault: Option<String>,
    rows: Rows,
    /// Values other than text that go to the server as text, by position; kept to reuse their memory.
    noted: Vec<String>,
    default_seed: i64,
}

impl FileClient {
    pub(super) fn new(
        benchmark: &FileBenchmark,
        values: &Values,
        native: Option<Arc<Vec<NativeProgram>>>,
        number: usize,
        seed: u64,
    ) -> Self {
        benchmark.clients.add();
        let definition = Arc::clone(&benchmark.definition);
        let mut slots = vec![Datum::Null; definition.slots.len()];
        let random_seed = seed as i64;
        let scale = scale_datum(benchmark.scale);
        let generators = definition.generators.iter().map(|declared| {
            let bounds = declared.bounds(&scale).expect("bounds were checked when the workload was made");
            declared.generator(bounds, values, number as i64, &benchmark.clients)
        });
        let generators = generators.collect();
        // In the order of `BUILT_IN`.
        let built_in: [Datum; BUILT_IN.len()] =
            [scale, Datum::Int(number as i64), Datum::Int(random_seed), Datum::Int(random_seed)];
        for (slot, value) in slots.iter_mut().zip(built_in) {
            *slot = value;
        }
        let sums = definition.programs.iter().scan(0.0, |sum, program| {
            *sum += program.weight;
            Some(*sum)
        });
        let state = ClientState {
            weights: sums.collect(),
            generators,
            random: Pcg64::new(u128::from(seed), number as u128),
            request: Pcg64::new(0, 0),
            before: slots.clone(),
            slots,
            current: 0,
            is_tried: false,
            fault: None,
            rows: Rows::new(),
            noted: Vec::new(),
            default_seed: random_seed,
        };
        FileClient { definition, native, state }
    }
}

impl ClientState {
    /// Runs the steps; after an error of our own, `Interruption` records whether a transaction is left open.
    fn steps(
        &mut self,
        definition: &Definition,
        native: Option<&NativeProgram>,
        session: &mut dyn Session,
    ) -> Result<Outcome, Interruption> {
        let steps = &definition.programs[self.current].steps;
        let mut random = self.request.clone();
        let (mut at, mut is_open, mut rolled_back) = (0, false, false);
        // When the open transaction began.
        let mut began = None;
        while let Some(step) = steps.get(at) {
            at += 1;
            let ours = |message: String| Interruption { error: DatabaseError::Failed(message), is_open };
            match step {
                // Like PostgreSQL, which only warns of the second.
                ProgramStep::Begin if is_open => {}
                ProgramStep::Begin if native.is_some_and(|native| native.is_queries) => {}
                ProgramStep::Begin => {
                    session.begin()?;
                    is_open = true;
                    began = native.map(|_| now_us());
                }
                // Likewise.
                ProgramStep::Commit | ProgramStep::Rollback if !is_open => {}
                ProgramStep::Commit => {
                    session.commit()?;
                    is_open = false;
                }
                ProgramStep::Rollback => {
                    session.rollback()?;
                    (is_open, rolled_back) = (false, true);
                }
                ProgramStep::Execute(execute) => {
                    let step = native.and_then(|native| native.steps[at - 1].as_ref());
                    let step = step.map(|step| (step, began.filter(|_| is_open).unwrap_or_else(now_us)));
                    let outcome = self.execute(execute, step, session);
                    outcome.map_err(|error| self.told(execute, &definition.slots, error))?;
                    self.keep(execute, &definition.slots).map_err(ours)?;
                }
                ProgramStep::Set { slot, expression, place } => {
                    self.slots[*slot] = self.value(expression, place, &mut random).map_err(ours)?;
                }
                ProgramStep::JumpUnless { condition, to, place } => {
                    if !is_true(&self.value(condition, place, &mut random).map_err(ours)?) {
                        at = *to;
                    }
                }
                ProgramStep::Jump { to } => at = *to,
                ProgramStep::Sleep { length, place } => thread::sleep(self.length(length, place).map_err(ours)?),
            }
        }
        if is_open {
            let name = &definition.names[self.current];
            let message = format!("`{name}` ends within a transaction; end it with COMMIT or ROLLBACK");
            return Err(Interruption { error: DatabaseError::Failed(message), is_open });
        }
        Ok(if rolled_back { Outcome::RolledBack } else { Outcome::Committed })
    }

    fn value(&self, expression: &Expression, place: &str, random: &mut Pcg64) -> Result<Datum, String> {
        let mut variables = Variables { slots: &self.slots, random, default_seed: self.default_seed };
        evaluate(expression, &mut variables).map_err(|why| format!("{place}: {why}"))
    }

    fn length(&self, length: &Length, place: &str) -> Result<Duration, String> {
        match length {
            Length::Fixed(length) => Ok(*length),
            Length::Variable { slot, unit } => {
                let value = self.slots[*slot].operand();
                let count = match &value {
                    Ok(Datum::Int(number)) => u32::try_from(*number).ok(),
                    _ => None,
                };
                let length = count.and_then(|count| unit.checked_mul(count));
                length.ok_or_else(|| format!("{place}: {} is no time to sleep", self.slots[*slot].shown()))
            }
        }
    }

    /// Runs a statement with its parameters: as text, or in its native form on this target at time `now_us`.
    fn execute(
        &mut self,
        execute: &Execute,
        native: Option<(&NativeStep, i64)>,
        session: &mut dyn Session,
    ) -> Result<(), DatabaseError> {
        let ClientState { slots, noted, rows, .. } = self;
        let parameters = &execute.parameters;
        noted.resize_with(noted.len().max(parameters.len()), String::new);
        for (slot, text) in parameters.iter().zip(noted.iter_mut()) {
            slots[*slot].note(text);
        }
        let value = |position: usize| slots[parameters[position]].value(&noted[position]);
        let mut run = |values: &[Value<'_>]| match native {
            None => session.execute(&execute.statement(), values, rows),
            Some((step, now_us)) => step.run(execute, values, now_us, session, rows),
        };
        if parameters.len() <= PARAMETERS_ON_STACK {
            let mut values = [Value::Null; PARAMETERS_ON_STACK];
            for (position, place) in values.iter_mut().enumerate().take(parameters.len()) {
                *place = value(position);
            }
            run(&values[..parameters.len()])
        } else {
            let values: Vec<Value<'_>> = (0..parameters.len()).map(value).collect();
            run(&values)
        }
    }

    /// Adds to an error that no retry mends the statement, its parameters by the names of their slots, and its place.
    fn told(&self, execute: &Execute, names: &[String], error: DatabaseError) -> DatabaseError {
        if error.is_retryable() || error.is_server_lost() {
            return error;
        }
        let shown = |slot: &usize| format!(":{} = {}", names[*slot], self.slots[*slot].shown());
        let mut parameters: Vec<String> = execute.parameters.iter().map(shown).collect();
        // A script's variable becomes a new parameter wherever it is used.
        let mut seen = std::collections::BTreeSet::new();
        parameters.retain(|parameter| seen.insert(parameter.clone()));
        let with = if parameters.is_empty() { String::new() } else { format!(" with {}", parameters.join(", ")) };
        let why = match &error {
            DatabaseError::Refused(refusal) => execute.written.refused(refusal, 0),
            other => other.to_string(),
        };
        let (place, name, line) = (&execute.place, &execute.name, execute.written.line());
        let told = format!("{place}: statement `{name}` failed: {why}; it was `{line}`{with}");
        let code = error.code().map(str::to_owned);
        Refusal { told, words: error.words(), code, position: None }.into()
    }

    /// Keeps the columns of a result that later steps use, in the slots with these names.
    fn keep(&mut self, execute: &Execute, names: &[String]) -> Result<(), String> {
        let ClientState { slots, rows, .. } = self;
        let place = &execute.place;
        let wanted = match &execute.keep {
            KeptColumns::Nothing => return Ok(()),
            KeptColumns::OnlyRow(into) | KeptColumns::LastRow(into) => into.len(),
            KeptColumns::FirstRow(columns) => columns.iter().map(|kept| kept.column + 1).max().unwrap_or_default(),
        };
        if !rows.is_empty() && rows.columns() < wanted {
            let (name, found) = (&execute.name, rows.columns());
            return Err(format!("{place}: `{name}` has {found} columns, and column {wanted} is used"));
        }
        let mut all = |row: usize, into: &[usize]| {
            for (column, slot) in into.iter().enumerate() {
                slots[*slot].set(rows.value(row, column));
            }
        };
        match &execute.keep {
            KeptColumns::Nothing => {}
            KeptColumns::OnlyRow(into) => match rows.len() {
                1 => all(0, into),
                count => return Err(format!("{place}: \\gset needs one row, and there are {count}")),
            },
            KeptColumns::LastRow(into) => {
                if let Some(last) = rows.len().checked_sub(1) {
                    all(last, into);
                }
            }
            KeptColumns::FirstRow(columns) => {
                for kept in columns {
                    match &kept.default {
                        _ if !rows.is_empty() => slots[kept.slot].set(rows.value(0, kept.column)),
                        Some(default) => slots[kept.slot].clone_from(default),
                        None => {
                            let (name, parameter) = (&execute.name, &names[kept.slot]);
                            return Err(format!(
                                "{place}: `{name}` found no row, so that `:{parameter}` has no value; give the \
                                 parameter a `default`, or make sure that there is one"
                            ));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Why the steps were not done to their end.
struct Interruption {
    error: DatabaseError,
    /// Whether a transaction is open, which the database has not ended.
    is_open: bool,
}

impl From<DatabaseError> for Interruption {
    /// After an error of the database no transaction is open.
    fn from(error: DatabaseError) -> Self {
        Interruption { error, is_open: false }
    }
}

impl Client for FileClient {
    fn draw(&mut self) -> usize {
        let FileClient { definition, state, .. } = self;
        let all = state.weights.last().copied().unwrap_or_default();
        let drawn = state.random.random::<f64>() * all;
        state.current = state.weights.partition_point(|sum| *sum <= drawn).min(state.weights.len() - 1);
        state.request = Pcg64::new(u128::from(state.random.random::<u64>()), 0);
        state.fault = None;
        for generator in &definition.programs[state.current].draws {
            let slot = definition.generators[*generator].slot;
            if let Err(why) = state.generators[*generator].draw(&mut state.random, &mut state.slots[slot]) {
                state.fault = Some(format!("the parameter `:{}`: {why}", definition.slots[slot]));
            }
        }
        state.before.clone_from(&state.slots);
        state.is_tried = false;
        state.current
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let FileClient { definition, native, state } = self;
        if let Some(why) = &state.fault {
            return Err(DatabaseError::Failed(why.clone()));
        }
        if std::mem::replace(&mut state.is_tried, true) {
            state.slots.clone_from(&state.before);
        }
        let native = native.as_ref().map(|programs| &programs[state.current]);
        match state.steps(definition, native, session) {
            Ok(outcome) => Ok(outcome),
            Err(Interruption { error, is_open }) => {
                if is_open {
                    session.rollback()?;
                }
                if error.is_retryable() && !definition.programs[state.current].is_retried {
                    let name = &definition.names[state.current];
                    let told = format!("`{name}` is not run again, as its file says: {error}");
                    let code = error.code().map(str::to_owned);
                    return Err(Refusal { words: told.clone(), told, code, position: None }.into());
                }
                Err(error)
            }
        }
    }
}
