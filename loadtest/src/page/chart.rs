//! A plot of lines over two axes.

use super::svg::{Anchor, Scale, escape, line, number, text};
use std::fmt::Write;

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 320.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 44.0;

pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: Axis<'a>,
    pub(super) y: Axis<'a>,
    pub(super) series: Vec<Series<'a>>,
}

pub(super) struct Axis<'a> {
    pub(super) label: &'a str,
    pub(super) log: bool,
}

pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// 0 to 5.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    /// Marks each point.
    pub(super) dots: bool,
    pub(super) points: Vec<(f64, f64)>,
}

impl Axis<'_> {
    fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        if self.log { Scale::log(values) } else { Scale::linear(values.fold(0.0, f64::max)) }
    }
}

/// Where values are on the picture.
struct Frame {
    x: Scale,
    y: Scale,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM))
    }
}

impl Chart<'_> {
    /// An `svg` element at this place of another, or of a page.
    pub(super) fn svg(&self, x: f64) -> String {
        let points = || self.series.iter().flat_map(|s| s.points.iter().copied());
        let frame = Frame { x: self.x.scale(points().map(|p| p.0)), y: self.y.scale(points().map(|p| p.1)) };
        let mut out = String::new();
        let title = escape(self.title);
        // Writing to a string does not fail.
        let _ = write!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" aria-label=\"{title}\" x=\"{x}\" y=\"0\"");
        let _ = write!(out, " width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">");
        let _ = write!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>");
        text(&mut out, LEFT, 18.0, Anchor::Start, "head", self.title);
        self.axes(&mut out, &frame);
        self.series.iter().for_each(|series| series.draw(&mut out, &frame));
        self.legend(&mut out);
        out + "</svg>"
    }

    fn axes(&self, out: &mut String, frame: &Frame) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in frame.x.ticks() {
            let x = LEFT + frame.x.place(tick) * (right - LEFT);
            line(out, (x, TOP), (x, bottom));
            text(out, x, bottom + 16.0, Anchor::Middle, "", &number(tick));
        }
        for tick in frame.y.ticks() {
            let y = bottom - frame.y.place(tick) * (bottom - TOP);
            line(out, (LEFT, y), (right, y));
            text(out, LEFT - 6.0, y + 4.0, Anchor::End, "", &number(tick));
        }
        text(out, (LEFT + right) / 2.0, HEIGHT - 8.0, Anchor::Middle, "", self.x.label);
        let middle = (TOP + bottom) / 2.0;
        let _ = write!(out, "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>", escape(self.y.label));
    }

    /// Names under the title, one after the other.
    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for series in &self.series {
            let dashed = if series.dashed { " dashed" } else { "" };
            let _ = write!(out, "<path class=\"s{}{dashed}\" d=\"M{x:.1} 34h20\"/>", series.colour);
            text(out, x + 25.0, 38.0, Anchor::Start, "", series.name);
            // As wide as letters of this size are in most fonts.
            x += 40.0 + 6.6 * series.name.chars().count() as f64;
        }
    }
}

impl Series<'_> {
    fn draw(&self, out: &mut String, frame: &Frame) {
        let mut path = String::new();
        for (i, &point) in self.points.iter().enumerate() {
            let (x, y) = frame.at(point);
            let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        }
        let dashed = if self.dashed { " dashed" } else { "" };
        let _ = write!(out, "<path class=\"s{}{dashed}\" d=\"{path}\"/>", self.colour);
        for &point in self.points.iter().filter(|_| self.dots) {
            let (x, y) = frame.at(point);
            let (value_x, value_y) = (number(point.0), number(point.1));
            let title = escape(&format!("{} {value_y} at {value_x}", self.name));
            let _ = write!(out, "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{title}</title></circle>", self.colour);
        }
    }
}
