//! Small pieces of SVG: text that is escaped, axes with round numbers, colours for light and dark.

use std::fmt::Write;

/// Colours and type, for a page and for a picture of its own. Pictures in a page of GitHub heed the reader's choice of dark, too.
pub(super) const STYLE: &str = ":root{--paper:#fff;--ink:#1b1f24;--faint:#d4d8dd;--c0:#1769aa;--c1:#c2570c;--c2:#2b7a3f;--c3:#7a3fb0;--c4:#b3261e;--c5:#8a9099}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e4e7eb;--faint:#3a4048;--c0:#6db3f2;--c1:#f2a45c;--c2:#7fcf93;--c3:#c79bf2;--c4:#ff8a80;--c5:#8a9099}}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg text.head{font-weight:600;font-size:13px}
svg .grid{stroke:var(--faint);stroke-width:1}svg .paper{fill:var(--paper)}
svg path{fill:none;stroke-width:2}svg path.dashed{stroke-dasharray:5 4;stroke-width:1.5}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}";

/// Text that may stand in an element or in an attribute. What XML cannot hold at all becomes a question mark.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Where a text stands on its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) fn text(out: &mut String, x: f64, y: f64, anchor: Anchor, class: &str, words: &str) {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    // Writing to a string does not fail.
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>", escape(words));
}

pub(super) fn line(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(out, "<line class=\"grid\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>", from.0, from.1, to.0, to.1);
}

/// What an axis shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// From 0.
    pub(super) fn linear(most: f64) -> Scale {
        Scale { low: 0.0, high: if most > 0.0 { most } else { 1.0 }, log: false }
    }

    /// Over all values that a logarithm has. As wide as a doubling at least.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = values.filter(|&v| v > 0.0).fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        if high == 0.0 {
            return Scale { low: 1.0, high: 10.0, log: true };
        }
        let wider = if high / low < 2.0 { (2.0 * low / high).sqrt() } else { 1.0 };
        Scale { low: low / wider, high: high * wider, log: true }
    }

    /// 0 at the low end, 1 at the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.log { (value.max(self.low) / self.low).ln() / (self.high / self.low).ln() } else { (value - self.low) / (self.high - self.low) };
        share.clamp(0.0, 1.0)
    }

    /// Round numbers within: four to nine or so.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log { self.log_ticks() } else { self.linear_ticks() }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&step| step >= rough).unwrap_or(rough);
        (0..=20).map(|i| f64::from(i) * step).take_while(|&tick| tick <= self.high * (1.0 + 1e-9)).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let multiples: &[f64] = if decades > 4.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all = (from..=to).flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power)));
        all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
    }
}

/// A number without zeros that say nothing.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("<a b=\"c\">&'\u{0}\n"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;?\n");
    }

    #[test]
    fn ticks_are_round_and_within() {
        for (scale, expect) in [
            (Scale::linear(10.0), vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
            (Scale::linear(0.7), vec![0.0, 0.2, 0.4, 0.6]),
            (Scale::log([3.0, 30.0].into_iter()), vec![5.0, 10.0, 20.0]),
            (Scale::log([1.0, 1e6].into_iter()), vec![1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]),
        ] {
            let ticks = scale.ticks();
            assert_eq!(ticks.len(), expect.len(), "{ticks:?}");
            assert!(ticks.iter().zip(&expect).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1.0)), "{ticks:?}");
        }
        for scale in [Scale::linear(0.0), Scale::log([0.0].into_iter()), Scale::log([5.0].into_iter()), Scale::log([5.0, 5.1].into_iter())] {
            assert!(!scale.ticks().is_empty(), "{scale:?}");
            assert!((0.0..=1.0).contains(&scale.place(5.0)), "{scale:?}");
        }
    }

    #[test]
    fn numbers_have_no_idle_zeros() {
        assert_eq!([0.0, 0.25, 10.0, 1500.0].map(number), ["0", "0.25", "10", "1500"]);
    }
}
