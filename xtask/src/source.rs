//! Rust sources as words, without comments, literals and what is compiled for tests alone.

/// A word or a sign, and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// The words of `source`. `::` is one; text, character and number literals are none.
pub(crate) fn words(source: &str) -> Vec<Word<'_>> {
    let (mut words, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let len = if let Some(len) = comment(rest).or_else(|| literal(rest)) {
            len
        } else if first.is_ascii_digit() {
            rest.find(|c: char| !in_name(c)).unwrap_or(rest.len())
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let len = match in_name(first) {
                true => rest.find(|c: char| !in_name(c)).unwrap_or(rest.len()),
                false if rest.starts_with("::") => 2,
                false => first.len_utf8(),
            };
            words.push(Word {
                text: &rest[..len],
                line,
            });
            len
        };
        line += rest[..len].matches('\n').count();
        at += len;
    }
    words
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.strip_prefix("/*")?;
    let (mut depth, mut at) = (1, 2);
    while depth > 0 && at < rest.len() {
        let two = rest.as_bytes().get(at..at + 2);
        (depth, at) = match two {
            Some(b"/*") => (depth + 1, at + 2),
            Some(b"*/") => (depth - 1, at + 2),
            _ => (depth, at + 1),
        };
    }
    Some(at)
}

/// The length of a text or character literal, or of a lifetime.
fn literal(rest: &str) -> Option<usize> {
    let after = |prefix: &str| rest.strip_prefix(prefix);
    for prefix in ["", "b", "c"] {
        let Some(body) = after(prefix).filter(|body| body.starts_with(['r', '"'])) else {
            continue;
        };
        if let Some(raw) = body.strip_prefix('r') {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            if raw[hashes..].starts_with('"') {
                let end = format!("\"{}", "#".repeat(hashes));
                let start = prefix.len() + 1 + hashes + 1;
                let len = rest[start..].find(&end).map(|at| start + at + end.len());
                return Some(len.unwrap_or(rest.len()));
            }
        } else {
            return Some(prefix.len() + quoted(body, '"'));
        }
    }
    let body = rest.strip_prefix('b').unwrap_or(rest);
    let quote = body.strip_prefix('\'')?;
    let mut following = quote.chars();
    let is_char = match (following.next(), following.next()) {
        (Some('\\'), _) => true,
        (Some(_), second) => second == Some('\''),
        (None, _) => false,
    };
    let name = |c: char| c.is_alphanumeric() || c == '_';
    Some(
        rest.len() - body.len()
            + match is_char {
                true => quoted(body, '\''),
                false => 1 + quote.find(|c: char| !name(c)).unwrap_or(quote.len()),
            },
    )
}

/// The length of a literal that begins with `quote` and ends at the next one that no `\` stands before.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// `words` without items under `#[cfg(test)]`, and the names of the modules in other files among those.
pub(crate) fn production<'a>(words: &[Word<'a>]) -> (Vec<Word<'a>>, Vec<&'a str>) {
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    let is = |at: usize, texts: &[&str]| {
        words.len() >= at + texts.len()
            && texts
                .iter()
                .zip(&words[at..])
                .all(|(text, word)| *text == word.text)
    };
    while at < words.len() {
        let of_tests = is(at, &["#", "[", "cfg", "(", "test", ")", "]"])
            || is(at, &["#", "[", "cfg", "(", "all", "(", "test"]);
        if !of_tests {
            kept.push(words[at]);
            at += 1;
            continue;
        }
        while is(at, &["#"]) {
            at = closed(words, at + 1);
        }
        let start = at;
        while at < words.len() && words[at].text != ";" && words[at].text != "{" {
            at = match words[at].text {
                "(" | "[" => closed(words, at),
                _ => at + 1,
            };
        }
        let item = &words[start..at];
        if let Some(module) = item.iter().position(|word| word.text == "mod")
            && is(at, &[";"])
            && let Some(name) = item.get(module + 1)
        {
            modules.push(name.text);
        }
        if is(at, &["{"]) {
            at = closed(words, at);
        }
        if is(at, &[";"]) {
            at += 1;
        }
    }
    (kept, modules)
}

/// The place behind the bracket that closes the one at `at`.
pub(crate) fn closed(words: &[Word<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (offset, word) in words[at..].iter().enumerate() {
        match word.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + offset + 1;
        }
    }
    words.len()
}

#[cfg(test)]
mod tests {
    use super::{production, words};

    fn texts(source: &str) -> Vec<&str> {
        words(source).iter().map(|word| word.text).collect()
    }

    #[test]
    fn comments_and_literals_are_no_words() {
        let source =
            "a /* b /* c */ d */ \"e // \\\" f\" g // h\nr#\"i \" j\"# 'k' '\\'' b'l' &'m n 0x1f_u8 o::p";
        assert_eq!(texts(source), ["a", "g", "&", "n", "o", "::", "p"]);
        assert_eq!(words(source).last().map(|word| word.line), Some(2));
    }

    #[test]
    fn what_tests_alone_see_is_left_out() {
        let source = "use a; #[cfg(test)] mod b; #[cfg(test)] #[allow(x)] use c::{d}; \
                      #[cfg(test)] fn e(x: [u8; 2]) { f(); } #[cfg(unix)] mod g;";
        let all = words(source);
        let (kept, modules) = production(&all);
        let kept: Vec<&str> = kept.iter().map(|word| word.text).collect();
        assert_eq!(kept.join(" "), "use a ; # [ cfg ( unix ) ] mod g ;");
        assert_eq!(modules, ["b"]);
    }
}
