//! A server's own records of a window: its background work and its statements.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use plimsoll_workload::activity::{ActivityWatch, StatementTotals, Statements, Upkeep};
use plimsoll_workload::database::DatabaseError;

use crate::results::{Mark, StatementUse};

/// The number of statements that are kept: those that took the most time.
const STATEMENTS_MAX: usize = 20;

/// The totals when the window opened, and the marks since.
#[derive(Debug, Default)]
pub(super) struct ServerLog {
    upkeep: Upkeep,
    /// By the id of a kind of statement.
    statements: Option<HashMap<i64, StatementTotals>>,
    /// Why statistics of statements are missing.
    pub(super) why_no_statements: Option<String>,
    pub(super) marks: Vec<Mark>,
}

impl ServerLog {
    /// Reads the totals before the window opens.
    pub(super) fn open(watch: &mut dyn ActivityWatch) -> Result<Self, DatabaseError> {
        let mut log = ServerLog { upkeep: watch.upkeep()?, ..ServerLog::default() };
        match watch.statements(false)? {
            Statements::Kept(all) => log.statements = Some(all.into_iter().map(|one| (one.id, one)).collect()),
            Statements::NotKept(why) => log.why_no_statements = Some(why),
        }
        Ok(log)
    }

    /// Records the background work that has begun or ended since the last call.
    pub(super) fn second(&mut self, at: Duration, watch: &mut dyn ActivityWatch) -> Result<(), DatabaseError> {
        let now = watch.upkeep()?;
        let then = std::mem::replace(&mut self.upkeep, now);
        let mut mark = |what: String| self.marks.push(Mark { at_s: at.as_secs_f64(), what });
        if self.upkeep.checkpoints_begun > then.checkpoints_begun {
            mark("checkpoint begins".to_owned());
        }
        if self.upkeep.checkpoint_write > then.checkpoint_write {
            mark("checkpoint ends".to_owned());
        }
        let mut change = |from: &Upkeep, to: &Upkeep, what: &str| {
            let new = to.vacuums.iter().filter(|table| !from.vacuums.contains(table));
            new.for_each(|table| mark(format!("vacuum of {table} {what}")));
        };
        change(&then, &self.upkeep, "begins");
        change(&self.upkeep, &then, "ends");
        Ok(())
    }

    /// The time of each statement since the window opened, longest first; `None` if the server keeps no statistics of
    /// statements.
    pub(super) fn statements(&self, watch: &mut dyn ActivityWatch) -> Result<Option<Vec<StatementUse>>, DatabaseError> {
        let Some(earlier) = &self.statements else { return Ok(None) };
        let Statements::Kept(now) = watch.statements(true)? else { return Ok(None) };
        let used = now.into_iter().filter_map(|now| since(earlier.get(&now.id), now));
        // Statements with the same text may have several ids, because of their plans or settings.
        let mut by_text: BTreeMap<String, StatementUse> = BTreeMap::new();
        for used in used {
            match by_text.get_mut(&used.text) {
                Some(sum) => add(sum, &used),
                None => drop(by_text.insert(used.text.clone(), used)),
            }
        }
        let mut most: Vec<StatementUse> = by_text.into_values().collect();
        most.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
        most.truncate(STATEMENTS_MAX);
        Ok(Some(most))
    }
}

/// The increase of the totals; `None` if the statement was not run. Totals that have shrunk were reset in between, and
/// begin at 0 again.
fn since(then: Option<&StatementTotals>, now: StatementTotals) -> Option<StatementUse> {
    let nothing = StatementTotals::default();
    let then = then.filter(|then| then.calls <= now.calls).unwrap_or(&nothing);
    let less = |of: fn(&StatementTotals) -> u64| of(&now).saturating_sub(of(then));
    let calls = less(|totals| totals.calls);
    (calls > 0).then(|| StatementUse {
        calls,
        time_s: now.time.saturating_sub(then.time).as_secs_f64(),
        rows: less(|totals| totals.rows),
        pages_hit: less(|totals| totals.pages_hit),
        pages_read: less(|totals| totals.pages_read),
        text: now.text.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

fn add(sum: &mut StatementUse, more: &StatementUse) {
    sum.calls += more.calls;
    sum.time_s += more.time_s;
    sum.rows += more.rows;
    sum.pages_hit += more.pages_hit;
    sum.pages_read += more.pages_read;
}
