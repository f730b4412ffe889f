//! Whether an op computes what is stored.

use crate::case::Case;
use crate::dispatch::dispatch;
use crate::values::{Array, Elements, read};
use thalweg::{Context, DType, Tensor, jit};

/// Where cases run.
pub(crate) struct Subject {
    /// In eager mode.
    pub(crate) eager: Context,
    /// In graph mode, on the same backend.
    pub(crate) recorded: Context,
    /// Whether gradients are compared too.
    pub(crate) gradients: bool,
    /// Which cases of a file, by number and dtype.
    pub(crate) takes: fn(usize, DType) -> bool,
    /// Whether the bits of NaNs are compared too. The instructions of a GPU write NaNs of their own, and which of them computes an op is
    /// up to a compiler.
    pub(crate) nans: bool,
}

/// Runs a case in both modes and compiled: results are those that are stored, and the same bits each time. The bits of the
/// results and of the gradients in eager mode.
pub(crate) fn judge(case: &Case, float: DType, subject: &Subject) -> Result<Vec<Vec<u64>>, String> {
    let nans = subject.nans;
    let mut eager = outputs(case, float, &subject.eager, nans)?;
    let recorded =
        outputs(case, float, &subject.recorded, nans).map_err(|error| format!("recorded: {error}"))?;
    if eager != recorded {
        return Err(format!("eager and recorded differ: {eager:?} and {recorded:?}"));
    }
    // These ops read values to know the shape of their result.
    let values_say_shape = ["masked_select", "nonzero", "unique", "unique_counts", "bincount"];
    if !values_say_shape.contains(&&*case.name) {
        let compiled =
            compiled(case, float, &subject.eager, nans).map_err(|error| format!("compiled: {error}"))?;
        if eager != compiled {
            return Err(format!("eager and compiled differ: {eager:?} and {compiled:?}"));
        }
    }
    let gradients = !case.gradients.is_empty() && matches!(float, DType::F32 | DType::F64);
    if subject.gradients && gradients {
        eager.extend(backward(case, float, &subject.eager)?);
        backward(case, float, &subject.recorded).map_err(|error| format!("recorded: {error}"))?;
    }
    Ok(eager)
}

/// The bits of all outputs, which were compared with those that are stored.
fn outputs(case: &Case, float: DType, cx: &Context, nans: bool) -> Result<Vec<Vec<u64>>, String> {
    let inputs: Vec<Tensor> = case.inputs.iter().map(|input| input.tensor(float, cx)).collect();
    compare_all(
        case,
        float,
        &dispatch(&case.name, &inputs, &case.attributes),
        nans,
    )
}

/// As [`outputs`], through `jit`; results in the memory of inputs have the same bits.
fn compiled(case: &Case, float: DType, cx: &Context, nans: bool) -> Result<Vec<Vec<u64>>, String> {
    let mut inputs: Vec<Tensor> = case.inputs.iter().map(|input| input.tensor(float, cx)).collect();
    let traced = jit(|inputs: &Vec<Tensor>| dispatch(&case.name, inputs, &case.attributes));
    let plain = compare_all(case, float, &traced.call(&inputs), nans)?;
    let donated = compare_all(case, float, &traced.call_donating(&mut inputs), nans)
        .map_err(|error| format!("in the memory of inputs: {error}"))?;
    match plain == donated {
        true => Ok(plain),
        false => Err(format!(
            "in the memory of inputs: {donated:?}, elsewhere {plain:?}"
        )),
    }
}

fn compare_all(case: &Case, float: DType, outputs: &[Tensor], nans: bool) -> Result<Vec<Vec<u64>>, String> {
    if outputs.len() != case.outputs.len() {
        return Err(format!(
            "{} outputs, {} are stored",
            outputs.len(),
            case.outputs.len()
        ));
    }
    let mut bits = Vec::new();
    for (output, stored) in outputs.iter().zip(&case.outputs) {
        let (elements, mut own) = compare(output, stored, float, tolerance(case, float))?;
        if let (Elements::Floats(values), false) = (elements, nans) {
            let pairs = own.iter_mut().zip(values);
            pairs
                .filter(|(_, value)| value.is_nan())
                .for_each(|(bits, _)| *bits = u64::MAX);
        }
        bits.push(own);
    }
    Ok(bits)
}

/// The bits of the gradients of the outputs times [`cotangent`].
fn backward(case: &Case, float: DType, cx: &Context) -> Result<Vec<Vec<u64>>, String> {
    let sources = case.sources();
    let inputs: Vec<Tensor> = (case.inputs.iter().enumerate())
        .map(|(at, input)| {
            let tensor = input.tensor(float, cx);
            if sources.contains(&at) {
                tensor.requires_grad()
            } else {
                tensor
            }
        })
        .collect();
    let mut loss: Option<Tensor> = None;
    for output in dispatch(&case.name, &inputs, &case.attributes) {
        let ty = (output.dtype(), output.shape());
        let (Ok(dtype), Ok(shape)) = ty else {
            return Err(format!("{:?}", ty.0));
        };
        if !dtype.is_float() {
            continue;
        }
        let weights: Vec<f64> = (0..shape.elements()).map(cotangent).collect();
        let weights = Tensor::from_slice(&weights, shape, cx).cast(dtype);
        let part = (output * weights).sum();
        loss = Some(match loss {
            None => part,
            Some(loss) => loss + part,
        });
    }
    let gradients = loss
        .ok_or("no output to differentiate")?
        .backward()
        .map_err(|error| error.to_string())?;
    let pairs = sources.iter().zip(&case.gradients);
    pairs
        .map(|(&at, stored)| {
            // Gradients gather a few more roundings.
            compare(
                &gradients.of(&inputs[at]),
                stored,
                float,
                8.0 * tolerance(case, float),
            )
            .map(|(_, bits)| bits)
            .map_err(|error| format!("gradient by input {at}: {error}"))
        })
        .collect()
}

/// The weight of element `i` in the sum whose gradient is stored; as in `generate.py`.
fn cotangent(i: usize) -> f64 {
    ((i * 7 % 11) as f64 - 5.0) / 8.0
}

/// Units of the last place, next to the twelve digits that are stored.
fn tolerance(case: &Case, float: DType) -> f64 {
    let factor = case.attributes.get("@tol").unwrap_or(2.0);
    let epsilon = match float {
        DType::F16 => 2.0_f64.powi(-11),
        DType::BF16 => 2.0_f64.powi(-8),
        DType::F32 => 2.0_f64.powi(-24),
        _ => f64::EPSILON / 2.0,
    };
    factor * epsilon + 2e-11
}

/// What an output holds and its bits, where that is what is stored.
fn compare(
    output: &Tensor,
    stored: &Array,
    float: DType,
    tolerance: f64,
) -> Result<(Elements, Vec<u64>), String> {
    let text = |error: thalweg::Error| error.to_string();
    let (dtype, shape) = (output.dtype().map_err(text)?, output.shape().map_err(text)?);
    if dtype != stored.dtype(float) || *shape != *stored.shape {
        return Err(format!(
            "{dtype}{shape:?}, stored {}{:?}",
            stored.dtype(float),
            stored.shape
        ));
    }
    let (elements, bits) = read(output).map_err(text)?;
    let fits = match (&elements, &stored.elements) {
        (Elements::Floats(found), Elements::Floats(stored)) => {
            // Sums of large and small terms are as exact as their largest term.
            let scale = stored
                .iter()
                .filter(|x| x.is_finite())
                .fold(1.0, |scale: f64, x| scale.max(x.abs()));
            found.iter().zip(stored).all(|(&found, &stored)| {
                let near = (found - stored).abs() <= tolerance * (stored.abs() + scale);
                near || found == stored || (found.is_nan() && stored.is_nan())
            })
        }
        (found, stored) => found == stored,
    };
    match fits {
        true => Ok((elements, bits)),
        false => Err(format!("{elements:?}\n    stored {:?}", stored.elements)),
    }
}
