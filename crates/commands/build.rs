//! Links the program small.

mod link_small;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=link_small.rs");
    link_small::link_small();
}
