//! SQL as PostgreSQL cuts it into pieces: where words, literals and comments end, by the rules of a session.
//!
//! [`fingerprint`] is a number shared by all texts that differ only in their values, [`normalised`] their readable form.

mod lexer;
mod normal;
mod rules;

pub use lexer::{Lexer, Token, TokenKind};
pub use normal::{fingerprint, is_moment, normalise, normalised};
pub use rules::{Encoding, Strings, TextRules};
