//! A chart of one case: a bar for each library, a group for each number of threads.

use super::results::{Row, digits};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
/// Where bars start, and how long the longest one is.
const LEFT: f64 = 170.0;
const LONGEST: f64 = 390.0;
const BAR: f64 = 16.0;
const STEP: f64 = 22.0;
/// Above the bars of a group.
const HEAD: f64 = 26.0;
const OURS: &str = "#c2410c";
const PEER: &str = "#94a3b8";

/// The chart, with `groups` of rows by number of threads.
pub(super) fn draw(case: &str, groups: &[(u64, Vec<&Row>)]) -> String {
    let rows: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
    let height = 34.0 + groups.len() as f64 * HEAD + rows as f64 * STEP + 8.0;
    let all = groups.iter().flat_map(|(_, rows)| rows);
    let longest = all.map(|row| row.ms).fold(f64::MIN_POSITIVE, f64::max);
    let length = |ms: f64| ms / longest * LONGEST;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        escaped(case)
    );
    let mut y = 34.0;
    for (threads, rows) in groups {
        let count = if *threads == 1 {
            "1 thread".into()
        } else {
            format!("{threads} threads")
        };
        let _ = writeln!(
            svg,
            "<text x=\"12\" y=\"{}\" fill=\"#475569\">{count}</text>",
            y + 18.0
        );
        y += HEAD;
        let top = y;
        for row in rows {
            let (colour, long) = (if row.ours { OURS } else { PEER }, length(row.ms));
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
                 <rect x=\"{LEFT}\" y=\"{y}\" width=\"{long:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{} ms</text>",
                LEFT - 8.0,
                y + 13.0,
                escaped(&row.who),
                LEFT + long + 6.0,
                y + 13.0,
                digits(row.ms)
            );
            y += STEP;
        }
        // Probes of one run differ: the lowest of ours is what the machine showed that it can do.
        let limits = rows
            .iter()
            .filter(|row| row.ours && row.limit > 0.0)
            .map(|row| row.limit);
        let limit = limits.fold(f64::INFINITY, f64::min);
        if limit <= longest {
            let x = LEFT + length(limit);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"#0f172a\" stroke-dasharray=\"3 3\"/>",
                top - 3.0,
                y - 3.0
            );
        }
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
