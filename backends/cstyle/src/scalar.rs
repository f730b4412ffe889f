//! Types and expressions of scalars. The helpers that they name are in `prelude/`.

use crate::target::Dialect;
use thalweg_hal::DType;
use thalweg_hal::dtype::Class;
use thalweg_hal::ir::{ReduceOp, ScalarOp};

/// Type of a value in a register. f16 and bf16 are f32 that hold a value of the narrow dtype, floats of 8 bits their bits.
pub(crate) fn register(dtype: DType) -> &'static str {
    if dtype.is_storage() {
        memory(dtype)
    } else {
        dtype.facts().computed.name()
    }
}

/// Type of an element in memory.
pub(crate) fn memory(dtype: DType) -> &'static str {
    match dtype.size() {
        1 if dtype.is_float() || dtype == DType::Bool => "u8",
        2 if dtype.is_float() => "u16",
        _ => dtype.name(),
    }
}

/// The value of an element in memory.
pub(crate) fn loaded(dtype: DType, element: &str) -> String {
    match dtype {
        DType::F16 | DType::BF16 => format!("tl_f32_of_{dtype}({element})"),
        DType::Bool => format!("({element} != 0)"),
        _ => element.to_owned(),
    }
}

/// The element that is written for a value.
pub(crate) fn stored(dtype: DType, value: &str) -> String {
    match dtype {
        DType::F16 | DType::BF16 => format!("tl_{dtype}_of_f32({value})"),
        DType::Bool => format!("(u8){value}"),
        _ => value.to_owned(),
    }
}

/// A value from the bits in a 64-bit word.
pub(crate) fn of_bits(dtype: DType, word: &str) -> String {
    match dtype {
        DType::F64 | DType::F32 => format!("tl_{dtype}_of_bits({word})"),
        DType::F16 | DType::BF16 => format!("tl_f32_of_{dtype}((u16){word})"),
        DType::Bool => format!("(((u8){word}) != 0)"),
        // Integers, and floats for storage as their bits.
        _ => format!("({}){word}", memory(dtype)),
    }
}

/// A constant.
pub(crate) fn constant(dtype: DType, bits: u64) -> String {
    let single = |value: f32| {
        if value.is_finite() {
            format!("{value:?}f")
        } else {
            format!("tl_f32_of_bits({:#x}u)", value.to_bits())
        }
    };
    match dtype {
        DType::F64 if f64::from_bits(bits).is_finite() => format!("{:?}", f64::from_bits(bits)),
        DType::F64 => format!("tl_f64_of_bits({bits:#x}ul)"),
        DType::F32 => single(f32::from_bits(bits as u32)),
        DType::F16 => single(half::f16::from_bits(bits as u16).to_f32()),
        DType::BF16 => single(half::bf16::from_bits(bits as u16).to_f32()),
        _ if dtype.is_storage() => format!("({}){bits:#x}u", memory(dtype)),
        DType::Bool => (if bits == 0 { "false" } else { "true" }).to_owned(),
        _ => format!("({dtype}){bits:#x}ul"),
    }
}

/// Whether a value is held as f32 and rounded to 16 bits.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// A float result, rounded to its dtype.
pub(crate) fn rounded(dtype: DType, value: String) -> String {
    match dtype {
        DType::F16 | DType::BF16 => format!("tl_to_{dtype}({value})"),
        _ => value,
    }
}

/// What an op on f16 or bf16 rounds; `None` for other dtypes, and for ops that round nothing.
pub(crate) fn unrounded(op: ScalarOp, dtype: DType, args: [&str; 3]) -> Option<String> {
    (is_half(dtype) && op.rounds()).then(|| computed(op, dtype, args))
}

/// A scalar op on registers; `dtype` is that of the last argument.
pub(crate) fn op(op: ScalarOp, dtype: DType, args: [&str; 3]) -> String {
    let value = computed(op, dtype, args);
    if op.rounds() { rounded(dtype, value) } else { value }
}

fn computed(op: ScalarOp, dtype: DType, [a, b, c]: [&str; 3]) -> String {
    let register = register(dtype);
    let float = dtype.is_float();
    let infix = |sign: &str| format!("({a} {sign} {b})");
    // Narrow integers compute as int.
    let narrow = |value: String| match dtype {
        DType::Bool => value,
        _ => format!("({register}){value}"),
    };
    match op {
        ScalarOp::Neg if float => format!("(-{a})"),
        ScalarOp::Not if dtype == DType::Bool => format!("(!{a})"),
        ScalarOp::Not => narrow(format!("(~{a})")),
        ScalarOp::Add if float => infix("+"),
        ScalarOp::Sub if float => infix("-"),
        ScalarOp::Mul if float => infix("*"),
        ScalarOp::Div if float => infix("/"),
        ScalarOp::And => narrow(infix("&")),
        ScalarOp::Or => narrow(infix("|")),
        ScalarOp::Xor => narrow(infix("^")),
        ScalarOp::Eq => infix("=="),
        ScalarOp::Ne => infix("!="),
        ScalarOp::Lt => infix("<"),
        ScalarOp::Le => infix("<="),
        ScalarOp::Select => format!("({a} ? {b} : {c})"),
        // A function of `functions` or of `prelude/`; a test looks for it there.
        _ => format!("tl_{op}_{register}({})", [a, b, c][..op.arity()].join(", ")),
    }
}

/// The ops that are functions of the C library under their own names. `prelude/` defines what a language lacks.
pub(crate) fn functions(dialect: Dialect, fp64: bool) -> String {
    let mut text = String::new();
    for op in ScalarOp::ALL.iter().filter(|op| op.cost().is_function()) {
        let single = match dialect {
            // PoCL's is not exact enough.
            Dialect::OpenClC if *op == ScalarOp::Tanh => continue,
            Dialect::OpenClC => "",
            Dialect::CudaC => "f",
        };
        text += &format!("#define tl_{op}_f32 {op}{single}\n");
        if fp64 {
            text += &format!("#define tl_{op}_f64 {op}\n");
        }
    }
    text
}

/// What [`Target::declarations`] returns.
///
/// [`Target::declarations`]: crate::Target::declarations
pub(crate) fn declarations(fp64: bool) -> String {
    let functions = |text: &mut String, name: &str| {
        for op in ScalarOp::ALL.iter().filter(|op| op.cost().is_function()) {
            let arguments = [name; 3][..op.arity()].join(", ");
            *text += &format!("{name} TL_LIBRARY {op}({arguments});\n");
        }
    };
    let mut text = include_str!("prelude/declarations.cl").to_owned();
    functions(&mut text, "float");
    if fp64 {
        text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\nTL_VECTORS(double)\nTL_LIBRARY_OF(double)\n";
        functions(&mut text, "double");
    }
    text
}

/// What a conversion to f16 or bf16 rounds; `None` for other dtypes, and where rounding is not its last step.
pub(crate) fn unrounded_cast(from: DType, to: DType, value: &str) -> Option<String> {
    match (from, to) {
        (DType::F64, DType::F16 | DType::BF16) => Some(format!("tl_odd_of_f64({value})")),
        (DType::F32, DType::F16 | DType::BF16) | (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => {
            Some(value.to_owned())
        }
        _ => None,
    }
}

/// A conversion of a register.
pub(crate) fn cast(from: DType, to: DType, value: &str) -> String {
    if from == to {
        return value.to_owned();
    }
    if from.is_storage() {
        return cast(DType::F32, to, &format!("tl_f32_of_{from}({value})"));
    }
    if to.is_storage() {
        // What f32 does not hold of an integer is beyond their range.
        let single = match from {
            DType::F64 => format!("tl_odd_of_f64({value})"),
            _ => cast(from, DType::F32, value),
        };
        return format!("tl_{to}_of_f32({single})");
    }
    if let Some(value) = unrounded_cast(from, to, value) {
        return rounded(to, value);
    }
    let (source, target) = (register(from), register(to));
    match (from.class(), to.class()) {
        (_, Class::Bool) => format!("({value} != 0)"),
        (Class::Float, Class::Signed | Class::Unsigned) => format!("tl_{to}_of_{source}({value})"),
        (Class::Float, Class::Float) if source == target => value.to_owned(),
        (Class::Float, Class::Float) => format!("({target}){value}"),
        (Class::Signed | Class::Unsigned | Class::Bool, Class::Float) => match (from, to) {
            (DType::I32 | DType::I64, DType::BF16) => format!("tl_bf16_of_i64((i64){value})"),
            (DType::U32 | DType::U64, DType::BF16) => format!("tl_bf16_of_u64((u64){value})"),
            // What f32 cannot hold is infinite as f16.
            _ => rounded(to, format!("({target}){value}")),
        },
        (Class::Signed | Class::Unsigned | Class::Bool, Class::Signed | Class::Unsigned) => {
            format!("({target}){value}")
        }
    }
}

/// What a reduction starts from; its value over nothing.
pub(crate) fn identity(op: ReduceOp, dtype: DType) -> String {
    constant(dtype, op.identity(dtype))
}

/// Two values of a reduction combined; not for `ArgMax` and `ArgMin`.
pub(crate) fn combined(op: ReduceOp, dtype: DType, a: &str, b: &str) -> String {
    self::op(op.combines(), dtype, [a, b, a])
}

/// Name of the function that says whether its first argument beats its second; `None` for reductions without an index.
pub(crate) fn beats(op: ReduceOp, dtype: DType) -> Option<String> {
    let name = match op {
        ReduceOp::ArgMax => "tl_more",
        ReduceOp::ArgMin => "tl_less",
        ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min => return None,
    };
    Some(if dtype.is_float() {
        format!("{name}_{}", register(dtype))
    } else {
        name.to_owned()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::write::{Text, preamble};
    use crate::{Target, corpus};
    use std::collections::HashSet;

    /// What an op is written with has to be in the helpers, else the kernel does not compile on the device.
    #[test]
    fn every_op_is_written_with_what_the_helpers_define() {
        let opencl = Target {
            dialect: Dialect::OpenClC,
            ..Target::CUDA
        };
        for target in [opencl, Target::CUDA] {
            let mut text = Text::default();
            preamble(&mut text, &target, true, false, false);
            let (text, _) = text.finish();
            for &op in ScalarOp::ALL {
                for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts().takes(dtype)) {
                    let value = computed(op, dtype, ["a", "b", "c"]);
                    if let Some((name, _)) = value.strip_prefix("tl_").and_then(|call| call.split_once('(')) {
                        // Families of dtypes are macros of `name`.
                        let definitions = [
                            format!("tl_{name}("),
                            format!("tl_{name} "),
                            format!("tl_{op}_##name("),
                        ];
                        let defined = definitions.iter().any(|definition| text.contains(definition));
                        assert!(defined, "{op} of {dtype}: {:?} has no tl_{name}", target.dialect);
                    }
                }
            }
        }
    }

    /// Otherwise a compiler that is given the declarations alone reads its whole header after all.
    #[test]
    fn all_that_programs_of_a_processor_call_is_declared() {
        let target = Target {
            dialect: Dialect::OpenClC,
            cpu: true,
            ..Target::CUDA
        };
        let declared = target.declarations();
        let declares = |word: &str| {
            let forms = [
                format!(" {word}("),
                format!("define {word}("),
                format!("type {word} "),
                format!("TL_LIBRARY {word}("),
            ];
            forms.iter().any(|form| declared.contains(form))
        };
        let inner = |at: char| at.is_ascii_alphanumeric() || at == '_';
        let mut called = HashSet::new();
        for program in corpus::programs(&target).unwrap() {
            let text = program.text;
            for (at, _) in text.match_indices('(') {
                let start = text[..at].trim_end_matches(inner).len();
                called.insert(text[start..at].to_owned());
            }
            // Functions under another name.
            let names = text.lines().filter_map(|line| line.strip_prefix("#define tl_"));
            let names = names.filter_map(|line| line.split_once(' '));
            called.extend(
                names
                    .filter(|(_, name)| name.chars().all(inner))
                    .map(|(_, name)| name.to_owned()),
            );
        }
        let known = "if for while switch return sizeof defined _Pragma vectorize";
        // Names that macros put together, and their parameters.
        let parameters = "_of_bits _of_f32 beats count from name";
        let own = |word: &str| {
            let mut known = known.split(' ').chain(parameters.split(' '));
            word.is_empty()
                || ["tl_", "TL_"].iter().any(|own| word.starts_with(own))
                || known.any(|own| own == word)
        };
        let mut missing: Vec<_> = called
            .into_iter()
            .filter(|word| !own(word) && !declares(word))
            .collect();
        missing.sort_unstable();
        assert_eq!(missing, Vec::<String>::new());
    }
}
