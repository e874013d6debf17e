//! How Plimsoll writes to people: figures with units (such as [`seconds`]), text for a terminal (such as [`wrap`]), and parts
//! of HTML pages ([`page`]). A quantity reads the same in every report, table and page, because it is written here.

mod figure;
mod figures;
pub mod page;
mod shown;
mod text;

pub use figure::*;
pub use figures::*;
pub use shown::is_shown;
pub use text::*;
