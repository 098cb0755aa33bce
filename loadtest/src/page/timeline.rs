//! A lane a request, from when it was due over its first text to its end.

use super::svg::{Anchor, Scale, escape, line, number, text};
use crate::report::parts::Row;
use std::fmt::Write;

const WIDTH: f64 = 1140.0;
const LEFT: f64 = 10.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 40.0;

/// More are thinned out: a lane must be seen, and each takes half a kilobyte of the page.
pub(super) const LANES_MAX: usize = 500;

/// Colour and name of what a client waits for, or of how its request ended.
const PHASES: [(usize, &str); 5] = [(5, "due, not sent"), (1, "until the first text"), (0, "until the end"), (3, "left"), (4, "refused or failed")];

/// Draws all rows, or of too many every second, third, ….
pub(super) fn timeline(title: &str, rows: &[Row]) -> String {
    let every = rows.len().div_ceil(LANES_MAX).max(1);
    let lanes: Vec<&Row> = rows.iter().step_by(every).collect();
    let title = if every > 1 { format!("{title} (one in {every} requests)") } else { title.to_owned() };
    let lane = (600.0 / lanes.len().max(1) as f64).clamp(2.0, 12.0);
    let height = TOP + BOTTOM + lane * lanes.len() as f64;
    let begin_ms = lanes.iter().map(|row| row.intended_ms).fold(f64::MAX, f64::min);
    let end_ms = lanes.iter().map(|row| row.ended_ms).fold(0.0, f64::max);
    let begin_ms = begin_ms.min(end_ms);
    let frame = Frame { begin_ms, seconds: Scale::linear((end_ms - begin_ms) / 1e3), lane };

    let mut out = String::new();
    let label = escape(&title);
    // Writing to a string does not fail.
    let _ =
        write!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {WIDTH} {height:.1}\">");
    let _ = write!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.1}\"/>");
    text(&mut out, LEFT, 18.0, Anchor::Start, "head", &title);
    legend(&mut out);
    for tick in frame.seconds.ticks() {
        let x = frame.x(begin_ms + tick * 1e3);
        line(&mut out, (x, TOP), (x, height - BOTTOM));
        text(&mut out, x, height - BOTTOM + 16.0, Anchor::Middle, "", &number(tick));
    }
    text(&mut out, WIDTH / 2.0, height - 8.0, Anchor::Middle, "", "seconds");
    lanes.iter().enumerate().for_each(|(i, row)| frame.draw(&mut out, i, row));
    out + "</svg>"
}

fn legend(out: &mut String) {
    let mut x = LEFT;
    for (colour, name) in PHASES {
        let _ = write!(out, "<rect class=\"f{colour}\" x=\"{x:.1}\" y=\"28\" width=\"12\" height=\"10\"/>");
        text(out, x + 17.0, 37.0, Anchor::Start, "", name);
        x += 36.0 + 6.6 * name.len() as f64;
    }
}

struct Frame {
    begin_ms: f64,
    seconds: Scale,
    lane: f64,
}

impl Frame {
    fn x(&self, ms: f64) -> f64 {
        LEFT + self.seconds.place((ms - self.begin_ms) / 1e3) * (WIDTH - LEFT - RIGHT)
    }

    fn draw(&self, out: &mut String, index: usize, row: &Row) {
        let y = TOP + index as f64 * self.lane;
        let _ = write!(out, "<g><title>{}</title>", escape(&words(row)));
        // A request that has sent nothing yet at its end, or heard nothing, has but one phase.
        let first = row.first_ms.unwrap_or(row.ended_ms);
        let last = match row.end {
            "left" => 3,
            "done" => 0,
            _ => 4,
        };
        for (colour, from, to) in [(5, row.intended_ms, row.sent_ms), (1, row.sent_ms, first), (0, first, row.ended_ms)] {
            self.bar(out, colour, y, self.x(from), self.x(to));
        }
        if last != 0 {
            // Its end, wide enough to be seen.
            let end = self.x(row.ended_ms);
            self.bar(out, last, y, end, end + 3.0);
        }
        out.push_str("</g>");
    }

    fn bar(&self, out: &mut String, colour: usize, y: f64, from: f64, to: f64) {
        // Less than this is not seen.
        if to - from >= 0.05 {
            let height = (self.lane - 1.0).max(1.5);
            let _ = write!(out, "<rect class=\"f{colour}\" x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{height:.1}\"/>", to - from);
        }
    }
}

fn words(row: &Row) -> String {
    let seconds = |ms: f64| format!("{:.3} s", ms / 1e3);
    let key = row.key.as_ref().map_or(String::new(), |key| format!(", key {key}"));
    let first = row.first_ms.map_or("no text".to_owned(), |first| format!("first text at {}", seconds(first)));
    let slow = if row.slow { ", reads slowly" } else { "" };
    let (due, sent, ended) = (seconds(row.intended_ms), seconds(row.sent_ms), seconds(row.ended_ms));
    format!("request {}{key}: due {due}, sent {sent}, {first}, {} at {ended}, {} tokens{slow}", row.index, row.end, row.output_tokens)
}
