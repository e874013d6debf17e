//! Runs a governor.
fn main() {
    let file = std::env::args().nth(1).expect("a file");
    println!("{:?}", plimsoll_governor::run::govern(std::path::Path::new(&file)));
}
