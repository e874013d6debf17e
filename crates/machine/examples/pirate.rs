//! Validates the pirate on this machine and prints the result.

use plimsoll_machine::MachineFacts;
use plimsoll_machine::hog::pirate::validate;
use plimsoll_machine::memory_speed::Options;

fn main() -> Result<(), String> {
    let options = Options::of(&MachineFacts::read(), false);
    print!("{}", validate(&options, &mut |share, what| eprintln!("{:3.0} %  {what}", share * 100.0))?);
    Ok(())
}
