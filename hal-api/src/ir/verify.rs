//! The rules of the IR, checked once, before a kernel reaches a backend.

use super::{
    Access, Kernel, Level, MAX_NAME, MAX_NODES, MAX_PARAMS, MAX_RANK, MAX_SCALARS, Node, NodeId, Param,
    ReduceOp, Returns, Role, ScalarOp,
};
use crate::dtype::DType;

/// What the verifier found out about each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Type of each node's value; `None` for [`Node::Store`].
    pub dtypes: Vec<Option<DType>>,
    /// Level of each node; that of a store is its parameter's.
    pub levels: Vec<Level>,
}

/// The first rule that a kernel breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VerifyError {
    /// The offending node; `None` when the rule is about the kernel or a parameter.
    pub node: Option<NodeId>,
    /// One line: which rule, where, and what to do where that is known.
    pub message: String,
}

impl VerifyError {
    fn kernel(message: String) -> VerifyError {
        VerifyError { node: None, message }
    }
}

/// Whether `name` may name a kernel.
pub(super) fn is_name(name: &str) -> bool {
    let in_set = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(in_set)
}

/// Checks the limits that hold before any node is looked at.
pub(super) fn limits(
    outer: u64,
    inner: u64,
    params: usize,
    scalars: usize,
    nodes: usize,
) -> Result<(), String> {
    let checks = [
        ("outer axes", outer, MAX_RANK),
        ("inner axes", inner, MAX_RANK),
        ("parameters", params as u64, MAX_PARAMS),
        ("scalars", scalars as u64, MAX_SCALARS),
        ("nodes", nodes as u64, MAX_NODES),
    ];
    for (what, count, most) in checks {
        if count > most as u64 {
            return Err(format!("{count} {what}, the limit is {most}"));
        }
    }
    Ok(())
}

pub(super) fn verify(kernel: &Kernel) -> Result<Info, VerifyError> {
    if !is_name(&kernel.name) {
        let shown: String = kernel
            .name
            .chars()
            .take(MAX_NAME)
            .flat_map(char::escape_default)
            .collect();
        return Err(VerifyError::kernel(format!(
            "kernel name `{shown}` is not 1 to {MAX_NAME} letters, digits, `_`, `.`, `:` or `-`"
        )));
    }
    let (params, scalars, nodes) = (kernel.params.len(), kernel.scalars.len(), kernel.nodes.len());
    limits(
        u64::from(kernel.outer),
        u64::from(kernel.inner),
        params,
        scalars,
        nodes,
    )
    .map_err(VerifyError::kernel)?;
    for (i, param) in kernel.params.iter().enumerate() {
        if kernel.inner == 0 && param.level == Level::Element {
            return Err(VerifyError::kernel(format!(
                "p{i} is declared element, but the kernel has no inner axes"
            )));
        }
        if param.role == Role::Out && param.access == Access::Broadcast {
            return Err(VerifyError::kernel(format!(
                "p{i} is an output and declared broadcast"
            )));
        }
    }

    let mut walk = Walk {
        kernel,
        info: Info {
            dtypes: Vec::with_capacity(nodes),
            levels: Vec::with_capacity(nodes),
        },
        stored: vec![None; params],
    };
    for (i, node) in kernel.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let (dtype, level) = walk.node(id, node).map_err(|message| VerifyError {
            node: Some(id),
            message: format!("n{i} {}: {message}", mnemonic(node)),
        })?;
        walk.info.dtypes.push(dtype);
        walk.info.levels.push(level);
    }
    for (i, (param, stored)) in kernel.params.iter().zip(&walk.stored).enumerate() {
        if param.role == Role::Out && stored.is_none() {
            return Err(VerifyError::kernel(format!("p{i} is an output and never stored")));
        }
    }
    Ok(walk.info)
}

/// The node's first word in the text form.
pub(super) fn mnemonic(node: &Node) -> &'static str {
    match node {
        Node::Const { .. } => "const",
        Node::Scalar { .. } => "scalar",
        Node::Load { .. } => "load",
        Node::LoadAt { .. } => "loadat",
        Node::Index { .. } => "index",
        Node::Op { op, .. } => op.name(),
        Node::Cast { .. } => "cast",
        Node::Rand { .. } => "rand",
        Node::Reduce { op, .. } => op.name(),
        Node::Store { .. } => "store",
    }
}

struct Walk<'a> {
    kernel: &'a Kernel,
    info: Info,
    stored: Vec<Option<NodeId>>,
}

type Typed = (Option<DType>, Level);

impl Walk<'_> {
    fn node(&mut self, id: NodeId, node: &Node) -> Result<Typed, String> {
        match *node {
            Node::Const { dtype, bits } => constant(dtype, bits),
            Node::Scalar { index } => match self.kernel.scalars.get(index as usize) {
                Some(&dtype) => Ok((Some(dtype), Level::Row)),
                None => Err(format!("there is no s{index}")),
            },
            Node::Load { param } => {
                let param = self.input(param)?;
                Ok((Some(param.dtype), param.level))
            }
            Node::LoadAt { param, index } => {
                let param = *self.input(param)?;
                let level = self.typed(index, DType::I64, "the index")?;
                Ok((Some(param.dtype), param.level.max(level)))
            }
            Node::Index { axis } => self.axis(axis),
            Node::Op { op, args } => self.op(op, args),
            Node::Cast { dtype, arg } => Ok((Some(dtype), self.value(arg)?.1)),
            Node::Rand { key, counter } => {
                let level = self.typed(key, DType::U64, "the key")?;
                Ok((
                    Some(DType::U32),
                    level.max(self.typed(counter, DType::U64, "the counter")?),
                ))
            }
            Node::Reduce { op, arg } => self.reduce(op, arg),
            Node::Store { param, value } => self.store(id, param, value),
        }
    }

    /// Dtype and level of an argument.
    fn value(&self, arg: NodeId) -> Result<(DType, Level), String> {
        match (
            self.info.dtypes.get(arg.index()),
            self.info.levels.get(arg.index()),
        ) {
            (Some(&Some(dtype)), Some(&level)) => Ok((dtype, level)),
            (Some(None), _) => Err(format!("n{} is a store and has no value", arg.0)),
            _ if arg.index() < self.kernel.nodes.len() => {
                Err(format!("n{} comes later or is the node itself", arg.0))
            }
            _ => Err(format!("there is no n{}", arg.0)),
        }
    }

    fn typed(&self, arg: NodeId, wanted: DType, what: &str) -> Result<Level, String> {
        let (dtype, level) = self.value(arg)?;
        if dtype != wanted {
            return Err(format!("{what} n{} is {dtype}, not {wanted}; cast it", arg.0));
        }
        Ok(level)
    }

    fn input(&self, param: u32) -> Result<&Param, String> {
        match self.kernel.params.get(param as usize) {
            Some(p) if p.role == Role::In => Ok(p),
            Some(_) => Err(format!("p{param} is an output")),
            None => Err(format!("there is no p{param}")),
        }
    }

    fn axis(&self, axis: u32) -> Result<Typed, String> {
        let (outer, inner) = (self.kernel.outer, self.kernel.inner);
        if axis < outer {
            Ok((Some(DType::I64), Level::Row))
        } else if axis < outer + inner {
            Ok((Some(DType::I64), Level::Element))
        } else {
            Err(format!(
                "there is no axis {axis}; the kernel has {outer} outer and {inner} inner axes"
            ))
        }
    }

    fn op(&self, op: ScalarOp, args: [NodeId; 3]) -> Result<Typed, String> {
        let arity = op.arity();
        if args.iter().skip(arity).any(|arg| *arg != args[0]) {
            return Err("arguments beyond the arity do not repeat the first".to_owned());
        }
        let mut level = Level::Row;
        let mut common: Option<DType> = None;
        for (position, &arg) in args.iter().take(arity).enumerate() {
            if op == ScalarOp::Select && position == 0 {
                level = level.max(self.typed(arg, DType::Bool, "the condition")?);
                continue;
            }
            let (dtype, at) = self.value(arg)?;
            if !op.accepts().takes(dtype) {
                return Err(format!(
                    "n{} is {dtype}, which the op does not take; cast it",
                    arg.0
                ));
            }
            match common {
                Some(first) if first != dtype => {
                    return Err(format!(
                        "arguments have dtypes {first} and {dtype}; cast one of them"
                    ));
                }
                _ => common = Some(dtype),
            }
            level = level.max(at);
        }
        let dtype = match op.returns() {
            Returns::Same => common,
            Returns::Bool => Some(DType::Bool),
            Returns::Index => Some(DType::I64),
        };
        Ok((dtype, level))
    }

    fn reduce(&self, op: ReduceOp, arg: NodeId) -> Result<Typed, String> {
        if self.kernel.inner == 0 {
            return Err("a reduction in a kernel without inner axes".to_owned());
        }
        let (dtype, level) = self.value(arg)?;
        if level == Level::Row {
            return Err(format!(
                "n{} is the same along the whole inner space; there is nothing to reduce",
                arg.0
            ));
        }
        if !op.takes(dtype) {
            return Err(format!(
                "n{} is {dtype}, which the reduction does not take; cast it",
                arg.0
            ));
        }
        match op.returns() {
            Returns::Same => Ok((Some(dtype), Level::Row)),
            Returns::Bool => Ok((Some(DType::Bool), Level::Row)),
            Returns::Index => Ok((Some(DType::I64), Level::Row)),
        }
    }

    fn store(&mut self, id: NodeId, index: u32, value: NodeId) -> Result<Typed, String> {
        let Some(param) = self.kernel.params.get(index as usize) else {
            return Err(format!("there is no p{index}"));
        };
        if param.role == Role::In {
            return Err(format!("p{index} is an input"));
        }
        let (dtype, level) = self.value(value)?;
        if dtype != param.dtype {
            return Err(format!(
                "n{} is {dtype} and p{index} is {}; cast the value",
                value.0, param.dtype
            ));
        }
        if level > param.level {
            return Err(format!(
                "n{} is at element level and p{index} at row level; reduce the value",
                value.0
            ));
        }
        let stored = self
            .stored
            .get_mut(index as usize)
            .and_then(|slot| slot.replace(id));
        if let Some(first) = stored {
            return Err(format!("p{index} is already stored by n{}", first.0));
        }
        Ok((None, param.level))
    }
}

fn constant(dtype: DType, bits: u64) -> Result<Typed, String> {
    let fits = match dtype {
        DType::Bool => bits <= 1,
        _ => bits.checked_shr(dtype.size() as u32 * 8).unwrap_or(0) == 0,
    };
    if !fits {
        return Err(format!("the bits {bits:#x} do not fit {dtype}"));
    }
    Ok((Some(dtype), Level::Row))
}

#[cfg(test)]
mod tests;
