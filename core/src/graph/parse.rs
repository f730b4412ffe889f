//! Graphs from their text form.

use super::{Body, Control, ConvAttributes, Graph, NodeId, Op, ScatterMode, Type};
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp, parse_literal};
use crate::types::shape::{Axes, MAX_RANK, Shape};
use std::str::FromStr;
use std::sync::Arc;

/// Graphs in graphs, at most.
const MAX_DEPTH: usize = 32;

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

/// A word of the text in a message.
fn quote(word: &str) -> String {
    let cut = if word.chars().nth(40).is_some() { "…" } else { "" };
    let shown: String = word.chars().take(40).flat_map(char::escape_default).collect();
    format!("`{shown}{cut}`")
}

#[derive(Default)]
struct Parser {
    bodies: Vec<(Body, usize)>,
    main: Option<Graph>,
    open: Option<Open>,
}

/// The graph whose lines are read, and how deep graphs lie in it.
struct Open {
    is_main: bool,
    graph: Graph,
    depth: usize,
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
                    depth: 0,
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
                    Some(open) => self.bodies.push((Body::new(open.graph), open.depth)),
                    None => {}
                }
                Ok(())
            }
            (Some(open), name) => open.node(name, &words, &self.bodies),
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

    fn node(&mut self, name: &str, words: &[&str], bodies: &[(Body, usize)]) -> Result<()> {
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
            depth: &mut self.depth,
        };
        let op = op_of(op, ty, &mut attributes)?;
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
    let extents: Vec<usize> = list(&word[at..]).ok_or_else(bad)?;
    Ok(Type::new(Shape::checked(&extents)?, dtype))
}

/// `[1,2]`.
fn list<T: FromStr>(word: &str) -> Option<Vec<T>> {
    match word.strip_prefix('[')?.strip_suffix(']')? {
        "" => Some(Vec::new()),
        items => items.split(',').map(|item| item.parse().ok()).collect(),
    }
}

struct Attributes<'a> {
    words: &'a [&'a str],
    bodies: &'a [(Body, usize)],
    depth: &'a mut usize,
}

impl Attributes<'_> {
    /// The value of the next attribute, which is `key`.
    fn text(&mut self, key: &str) -> Result<&str> {
        let found = self.words.first().and_then(|word| word.split_once('='));
        match found {
            Some((name, value)) if name == key => {
                self.words = &self.words[1..];
                Ok(value)
            }
            _ => refuse(format!("expected `{key}=…`")),
        }
    }

    fn value<T: FromStr>(&mut self, key: &str) -> Result<T> {
        let word = self.text(key)?;
        word.parse()
            .map_err(|_| Refusal::new(format!("{key} is {}", quote(word))))
    }

    fn list<T: FromStr>(&mut self, key: &str) -> Result<Vec<T>> {
        let word = self.text(key)?;
        list(word).ok_or_else(|| Refusal::new(format!("{key} is {}, no list such as `[1,2]`", quote(word))))
    }

    fn shape(&mut self, key: &str) -> Result<Shape> {
        Shape::checked(&self.list::<usize>(key)?)
    }

    fn three(&mut self, key: &str) -> Result<[usize; 3]> {
        self.list::<usize>(key)?
            .try_into()
            .map_err(|_| Refusal::new(format!("{key} has three entries")))
    }

    fn body(&mut self, key: &str) -> Result<Body> {
        let bodies = self.bodies;
        let word = self.text(key)?;
        let at = word
            .strip_prefix('@')
            .and_then(|number| number.parse::<usize>().ok());
        let (body, depth) = at
            .and_then(|at| bodies.get(at))
            .ok_or_else(|| Refusal::new(format!("{} is no graph before this one", quote(word))))?;
        if *depth + 1 > MAX_DEPTH {
            return refuse(format!("graphs lie in graphs more than {MAX_DEPTH} deep"));
        }
        *self.depth = (*self.depth).max(depth + 1);
        Ok(body.clone())
    }

    fn conv(&mut self) -> Result<ConvAttributes> {
        Ok(ConvAttributes {
            groups: self.value("groups")?,
            stride: self.three("stride")?,
            dilation: self.three("dilation")?,
            low: self.three("low")?,
            high: self.three("high")?,
        })
    }
}

fn op_of(name: &str, ty: Option<Type>, attributes: &mut Attributes<'_>) -> Result<Op> {
    if let Some(control) = control(name, attributes)? {
        return Ok(Op::Control(Arc::new(control)));
    }
    let Some(Type { shape, dtype }) = ty else {
        return refuse(format!("{} gives no token", quote(name)));
    };
    Ok(match name {
        "input" => Op::Input(0),
        "full" => {
            let bits = parse_literal(dtype, attributes.text("value")?).map_err(Refusal::new)?;
            let width = dtype.size() * 8;
            if width < 64 && bits >> width != 0 {
                return refuse(format!("value={bits:#x} is wider than {dtype}"));
            }
            Op::Full { dtype, bits, shape }
        }
        "index" => Op::Index {
            axis: attributes.value("axis")?,
            shape,
        },
        "cast" => Op::Cast(dtype),
        "rand" => Op::Rand,
        "permute" => {
            let axes = attributes.list::<u8>("axes")?;
            if axes.len() > MAX_RANK {
                return refuse(format!("more than {MAX_RANK} axes"));
            }
            Op::Permute(axes.into_iter().collect())
        }
        "expand" => Op::Expand(shape),
        "reshape" => Op::Reshape(shape),
        "slice" => Op::Slice {
            start: attributes.shape("start")?,
            step: attributes.list::<i64>("step")?.into_iter().collect(),
            shape,
        },
        "window" => Op::Window {
            axis: attributes.value("axis")?,
            size: attributes.value("size")?,
            step: attributes.value("step")?,
            dilation: attributes.value("dilation")?,
        },
        "pad" => Op::Pad {
            low: attributes.shape("low")?,
            shape,
            bits: {
                let word = attributes.text("bits")?;
                let bits = word
                    .strip_prefix("0x")
                    .and_then(|hex| u64::from_str_radix(hex, 16).ok());
                bits.ok_or_else(|| Refusal::new(format!("bits is {}, no number in hex", quote(word))))?
            },
        },
        "concat" => Op::Concat {
            axis: attributes.value("axis")?,
        },
        "gather" => Op::Gather {
            axis: attributes.value("axis")?,
        },
        "scatter" => Op::Scatter {
            axis: attributes.value("axis")?,
            mode: {
                let word = attributes.text("mode")?;
                let mode = ScatterMode::ALL.into_iter().find(|mode| mode.name() == word);
                mode.ok_or_else(|| Refusal::new(format!("mode is {}", quote(word))))?
            },
        },
        "matmul" => Op::Matmul {
            accumulate: {
                let word = attributes.text("accumulate")?;
                DType::from_str(word).map_err(|_| Refusal::new(format!("accumulate is {}", quote(word))))?
            },
            output: dtype,
        },
        "attention" => Op::Attention {
            causal: attributes.value("causal")?,
            scale: parse_literal(DType::F64, attributes.text("scale")?).map_err(Refusal::new)?,
        },
        "conv" => Op::Conv(attributes.conv()?),
        "conv_grad_input" => Op::ConvGradInput(attributes.conv()?, shape),
        "conv_grad_weight" => Op::ConvGradWeight(attributes.conv()?, shape),
        "scan" => Op::Scan {
            op: {
                let word = attributes.text("op")?;
                ReduceOp::from_name(word).ok_or_else(|| Refusal::new(format!("op is {}", quote(word))))?
            },
            axis: attributes.value("axis")?,
            reverse: attributes.value("reverse")?,
        },
        "argsort" => Op::ArgSort {
            axis: attributes.value("axis")?,
            descending: attributes.value("descending")?,
        },
        "result" => Op::Result {
            index: attributes.value("index")?,
            ty: Type::new(shape, dtype),
        },
        _ => {
            if let Some(op) = name.strip_prefix("reduce_").and_then(ReduceOp::from_name) {
                let axes = attributes.list::<usize>("axes")?;
                let set: Axes = axes.iter().copied().filter(|&axis| axis < MAX_RANK).collect();
                if !axes.iter().copied().eq(set.iter()) {
                    return refuse("axes are numbers of axes in ascending order");
                }
                Op::Reduce { op, axes: set }
            } else if let Some(op) = ScalarOp::from_name(name) {
                Op::Map(op)
            } else {
                return refuse(format!("there is no op {}", quote(name)));
            }
        }
    })
}

fn control(name: &str, attributes: &mut Attributes<'_>) -> Result<Option<Control>> {
    Ok(Some(match name {
        "repeat" => Control::Repeat {
            body: attributes.body("body")?,
            trips: attributes.value("trips")?,
            start: attributes.value("start")?,
            carries: attributes.value("carries")?,
            slices: attributes.value("slices")?,
            reverse: attributes.value("reverse")?,
        },
        "while" => Control::While {
            condition: attributes.body("condition")?,
            body: attributes.body("body")?,
            carries: attributes.value("carries")?,
        },
        "unwind" => Control::Unwind {
            condition: attributes.body("condition")?,
            body: attributes.body("body")?,
            back: attributes.body("back")?,
            carries: attributes.value("carries")?,
            captured: attributes.value("captured")?,
            sums: attributes.value("sums")?,
        },
        "call" => Control::Call {
            body: attributes.body("body")?,
        },
        "cond" => Control::Cond {
            then: attributes.body("then")?,
            otherwise: attributes.body("otherwise")?,
        },
        _ => return Ok(None),
    }))
}
