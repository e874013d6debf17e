//! Measures memory and caches of this machine: `memory_speed [quick]`.

use plimsoll_machine::MachineFacts;
use plimsoll_machine::memory_speed::{MemorySpeed, Options};

fn main() {
    let quick = std::env::args().nth(1).as_deref() == Some("quick");
    let options = Options::of(&MachineFacts::read(), quick);
    let speed = MemorySpeed::measure(&options, &mut |share, what| eprintln!("{:3.0} %  {what}", share * 100.0));
    for point in &speed.curve {
        println!("{:>10} KiB  {}", point.bytes >> 10, point.latency);
    }
    print!("{speed}");
    println!("took {:.1} s; huge pages {:?}", speed.took_s, speed.huge_page_share);
}
