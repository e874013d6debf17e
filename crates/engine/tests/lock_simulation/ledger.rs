//! The holders of rows, recorded only from the answers that clients have had. It knows neither the lock table nor its
//! specification, so that it detects a mistake that both make.

use std::collections::BTreeMap;

use plimsoll_engine::lock::Mode;
use plimsoll_engine::lock::head::Answer;

use super::lock_host::{FIRST_GAP, Outcome, Thing, Who};

/// The locks that clients believe they hold, and those for which they wait. Gaps are left out: readers of a merged gap
/// are beside transactions that were inserting into the next one.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The modes that were granted; the held mode covers them.
    held: BTreeMap<(Thing, Who), Vec<Mode>>,
    asked: BTreeMap<Who, (Thing, Mode)>,
}

impl Ledger {
    pub fn ask(&mut self, who: Who, thing: Thing, mode: Mode) {
        if thing < FIRST_GAP {
            self.asked.insert(who, (thing, mode));
        }
    }

    /// It receives the answer, at once or after waiting. No other client may hold a mode that conflicts with the
    /// granted one.
    pub fn hear(&mut self, who: Who, outcome: Outcome) -> Result<(), String> {
        if outcome == Ok(Answer::Wait) {
            return Ok(());
        }
        let Some((thing, mode)) = self.asked.remove(&who) else { return Ok(()) };
        match outcome {
            Ok(Answer::Held) if !self.all_of(who, thing).covers(mode) => {
                return Err(format!("{who} is told that it holds {mode:?} on {thing} already, and does not"));
            }
            Ok(_) => self.held.entry((thing, who)).or_default().push(mode),
            Err(_) => return Ok(()),
        }
        match self.in_the_way(who, thing, mode) {
            Some((other, theirs)) => {
                Err(format!("{who} is told that it has {mode:?} on {thing}, and {other} has {theirs:?}"))
            }
            None => Ok(()),
        }
    }

    /// It releases its lock on one thing.
    pub fn release(&mut self, who: Who, thing: Thing) {
        self.held.remove(&(thing, who));
    }

    /// It cancels its waiting request.
    pub fn give_up(&mut self, who: Who) {
        self.asked.remove(&who);
    }

    /// Of the waiters for the same thing, the first one waits for a holder.
    pub fn check_waiting(&self, waiting: &[Who]) -> Result<(), String> {
        let mut waited_for: BTreeMap<Thing, bool> = BTreeMap::new();
        for (who, thing, mode) in
            waiting.iter().filter_map(|who| self.asked.get(who).map(|(thing, mode)| (*who, *thing, *mode)))
        {
            let wanted = self.all_of(who, thing).supremum(mode);
            *waited_for.entry(thing).or_default() |= self.in_the_way(who, thing, wanted).is_some();
        }
        match waited_for.iter().find(|(_, is_held)| !**is_held) {
            Some((thing, _)) => Err(format!("there are waiters for {thing}, which nobody holds against them")),
            None => Ok(()),
        }
    }

    /// Another client that holds a mode which conflicts with this one.
    fn in_the_way(&self, who: Who, thing: Thing, mode: Mode) -> Option<(Who, Mode)> {
        let of_thing = self.held.iter().filter(|((other, holder), _)| *other == thing && *holder != who);
        let mut theirs = of_thing.flat_map(|((_, holder), modes)| modes.iter().map(|theirs| (*holder, *theirs)));
        theirs.find(|(_, theirs)| !theirs.is_compatible(mode))
    }

    /// The weakest mode that covers all its granted modes; the weakest of all modes if it has none.
    fn all_of(&self, who: Who, thing: Thing) -> Mode {
        let modes = self.held.get(&(thing, who)).into_iter().flatten();
        modes.fold(Mode::IS, |all, mode| all.supremum(*mode))
    }
}
