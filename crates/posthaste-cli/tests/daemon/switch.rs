//! `run`: relay and cleaner can each be switched off, and nothing is lost.

use std::time::Duration;

use crate::place::{Place, every_place};

const AT_ONCE: &str = "[outbox.clean]\ninterval = \"100ms\"\nretention = \"1ms\"\n";

every_place! {
    without_the_relay_nothing_is_delivered_and_the_cleaner_cleans
    without_the_cleaner_everything_is_kept
    with_both_off_it_says_that_there_is_nothing_to_do
}

/// Two delivered events and one pending.
fn delivered_two(place: &Place) {
    place.migrated().enqueue(2);
    let daemon = place.run();
    daemon.delivers(2);
    assert_eq!(daemon.stop().code, 0);
    place.enqueue(1);
    assert_eq!((place.count("delivered"), place.count("pending")), (2, 1));
}

// B15, B17
fn without_the_relay_nothing_is_delivered_and_the_cleaner_cleans(place: &Place) {
    delivered_two(place);
    place.configure(&format!("[outbox.relay]\nenabled = false\n{AT_ONCE}"), "");
    let daemon = place.run();
    daemon.until("it has cleaned", || place.count("delivered") == 0);
    std::thread::sleep(Duration::from_secs(2));
    assert!(daemon.delivered().is_empty());
    assert_eq!(daemon.stop().code, 0);
    assert_eq!(place.count("pending"), 1);
    place.configure("", "");
    let daemon = place.run();
    daemon.delivers(1);
}

// B15, B17
fn without_the_cleaner_everything_is_kept(place: &Place) {
    delivered_two(place);
    let off = AT_ONCE.replace("interval", "enabled = false\ninterval");
    place.configure(&off, "");
    let daemon = place.run();
    daemon.delivers(1);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(daemon.stop().code, 0);
    assert_eq!(place.count("delivered"), 3);
}

fn with_both_off_it_says_that_there_is_nothing_to_do(place: &Place) {
    delivered_two(place);
    place.configure(
        "[outbox.relay]\nenabled = false\n[outbox.clean]\nenabled = false\n",
        "",
    );
    let daemon = place.run();
    daemon.says("deliver=false clean=false");
    assert_eq!(daemon.stop().code, 0);
    assert_eq!((place.count("delivered"), place.count("pending")), (2, 1));
}
