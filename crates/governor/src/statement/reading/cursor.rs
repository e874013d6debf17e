//! The cursors that a text declares, moves or closes.

use plimsoll_notation::sql::{Token, TokenKind};
use plimsoll_policy::Unsafe;

use super::{Head, Reading};
use crate::statement::name::{clipped, folded};

impl<'a> Reading<'a> {
    /// DECLARE x …, FETCH … x, MOVE … x, CLOSE x, CLOSE ALL. FETCH and MOVE end with the name of the cursor.
    pub(super) fn use_cursor(&mut self, head: &Head<'a>, last: &Token<'a>) {
        let is_declared = head.is_word(0, "declare");
        let name = if is_declared || head.is_word(0, "close") {
            head.piece(1)
        } else if head.is_any_word(0, &["fetch", "move"]) {
            Some(*last)
        } else {
            return;
        };
        let Some(token) = name else { return };
        if head.is_word(0, "close") && token.is_word("all") {
            return self.is_unsafe(Some(Unsafe::Cursor));
        }
        match folded(&token) {
            Some(name) if is_declared => self.found.declares.push(clipped(name)),
            Some(name) => self.found.moves.push(clipped(name)),
            None if token.kind == TokenKind::Quoted => self.is_unsafe(Some(Unsafe::Cursor)),
            None => {}
        }
    }
}
