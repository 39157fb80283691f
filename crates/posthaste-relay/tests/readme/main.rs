//! The Rust of the README, run as it stands: each file here begins with one of its blocks.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is what a reader sees, and a test that fails may panic"
)]

mod place_order;
mod place_order_sqlite;
mod relay;

const README: &str = include_str!("../../../../README.md");
/// Ends what is the README's in a file.
const END: &str = "\n// So much for the README.\n";

#[test]
fn every_block_of_the_readme_is_run() {
    let fence = "```rust\n";
    let blocks: Vec<&str> = README
        .split(fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let run = [
        include_str!("place_order.rs"),
        include_str!("place_order_sqlite.rs"),
        include_str!("relay.rs"),
    ];
    let run: Vec<&str> = run
        .iter()
        .map(|file| file.split_once(END).expect("the mark").0)
        .collect();
    assert_eq!(blocks, run);
}
