//! Lines of source, indented by their depth.

/// Lines of source.
#[derive(Default)]
pub(crate) struct Text {
    text: String,
    depth: usize,
}

impl Text {
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.starts_with('#') {
            (0..self.depth).for_each(|_| self.text.push_str("    "));
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A line that ends in `{`; the brace alone after an empty line.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        self.line(if line.is_empty() {
            "{".to_owned()
        } else {
            format!("{line} {{")
        });
        self.depth += 1;
    }

    pub(crate) fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }
}
