//! `SHOW DNS_HOSTS` and `SHOW DNS_ZONES`: empty, because names are looked up with each connection and not kept.

use crate::admin::answer::{Answer, Column, Refusal, int, int4, text};
use crate::admin::command::Call;

pub(crate) const HOSTS: &[Column] = &[text("hostname"), int("ttl"), text("addrs")];
pub(crate) const ZONES: &[Column] = &[text("zonename"), int("serial"), int4("count")];

pub fn none(_: &Call<'_>) -> Result<Answer, Refusal> {
    Ok(Answer::default())
}
