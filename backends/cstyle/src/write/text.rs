//! Lines of source, indented by their depth.

/// Lines of source.
#[derive(Default)]
pub(crate) struct Text {
    text: String,
    depth: usize,
    /// Lines until now.
    lines: u32,
    /// The node that is being written.
    node: Option<u32>,
    /// Lines that compute a node, from 1, with its number.
    of_nodes: Vec<(u32, u32)>,
}

impl Text {
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.starts_with('#') {
            (0..self.depth).for_each(|_| self.text.push_str("    "));
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.lines += 1;
        self.of_nodes.extend(self.node.map(|node| (self.lines, node)));
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
        self.lines += text.bytes().filter(|&byte| byte == b'\n').count() as u32;
    }

    /// Says which node the next lines compute; returns the one before.
    pub(crate) fn set_node(&mut self, node: Option<u32>) -> Option<u32> {
        std::mem::replace(&mut self.node, node)
    }

    /// The text, and which lines compute which nodes.
    pub(crate) fn finish(self) -> (String, Vec<(u32, u32)>) {
        (self.text, self.of_nodes)
    }
}
