//! A reader of the part of Graphviz's language that graphs are drawn in: `digraph ID { … }` with attributes, nodes, edges, subgraphs.

pub(super) fn check(text: &str) -> Result<(), String> {
    let tokens = tokens(text)?;
    let mut rest = &tokens[..];
    expect(&mut rest, "digraph")?;
    identifier(&mut rest)?;
    block(&mut rest)?;
    match rest {
        [] => Ok(()),
        [first, ..] => Err(format!("{first} behind the end")),
    }
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            c if c.is_whitespace() => {}
            '"' => {
                let mut quoted = String::from('"');
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => quoted.extend(['\\', letters.next().ok_or("a text without end")?]),
                        Some('\n') | None => return Err("a text without end".into()),
                        Some(c) => quoted.push(c),
                    }
                }
                tokens.push(quoted);
            }
            '-' if letters.next_if_eq(&'>').is_some() => tokens.push("->".into()),
            '{' | '}' | '[' | ']' | '=' | ';' => tokens.push(letter.into()),
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = letters.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                tokens.push(word);
            }
            c => return Err(format!("{c:?} is no part of the language")),
        }
    }
    Ok(tokens)
}

fn expect(rest: &mut &[String], wanted: &str) -> Result<(), String> {
    match rest.split_first() {
        Some((first, others)) if first == wanted => {
            *rest = others;
            Ok(())
        }
        other => Err(format!(
            "{wanted} is missing at {:?}",
            other.map(|(first, _)| first)
        )),
    }
}

fn next_is(rest: &[String], what: &str) -> bool {
    rest.first().is_some_and(|first| first == what)
}

fn identifier(rest: &mut &[String]) -> Result<(), String> {
    match rest.split_first() {
        Some((first, others)) if !["->", "{", "}", "[", "]", "=", ";"].contains(&first.as_str()) => {
            *rest = others;
            Ok(())
        }
        other => Err(format!("no name at {:?}", other.map(|(first, _)| first))),
    }
}

fn block(rest: &mut &[String]) -> Result<(), String> {
    expect(rest, "{")?;
    while !next_is(rest, "}") {
        if next_is(rest, "subgraph") {
            expect(rest, "subgraph")?;
            identifier(rest)?;
            block(rest)?;
            continue;
        }
        identifier(rest)?;
        if next_is(rest, "=") {
            expect(rest, "=")?;
            identifier(rest)?;
        }
        while next_is(rest, "->") {
            expect(rest, "->")?;
            identifier(rest)?;
        }
        if next_is(rest, "[") {
            expect(rest, "[")?;
            while !next_is(rest, "]") {
                identifier(rest)?;
                expect(rest, "=")?;
                identifier(rest)?;
            }
            expect(rest, "]")?;
        }
        expect(rest, ";")?;
    }
    expect(rest, "}")
}
