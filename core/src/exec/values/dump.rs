//! Dumps are watchers that write what they see.

use super::super::read;
use super::watch::{Begun, Mode, Sink, Wants, Watched, Watcher, begin};
use crate::context::Context;
use crate::dump::OpDebugMode;
use crate::dump::dumper::Dumper;
use crate::dump::environment;
use crate::dump::item::{Item, Place, Standing};
use crate::error::tag::OpTag;
use crate::error::{DumpError, Error};
use crate::hal::DType;
use crate::types::call::Port;
use crate::types::statistics::Statistics;
use crate::value::{Repr, Tensor};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::thread::ThreadId;

/// Bytes of values that are kept on a device at once.
const MEMORY_LIMIT: u64 = 256 << 20;

/// Who watches for the dump of the environment, in all contexts.
static LASTING: LazyLock<Option<Arc<Watcher>>> = LazyLock::new(|| {
    let dumper = environment::dumper()?;
    let (wants, mode, sink) = parts(dumper);
    Some(Arc::new(Watcher::new(None, wants, mode, sink)))
});

/// Who watches for the dump of the environment.
pub(super) fn lasting() -> Option<&'static Arc<Watcher>> {
    LASTING.as_ref()
}

/// Dumps the values of a context.
pub(crate) fn begin_dump(context: &Context, dumper: &Arc<Dumper>) -> Begun {
    let (wants, mode, sink) = parts(dumper);
    begin(context, wants, mode, sink)
}

fn parts(dumper: &Arc<Dumper>) -> (Wants, Mode, Sink) {
    let of_wants = Arc::clone(dumper);
    let wants: Wants = Box::new(move |asked, call| of_wants.wants(&place(asked.context, asked.graph), call));
    let overflow = dumper.overflow();
    let mode = match overflow {
        OpDebugMode::Off => Mode {
            inputs: dumper.has_inputs(),
            outputs: dumper.has_outputs(),
            values: dumper.has_elements() || !dumper.has_figures(),
            figures: dumper.has_figures(),
            memory_limit: MEMORY_LIMIT,
        },
        OpDebugMode::Ops | OpDebugMode::Reductions | OpDebugMode::Both => Mode {
            inputs: true,
            outputs: true,
            values: true,
            figures: true,
            memory_limit: MEMORY_LIMIT,
        },
    };
    let dumper = Arc::clone(dumper);
    let calls: Mutex<HashMap<ThreadId, Vec<Kept>>> = Mutex::default();
    let sink: Sink = match overflow {
        OpDebugMode::Off => Box::new(move |watched| write(&dumper, &Kept::of(watched), Standing::Nothing)),
        OpDebugMode::Ops | OpDebugMode::Reductions | OpDebugMode::Both => {
            Box::new(move |watched| judge(&dumper, overflow, &calls, watched))
        }
    };
    (wants, mode, sink)
}

pub(super) fn place(context: &Context, graph: u64) -> Place {
    let device = context.device();
    Place {
        device: device.ordinal(),
        target: device.target().to_owned(),
        graph,
    }
}

/// A value that may be written when its call is known as a whole.
struct Kept {
    item: Item,
    tensor: Option<Tensor>,
    /// As [`Watched::reduced`].
    reduced: bool,
    error: Option<DumpError>,
}

impl Kept {
    fn of(watched: &Watched<'_>) -> Kept {
        let (figures, error) = match watched.has_figures().then(|| watched.statistics()) {
            None => (None, None),
            Some(Ok(figures)) => (Some(figures), None),
            Some(Err(error)) => (None, Some(unread(watched.call().name.clone(), &error))),
        };
        Kept {
            item: Item {
                call: watched.call().clone(),
                place: place(watched.asked.context, watched.asked.graph),
                port: watched.port(),
                dtype: watched.dtype(),
                shape: watched.shape(),
                figures,
                elements: None,
                standing: Standing::Nothing,
            },
            tensor: watched.tensor().cloned(),
            reduced: watched.reduced,
            error,
        }
    }

    /// The item, with its elements where they are asked for.
    fn item(&self, elements: bool, standing: Standing) -> Result<Item, DumpError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let name = &self.item.call.name;
        let elements = match &self.tensor {
            Some(Tensor {
                repr: Repr::Value(value),
                ..
            }) if elements => Some(
                read::download_bytes(value.clone(), OpTag::uncounted("dump"))
                    .map_err(|error| unread(name.clone(), &error))?,
            ),
            Some(_) | None => None,
        };
        Ok(Item {
            call: self.item.call.clone(),
            place: self.item.place.clone(),
            elements,
            standing,
            ..self.item
        })
    }
}

/// The error of a value that cannot be read.
fn unread(name: String, error: &Error) -> DumpError {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().to_owned();
    DumpError::Value { name, message }
}

fn write(dumper: &Dumper, kept: &Kept, standing: Standing) {
    dumper.take(kept.item(dumper.has_elements(), standing));
}

/// Keeps the values of a call until the last of them, and writes them if the call overflowed.
fn judge(
    dumper: &Dumper,
    mode: OpDebugMode,
    calls: &Mutex<HashMap<ThreadId, Vec<Kept>>>,
    watched: &Watched<'_>,
) {
    let thread = std::thread::current().id();
    let kept = Kept::of(watched);
    let call = {
        let mut calls = calls.lock();
        let call = calls.entry(thread).or_default();
        call.push(kept);
        match watched.is_last() {
            true => calls.remove(&thread).unwrap_or_default(),
            false => return,
        }
    };
    let looked_for = |kept: &Kept| match mode {
        OpDebugMode::Off => false,
        OpDebugMode::Ops => !kept.reduced,
        OpDebugMode::Reductions => kept.reduced,
        OpDebugMode::Both => true,
    };
    let is_input = |kept: &Kept| matches!(kept.item.port, Port::Input(_));
    let (inputs, outputs): (Vec<&Kept>, Vec<&Kept>) = call.iter().partition(|kept| is_input(kept));
    let finite =
        |kept: &&Kept| (kept.item.figures).is_some_and(|figures| figures.nan + figures.infinite == 0);
    let overflows = |kept: &Kept| {
        (kept.item.figures)
            .is_some_and(|figures| overflows(kept.item.dtype, &figures, watched.asked.infinite))
    };
    let any = outputs.iter().any(|kept| looked_for(kept) && overflows(kept));
    if !any || !inputs.iter().all(finite) {
        return;
    }
    crate::record::span::mark(&format!("overflow in {}", watched.call().name));
    if dumper.has_inputs() {
        inputs
            .iter()
            .for_each(|kept| write(dumper, kept, Standing::Nothing));
    }
    for kept in outputs {
        match overflows(kept) {
            true => write(dumper, kept, Standing::Overflows),
            false if dumper.has_outputs() => write(dumper, kept, Standing::Nothing),
            false => {}
        }
    }
}

/// Whether a result of finite operands has overflowed. One that was given an infinite constant may be infinite.
fn overflows(dtype: DType, figures: &Statistics, infinite: bool) -> bool {
    if !dtype.is_float() {
        return false;
    }
    let largest = if dtype.size() > 2 {
        f64::INFINITY
    } else {
        largest(dtype)
    };
    let at_the_end = figures.max >= largest || figures.min <= -largest;
    figures.nan > 0 || !infinite && (figures.infinite > 0 || at_the_end)
}

/// The largest number of a float of 16 or 8 bits.
fn largest(dtype: DType) -> f64 {
    let facts = dtype.facts();
    let exponent_bits = 8 * dtype.size() as u32 - 1 - facts.mantissa;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let unit = (-f64::from(facts.mantissa)).exp2();
    match facts.infinite {
        true => (2.0 - unit) * f64::from(bias).exp2(),
        // The highest exponent has numbers, and NaN in place of the last of them.
        false => (2.0 - 2.0 * unit) * f64::from(bias + 1).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::element::Element;
    use half::{bf16, f16};
    use thalweg_hal::for_dtype;

    #[test]
    fn the_largest_number_is_that_of_the_type() {
        assert_eq!(largest(DType::F16), f16::MAX.to_f64());
        assert_eq!(largest(DType::BF16), bf16::MAX.to_f64());
        let narrow = |dtype: &DType| dtype.is_float() && dtype.size() == 1;
        for dtype in DType::ALL.into_iter().filter(narrow) {
            // Every number of eight bits.
            let numbers =
                (0..256).map(|bits| for_dtype!(dtype, T => <T as Element>::from_bits(bits).to_f64()));
            let greatest = numbers.filter(|number| number.is_finite()).fold(0.0, f64::max);
            assert_eq!(largest(dtype), greatest, "{dtype}");
        }
    }
}
