//! How a run stands, on standard error where that is a terminal.

use crate::runner::Live;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// What the run ends after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Total {
    Requests(usize),
    Time(Duration),
}

/// A bar that goes away with it: what stays is the report.
pub struct Progress {
    bar: ProgressBar,
    total: Total,
}

impl Progress {
    /// Between two drawings. A drawing takes a tenth of a millisecond.
    pub const BETWEEN: Duration = Duration::from_millis(200);

    /// None where nobody would see it. `what`: the run, in a word or two.
    pub fn new(what: &str, total: Total) -> Option<Progress> {
        io::stderr().is_terminal().then(|| Progress::on(ProgressDrawTarget::stderr(), what, total))
    }

    fn on(target: ProgressDrawTarget, what: &str, total: Total) -> Progress {
        let length = match total {
            Total::Requests(count) => count as u64,
            Total::Time(time) => time.as_millis() as u64,
        };
        let style = ProgressStyle::with_template("{prefix} [{wide_bar}] {msg}").expect("the template is a good one");
        let bar = ProgressBar::with_draw_target(Some(length), target).with_style(style.progress_chars("=> ")).with_prefix(what.to_owned());
        Progress { bar, total }
    }

    pub fn show(&self, live: &Live, elapsed: Duration) {
        self.bar.set_message(words(live, self.total, elapsed));
        self.bar.set_position(match self.total {
            Total::Requests(_) => live.ended.get() as u64,
            Total::Time(time) => elapsed.min(time).as_millis() as u64,
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Counts, as far as they are worth a word.
fn words(live: &Live, total: Total, elapsed: Duration) -> String {
    let (sent, ended) = (live.sent.get(), live.ended.get());
    let mut words = match total {
        Total::Requests(count) => format!("{ended} of {count}"),
        Total::Time(time) => format!("{ended} in {:.0} of {:.0} s", elapsed.min(time).as_secs_f64(), time.as_secs_f64()),
    };
    words += &format!(", {} in flight", sent - ended);
    for (count, what) in [(live.refused.get(), "refused"), (live.failed.get(), "failed")] {
        if count > 0 {
            words += &format!(", {count} {what}");
        }
    }
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 {
        words += &format!(", {:.0} pieces/s", live.pieces.get() as f64 / seconds);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_says_how_the_run_stands_and_goes_away() {
        let live = Live::default();
        live.sent.set(30);
        live.ended.set(12);
        live.refused.set(2);
        live.pieces.set(1000);
        let progress = Progress::on(ProgressDrawTarget::hidden(), "rate 2/s", Total::Requests(60));
        progress.show(&live, Duration::from_secs(10));
        assert_eq!(progress.bar.message(), "12 of 60, 18 in flight, 2 refused, 100 pieces/s");
        assert_eq!((progress.bar.prefix(), progress.bar.position(), progress.bar.length()), ("rate 2/s".into(), 12, Some(60)));
        let bar = progress.bar.clone();
        drop(progress);
        assert!(bar.is_finished());
        let timed = words(&live, Total::Time(Duration::from_secs(60)), Duration::from_secs(61));
        assert!(timed.starts_with("12 in 60 of 60 s"), "{timed}");
    }
}
