//! Injections into the governed session: rollbacks while its client thinks, changes by others, and clients that
//! disconnect.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_governor::governor::SessionCommand;
use plimsoll_governor::registry::Phase;

use super::super::interposer::preemption;
use super::super::script::{Injection, Request, Unit, replacing};
use super::super::wire::Client;
use super::super::world::Side;
use super::conversation::{bytes, converse, converse_to_the_end};
use super::units::{can_be_redone, failing_at, may_end, parsed_names};
use super::{Difference, Play, completed, different, is_told};

/// Between two looks at a session.
const MOMENT: Duration = Duration::from_micros(100);

impl Play<'_> {
    /// Applies the injections due before a unit to the governed session, and arms those for the unit itself.
    pub(super) fn inject(&mut self, injections: &[Injection]) -> Result<(), Difference> {
        let is_armed = |injection: &Injection| {
            !matches!(injection, Injection::Idle | Injection::Change { .. } | Injection::Replace { .. })
        };
        let armed = injections.iter().copied().filter(is_armed);
        self.world.interposer.arm(armed);
        let was_preempted = self.was_preempted;
        if injections.contains(&Injection::Idle) {
            let process = self.world.process_of(&self.governed);
            let locks = |side: &mut Side| process.map(|process| side.advisory_locks(process));
            let before = locks(&mut self.world.governed);
            self.roll_back_idle();
            let after = locks(&mut self.world.governed);
            if before != after {
                let text = format!("its client relies on {before:?} advisory locks while it thinks, and has {after:?}");
                return different("lost locks", text);
            }
        }
        for injection in injections {
            let Injection::Replace { version } = injection else { continue };
            let sql = replacing(*version);
            // A session that has replaced it itself holds a lock.
            if self.world.governed.try_change(&sql) {
                self.world.plain.change(&sql);
                self.may_differ = true;
            }
        }
        let change = injections.iter().find_map(|injection| match injection {
            Injection::Change { account } => Some(format!("UPDATE accounts SET v = v * 2 WHERE id = {account}")),
            _ => None,
        });
        self.change = change.filter(|_| self.history.iter().all(|(unit, _)| can_be_redone(unit)));
        self.world.interposer.arm_change(self.change.clone(), self.was_preempted && !was_preempted);
        Ok(())
    }

    /// Has the transaction rolled back while its client thinks, as the watcher does.
    fn roll_back_idle(&mut self) {
        let Some(card) = self.world.card(&self.governed) else { return };
        let (phase, transaction, unit, immune, class) = {
            let state = card.state();
            (state.phase, state.transaction, state.unit, state.immune, state.class)
        };
        if phase != Phase::IdleInTransaction {
            return;
        }
        let statistics = self.world.governor.statistics.class(class);
        let too_late = || statistics.preempted_too_late.load(Ordering::Relaxed);
        let before = too_late();
        let answered = self.world.interposer.answered();
        let event = self.world.governor.note(preemption(&card));
        self.world.governor.tell(card.worker, card.id, SessionCommand::RollBackIdle { transaction, unit, event });
        let deadline = Instant::now() + Duration::from_secs(2);
        while card.state().phase == Phase::IdleInTransaction && too_late() == before && Instant::now() < deadline {
            std::thread::sleep(MOMENT);
        }
        if card.state().phase != Phase::IdleInTransaction {
            while self.world.interposer.answered() == answered && Instant::now() < deadline {
                std::thread::sleep(MOMENT);
            }
            self.was_preempted = true;
            self.report.preempted += 1;
        } else if let Some(immune) = immune {
            self.report.count(format!("left alone: {}", immune.name()));
        }
    }

    /// Another session has changed data that the transaction had read, before the governor replayed it. If the client
    /// noticed nothing, the change must be equivalent to one before the whole transaction, so that is where the plain
    /// side makes it. If the client got an error, or rolls back itself, the change comes after.
    pub(super) fn follow_change(&mut self, is_after: bool) -> Result<(), Difference> {
        let change = self.change.take().expect("it was armed");
        if is_after {
            self.pending = Some(change);
            return Ok(());
        }
        let history = std::mem::take(&mut self.history);
        let failed = |error: io::Error| different("plain", error.to_string());
        if !history.is_empty() {
            let names = history.iter().flat_map(|(unit, answer)| parsed_names(unit, answer));
            // A Query would discard the unnamed statement.
            let (name, sql) = ("undo".to_owned(), "ROLLBACK".to_owned());
            let undo = Unit::Extended(vec![
                Request::Parse { name: name.clone(), sql },
                Request::Bind { portal: name.clone(), statement: name.clone(), values: Vec::new() },
                Request::Execute { portal: name.clone(), rows: 0 },
                Request::CloseStatement(name),
            ]);
            let close = Unit::Extended(names.map(Request::CloseStatement).collect());
            converse(&mut self.plain, &[&undo, &close]).or_else(failed)?;
        }
        self.world.plain.change(&change);
        for (unit, governed) in &history {
            let plain = converse(&mut self.plain, &[unit]).or_else(failed)?.answers.remove(0);
            let kept = self.notifications.clone();
            self.compare(unit, governed, &plain, false).map_err(|difference| {
                let text = format!("after {change}, {}\nin {unit}", difference.text);
                Difference { kind: "changed answers", text }
            })?;
            self.notifications = kept;
        }
        self.history = history;
        Ok(())
    }

    /// A new session on both sides; returns the old ones and their processes.
    fn reconnect(&mut self) -> Result<([Client; 2], [i32; 2]), Difference> {
        let (governed, plain) =
            self.world.connect(self.user).or_else(|error| different("connecting", error.to_string()))?;
        // The new client cancels nothing of the old one.
        let old = [std::mem::replace(&mut self.governed, governed), std::mem::replace(&mut self.plain, plain)];
        let processes = old.each_ref().map(Client::process);
        Ok((old, processes))
    }

    /// The client disconnects without a message, possibly after it has sent a unit, and reconnects.
    pub(super) fn leave(&mut self, unit: Option<&Unit>) -> Result<(), Difference> {
        let ([mut governed, mut plain], processes) = self.reconnect()?;
        self.world.interposer.set_leaving(true);
        if let Some(unit) = unit {
            let _ = governed.send(&bytes(unit));
        }
        drop(governed);
        self.world.until_gone(processes[0]).or_else(|text| different("left over", text))?;
        self.world.interposer.set_leaving(false);
        let done = self.world.interposer.take_done();
        self.count(done);
        if done.changed {
            self.pending = self.change.take();
        }
        self.status = b'I';
        let (mut one, mut other) = self.data();
        // The plain session still exists, with its locks.
        [&mut one, &mut other].into_iter().for_each(|rows| rows.retain(|row| !row.starts_with("advisory lock")));
        if let Some(unit) = unit
            && (one != other || !self.was_preempted && done.cancelled == 0)
        {
            // The unit took effect, or nobody has kept it from doing so: it must take effect here, too. A server that cannot send
            // a notice gives up the rest, so this client leaves when it is done.
            let _ = converse_to_the_end(&mut plain, unit);
        }
        drop(plain);
        self.world.plain.until_gone(processes[1]).or_else(|text| different("plain", text))
    }

    /// The client sends a unit and the end of its connection, and reads everything up to the server's; then it reconnects.
    /// Everything that it has sent is answered.
    pub(super) fn finish_sending(&mut self, unit: &Unit) -> Result<(), Difference> {
        let ([mut governed, mut plain], processes) = self.reconnect()?;
        self.world.interposer.learn_unit(unit);
        self.world.interposer.set_leaving(true);
        let answer = converse_to_the_end(&mut governed, unit);
        self.world.interposer.set_leaving(false);
        let answer = answer.or_else(|error| different("lost answers", format!("{error}\nafter {unit}")))?;
        let done = self.world.interposer.take_done();
        self.count(done);
        if done.changed {
            self.pending = self.change.take();
        }
        self.status = b'I';
        let was_told = self.was_preempted && is_told(unit, &answer);
        let followed = if was_told { failing_at(unit, completed(unit, &answer), false) } else { unit.clone() };
        let expected = converse_to_the_end(&mut plain, &followed);
        let mut expected = expected.or_else(|error| different("plain", error.to_string()))?;
        if was_told
            && may_end(unit)
            && let Some(ready) = expected.iter_mut().rfind(|message| message.tag == b'Z')
        {
            // A COMMIT that fails leaves a server idle; its replacement does not.
            ready.body = vec![b'I'];
        }
        self.compare(unit, &answer, &expected, was_told).map_err(|difference| {
            let text = format!("{}\nin {unit}before the end of the connection", difference.text);
            Difference { text, ..difference }
        })?;
        drop((governed, plain));
        self.world.until_gone(processes[0]).or_else(|text| different("left over", text))?;
        self.world.plain.until_gone(processes[1]).or_else(|text| different("plain", text))
    }
}
