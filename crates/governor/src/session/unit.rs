//! The requests of a whole unit, read before any of it is passed on.

use super::frames::{Frontend, HEAD_BYTES, Head, INSPECT_MAX, text};
use super::prepared::Note;
use crate::statement::name::stored;

/// The facts about a unit that must be known before it may begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// It closes statements and portals, and does nothing else.
    pub only_closes: bool,
    /// The statement that it runs, if it is exactly one.
    pub runs: Option<Note>,
}

/// The shape of the unit that begins here; `None` while its end has not arrived and the client does not wait for an
/// answer yet. A unit that is too long to be held, or whose client waits for an answer before its end, has the default
/// shape: nothing is known about it.
pub(super) fn shape(bytes: &[u8], note_of: &impl Fn(Frontend, &[u8]) -> Note) -> Option<Shape> {
    let is_long = bytes.len() > INSPECT_MAX / 2;
    read(bytes, note_of).or(is_long.then(Shape::default))
}

/// Whether the unit that begins here only closes statements and portals; `None` as for [`shape`].
pub(super) fn only_closes(bytes: &[u8]) -> Option<bool> {
    match Head::read(bytes) {
        Ok(Some(head)) if matches!(Frontend::of(head.tag), Frontend::Close | Frontend::Sync) => {
            shape(bytes, &|_, _| Note::default()).map(|shape| shape.only_closes)
        }
        _ => Some(false),
    }
}

/// Whether the unit that begins here prepares statements and runs none; `None` while that is not known, as for
/// [`shape`].
pub(super) fn only_prepares(bytes: &[u8]) -> Option<bool> {
    let mut rest = bytes;
    loop {
        let head = match Head::read(rest) {
            Ok(Some(head)) => head,
            Ok(None) if bytes.len() <= INSPECT_MAX / 2 => return None,
            _ => return Some(false),
        };
        match Frontend::of(head.tag) {
            Frontend::Parse | Frontend::Describe | Frontend::Close => {}
            Frontend::Sync => return Some(true),
            _ => return Some(false),
        }
        rest = rest.get(head.bytes..).unwrap_or_default();
    }
}

fn read(mut bytes: &[u8], note_of: &impl Fn(Frontend, &[u8]) -> Note) -> Option<Shape> {
    let mut only_closes = true;
    let mut parsed: Vec<(Option<&[u8]>, Note)> = Vec::new();
    let mut bound: Option<Note> = None;
    let mut runs: Vec<Note> = Vec::new();
    loop {
        let Ok(head) = Head::read(bytes) else { return Some(Shape::default()) };
        let head = head?;
        let ask = Frontend::of(head.tag);
        if matches!(ask, Frontend::Flush | Frontend::FunctionCall) || !ask.is_of_unit() || head.bytes > INSPECT_MAX {
            return Some(Shape::default());
        }
        let body = bytes.get(HEAD_BYTES..head.bytes)?;
        bytes = &bytes[head.bytes..];
        only_closes &= matches!(ask, Frontend::Close | Frontend::Sync);
        match ask {
            Frontend::Query => {
                let is_alone = runs.is_empty() && parsed.is_empty();
                return Some(Shape { only_closes: false, runs: is_alone.then(|| note_of(ask, body)) });
            }
            Frontend::Parse => {
                if let Some((name, _)) = text(body) {
                    let name = stored(name);
                    parsed.push((name, name.map_or_else(|| Note::UNREAD.clone(), |_| note_of(ask, body))));
                }
            }
            Frontend::Bind => {
                let name = text(body).and_then(|(_portal, rest)| text(rest)).map(|(name, _)| stored(name));
                // A name that the server may cut anywhere may be any of them.
                let of_this_unit = parsed.iter().rev().find(|(known, _)| known.is_none() || Some(*known) == name);
                bound = Some(of_this_unit.map_or_else(|| note_of(ask, body), |(_, note)| note.clone()));
            }
            Frontend::Execute => runs.push(bound.take().unwrap_or_else(|| Note::UNREAD.clone())),
            Frontend::Sync => {
                let is_one = runs.len() == 1 && bound.is_none();
                return Some(Shape { only_closes, runs: runs.pop().filter(|_| is_one) });
            }
            _ => {}
        }
    }
}
