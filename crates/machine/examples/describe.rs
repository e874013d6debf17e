//! Prints what this machine is and what can be measured on it.

use plimsoll_machine::{MachineFacts, counters, describe};

fn main() {
    print!("{}", describe(&MachineFacts::read(), &counters::probe()));
}
