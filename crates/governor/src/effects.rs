//! Stub.
use crate::statement::TextRules;
use plimsoll_policy::Unsafe;
use std::time::Instant;
/// Stub.
#[derive(Debug)]
pub struct Inquiry;
/// Stub.
pub struct Question<'a> {
    /// Stub.
    pub sql: &'a str,
    /// Stub.
    pub parameters: Vec<Vec<u8>>,
}
/// Stub.
pub enum Next<'a> {
    /// Stub.
    Ask(Question<'a>),
    /// Stub.
    Known(Result<(), Unsafe>),
}
impl Inquiry {
    /// Stub.
    pub fn new<'a>(
        _: impl IntoIterator<Item = &'a [u8]>,
        _: TextRules,
        _: impl IntoIterator<Item = &'a [u8]>,
        _: &[String],
        _: i32,
    ) -> Self {
        Inquiry
    }
    /// Stub.
    pub fn next(&mut self) -> Next<'_> {
        Next::Known(Ok(()))
    }
    /// Stub.
    pub fn on_row(&mut self, _: &[Option<&[u8]>]) {}
    /// Stub.
    pub fn on_answered(&mut self, _: bool) {}
}
/// Stub.
#[derive(Debug, Default)]
pub struct Cache;
impl Cache {
    /// Stub.
    pub fn look_up(&self, _: &str, _: &mut Inquiry, _: Instant) {}
    /// Stub.
    pub fn keep(&self, _: &str, _: &Inquiry, _: Instant) {}
    /// Stub.
    pub fn forget(&self, _: &str) {}
}
