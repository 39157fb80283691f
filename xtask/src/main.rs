//! `cargo xtask`: the one way to check, test and measure.
fn main() {}
