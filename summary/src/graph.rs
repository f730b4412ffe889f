//! Graphs of ops by name.

use crate::tensor::{extents, shape};
use crate::wire::{Fields, Malformed, Message};

/// Ops that compute from each other. TensorBoard folds them by the slashes in their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The ops.
    pub nodes: Vec<Node>,
}

/// An op of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, which no other has.
    pub name: String,
    /// What it does.
    pub op: String,
    /// Names of the nodes that it computes from.
    pub inputs: Vec<String>,
    /// Where it runs; empty for unknown.
    pub device: String,
    /// Extents of its result.
    pub shape: Vec<u64>,
    /// What else is known, as texts by name.
    pub attributes: Vec<(String, String)>,
}

/// The attribute that TensorBoard takes shapes of results from.
const SHAPES: &str = "_output_shapes";
/// The version of graphs that is written.
const PRODUCER: i64 = 22;

impl Graph {
    pub(crate) fn encode(&self) -> Message {
        let nodes = Message::new().each(&self.nodes, |graph, node| graph.message(1, node.encode()));
        nodes.message(4, Message::new().int(1, PRODUCER))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Graph, Malformed> {
        let mut graph = Graph::default();
        for field in Fields::new(bytes) {
            if let (1, node) = field? {
                graph.nodes.push(Node::decode(node.bytes()?)?);
            }
        }
        Ok(graph)
    }
}

impl Node {
    fn encode(&self) -> Message {
        let list = Message::new().message(7, shape(&self.shape));
        let shapes = attribute(SHAPES, Message::new().message(1, list));
        Message::new()
            .text(1, &self.name)
            .text(2, &self.op)
            .each(&self.inputs, |node, input| node.text(3, input))
            .text(4, &self.device)
            .message(5, shapes)
            .each(&self.attributes, |node, (name, text)| {
                node.message(5, attribute(name, Message::new().text(2, text)))
            })
    }

    fn decode(bytes: &[u8]) -> Result<Node, Malformed> {
        let mut node = Node::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, name) => node.name = name.text()?,
                (2, op) => node.op = op.text()?,
                (3, input) => node.inputs.push(input.text()?),
                (4, device) => node.device = device.text()?,
                (5, attribute) => node.attribute(attribute.bytes()?)?,
                _ => {}
            }
        }
        Ok(node)
    }

    fn attribute(&mut self, entry: &[u8]) -> Result<(), Malformed> {
        let (mut name, mut value) = (String::new(), &[][..]);
        for field in Fields::new(entry) {
            match field? {
                (1, text) => name = text.text()?,
                (2, bytes) => value = bytes.bytes()?,
                _ => {}
            }
        }
        for field in Fields::new(value) {
            match field? {
                (1, list) if name == SHAPES => {
                    for field in Fields::new(list.bytes()?) {
                        if let (7, shape) = field? {
                            self.shape = extents(shape.bytes()?)?;
                        }
                    }
                }
                (2, text) => self.attributes.push((name.clone(), text.text()?)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// An entry of a node's attributes.
fn attribute(name: &str, value: Message) -> Message {
    Message::new().text(1, name).message(2, value)
}
