//! What people see while the demo runs: in a terminal a few lines that change, with the news above
//! them; elsewhere the news, and one line a second.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::ledger::{Ledger, Pages};

pub(super) struct Screen {
    ledger: Arc<Ledger>,
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Screen {
    pub(super) fn start(file: &Path, url: &str, ledger: Arc<Ledger>, json: bool) -> Self {
        if json {
            eprintln!("the dashboard: {url}");
            return Self { ledger, end: None };
        }
        say(&format!(
            "Posthaste demo on sqlite:{} (Ctrl-C ends it)\nLook at it in a browser: {url}\n",
            file.display()
        ));
        let (end, ended) = mpsc::channel();
        let shown = ledger.clone();
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        // Where nothing can be drawn: in a pipe, and in a terminal that is none in earnest.
        let thread = std::thread::spawn(move || match lines.is_hidden() {
            false => live(&lines, &shown, &ended),
            true => plain(&shown, &ended),
        });
        Self {
            ledger,
            end: Some((end, thread)),
        }
    }

    pub(super) fn say(&self, news: &str) {
        self.ledger.note(news);
    }

    /// Shows the last of it, and gives the terminal back.
    pub(super) fn end(self) {
        if let Some((end, thread)) = self.end {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Whoever stops reading, as `head` does, does not end the demo.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn goes_on(ended: &mpsc::Receiver<()>, pause: Duration) -> bool {
    ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
}

fn live(all: &MultiProgress, ledger: &Ledger, ended: &mpsc::Receiver<()>) {
    let line = |style: &str| {
        let style = ProgressStyle::with_template(style).expect("a valid template");
        let bar = all.add(ProgressBar::new_spinner());
        bar.set_style(style);
        bar
    };
    let gap = line(" ");
    let shop = line("  {prefix:>8.cyan.bold}  {msg}").with_prefix("shop");
    let outbox = line("  {prefix:>8.yellow.bold}  {msg}").with_prefix("outbox");
    let courier = line("  {prefix:>8.green.bold}  {msg}").with_prefix("courier");
    loop {
        let more = goes_on(ended, Duration::from_millis(100));
        {
            let mut pages = ledger.pages();
            for news in pages.news.drain(..) {
                let _ = all.println(news);
            }
            let [orders, waiting, deliveries] = lines(&pages, ledger.seconds());
            shop.set_message(orders);
            outbox.set_message(waiting);
            courier.set_message(deliveries);
            gap.tick();
        }
        if !more {
            let _ = all.clear();
            return;
        }
    }
}

fn plain(ledger: &Ledger, ended: &mpsc::Receiver<()>) {
    loop {
        let more = goes_on(ended, Duration::from_secs(1));
        let mut pages = ledger.pages();
        for news in pages.news.drain(..) {
            say(&news);
        }
        let [orders, waiting, deliveries] = lines(&pages, ledger.seconds());
        say(&format!(
            "{:6.1} s  shop: {orders}; outbox: {waiting}; courier: {deliveries}",
            ledger.seconds()
        ));
        if !more {
            say("");
            return;
        }
    }
}

fn lines(pages: &Pages, seconds: f64) -> [String; 3] {
    let committed = pages.committed.len();
    [
        format!(
            "{committed} orders committed, {} rolled back, {:.0} a second",
            pages.rolled_back.len(),
            committed as f64 / seconds.max(0.001)
        ),
        format!(
            "{} waiting, {} on their way, the oldest due for {:.1} s",
            pages.outbox.pending,
            pages.outbox.processing,
            pages.outbox.oldest_pending.as_secs_f64()
        ),
        format!(
            "{} delivered, {} tried again, {} dead",
            pages.delivered.len(),
            pages.retries,
            pages.rejected.len()
        ),
    ]
}
