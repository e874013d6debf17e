//! A row of the table.

use super::kind::{Context, Kind, Raw};

/// When a changed setting takes effect.
#[derive(Debug, Clone, Copy)]
pub enum Change<Of> {
    /// After the file is read again.
    Reload,
    /// After `SET` on the console, too, until the file is read again.
    Set,
    /// After a restart. The function keeps the earlier value, given second.
    Restart(fn(&mut Of, &Of)),
}

impl<Of> Change<Of> {
    /// The acts that change the setting, in words.
    pub fn name(&self) -> &'static str {
        match self {
            Change::Reload => "RELOAD",
            Change::Set => "SET or RELOAD",
            Change::Restart(_) => "restart",
        }
    }
}

/// Where a key has an effect. The reason names an alternative.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// In the connection path and beside a server.
    Any,
    /// Only in the connection path.
    InPath(&'static str),
    /// Only beside a server.
    Beside(&'static str),
}

impl Mode {
    /// Why the key has no effect there; `None` if it has one.
    pub(crate) fn fault(self, is_beside: bool) -> Option<&'static str> {
        match self {
            Mode::InPath(why) if is_beside => Some(why),
            Mode::Beside(why) if !is_beside => Some(why),
            _ => None,
        }
    }
}

/// A key of `Of`.
#[derive(Debug)]
pub(crate) struct Row<Of: 'static> {
    /// Its name within its table.
    pub(crate) key: &'static str,
    /// The default as `SHOW CONFIG` shows it; empty if it depends on other settings.
    pub(crate) default: &'static str,
    /// The meaning, for users; it begins with a space.
    pub(crate) about: &'static str,
    /// The type, the range, and the place of the value.
    pub(crate) kind: Kind<Of>,
    pub(crate) change: Change<Of>,
    pub(crate) mode: Mode,
    /// Whether every file must give it.
    pub(crate) is_required: bool,
    /// Whether `SHOW CONFIG` shows it.
    pub(crate) is_shown: bool,
}

/// A table that a file has once, with its rows.
#[derive(Debug)]
pub(crate) struct Table<Of: 'static> {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) about: &'static str,
    pub(crate) rows: &'static [Row<Of>],
}

/// Rows: the meaning as a comment, then `key = default, kind`, and the methods of [`Row`] that say how it differs from
/// others.
macro_rules! rows {
    ($of:ty; $(
        $(#[doc = $about:literal])+ $key:ident = $default:literal, $kind:expr $(, $act:ident($($what:expr)?))*;
    )+) => {
        &[$(Row::<$of>::new(stringify!($key), $default, concat!($($about),+), $kind)$(.$act($($what)?))*),+]
    };
}
pub(crate) use rows;

impl<Of> Table<Of> {
    /// A table that counts in both modes.
    pub(crate) const fn new(name: &'static str, about: &'static str, rows: &'static [Row<Of>]) -> Self {
        Table { name, mode: Mode::Any, about, rows }
    }

    pub(crate) const fn in_path(mut self, why: &'static str) -> Self {
        self.mode = Mode::InPath(why);
        self
    }
}

impl<Of> Row<Of> {
    /// A row that is not required, and takes effect by a reload and in both modes.
    pub(crate) const fn new(key: &'static str, default: &'static str, about: &'static str, kind: Kind<Of>) -> Self {
        let (change, mode) = (Change::Reload, Mode::Any);
        Row { key, default, about, kind, change, mode, is_required: false, is_shown: true }
    }

    pub(crate) const fn set(mut self) -> Self {
        self.change = Change::Set;
        self
    }

    pub(crate) const fn restart(mut self, keep: fn(&mut Of, &Of)) -> Self {
        self.change = Change::Restart(keep);
        self
    }

    pub(crate) const fn in_path(mut self, why: &'static str) -> Self {
        self.mode = Mode::InPath(why);
        self
    }

    pub(crate) const fn beside(mut self, why: &'static str) -> Self {
        self.mode = Mode::Beside(why);
        self
    }

    pub(crate) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    pub(crate) const fn hidden(mut self) -> Self {
        self.is_shown = false;
        self
    }

    /// Sets the default, if it does not depend on other settings.
    pub(crate) fn put_default(&self, of: &mut Of, cx: &Context<'_>) {
        if !self.default.is_empty() && !self.kind.is_list() {
            let put = self.kind.put(of, Raw::Word(self.default), cx);
            put.expect("the default is a value, as a test holds");
        }
    }
}
