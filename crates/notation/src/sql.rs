//! SQL as PostgreSQL cuts it into pieces: where words, literals and comments end, by the rules of a session.

mod lexer;
mod rules;

pub use lexer::{Lexer, Token, TokenKind};
pub use rules::{Encoding, Strings, TextRules};
