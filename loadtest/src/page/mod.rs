//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere. It is XML, too.

mod chart;
mod plots;
mod svg;
mod timeline;

pub use plots::picture;

use crate::plain::plain;
use crate::report::{Report, Run};
use svg::escape;

const LAYOUT: &str = "body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:1160px;margin:2em auto;padding:0 1em}
pre{overflow-x:auto;font-size:13px;border:1px solid var(--faint);padding:1em}h1{font-size:1.4em}h2{font-size:1.15em}
.plots{display:flex;flex-wrap:wrap;gap:1em}svg.plot{max-width:100%;height:auto}svg.timeline{width:100%;height:auto}summary{cursor:pointer}";

/// As `--html` writes it.
pub fn html(report: &Report) -> String {
    let s = &report.setting;
    let title = escape(&format!("Load on {} at {}", plain(&s.model), s.url));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/><meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{title}</title><style>{}\n{LAYOUT}</style></head>\n<body><h1>{title}</h1>\n<pre>{}</pre>\n",
        svg::STYLE,
        escape(&report.to_string())
    );
    if report.is_sweep() {
        let plots = [plots::throughput(report, 0.0), plots::latency(report, 0.0), plots::tokens(report)].concat();
        out += &format!("<h2>As the load grows</h2>\n<div class=\"plots\">{plots}</div>\n");
    }
    report.runs.iter().for_each(|run| out += &section(report, run));
    let setting = serde_json::to_string_pretty(s).expect("a setting is JSON");
    let setting = setting.lines().map(plain).collect::<Vec<_>>().join("\n");
    out + &format!("<details><summary>Setting</summary><pre>{}</pre></details>\n</body></html>\n", escape(&setting))
}

/// One run: how its times are distributed, and its requests one by one.
fn section(report: &Report, run: &Run) -> String {
    let name = run.rate.map_or_else(|| report.load(), |rate| rate.to_string());
    let times = plots::distribution("How long requests took", run);
    let lanes = timeline::timeline("Requests", &run.rows);
    let inside = format!("<div class=\"plots\">{times}</div>\n{lanes}");
    if report.is_sweep() {
        format!("<details><summary>{}</summary>\n{inside}</details>\n", escape(&name))
    } else {
        format!("<h2>{}</h2>\n{inside}\n", escape(&name))
    }
}

#[cfg(test)]
mod tests;
