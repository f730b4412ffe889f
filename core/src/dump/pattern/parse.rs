//! From the text of a regular expression to its parts.

use std::iter::Peekable;
use std::str::Chars;

/// Most groups in each other.
const DEPTH: usize = 50;
/// Most letters of an expression.
const LONGEST: usize = 1000;

/// Letters by ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    ranges: Vec<(char, char)>,
    others: bool,
}

impl Class {
    pub(super) fn has(&self, letter: char) -> bool {
        let inside = |(first, last): &(char, char)| (*first..=*last).contains(&letter);
        self.ranges.iter().any(inside) != self.others
    }

    fn letter(letter: char) -> Class {
        Class {
            ranges: vec![(letter, letter)],
            others: false,
        }
    }
}

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Node {
    One(Class),
    Begin,
    End,
    All(Vec<Node>),
    Either(Vec<Node>),
    /// At least so often, and at most.
    Repeat(Box<Node>, u32, Option<u32>),
}

pub(super) fn parse(text: &str) -> Result<Node, String> {
    if text.chars().count() > LONGEST {
        return Err(format!("it has more than {LONGEST} letters"));
    }
    let mut rest = Text {
        rest: text.chars().peekable(),
        depth: 0,
    };
    let node = rest.either()?;
    match rest.rest.next() {
        None => Ok(node),
        Some(_) => Err("`)` has no begin".to_owned()),
    }
}

/// What is left of an expression.
struct Text<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
}

impl Text<'_> {
    fn eat(&mut self, letter: char) -> bool {
        self.rest.next_if_eq(&letter).is_some()
    }

    /// Sequences with `|` between them, up to the end of the group.
    fn either(&mut self) -> Result<Node, String> {
        let mut nodes = vec![self.sequence()?];
        while self.eat('|') {
            nodes.push(self.sequence()?);
        }
        Ok(Node::Either(nodes))
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while let Some(letter) = self.rest.next_if(|letter| !matches!(letter, '|' | ')')) {
            let node = self.atom(letter)?;
            nodes.push(self.repeated(node)?);
        }
        Ok(Node::All(nodes))
    }

    fn atom(&mut self, letter: char) -> Result<Node, String> {
        Ok(match letter {
            '.' => Node::One(Class {
                others: true,
                ..Class::default()
            }),
            '^' => Node::Begin,
            '$' => Node::End,
            '*' | '+' | '?' | '{' => return Err(format!("`{letter}` repeats nothing")),
            '[' => Node::One(self.class()?),
            '(' => self.group()?,
            '\\' => Node::One(self.escaped()?),
            letter => Node::One(Class::letter(letter)),
        })
    }

    fn group(&mut self) -> Result<Node, String> {
        if self.depth == DEPTH {
            return Err(format!("more than {DEPTH} groups in each other"));
        }
        if self.eat('?') && !self.eat(':') {
            let kind: String = self.rest.by_ref().take(1).collect();
            return Err(format!("(?{kind} is not known"));
        }
        self.depth += 1;
        let inside = self.either()?;
        self.depth -= 1;
        match self.eat(')') {
            true => Ok(inside),
            false => Err("a group has no end".to_owned()),
        }
    }

    fn escaped(&mut self) -> Result<Class, String> {
        let letter = self.rest.next().ok_or("it ends with \\")?;
        let known: &[(char, char)] = match letter.to_ascii_lowercase() {
            'd' => &[('0', '9')],
            'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
            's' => &[('\t', '\r'), (' ', ' ')],
            _ if letter.is_ascii_punctuation() => return Ok(Class::letter(letter)),
            _ => return Err(format!("\\{letter} is not known")),
        };
        Ok(Class {
            ranges: known.to_vec(),
            others: letter.is_ascii_uppercase(),
        })
    }

    fn class(&mut self) -> Result<Class, String> {
        let mut class = Class {
            others: self.eat('^'),
            ..Class::default()
        };
        loop {
            let letter = self.rest.next().ok_or("a class has no end")?;
            if letter == ']' && !class.ranges.is_empty() {
                return Ok(class);
            }
            if letter == '\\' {
                let inner = self.escaped()?;
                if inner.others {
                    return Err("a class in a class leaves out letters; write [^…]".to_owned());
                }
                class.ranges.extend(inner.ranges);
                continue;
            }
            class.ranges.push((letter, self.range_end(letter)?));
        }
    }

    /// The last letter of a range in a class that began with `first`.
    fn range_end(&mut self, first: char) -> Result<char, String> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.peek(), None | Some(']')) {
            return Ok(first);
        }
        self.rest = ahead;
        match self.rest.next() {
            Some(last) if last >= first => Ok(last),
            Some(last) => Err(format!("a class from {first} to {last}")),
            None => Err("a class has no end".to_owned()),
        }
    }

    /// The node with the repetitions that stand behind it.
    fn repeated(&mut self, mut node: Node) -> Result<Node, String> {
        loop {
            let (least, most) = match self.rest.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    self.rest.next();
                    let (least, most) = self.counts()?;
                    node = Node::Repeat(Box::new(node), least, most);
                    continue;
                }
                Some(_) | None => return Ok(node),
            };
            self.rest.next();
            node = Node::Repeat(Box::new(node), least, most);
        }
    }

    /// `3}`, `3,}` or `3,5}`.
    fn counts(&mut self) -> Result<(u32, Option<u32>), String> {
        let least = self.count()?.ok_or("a repetition has no number")?;
        let most = match self.eat(',') {
            false => Some(least),
            true => self.count()?,
        };
        if !self.eat('}') {
            return Err("a repetition has no end".to_owned());
        }
        match most {
            Some(most) if most < least => Err(format!("a repetition from {least} to {most}")),
            most => Ok((least, most)),
        }
    }

    fn count(&mut self) -> Result<Option<u32>, String> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        match digits.is_empty() {
            true => Ok(None),
            false => digits
                .parse()
                .map(Some)
                .map_err(|_| format!("{digits} repetitions")),
        }
    }
}
