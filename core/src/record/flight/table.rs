//! Tables of texts that spreadsheets read.

/// Rows of cells with commas between them.
pub(super) struct Table(String);

impl Table {
    pub(super) fn new(names: &str) -> Table {
        Table(format!("{names}\n"))
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| quoted(&cell));
        self.0.push_str(&cells.join(","));
        self.0.push('\n');
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A cell as RFC 4180 has it.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_what_is_in_them() {
        let mut table = Table::new("a,b");
        table.row(["1".into(), "x, \"y\"\nz".into()]);
        assert_eq!(table.into_text(), "a,b\n1,\"x, \"\"y\"\"\nz\"\n");
    }
}
