//! A comparison as one file for a browser: the error along the network as a chart, and a table. It has no script and makes no request.

use super::{Diff, Difference, Kind, Value};
use std::fmt::{self, Write};

/// Rows of the table.
const ROWS: usize = 2000;
/// Points of the chart; of more values the worst in each stretch is drawn.
const POINTS: usize = 1200;
/// The chart in units of its own.
const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 34.0;
/// Powers of ten of the errors that the chart shows; what is less lies on its lowest line.
const LEAST: i32 = -17;
const MOST: i32 = 0;

const STYLE: &str = "\
:root { color-scheme: light dark; --ground: light-dark(#f7f7f5, #131519); --surface: light-dark(#fff, #1a1d22); \
--line: light-dark(#dcdcd6, #343941); --grid: light-dark(#ececea, #262a31); --text: light-dark(#1c1e22, #e7e9ec); \
--soft: light-dark(#565b63, #a9afb9); --good: light-dark(#1f77b4, #56b4e9); --bad: light-dark(#d1551a, #e8743b); }
body { margin: 0 auto; max-width: 1180px; padding: 24px 16px 48px; background: var(--ground); color: var(--text); \
font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; } h2 { font-size: 15px; margin: 0 0 8px; }
section { margin-top: 16px; padding: 14px 16px; border: 1px solid var(--line); border-radius: 8px; background: var(--surface); }
svg { display: block; width: 100%; min-width: 720px; height: auto; } svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--grid); } .axis { stroke: var(--line); } .allowed { stroke: var(--soft); stroke-dasharray: 4 3; fill: none; }
.good { fill: var(--good); } .bad { fill: var(--bad); } .first { stroke: var(--bad); stroke-width: 1.5; }
svg text.mark { fill: var(--bad); font-weight: 650; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; color: var(--soft); font-size: 12px; }
.key span::before { content: ''; display: inline-block; width: 9px; height: 9px; margin-right: 6px; border-radius: 50%; background: var(--good); }
.key .over::before { background: var(--bad); } .key .line::before { height: 0; border-radius: 0; width: 16px; background: none; \
border-top: 1px dashed var(--soft); vertical-align: middle; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 12px; }
th { text-align: left; font-weight: 500; color: var(--soft); } th, td { padding: 4px 10px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
td { font-family: ui-monospace, monospace; } .number { text-align: right; } tr.differs td { color: var(--bad); } \
tr.first td { font-weight: 650; } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: 12px/1.5 ui-monospace, monospace; } p { margin: 8px 0 0; color: var(--soft); }
";

impl Diff {
    /// The comparison as one file for a browser: what [`Display`](fmt::Display) says, a chart of the error of each value in the order of
    /// calls with the first that differs, and a table. `names` are those of the two dumps. The file makes no request.
    pub fn to_html(&self, names: [&str; 2]) -> String {
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut page, names);
        page
    }

    fn write(&self, out: &mut String, [a, b]: [&str; 2]) -> fmt::Result {
        let title = format!("{a} and {b}");
        writeln!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n<h1>{}</h1>\n<section>\n<pre>{}</pre>\n</section>",
            escaped(&title),
            escaped(&title),
            escaped(self.to_string().trim_end())
        )?;
        out.push_str(
            "<section>\n<h2>The largest error of each value, in the order of calls</h2>\n<div class=\"scroll\">\n",
        );
        self.chart(out)?;
        out.push_str(
            "<div class=\"key\"><span>as far as allowed</span><span class=\"over\">differs</span><span class=\"line\">allowed</span></div>\n\
             <p>Errors are shares of the largest element. What is equal lies on the lowest line; ∞ is a value that is no number in one of \
             both, another type, or another sum of a value without elements.</p>\n</section>\n",
        );
        self.table(out)?;
        out.push_str("</body>\n</html>\n");
        Ok(())
    }

    fn chart(&self, out: &mut String) -> fmt::Result {
        let count = self.values.len();
        let wide = WIDTH - LEFT - RIGHT;
        let x = |at: usize| LEFT + wide * (at as f64 + 0.5) / count.max(1) as f64;
        writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"errors of {count} values\">"
        )?;
        for power in (LEAST + 5..=MOST).rev().step_by(4) {
            let y = height(10_f64.powi(power));
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">1e{power}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            )?;
        }
        let (base, right, side, foot) = (height(0.0), WIDTH - RIGHT, LEFT - 8.0, HEIGHT - 10.0);
        let (top, low) = (height(f64::INFINITY) + 4.0, base + 4.0);
        writeln!(
            out,
            "<text x=\"{side}\" y=\"{top:.1}\" text-anchor=\"end\">∞</text>\
             <text x=\"{side}\" y=\"{low:.1}\" text-anchor=\"end\">0</text><text x=\"{LEFT}\" y=\"{foot}\">first value</text>\
             <text x=\"{right}\" y=\"{foot}\" text-anchor=\"end\">value {count}</text>\
             <line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/>"
        )?;
        self.allowed(out, x)?;
        if let Some(first) = self.values.iter().position(|value| value.differs) {
            let (at, value) = (x(first), &self.values[first]);
            // The text goes to the side that has room.
            let (side, anchor) = if at > WIDTH / 2.0 {
                (-6.0, "end")
            } else {
                (6.0, "start")
            };
            writeln!(
                out,
                "<line class=\"first\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{base:.1}\"/>\
                 <text class=\"mark\" x=\"{:.1}\" y=\"14\" text-anchor=\"{anchor}\">{}</text>",
                TOP - 12.0,
                at + side,
                escaped(&format!("first difference: {}, {}", value.name, value.port))
            )?;
        }
        for stretch in stretches(count) {
            let Some((at, value)) = stretch
                .map(|at| (at, &self.values[at]))
                .max_by(|one, other| one.1.error.total_cmp(&other.1.error))
            else {
                continue;
            };
            let class = if value.differs { "bad" } else { "good" };
            let title = format!("{}, {}: {:.1e}", value.name, value.port, value.error);
            writeln!(
                out,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{}\"><title>{}</title></circle>",
                x(at),
                height(value.error),
                if count > 300 { 2 } else { 3 },
                escaped(&title)
            )?;
        }
        out.push_str("</svg>\n</div>\n");
        Ok(())
    }

    /// The line of what is allowed.
    fn allowed(&self, out: &mut String, x: impl Fn(usize) -> f64) -> fmt::Result {
        if self.exact {
            return Ok(());
        }
        let mut points = String::new();
        for stretch in stretches(self.values.len()) {
            if let Some(value) = self.values.get(stretch.start) {
                write!(points, "{:.1},{:.1} ", x(stretch.start), height(value.allowed))?;
            }
        }
        writeln!(
            out,
            "<polyline class=\"allowed\" points=\"{}\"/>",
            points.trim_end()
        )
    }

    fn table(&self, out: &mut String) -> fmt::Result {
        let differing = self.differences.len();
        let shown = if differing > 0 {
            differing.min(ROWS)
        } else {
            self.values.len().min(ROWS)
        };
        let (heading, whole) = match differing {
            0 => ("All values are equal".to_owned(), self.values.len()),
            1 => ("1 value differs".to_owned(), 1),
            _ => (format!("{differing} values differ"), differing),
        };
        writeln!(
            out,
            "<section>\n<h2>{heading}</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>call</th><th>value</th><th>type</th>\
             <th>iteration</th><th>line</th><th class=\"number\">error</th><th>how</th></tr></thead>\n<tbody>"
        )?;
        if differing == 0 {
            for value in &self.values[..shown] {
                row(out, "", value, &format!("{:.1e}", value.error), "")?;
            }
        }
        let values = self.values.iter().filter(|value| value.differs);
        for (at, (value, difference)) in values.zip(&self.differences).take(ROWS).enumerate() {
            let class = if at == 0 { "differs first" } else { "differs" };
            row(
                out,
                class,
                value,
                &format!("{:.1e}", value.error),
                &how(difference),
            )?;
        }
        out.push_str("</tbody>\n</table></div>\n");
        if whole > shown {
            writeln!(out, "<p>{} values more are not listed.</p>", whole - shown)?;
        }
        for (only, which) in self.only.iter().zip(["first", "second"]) {
            if let Some(name) = only.first() {
                let name = escaped(name);
                writeln!(
                    out,
                    "<p>Only in the {which}: {} values, such as {name}.</p>",
                    only.len()
                )?;
            }
        }
        out.push_str("</section>\n");
        Ok(())
    }
}

/// How a value differs, in a cell.
fn how(difference: &Difference) -> String {
    match &difference.kind {
        Kind::Elements(wrong) => format!(
            "{} of {} elements, first at {:?}: {} and {}",
            wrong.count, wrong.of, wrong.index, wrong.a, wrong.b
        ),
        kind => kind.to_string(),
    }
}

fn row(out: &mut String, class: &str, value: &Value, error: &str, how: &str) -> fmt::Result {
    let cells = [&value.name, &value.port, &value.ty].map(|text| escaped(text));
    let [name, port, ty] = cells;
    let (line, how) = (escaped(value.line.as_deref().unwrap_or_default()), escaped(how));
    let iteration = value.iteration;
    writeln!(
        out,
        "<tr class=\"{class}\"><td>{name}</td><td>{port}</td><td>{ty}</td><td>{iteration}</td><td>{line}</td>\
         <td class=\"number\">{error}</td><td>{how}</td></tr>"
    )
}

/// Where an error lies: powers of ten upwards, 0 on the lowest line and infinity at the top.
fn height(error: f64) -> f64 {
    let (top, bottom) = (TOP + 14.0, HEIGHT - BOTTOM);
    if error == f64::INFINITY {
        return TOP;
    }
    let power = if error > 0.0 {
        error.log10()
    } else {
        f64::from(LEAST)
    };
    let part = (power.clamp(f64::from(LEAST), f64::from(MOST)) - f64::from(LEAST)) / f64::from(MOST - LEAST);
    bottom - part * (bottom - top)
}

/// Values that share a point of the chart.
fn stretches(count: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let points = count.min(POINTS);
    (0..points).map(move |at| at * count / points..(at + 1) * count / points)
}

/// A text as it stands in a page.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
