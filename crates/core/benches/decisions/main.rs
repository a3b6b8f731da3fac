//! How long decisions take, and how that grows. `make bench-core` runs these beside those of the vSphere parser, and fails where one takes
//! longer than it may.

mod groups;
mod site;
mod vcenters;

fn main() {
    divan::main();
}
