//! Sketches: a workload made of the statements that `plimsoll observe` saw a live server run, `sketch:DIR`.
//!
//! An observation has the statements of each class with their rates, but none of the values that clients sent. A sketch
//! draws values from the server's own statistics of the columns that they are compared with. Each statement is a request of
//! its own, drawn as often as it was called. What cannot be given values, adds or removes rows, or is refused by the target
//! is left out, counted, and listed with the reason. `kind` is the name, `seen` reads the observation, `places` reads
//! statements, `values` finds values.

mod kind;
mod places;
mod seen;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod values;

use std::sync::Arc;

use parking_lot::RwLock;
use plimsoll_display::{counted, cut, percent, rate};
use toml::{Table, Value};

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use crate::database::{Database, DatabaseError, Session};
use crate::file::FileBenchmark;
use crate::schema::Schema;
use kind::SketchKind;
pub(crate) use kind::anchored;
pub use kind::{ABOUT, PREFIX};
use places::{Deed, replaced};
use seen::{LeftOut, Seen, SketchStatement};
use values::{Columns, Drawn, Values};

/// Statements that are left out, of which the notes name so many.
const NAMED_MAX: usize = 10;

/// How much of a statement's text is shown.
const SHOWN_MAX: usize = 60;

/// A sketch as a workload.
struct Sketch {
    kind: SketchKind,
    name: String,
    schema: Schema,
    seed: u64,
    seen: Seen,
    /// What the target that was prepared last can run.
    made: RwLock<Option<Arc<Made>>>,
}

/// A sketch on a target.
struct Made {
    benchmark: FileBenchmark,
    /// The place of each of its transactions in [`Seen::statements`].
    places: Vec<usize>,
    left_out: Vec<LeftOut>,
    /// Statements with a range whose ends are drawn.
    range_count: usize,
    /// Whether the target is a server of the user's.
    is_of_user: bool,
}

/// The sketch of a kind; `None` if the kind is of another workload. The error names the fault and the remedy.
pub(crate) fn make(kind: &str, seed: u64) -> Option<Result<Box<dyn Benchmark>, String>> {
    let made = |kind: SketchKind| {
        let seen = Seen::read(&kind)?;
        Ok(Box::new(Sketch::new(kind, seen, seed)) as Box<dyn Benchmark>)
    };
    Some(SketchKind::parse(kind)?.and_then(made))
}

impl Sketch {
    fn new(kind: SketchKind, seen: Seen, seed: u64) -> Sketch {
        let schema = Schema { name: "sketch".into(), tables: &[] };
        Sketch { name: kind.workload_name(), kind, schema, seed, seen, made: RwLock::default() }
    }

    /// Gives the statements values, as far as the target can run them.
    fn make(&self, database: &dyn Database) -> Result<Made, DatabaseError> {
        let is_of_user = database.is_of_user();
        let mut session = database.session(&self.schema)?;
        let mut columns = Columns::new(&mut *session);
        let (mut places, mut left_out, mut range_count) = (Vec::new(), self.seen.left_out.clone(), 0);
        let mut transactions = Vec::new();
        for (at, statement) in self.seen.statements.iter().enumerate() {
            match runnable(statement, database, &self.schema, &mut columns) {
                Ok(values) => {
                    transactions.push(Value::Table(transaction(statement, &values, is_of_user)));
                    range_count += usize::from(values.has_ranges);
                    places.push(at);
                }
                Err(why) => left_out.push(left_out_of(statement, why)),
            }
        }
        if places.is_empty() {
            return Err(self.nothing_runs(&left_out, is_of_user));
        }
        let text = self.file(transactions).to_string();
        let benchmark = FileBenchmark::of_text(&self.kind.to_string(), text, self.seed);
        let benchmark = benchmark.map_err(|error| DatabaseError::Failed(error.to_string()))?;
        Ok(Made { benchmark, places, left_out, range_count, is_of_user })
    }

    /// The sketch in the form of a workload's file.
    fn file(&self, transactions: Vec<Value>) -> Table {
        let writes = self.seen.statements.iter().any(|one| one.parsed.deed == Deed::Changes);
        let writes = if writes { "in place" } else { "nothing" };
        [
            ("name".to_owned(), Value::from(self.name.as_str())),
            ("writes".to_owned(), Value::from(writes)),
            ("transaction".to_owned(), Value::Array(transactions)),
        ]
        .into_iter()
        .collect()
    }

    fn nothing_runs(&self, left_out: &[LeftOut], is_of_user: bool) -> DatabaseError {
        let remedy = match is_of_user {
            true => "name the server that was observed, or one with its data".to_owned(),
            false => format!(
                "a private server begins empty: give it a copy of the data that was observed, size {kind} --copy {url}, or the \
                 option copy_of={url}",
                kind = self.kind,
                url = self.seen.url
            ),
        };
        let why = told(left_out).join("\n  ");
        DatabaseError::Failed(format!("no statement of {} can run on this target; {remedy}\n  {why}", self.kind))
    }

    /// What is made for a target, once: its runs have the same statements.
    fn made_for(&self, database: &dyn Database) -> Result<Arc<Made>, DatabaseError> {
        let mut made = self.made.write();
        if let Some(known) = made.as_ref().filter(|made| made.is_of_user == database.is_of_user()) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(self.make(database)?);
        *made = Some(Arc::clone(&new));
        Ok(new)
    }

    /// What was made for the target that was prepared last.
    fn made(&self) -> Arc<Made> {
        Arc::clone(self.made.read().as_ref().expect("a workload is prepared before its clients run"))
    }
}

/// The values of a statement that the target can run; otherwise why it is left out.
fn runnable(
    statement: &SketchStatement,
    database: &dyn Database,
    schema: &Schema,
    columns: &mut Columns<'_>,
) -> Result<Values, String> {
    let SketchStatement { call, parsed, .. } = statement;
    if parsed.deed == Deed::Changes && database.is_of_user() {
        return Err("it writes or locks rows, and this server is yours".to_owned());
    }
    let trial = |sql: &str| {
        let script = format!("PREPARE plimsoll_sketch AS {sql}; DEALLOCATE plimsoll_sketch");
        database.run_script(schema, &script).map_err(|error| error.to_string())
    };
    trial(&call.text)?;
    let values = columns.values(parsed, call.rows_per_call)?;
    // Ends of ranges are written in another form.
    trial(&sql(&call.text, &values, |number| format!("${number}")))?;
    Ok(values)
}

/// A statement with its parameters in a form. Of the two drawn ends of a range the smaller one is the lower.
fn sql(text: &str, values: &Values, parameter: impl Fn(usize) -> String) -> String {
    replaced(text.trim_end_matches(|c: char| c.is_whitespace() || c == ';'), |number| {
        let ends = |(low, high, kind): &(usize, usize, String)| {
            let which = if number == *low { "LEAST" } else { "GREATEST" };
            format!("{which}({}::{kind}, {}::{kind})", parameter(*low), parameter(*high))
        };
        let range = values.ranges.iter().find(|(low, high, _)| [*low, *high].contains(&number));
        range.map_or_else(|| parameter(number), ends)
    })
}

/// A statement as a transaction of a workload's file.
fn transaction(statement: &SketchStatement, values: &Values, is_of_user: bool) -> Table {
    let parameter = |(number, drawn): (&usize, &Drawn)| {
        let (key, value) = match drawn {
            Drawn::Query(sql) => ("query", Value::from(sql.as_str())),
            Drawn::Constant(value) => ("constant", Value::from(*value)),
        };
        (format!("p{number}"), Value::Table([(key.to_owned(), value)].into_iter().collect()))
    };
    let sql = sql(&statement.call.text, values, |number| format!(":p{number}"));
    // What writes although no text shows it, as within a function, fails on a server of the user's and changes nothing.
    let (key, value) = if is_of_user { ("read_only", true) } else { ("transaction", false) };
    [
        ("name".to_owned(), Value::from(statement.name.as_str())),
        ("weight".to_owned(), Value::from(statement.call.calls_per_s)),
        (key.to_owned(), Value::from(value)),
        ("parameters".to_owned(), Value::Table(values.drawn.iter().map(parameter).collect())),
        ("statements".to_owned(), Value::Array(vec![Value::from(sql)])),
    ]
    .into_iter()
    .collect()
}

fn left_out_of(statement: &SketchStatement, why: String) -> LeftOut {
    let (text, class) = (statement.call.text.clone(), statement.call.class.clone());
    LeftOut { text, class, share: statement.share, why }
}

/// Statements that are left out, those that took most time first.
fn told(left_out: &[LeftOut]) -> Vec<String> {
    let mut order: Vec<&LeftOut> = left_out.iter().collect();
    order.sort_by(|one, other| other.share.total_cmp(&one.share));
    let line = |one: &&LeftOut| {
        format!("left out: {} ({}, {} of the time): {}", shown(&one.text), one.class, percent(one.share), one.why)
    };
    let mut lines: Vec<String> = order.iter().take(NAMED_MAX).map(line).collect();
    if order.len() > NAMED_MAX {
        let rest: f64 = order[NAMED_MAX..].iter().map(|one| one.share).sum();
        let count = counted(order.len() - NAMED_MAX, "more statement");
        lines.push(format!("left out: {count}, {} of the time", percent(rest)));
    }
    lines
}

/// The beginning of a statement in one line.
fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "a statement".to_owned() } else { format!("`{}`", cut(&words.join(" "), SHOWN_MAX)) }
}

impl Benchmark for Sketch {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn data(&self) -> String {
        format!("{}:given", self.schema.name)
    }

    fn writes(&self) -> Writes {
        let changes = self.seen.statements.iter().any(|one| one.parsed.deed == Deed::Changes);
        if changes { Writes::InPlace } else { Writes::Nothing }
    }

    fn transactions(&self) -> Vec<&str> {
        self.seen.statements.iter().map(|one| one.name.as_str()).collect()
    }

    fn estimated_bytes(&self) -> u64 {
        0
    }

    /// The data are the target's own.
    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        if !database.runs_sql() {
            let why = "a sketch has the SQL of a server; use --target postgres: with a copy of its data (copy_of=URL)";
            return Err(DatabaseError::Unsupported(why.to_owned()).into());
        }
        database.run_script(&self.schema, "SELECT 1")?;
        progress.step(0, 0, "the tables that are there")
    }

    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        self.made_for(database)?.benchmark.prepare(database)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        let made = self.made();
        Box::new(SketchClient { client: made.benchmark.client(number, seed), made })
    }

    fn notes(&self) -> Vec<String> {
        let Some(made) = self.made.read().clone() else { return Vec::new() };
        let kept: Vec<&SketchStatement> = made.places.iter().map(|at| &self.seen.statements[*at]).collect();
        let share: f64 = kept.iter().map(|one| one.share).sum();
        let calls_per_s: f64 = kept.iter().map(|one| one.call.calls_per_s).sum();
        let mut notes = vec![format!(
            "{} is a sketch of what {} ran: {} of {}, which took {} of the time seen at {} calls per second. Values are drawn \
             from statistics, and each statement is a transaction of its own",
            self.name,
            self.seen.url,
            kept.len(),
            counted(kept.len() + made.left_out.len(), "statement"),
            percent(share),
            rate(calls_per_s),
        )];
        notes.extend((made.range_count > 0).then(|| {
            let ranges = counted(made.range_count, "statement");
            format!("{ranges} of the sketch select ranges, whose width is drawn, too: on average a third of the values")
        }));
        notes.extend(told(&made.left_out));
        notes
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let made = self.made_for(database)?;
        let kept = made.places.iter().map(|at| {
            let SketchStatement { name, call, share, .. } = &self.seen.statements[*at];
            let figures = format!("{} calls per second, {} of the time", rate(call.calls_per_s), percent(*share));
            CheckLine {
                what: format!("{name} ({figures}): {}", shown(&call.text)),
                holds: Some(true),
                found: "the target can run it".to_owned(),
            }
        });
        let left_out = made.left_out.iter().map(|one| CheckLine {
            what: format!("{} of {} ({} of the time)", shown(&one.text), one.class, percent(one.share)),
            holds: None,
            found: format!("left out: {}", one.why),
        });
        Ok(kept.chain(left_out).collect())
    }
}

/// A client of a sketch.
struct SketchClient {
    client: Box<dyn Client>,
    made: Arc<Made>,
}

impl Client for SketchClient {
    fn draw(&mut self) -> usize {
        self.made.places[self.client.draw()]
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        self.client.run(session)
    }
}
