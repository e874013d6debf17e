//! A value of a TOML file with its place.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use toml::Spanned;

/// A value and its place in the file. Equality and order ignore the place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct At<T>(Spanned<T>);

impl<T> At<T> {
    /// The value.
    pub fn value(&self) -> &T {
        self.0.get_ref()
    }

    /// Changes the value; its place stays.
    pub fn change(&mut self, change: impl FnOnce(&mut T)) {
        change(self.0.get_mut());
    }

    /// Its place, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
