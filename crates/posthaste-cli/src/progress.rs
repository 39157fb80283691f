//! Progress of long work, for who watches it in a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes a moment does not need a bar.
const WORTH_A_BAR: u64 = 1000;

/// A bar for a redelivery at a rate, which takes its time however little there is to do.
pub(crate) fn job(total: u64) -> ProgressBar {
    styled(ProgressBar::new(total), "Redeliver")
}

/// A bar on standard error. It is not drawn unless that is a terminal and there is much to do.
pub(crate) fn bar(total: u64, doing: &'static str) -> ProgressBar {
    let bar = match total >= WORTH_A_BAR {
        true => ProgressBar::new(total),
        false => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
    };
    styled(bar, doing)
}

fn styled(bar: ProgressBar, doing: &'static str) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg} [{bar:30}] {human_pos} of {human_len}, {eta} left");
    bar.set_style(
        style
            .expect("a template that is right")
            .progress_chars("=> "),
    );
    bar.set_message(doing);
    bar
}
