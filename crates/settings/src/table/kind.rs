//! The types of settings: how each is read, shown, and described in the schema.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_notation::Problem;
use plimsoll_pg::url::ServerUrl;
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::DeValue;

use crate::quantity::{self, write_duration, write_size};
use crate::read::Surroundings;
use crate::values::{length, listed};

/// Everything besides its text that the meaning of a value depends on.
pub(crate) struct Context<'a> {
    pub(crate) surroundings: &'a Surroundings<'a>,
    /// Whether the governor works beside its server.
    pub(crate) is_beside: bool,
}

impl Context<'_> {
    pub(crate) fn url(&self, text: &str) -> Result<ServerUrl, String> {
        ServerUrl::parse_in(text, self.surroundings.environment).map_err(|error| error.to_string())
    }

    /// A file's path, relative to the folder of the settings.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.surroundings.folder.join(text)
    }
}

/// A value as it was written: in a file, or as words on the console.
#[derive(Clone, Copy)]
pub(crate) enum Raw<'a> {
    Toml(&'a DeValue<'a>),
    Word(&'a str),
}

impl<'a> Raw<'a> {
    pub(crate) fn truth(self) -> Result<bool, String> {
        match self {
            Raw::Toml(DeValue::Boolean(truth)) => Ok(*truth),
            Raw::Toml(_) => Err(self.is_not("true or false")),
            Raw::Word(word) => match word.to_ascii_lowercase().as_str() {
                "true" | "on" | "yes" | "1" => Ok(true),
                "false" | "off" | "no" | "0" => Ok(false),
                _ => Err(format!("`{word}` is neither true nor false")),
            },
        }
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(self, least: i64, most: i64) -> Result<u32, String> {
        let number = match self {
            Raw::Toml(DeValue::Integer(number)) => i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| format!("{number} is not between {least} and {most}"))?,
            Raw::Toml(_) => return Err(self.is_not("a whole number")),
            Raw::Word(word) => word.parse().map_err(|_| format!("`{word}` is not a number from {least} to {most}"))?,
        };
        let number = Some(number).filter(|number| (least..=most).contains(number));
        let wrong = || format!("{} is not between {least} and {most}", self.shown());
        number.and_then(|number| u32::try_from(number).ok()).ok_or_else(wrong)
    }

    pub(crate) fn text(self) -> Result<&'a str, String> {
        match self {
            Raw::Toml(DeValue::String(text)) => Ok(text),
            Raw::Toml(_) => Err(self.is_not("a text in quotes")),
            Raw::Word(word) => Ok(word),
        }
    }

    /// Whether it is that word of the console. In a file, such a key is left out.
    fn is_word(self, word: &str) -> bool {
        matches!(self, Raw::Word(written) if written == word)
    }

    pub(crate) fn is_not(self, expected: &str) -> String {
        format!("expected {expected}, found {}", self.shown())
    }

    fn shown(self) -> String {
        match self {
            Raw::Word(word) => format!("`{word}`"),
            Raw::Toml(DeValue::String(text)) => format!("the text \"{text}\""),
            Raw::Toml(DeValue::Integer(number)) => number.to_string(),
            Raw::Toml(DeValue::Float(number)) => number.as_str().to_owned(),
            Raw::Toml(DeValue::Boolean(truth)) => truth.to_string(),
            Raw::Toml(DeValue::Datetime(moment)) => moment.to_string(),
            Raw::Toml(DeValue::Array(_)) => "a list".to_owned(),
            Raw::Toml(DeValue::Table(_)) => "a table".to_owned(),
        }
    }
}

/// The place of a value of type `T` within `Of`.
type Lens<Of, T> = fn(&mut Of) -> &mut T;

/// The type of a setting, with its bounds and its place.
pub(crate) enum Kind<Of> {
    /// `true` or `false`.
    Truth(Lens<Of, bool>),
    /// A whole number, with the least and the largest.
    Number(i64, i64, Lens<Of, u32>),
    /// A whole number or none, with the word for none.
    Bound(i64, i64, &'static str, Lens<Of, Option<u32>>),
    /// A duration, with the shortest.
    Length(Duration, Lens<Of, Duration>),
    /// A duration of 1 ms or more, or none.
    Wait(Lens<Of, Option<Duration>>),
    /// An amount of memory.
    Size(Lens<Of, usize>),
    /// A text.
    Text(fn(&Of) -> String, fn(&mut Of, &str, &Context<'_>) -> Result<(), String>),
    /// A text or none.
    Maybe(fn(&Of) -> Option<String>, fn(&mut Of, Option<&str>, &Context<'_>) -> Result<(), String>),
    /// A list of texts; the function adds one.
    List(fn(&Of) -> Vec<String>, fn(&mut Of, &str, &Context<'_>) -> Result<(), String>),
    /// Any other: its schema, how it is shown in a mode, and how it is set.
    Own(&'static str, fn(&Of, bool) -> String, fn(&mut Of, Raw<'_>, &Context<'_>) -> Result<(), String>),
    /// A text of which only the type is checked here.
    Said,
    /// `true` or `false`, likewise.
    SaidTruth,
}

impl<Of> fmt::Debug for Kind<Of> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.schema().to_string())
    }
}

impl<Of> Kind<Of> {
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Kind::List(..))
    }

    /// Sets a value that is no list.
    pub(crate) fn put(&self, of: &mut Of, raw: Raw<'_>, cx: &Context<'_>) -> Result<(), String> {
        match self {
            Kind::Truth(place) => *place(of) = raw.truth()?,
            Kind::Number(least, most, place) => *place(of) = raw.number(*least, *most)?,
            Kind::Bound(_, _, none, place) if raw.is_word(none) => *place(of) = None,
            Kind::Bound(least, most, none, place) => {
                let or_none = |why| if matches!(raw, Raw::Word(_)) { format!("{why}, or {none}") } else { why };
                *place(of) = Some(raw.number(*least, *most).map_err(or_none)?);
            }
            Kind::Length(least, place) => *place(of) = length(raw.text()?, *least)?,
            Kind::Wait(place) if raw.is_word("none") => *place(of) = None,
            Kind::Wait(place) => *place(of) = Some(length(raw.text()?, Duration::from_millis(1))?),
            Kind::Size(place) => *place(of) = quantity::size(raw.text()?)?,
            Kind::Text(_, set) => set(of, raw.text()?, cx)?,
            Kind::Maybe(_, set) if raw.is_word("none") => set(of, None, cx)?,
            Kind::Maybe(_, set) => set(of, Some(raw.text()?), cx)?,
            Kind::List(..) => return Err(raw.is_not("a list of texts")),
            Kind::Own(_, _, set) => set(of, raw, cx)?,
            Kind::Said => raw.text().map(drop)?,
            Kind::SaidTruth => raw.truth().map(drop)?,
        }
        Ok(())
    }

    /// Sets the value of a file; returns its faults.
    pub(crate) fn read(&self, of: &mut Of, value: &Spanned<DeValue<'_>>, cx: &Context<'_>) -> Vec<Problem> {
        let fault = |(value, put): (&Spanned<DeValue<'_>>, Result<(), String>)| {
            put.err().map(|message| Problem::new(value.span(), message))
        };
        match (self, value.get_ref()) {
            (Kind::List(_, add), DeValue::Array(items)) => {
                let put = |item| (item, Raw::Toml(Spanned::get_ref(item)).text().and_then(|text| add(of, text, cx)));
                items.iter().map(put).filter_map(fault).collect()
            }
            // `wrong_keys` reports a text in place of a list, at its key.
            (Kind::List(..), DeValue::String(_)) => Vec::new(),
            (_, raw) => fault((value, self.put(of, Raw::Toml(raw), cx))).into_iter().collect(),
        }
    }

    /// The value as `SHOW CONFIG` shows it.
    pub(crate) fn shown(&self, of: &mut Of, is_beside: bool) -> String {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        match self {
            Kind::Truth(place) => place(of).to_string(),
            Kind::Number(_, _, place) => place(of).to_string(),
            Kind::Bound(_, _, none, place) => place(of).map_or_else(|| (*none).to_owned(), |number| number.to_string()),
            Kind::Length(_, place) => write_duration(*place(of)),
            Kind::Wait(place) => or_none(place(of).map(write_duration)),
            Kind::Size(place) => write_size(*place(of)),
            Kind::Text(get, _) => get(of),
            Kind::Maybe(get, _) => or_none(get(of)),
            Kind::List(get, _) => listed(&get(of)),
            Kind::Own(_, get, _) => get(of, is_beside),
            Kind::Said | Kind::SaidTruth => String::new(),
        }
    }

    /// The JSON schema of its values in a file.
    pub(crate) fn schema(&self) -> Value {
        match self {
            Kind::Truth(_) | Kind::SaidTruth => json!({ "type": "boolean" }),
            Kind::Number(least, most, _) | Kind::Bound(least, most, _, _) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Kind::List(..) => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Own(schema, _, _) => serde_json::from_str(schema).expect("the table's schemas are JSON"),
            _ => json!({ "type": "string" }),
        }
    }
}
