//! Graphs from their text form.

use super::rows::{Attribute, Codec, items, quote};
use super::{Body, Graph, NodeId, Op, Type};
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::hal::DType;
use crate::types::shape::Shape;
use std::str::FromStr;

/// What a text may unroll to: so many nodes, or so many times its own. A few lines name graphs that name graphs, each twice, and so
/// stand for more work than any machine does.
const MAX_UNROLLED: usize = 1 << 17;
const MAX_REPEATED: usize = 64;

type Result<T> = std::result::Result<T, Refusal>;

impl Graph {
    /// The graph of a text that [`Graph::to_text`] wrote, or anybody. Everything is checked as when a graph is made by ops.
    ///
    /// ```
    /// use thalweg::graph::Graph;
    /// let error = Graph::parse("graph main\n%0: f32[2] = input\n%1: f32[3] = neg %0\nreturn %1").unwrap_err();
    /// assert!(error.to_string().starts_with("line 3: neg gives f32[2], not f32[3]"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong with the text, with its line.
    #[track_caller]
    pub fn parse(text: &str) -> crate::error::Result<Graph> {
        Ok(text.parse::<Graph>()?)
    }
}

impl FromStr for Graph {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Graph> {
        let mut parser = Parser::default();
        for (number, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default();
            parser
                .line(code)
                .map_err(|refusal| Refusal::new(format!("line {}: {}", number + 1, refusal.message)))?;
        }
        match (parser.open, parser.main) {
            (None, Some(graph)) => Ok(graph),
            (Some(_), _) => refuse("the text ends without `return`"),
            (None, None) => refuse("there is no `graph main`"),
        }
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Refusal::new(message))
}

#[derive(Default)]
struct Parser {
    bodies: Vec<Body>,
    main: Option<Graph>,
    open: Option<Open>,
    /// Nodes that were read, of all graphs.
    written: usize,
}

/// The graph whose lines are read.
struct Open {
    is_main: bool,
    graph: Graph,
    /// Nodes of the graphs that its ops run.
    unrolled: usize,
}

impl Parser {
    fn line(&mut self, code: &str) -> Result<()> {
        let mut words = code.split_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let words: Vec<&str> = words.collect();
        match (&mut self.open, first) {
            (None, "graph") if self.main.is_none() => {
                let own = format!("@{}", self.bodies.len());
                let is_main = match words[..] {
                    ["main"] => true,
                    [name] if name == own => false,
                    _ => return refuse(format!("expected `graph main` or `graph {own}`")),
                };
                self.open = Some(Open {
                    is_main,
                    graph: Graph::new(),
                    unrolled: 0,
                });
                Ok(())
            }
            (None, word) => refuse(format!("expected `graph`, found {}", quote(word))),
            (Some(open), "return") => {
                for word in words {
                    let id = open.operand(word)?;
                    open.plain(id)?;
                    open.graph.output(id);
                }
                match self.open.take() {
                    Some(open) if open.is_main => self.main = Some(open.graph),
                    Some(open) => self.bodies.push(Body::new(open.graph)),
                    None => {}
                }
                Ok(())
            }
            (Some(open), name) => {
                self.written += 1;
                open.node(name, &words, &self.bodies)?;
                let most = MAX_UNROLLED.max(self.written.saturating_mul(MAX_REPEATED));
                if open.unrolled > most {
                    return refuse(format!(
                        "its graphs have {} nodes, each as often as it is named; at most {most} are possible",
                        open.unrolled
                    ));
                }
                Ok(())
            }
        }
    }
}

impl Open {
    fn operand(&self, word: &str) -> Result<NodeId> {
        let number = word
            .strip_prefix('%')
            .and_then(|number| number.parse::<u32>().ok());
        match number {
            Some(number) if (number as usize) < self.graph.nodes().len() => Ok(NodeId(number)),
            _ => refuse(format!("{} is no node before this one", quote(word))),
        }
    }

    /// A loop or a branch is no value.
    fn plain(&self, id: NodeId) -> Result<()> {
        match self.graph.node(id).op {
            Op::Control(_) => refuse(format!("%{} is a token; take its results with `result`", id.0)),
            _ => Ok(()),
        }
    }

    fn node(&mut self, name: &str, words: &[&str], bodies: &[Body]) -> Result<()> {
        let next = format!("%{}:", self.graph.nodes().len());
        if name != next {
            return refuse(format!(
                "expected `{next}`, `return` or the end, found {}",
                quote(name)
            ));
        }
        let [ty, "=", op, rest @ ..] = words else {
            return refuse(format!("expected `{next} TYPE = OP …`"));
        };
        let ty = match *ty {
            "token" => None,
            ty => Some(parse_type(ty)?),
        };
        let split = rest
            .iter()
            .position(|word| !word.starts_with('%'))
            .unwrap_or(rest.len());
        let operands = rest[..split]
            .iter()
            .map(|word| self.operand(word))
            .collect::<Result<Vec<_>>>()?;
        let mut attributes = Attributes {
            words: &rest[split..],
            bodies,
            unrolled: &mut self.unrolled,
        };
        let mut op = Op::of_name(op, ty)?;
        op.attributes(&mut attributes)?;
        if let Some(word) = attributes.words.first() {
            return refuse(format!("{} has no attribute {}", op.name(), quote(word)));
        }
        if let (Op::Input(_), Some(ty)) = (&op, ty) {
            if !operands.is_empty() {
                return refuse("an input has no operands");
            }
            self.graph.input(ty);
            return Ok(());
        }
        match &op {
            Op::Result { index, ty } => self.result(&operands, *index, *ty)?,
            _ => operands.iter().try_for_each(|&operand| self.plain(operand))?,
        }
        let id = self
            .graph
            .push(op, &operands, OpTag::NONE)
            .map_err(|refusal| Refusal::new(format!("{}: {}", words[2], refusal.message)))?;
        let inferred = self.graph.node(id).ty;
        match (&self.graph.node(id).op, ty) {
            (Op::Control(_), None) => Ok(()),
            (Op::Control(_), Some(_)) => refuse("a loop or a branch is a `token`"),
            (_, Some(ty)) if ty == inferred => Ok(()),
            (op, Some(ty)) => refuse(format!("{} gives {inferred}, not {ty}", op.name())),
            (op, None) => refuse(format!("{} gives {inferred}, not a token", op.name())),
        }
    }

    fn result(&self, operands: &[NodeId], index: u32, ty: Type) -> Result<()> {
        let &[of] = operands else {
            return refuse("result takes one loop or branch");
        };
        let node = self.graph.node(of);
        let Op::Control(control) = &node.op else {
            return refuse(format!("%{} is no loop or branch", of.0));
        };
        let types: Vec<Type> = node
            .inputs
            .iter()
            .map(|&input| self.graph.node(input).ty)
            .collect();
        match control.results(&types)?.get(index as usize) {
            Some(&real) if real == ty => Ok(()),
            Some(real) => refuse(format!("result {index} is {real}, not {ty}")),
            None => refuse(format!("%{} has no result {index}", of.0)),
        }
    }
}

/// `f32[2,3]`.
fn parse_type(word: &str) -> Result<Type> {
    let bad = || Refusal::new(format!("{} is no type such as `f32[2,3]`", quote(word)));
    let at = word.find('[').ok_or_else(bad)?;
    let dtype = DType::from_str(&word[..at]).map_err(|_| bad())?;
    let extents: Vec<usize> = items(&word[at..]).ok_or_else(bad)?;
    Ok(Type::new(Shape::checked(&extents)?, dtype))
}

struct Attributes<'a> {
    words: &'a [&'a str],
    bodies: &'a [Body],
    unrolled: &'a mut usize,
}

impl Attributes<'_> {
    fn body(&mut self, word: &str) -> Result<Body> {
        let at = word
            .strip_prefix('@')
            .and_then(|number| number.parse::<usize>().ok());
        let body = at
            .and_then(|at| self.bodies.get(at))
            .ok_or_else(|| Refusal::new(format!("{} is no graph before this one", quote(word))))?;
        *self.unrolled = self.unrolled.saturating_add(body.unrolled());
        Ok(body.clone())
    }
}

impl Codec for Attributes<'_> {
    /// The next attribute, which is `key`.
    fn attribute(&mut self, key: &str, value: &mut dyn Attribute) -> Result<()> {
        let found = self.words.first().and_then(|word| word.split_once('='));
        match found {
            Some((name, text)) if name == key => {
                self.words = &self.words[1..];
                value.read(key, text, &mut |word| self.body(word))
            }
            _ => refuse(format!("expected `{key}=…`")),
        }
    }
}
