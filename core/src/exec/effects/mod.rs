//! What programs do beside computing: they print, and call closures of the program.

mod printout;

pub use printout::{PrintItem, Printout};

use super::read;
use crate::error::failure::{Failure, Refusal};
use crate::error::tag::OpTag;
use crate::error::{Error, Result};
use crate::graph::{Control, Printed, Type};
use crate::record::prints;
use crate::value::{Repr, Tensor};

/// What [`Control::Inspect`] calls.
pub(crate) type Inspector = Box<dyn Fn(&Tensor) -> Result<(), String> + Send + Sync>;

/// Does it with operands that have values. Waits for them.
///
/// # Errors
/// Of reading the operands; of the closure, with the op's line.
pub(crate) fn run(control: &Control, operands: &[Tensor], tag: OpTag) -> Result<()> {
    match control {
        Control::Print { items } => print(items, operands, tag),
        Control::Inspect { callback } => match (callback.called::<Inspector>(), operands) {
            (Some(inspector), [value]) => {
                let said = OpTag::apart(|| inspector(value));
                let device = value.context().map(|context| context.device());
                said.map_err(|said| Failure::tagged(Refusal::new(said), tag, device).into())
            }
            _ => Err(missing()),
        },
        Control::Repeat { .. }
        | Control::While { .. }
        | Control::Unwind { .. }
        | Control::Call { .. }
        | Control::Cond { .. } => Err(missing()),
    }
}

fn print(items: &[Printed], operands: &[Tensor], tag: OpTag) -> Result<()> {
    let mut operands = operands.iter();
    let item = |item: &Printed| match item {
        Printed::Text(text) => Ok(PrintItem::Text(text.to_string())),
        Printed::Operand => shown(operands.next().ok_or_else(missing)?, tag),
    };
    let printout = Printout::now(items.iter().map(item).collect::<Result<_>>()?);
    prints::put(|| printout.to_string(), || printout.encode());
    Ok(())
}

fn shown(tensor: &Tensor, tag: OpTag) -> Result<PrintItem> {
    let (Type { shape, dtype }, bytes) = match &tensor.repr {
        Repr::Value(value) => (
            Type::new(value.layout.shape, value.dtype),
            read::download_bytes(value.clone(), tag)?,
        ),
        Repr::Constant(constant) => {
            let element = &constant.bits.to_le_bytes()[..constant.ty.dtype.size()];
            (constant.ty, element.repeat(constant.ty.shape.elements()))
        }
        Repr::Lazy(_) | Repr::Failed(_) => return Err(missing()),
    };
    Ok(PrintItem::Tensor { dtype, shape, bytes })
}

fn missing() -> Error {
    Refusal::new("an operand of an effect is missing; this is a defect of the library").into()
}
