//! A value on its way to a file.

use crate::hal::DType;
use crate::types::call::{CallInfo, Port};
use crate::types::shape::Shape;
use crate::types::statistics::Statistics;

/// Where a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the device.
    pub(crate) device: u32,
    /// Its name: `cpu:0`.
    pub(crate) target: String,
    /// The number of the compiled function; 0 for ops that run one by one.
    pub(crate) graph: u64,
}

/// What is special about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Nothing,
    /// It is the result of a call that overflowed.
    Overflows,
    /// It is the result of a call that failed, which has no elements.
    Unspecified,
}

/// A value.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) call: CallInfo,
    pub(crate) place: Place,
    pub(crate) port: Port,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) figures: Option<Statistics>,
    /// The elements, row-major and little-endian.
    pub(crate) elements: Option<Vec<u8>>,
    pub(crate) standing: Standing,
}

impl Item {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let own = size_of::<Item>() + self.call.name.len() + self.call.scope.len();
        own as u64 + self.elements.as_ref().map_or(0, |elements| elements.len() as u64)
    }
}

/// Whether it is an input or an output, and which one.
pub(super) fn slot(port: Port) -> (&'static str, usize) {
    match port {
        Port::Input(at) => ("input", at),
        Port::Output(at) => ("output", at),
    }
}
