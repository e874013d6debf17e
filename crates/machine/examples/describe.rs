//! Prints a description of this machine and what can be measured and limited on it.

use plimsoll_machine::Description;
use plimsoll_machine::host::Host;

fn main() {
    print!("{}", Description::read(&Host::real()).to_text());
}
