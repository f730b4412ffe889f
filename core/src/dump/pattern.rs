//! Regular expressions for names, matched in time that is linear in the name.

mod parse;

use parse::{Class, Node};

/// Most instructions of an expression.
const MOST: usize = 10_000;

/// A regular expression that a whole name matches: letters, `.`, classes, groups, `|`, `*`, `+`, `?`, `{a,b}`, `^` and `$`.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    program: Vec<Step>,
}

/// An instruction of Thompson's machine, which follows all ways at once.
#[derive(Clone, Debug)]
enum Step {
    /// Takes a letter.
    One(Class),
    /// Goes on at both.
    Both(usize, usize),
    Go(usize),
    Begin,
    End,
    Done,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn parse(text: &str) -> Result<Pattern, String> {
        let mut pattern = Pattern { program: Vec::new() };
        pattern.add(&parse::parse(text)?)?;
        pattern.push(Step::Done)?;
        Ok(pattern)
    }

    fn push(&mut self, step: Step) -> Result<usize, String> {
        if self.program.len() == MOST {
            return Err("it is too large; repeat less".to_owned());
        }
        self.program.push(step);
        Ok(self.program.len() - 1)
    }

    fn add(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::One(class) => self.push(Step::One(class.clone())).map(drop),
            Node::Begin => self.push(Step::Begin).map(drop),
            Node::End => self.push(Step::End).map(drop),
            Node::All(nodes) => nodes.iter().try_for_each(|node| self.add(node)),
            Node::Either(nodes) => self.add_either(nodes),
            Node::Repeat(node, least, most) => self.add_repeat(node, *least, *most),
        }
    }

    fn add_either(&mut self, nodes: &[Node]) -> Result<(), String> {
        let mut ends = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            if at + 1 == nodes.len() {
                self.add(node)?;
                break;
            }
            let fork = self.push(Step::Both(0, 0))?;
            self.add(node)?;
            ends.push(self.push(Step::Go(0))?);
            self.program[fork] = Step::Both(fork + 1, self.program.len());
        }
        let end = self.program.len();
        ends.into_iter().for_each(|at| self.program[at] = Step::Go(end));
        Ok(())
    }

    fn add_repeat(&mut self, node: &Node, least: u32, most: Option<u32>) -> Result<(), String> {
        for _ in 0..least {
            let before = self.program.len();
            self.add(node)?;
            if self.program.len() == before {
                // What takes nothing takes nothing however often.
                break;
            }
        }
        let Some(most) = most else {
            let fork = self.push(Step::Both(0, 0))?;
            self.add(node)?;
            self.push(Step::Go(fork))?;
            self.program[fork] = Step::Both(fork + 1, self.program.len());
            return Ok(());
        };
        let mut forks = Vec::new();
        for _ in least..most {
            forks.push(self.push(Step::Both(0, 0))?);
            self.add(node)?;
        }
        let end = self.program.len();
        (forks.into_iter()).for_each(|fork| self.program[fork] = Step::Both(fork + 1, end));
        Ok(())
    }

    /// Whether it matches the whole of a name.
    pub(super) fn matches(&self, name: &str) -> bool {
        let mut ways = self.follow(vec![0], true, name.is_empty());
        let mut rest = name.chars();
        while let Some(letter) = rest.next() {
            let takes = |&way: &usize| match &self.program[way] {
                Step::One(class) => class.has(letter),
                Step::Both(..) | Step::Go(_) | Step::Begin | Step::End | Step::Done => false,
            };
            let next = ways.iter().filter(|way| takes(way)).map(|way| way + 1).collect();
            ways = self.follow(next, false, rest.as_str().is_empty());
        }
        let done = |&way: &usize| matches!(self.program[way], Step::Done);
        ways.iter().any(done)
    }

    /// Where the ways lead without a letter.
    fn follow(&self, mut rest: Vec<usize>, begin: bool, end: bool) -> Vec<usize> {
        let mut seen = vec![false; self.program.len()];
        let mut ways = Vec::new();
        while let Some(way) = rest.pop() {
            if std::mem::replace(&mut seen[way], true) {
                continue;
            }
            match self.program[way] {
                Step::One(_) | Step::Done => ways.push(way),
                Step::Both(one, other) => rest.extend([one, other]),
                Step::Go(to) => rest.push(to),
                Step::Begin if begin => rest.push(way + 1),
                Step::End if end => rest.push(way + 1),
                Step::Begin | Step::End => {}
            }
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_a_whole() {
        let matches = |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().matches(name);
        for (pattern, yes, no) in [
            ("Default/.+", "Default/exp-op1", "Default/"),
            (".*conv.*", "Default/conv1/bias", "Default/pool"),
            ("a|bc|", "bc", "abc"),
            ("(?:ab){2,3}", "ababab", "ab"),
            ("(ab){2,}c?", "ababab", "abc"),
            ("x{2}", "xx", "xxx"),
            (r"op\d+", "op12", "op"),
            (r"[a-c_\d]+", "a_9c", "d"),
            ("[^/]+", "conv1", "a/b"),
            (r"a\.b", "a.b", "axb"),
            ("^ab$", "ab", "b"),
            ("a^b", "never", "ab"),
            ("[]a]+", "a]", "b"),
            ("(a*)*b", "aab", "aac"),
            (r"\w+\s\W", "ab !", "ab b"),
            ("é.", "éß", "é"),
        ] {
            assert_eq!(
                matches(pattern, yes),
                !yes.starts_with("never"),
                "{pattern} {yes}"
            );
            assert!(!matches(pattern, no), "{pattern} {no}");
        }
        // A matcher that goes back would take 2^40 steps.
        let nested = format!("{}{}", "(a?)".repeat(40), "a".repeat(40));
        assert!(matches(&nested, &"a".repeat(40)));
    }

    #[test]
    fn wrong_ones_say_what_is_wrong() {
        for (pattern, why) in [
            ("(", "a group has no end"),
            (")", "`)` has no begin"),
            ("*a", "`*` repeats nothing"),
            ("a{3,2}", "a repetition from 3 to 2"),
            ("[a", "a class has no end"),
            ("[z-a]", "a class from z to a"),
            (r"\", "it ends with \\"),
            (r"\b", r"\b is not known"),
            ("a{1000}{1000}", "it is too large"),
            ("(?=a)", "(?= is not known"),
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(error.starts_with(why), "{pattern}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert!(Pattern::parse(&deep).is_err());
    }
}
