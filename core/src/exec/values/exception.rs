//! Programs that fail: what the call was given is written to files.

use super::super::executable::{Arg, Values};
use super::super::read;
use super::calls::{Call, calls};
use super::dump::place;
use super::{Recipe, Run};
use crate::dump::exception::{self, Failed};
use crate::dump::item::{Item, Standing};
use crate::error::tag::OpTag;
use crate::error::{Error, Result};
use crate::graph::{NodeId, Op};
use crate::hal::Status;
use crate::types::call::{CallInfo, Port};
use crate::value::Value;

impl Recipe {
    /// The values of a run, for which it waits: what fails later would not be known as its own.
    ///
    /// # Errors
    /// That of the run; the inputs of the call that failed are in files then.
    pub(super) fn guarded(&self, run: &Run<'_>, values: Result<Values>) -> Result<Values> {
        let ended = values.and_then(|values| {
            let device = run.context.device();
            match run.scoped {
                Some(lane) => lane.stream.synchronize()?,
                None => device.default_stream()?.synchronize()?,
            }
            Ok(values)
        });
        if let Err(error) = &ended {
            self.write(run, error);
        }
        ended
    }

    /// Writes the inputs of the call that failed.
    fn write(&self, run: &Run<'_>, error: &Error) {
        let calls = calls(&self.graph, &self.given, run.tag);
        let Some(call) = calls.iter().find(|call| is_of(error, call)).or(calls.first()) else {
            return;
        };
        let lost = error.status() == Some(Status::DeviceLost) || run.context.device().status().is_err();
        let text = error.to_string();
        let failed = Failed {
            target: run.context.device().target().to_owned(),
            error: text.lines().next().unwrap_or_default().to_owned(),
            lost,
            items: self.items(run, call, lost),
        };
        let name = call.tag.name();
        let what = if lost {
            "its device is lost, and no value can be read"
        } else {
            "its inputs are there"
        };
        match exception::write(failed) {
            Ok(Some(path)) => tracing::error!("{name} failed; {what}: {}", path.display()),
            Ok(None) => {}
            Err(error) => tracing::error!("{error}"),
        }
    }

    /// What the call was given, and what it would have returned.
    fn items(&self, run: &Run<'_>, call: &Call, lost: bool) -> Vec<Item> {
        let info = CallInfo::of(call.tag);
        let item = |port: Port, node: NodeId, elements: Option<Vec<u8>>, standing: Standing| {
            let ty = self.graph.node(node).ty;
            Item {
                call: info.clone(),
                place: place(run.context, 0),
                port,
                dtype: ty.dtype,
                shape: ty.shape,
                figures: None,
                elements,
                standing,
            }
        };
        let mut items = Vec::new();
        for (at, &node) in call.operands.iter().enumerate() {
            let elements = if lost { None } else { self.operand(run, node) };
            items.push(item(Port::Input(at), node, elements, Standing::Nothing));
        }
        for (at, &node) in call.results.iter().enumerate() {
            items.push(item(Port::Output(at), node, None, Standing::Unspecified));
        }
        items
    }

    /// The elements of an operand: those of an argument, or computed again; `None` where that fails too.
    fn operand(&self, run: &Run<'_>, node: NodeId) -> Option<Vec<u8>> {
        let argument = match self.graph.node(node).op {
            Op::Input(at) => run.args.get(at as usize),
            _ => None,
        };
        let value: Value = match argument {
            Some(Arg::Value(value)) => (*value).clone(),
            Some(Arg::Scalar(_)) | None => self.values(run, &[node]).ok()?.pop()?,
        };
        read::download_bytes(value, OpTag::uncounted("exception_dump")).ok()
    }
}

/// Whether an error is that of a call.
fn is_of(error: &Error, call: &Call) -> bool {
    match error {
        Error::Hal(crate::hal::Error::Call(error)) => {
            error.op == call.tag.op && (error.location.is_none() || error.location == call.tag.location())
        }
        Error::Hal(crate::hal::Error::OutOfMemory(error)) => error.op == call.tag.op,
        Error::Numerics(error) => error.name == call.tag.name(),
        Error::Index(error) => error.op == call.tag.op,
        _ => false,
    }
}
