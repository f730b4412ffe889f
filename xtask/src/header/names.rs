//! Names and comments in C.

use std::collections::HashMap;

const WIDTH: usize = 100;

/// `BackendApi` as `backend_api`.
pub(super) fn snake(name: &str) -> String {
    if name == "DType" {
        return "dtype".into();
    }
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let starts = c.is_uppercase()
            && i > 0
            && (chars[i - 1].is_lowercase() || chars.get(i + 1).is_some_and(|next| next.is_lowercase()));
        if starts {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// The C name of a type.
pub(super) fn type_name(name: &str) -> String {
    format!("thalweg_{}", snake(name))
}

/// The C name of an enum's value.
pub(super) fn value_name(kind: &str, value: &str) -> String {
    format!("{}_{}", type_name(kind), snake(value)).to_uppercase()
}

/// Rust names as they stand in comments, with their C names.
#[derive(Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    pub(super) fn add(&mut self, rust: impl Into<String>, c: impl Into<String>) {
        self.0.insert(rust.into(), c.into());
    }

    /// A comment block for `docs`, or nothing.
    pub(super) fn comment(&self, docs: &[String], indent: &str) -> Result<String, String> {
        let lines = self.wrapped(docs, WIDTH - indent.len() - 6);
        if let Some(line) = lines
            .iter()
            .find(|line| line.contains("*/") || line.contains("/*"))
        {
            return Err(format!("the comment {line:?} cannot stand in C"));
        }
        Ok(match &lines[..] {
            [] => String::new(),
            [line] => format!("{indent}/* {line} */\n"),
            [first, rest @ ..] => {
                let mut text = format!("{indent}/* {first}\n");
                for line in rest {
                    text += format!("{indent} * {line}").trim_end();
                    text.push('\n');
                }
                text.pop();
                text + " */\n"
            }
        })
    }

    /// Paragraphs and list items filled to `width`; fenced text as it is.
    fn wrapped(&self, docs: &[String], width: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let (mut fenced, mut fresh, mut hang) = (false, true, "");
        for doc in docs {
            if doc.starts_with("```") {
                fenced = !fenced;
                fresh = true;
            } else if fenced {
                lines.push(format!("    {doc}"));
            } else if doc.is_empty() {
                lines.push(String::new());
                fresh = true;
            } else if !is_link_target(doc) {
                let heading = doc.strip_prefix("# ");
                let item = doc.starts_with("- ");
                if fresh || item || heading.is_some() {
                    lines.push(String::new());
                    hang = if item { "  " } else { "" };
                }
                for word in self.translated(heading.unwrap_or(doc)).split_whitespace() {
                    push_word(&mut lines, word, width, hang);
                }
                fresh = heading.is_some();
                if fresh {
                    lines.push(String::new());
                }
            }
        }
        lines.dedup_by(|a, b| a.is_empty() && b.is_empty());
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        if lines.first().is_some_and(String::is_empty) {
            lines.remove(0);
        }
        lines
    }

    /// Markdown links as the names that they show, Rust paths as C names.
    fn translated(&self, text: &str) -> String {
        let mut out = String::new();
        let mut parts = text.split('`');
        out += parts.next().unwrap_or("");
        while let Some(code) = parts.next() {
            let after = parts.next().unwrap_or("");
            if out.ends_with('[') && after.starts_with(']') {
                out.pop();
                out += self.0.get(code).map_or(code, String::as_str);
                let after = &after[1..];
                let target = after.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                out += target.map_or(after, |(_, rest)| rest);
            } else {
                out += &format!("`{}`{after}", self.0.get(code).map_or(code, String::as_str));
            }
        }
        out
    }
}

/// `[name]: path`, which shows nowhere.
fn is_link_target(doc: &str) -> bool {
    doc.starts_with('[')
        && doc
            .split_once(']')
            .is_some_and(|(_, rest)| rest.starts_with(": "))
}

fn push_word(lines: &mut Vec<String>, word: &str, width: usize, hang: &str) {
    match lines.last_mut() {
        Some(line) if line.is_empty() => line.push_str(word),
        Some(line) if line.len() + 1 + word.len() <= width => {
            line.push(' ');
            line.push_str(word);
        }
        _ => lines.push(format!("{hang}{word}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (rust, c) in [
            ("BackendApi", "backend_api"),
            ("DType", "dtype"),
            ("L1Cache", "l1_cache"),
            ("BF16", "bf16"),
            ("OP_LOAD_AT", "op_load_at"),
        ] {
            assert_eq!(snake(rust), c);
        }
        assert_eq!(
            value_name("Status", "OutOfMemory"),
            "THALWEG_STATUS_OUT_OF_MEMORY"
        );
    }

    #[test]
    fn links_become_c_names() {
        let mut names = Names::default();
        names.add("Table::open", "thalweg_table.open");
        let docs = [
            "See [`Table::open`] and [`x`](crate::x), not `y`.".to_owned(),
            "[`x`]: crate::x".into(),
        ];
        assert_eq!(
            names.comment(&docs, "").unwrap(),
            "/* See thalweg_table.open and x, not `y`. */\n"
        );
        assert!(names.comment(&["*/".to_owned()], "").is_err());
    }

    #[test]
    fn lists_hang_and_paragraphs_fill() {
        let names = Names::default();
        let docs = [
            "# Rules",
            "- one two",
            "  three",
            "- four",
            "",
            "five six",
            "seven",
            "[`a`]: b",
        ]
        .map(String::from);
        assert_eq!(
            names.wrapped(&docs, 10),
            [
                "Rules",
                "",
                "- one two",
                "  three",
                "- four",
                "",
                "five six",
                "seven"
            ]
        );
    }
}
