//! A capture for people, and its events as JSON for other programs.

use std::collections::BTreeMap;

use plimsoll_display::{bytes, count, counted, one_line, rate, seconds, write_item};
use serde::Serialize;
use serde_json::{Value, json};

use crate::description::{Description, Values};
use crate::event::{Event, Unit, WhyLost};
use crate::messages::{Bind, Body, Message, Messages, Parse};
use crate::reader::Fault;
use crate::summary::Summary;

/// How many commands, errors and names are listed.
const LISTED_MAX: usize = 12;

/// A capture in figures: what `--show` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    /// What it is.
    #[serde(flatten)]
    pub description: Description,
    /// The size of its segments in bytes.
    pub bytes: u64,
    /// What it holds.
    #[serde(flatten)]
    pub summary: Summary,
    /// Places from which segments cannot be read.
    pub faults: Vec<String>,
}

impl Overview {
    /// The overview of a capture that has been read.
    pub fn new(description: Description, bytes: u64, summary: Summary, faults: &[Fault]) -> Self {
        Overview { description, bytes, summary, faults: faults.iter().map(Fault::to_string).collect() }
    }

    /// For people.
    pub fn text(&self) -> String {
        let (description, summary) = (&self.description, &self.summary);
        let mut text = String::new();
        let values = match description.values {
            Values::Kept => "values kept",
            Values::Redacted => "values redacted",
        };
        let server = description.server_version.map_or("unknown".to_owned(), version_told);
        write_item(&mut text, "began:      ", &format!("{}, server {server}, {values}", description.began));
        let length = summary.seconds();
        let mean =
            if length > 0.0 { format!(", units at {}", rate(summary.units as f64 / length)) } else { String::new() };
        write_item(&mut text, "length:     ", &format!("{}{mean}", seconds(length)));
        let at_once = format!("{}, at most {} at once", count(summary.sessions), count(summary.sessions_max));
        write_item(&mut text, "sessions:   ", &at_once);
        write_item(&mut text, "users:      ", &listed(&summary.users));
        write_item(&mut text, "databases:  ", &listed(&summary.databases));
        write_item(&mut text, "units:      ", &format!("{}, {} rows", count(summary.units), count(summary.rows)));
        write_item(&mut text, "statements: ", &listed(&summary.statements));
        if !summary.errors.is_empty() {
            write_item(&mut text, "errors:     ", &listed(&summary.errors));
        }
        if summary.unanswered > 0 {
            write_item(&mut text, "unanswered: ", &format!("{}: their connections ended", count(summary.unanswered)));
        }
        write_item(&mut text, "size:       ", &bytes(self.bytes));
        for why in WhyLost::ALL {
            if let Some(units) = summary.lost_for(why) {
                write_item(&mut text, "lost:       ", &format!("{} units {}", count(units), why.words()));
            }
        }
        for fault in &self.faults {
            write_item(&mut text, "damaged:    ", fault);
        }
        if summary.units == 0 {
            write_item(&mut text, "note:       ", "it is empty: no client has sent a statement while it was recorded");
        }
        text
    }
}

/// 170002 is 17.2.
fn version_told(version: u32) -> String {
    format!("PostgreSQL {}.{}", version / 10_000, version % 10_000)
}

/// The largest counts with their names.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
    sorted.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let mut parts: Vec<String> =
        sorted.iter().take(LISTED_MAX).map(|(name, units)| format!("{} {}", one_line(name), count(**units))).collect();
    if sorted.len() > LISTED_MAX {
        parts.push(counted(sorted.len() - LISTED_MAX, "other"));
    }
    parts.join(", ")
}

/// An event as one JSON object, with the client's messages in readable form.
pub fn json_of(event: &Event) -> Value {
    match event {
        Event::Opened(opened) => json!({
            "event": "opened", "session": opened.session, "at_us": opened.at_us, "user": opened.user,
            "database": opened.database, "parameters": opened.parameters,
        }),
        Event::Unit(unit) => json_of_unit(unit),
        Event::Closed(closed) => json!({ "event": "closed", "session": closed.session, "at_us": closed.at_us }),
        Event::Lost(lost) => {
            json!({ "event": "lost", "at_us": lost.at_us, "units": lost.units, "why": lost.why.words() })
        }
    }
}

fn json_of_unit(unit: &Unit) -> Value {
    let answer = &unit.answer;
    let state = Some(answer.state).filter(|state| *state != 0).map(|state| char::from(state).to_string());
    json!({
        "event": "unit", "session": unit.session, "at_us": unit.at_us, "took_us": unit.took_us,
        "messages": Messages(&unit.request).map(json_of_message).collect::<Vec<_>>(),
        "state": state, "tags": answer.tags, "error": answer.error, "rows": answer.rows, "answer_bytes": answer.bytes,
        "checksum": format!("{:016x}", answer.checksum),
    })
}

fn json_of_message(message: Message<'_>) -> Value {
    let mut body = Body(message.body);
    let raw = || json!({ "message": char::from(message.tag).to_string(), "body": readable(message.body) });
    match message.tag {
        b'Q' => json!({ "message": "Query", "sql": readable(body.text().unwrap_or(message.body)) }),
        b'P' => Parse::read(message.body).map_or_else(raw, |parse| {
            json!({ "message": "Parse", "name": readable(parse.name), "sql": readable(parse.sql), "types": parse.types })
        }),
        b'B' => Bind::read(message.body).map_or_else(raw, |bind| {
            let values: Vec<Value> = bind.values.iter().map(|value| value.map_or(Value::Null, readable)).collect();
            let (portal, name) = (readable(bind.portal), readable(bind.statement));
            json!({ "message": "Bind", "portal": portal, "name": name, "formats": bind.formats, "values": values })
        }),
        b'E' => json!({
            "message": "Execute", "portal": readable(body.text().unwrap_or_default()), "rows_max": body.number(),
        }),
        b'S' => json!({ "message": "Sync" }),
        b'd' => json!({ "message": "CopyData", "bytes": message.body.len() }),
        b'c' => json!({ "message": "CopyDone" }),
        _ => raw(),
    }
}

/// A text, or the bytes in hexadecimal form.
fn readable(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Value::from(text),
        _ => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::testing::{opened, query};

    #[test]
    fn people_see_figures_and_faults() {
        let events = [Event::Opened(opened(1, 0)), query(1, 500_000, "select 1"), query(1, 1_999_990, "select 2")];
        let description =
            Description { server_version: Some(170_002), ..Description::new(SystemTime::UNIX_EPOCH, Values::Kept) };
        let text = Overview::new(description, 2048, Summary::of(&events), &[]).text();
        let expect = "\
began:      1970-01-01T00:00:00Z, server PostgreSQL 17.2, values kept
length:     2.00 s, units at 1.00 /s
sessions:   1, at most 1 at once
users:      shop 1
databases:  shop 1
units:      2, 0 rows
statements: SELECT 2
size:       2 KiB
";
        assert_eq!(text, expect);
        let empty = Overview::new(Description::new(SystemTime::UNIX_EPOCH, Values::Kept), 0, Summary::default(), &[]);
        assert!(empty.text().contains("it is empty"), "{}", empty.text());
    }

    #[test]
    fn programs_see_messages() {
        let told = json_of(&query(1, 7, "select 1"));
        assert_eq!(told["messages"], json!([{ "message": "Query", "sql": "select 1" }]));
        assert_eq!((&told["at_us"], &told["state"], &told["error"]), (&json!(7), &json!("I"), &Value::Null));
        let bind = json_of_message(Message { tag: b'B', body: b"\0s\0\0\0\0\x02\0\0\0\x01\xff\xff\xff\xff\xff\0\0" });
        assert_eq!((&bind["name"], &bind["values"]), (&json!("s"), &json!([{ "hex": "ff" }, null])));
    }
}
