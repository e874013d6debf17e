//! Compares both sides: each answer, and after a transaction everything that it has left.

use super::super::script::Unit;
use super::super::wire::{Message, fields};
use super::super::world::AT_REST;
use super::answers::{columns, cut, notices, seen, without_tables};
use super::{Difference, Play, different};

impl Play<'_> {
    /// Compares the answers to a unit; if the governed one got an error, only up to there, and the status.
    pub(super) fn compare(
        &mut self,
        unit: &Unit,
        governed: &[Message],
        plain: &[Message],
        is_told: bool,
    ) -> Result<(), Difference> {
        self.keep_notifications(0, governed);
        self.keep_notifications(1, plain);
        if !is_told && notices(governed) != notices(plain) {
            let text = format!("{:?} are not {:?}", notices(governed), notices(plain));
            return different("notices", text);
        }
        let mut sides = [seen(governed), seen(plain)];
        if is_told {
            sides.iter_mut().for_each(|side| cut(unit, side));
        }
        let [governed, plain] = sides;
        let names = columns(&plain);
        let mut pairs = governed.iter().zip(&plain).zip(&names);
        if governed.len() == plain.len() && pairs.all(|((one, other), names)| self.equal(one, other, names)) {
            return Ok(());
        }
        different("answers", format!("{governed:?}\nis not {plain:?}"))
    }

    fn equal(&mut self, governed: &Message, plain: &Message, names: &[String]) -> bool {
        if governed.tag != plain.tag {
            return false;
        }
        match governed.tag {
            b'D' => {
                let (one, other) = (fields(&governed.body), fields(&plain.body));
                let name = |place: usize| names.get(place).map_or("", String::as_str);
                let mut pairs = one.iter().zip(&other).enumerate();
                one.len() == other.len() && pairs.all(|(at, (one, other))| self.values.are_equal(name(at), one, other))
            }
            b'T' => without_tables(&governed.body) == without_tables(&plain.body),
            b'E' => [b'S', b'C', b'M', b'D', b'H', b'P'].iter().all(|&kind| {
                let (one, other) = (governed.field(kind), plain.field(kind));
                one == other || one.contains('g') && kind == b'D'
            }),
            _ => governed.body == plain.body,
        }
    }

    pub(super) fn keep_notifications(&mut self, side: usize, answer: &[Message]) {
        let notified = answer.iter().filter(|message| message.tag == b'A');
        // Without the process number of the sender.
        self.notifications[side].extend(notified.map(|message| message.body[4..].to_vec()));
    }

    /// Ends a transaction on both sides if it is open, and compares the results.
    pub(super) fn finish(&mut self) -> Result<(), Difference> {
        self.world.interposer.arm([]);
        if self.status != b'I' {
            self.exchange(&[&Unit::Query(vec!["ROLLBACK".to_owned()])], false)?;
        }
        self.world.interposer.arm_change(None, false);
        self.history.clear();
        if let Some(change) = self.pending.take() {
            self.world.plain.change(&change);
        }
        let [governed, plain] = &mut self.notifications;
        governed.sort();
        plain.sort();
        if governed != plain {
            return different("notifications", format!("{governed:?} are not {plain:?}"));
        }
        governed.clear();
        plain.clear();
        let process = self.world.process_of(&self.governed);
        for (side, process) in
            [(&mut self.world.governed, process), (&mut self.world.plain, Some(self.plain.process()))]
        {
            let Some(process) = process else { continue };
            let state = side.state(process);
            if state != AT_REST {
                return different("state", format!("process {process} is {state}, though its transaction has ended"));
            }
        }
        let (governed, plain) = self.data();
        if governed != plain {
            let only = |one: &[String], other: &[String]| {
                let (mut rest, mut only) = (other.to_vec(), Vec::new());
                for row in one {
                    match rest.iter().position(|known| known == row) {
                        Some(at) => drop(rest.swap_remove(at)),
                        None => only.push(row.clone()),
                    }
                }
                only
            };
            let text = format!("governed {:?}\nplain    {:?}", only(&governed, &plain), only(&plain, &governed));
            return different("data", text);
        }
        Ok(())
    }

    /// The data of both sides, sorted, with generated values as clients know them.
    pub(super) fn data(&mut self) -> (Vec<String>, Vec<String>) {
        let (governed, plain) = (self.world.governed.data(), self.world.plain.data());
        (self.values.known_in(governed, 0), self.values.known_in(plain, 1))
    }
}
