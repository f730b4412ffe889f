//! Licence expressions of SPDX.

/// Whether an expression can be kept with licences for which `known` says yes: one side of an `OR`, both of an `AND`. A text that
/// is no expression cannot.
pub(super) fn allows(expression: &str, known: &dyn Fn(&str) -> bool) -> bool {
    // Old manifests write `MIT/Apache-2.0`.
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, known };
    let answer = parser.any();
    answer == Some(true) && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
    known: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn any(&mut self) -> Option<bool> {
        let mut answer = self.all()?;
        while self.take("OR") {
            answer |= self.all()?;
        }
        Some(answer)
    }

    fn all(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let answer = self.any()?;
            return self.take(")").then_some(answer);
        }
        let (name, rest) = self.words.split_first()?;
        if ["OR", "AND", "WITH", ")"].contains(name) {
            return None;
        }
        self.words = rest;
        if !self.take("WITH") {
            return Some((self.known)(name));
        }
        let (exception, rest) = self.words.split_first()?;
        self.words = rest;
        Some((self.known)(&format!("{name} WITH {exception}")))
    }
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn expressions() {
        let known = |name: &str| ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        for (text, answer) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND Zlib", true),
            ("(MIT OR GPL-3.0) AND Zlib", true),
            ("(MIT OR Zlib) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("Apache-2.0", false),
            ("", false),
            ("MIT MIT", false),
            ("(MIT", false),
            ("MIT OR", false),
        ] {
            assert_eq!(allows(text, &known), answer, "{text}");
        }
    }
}
