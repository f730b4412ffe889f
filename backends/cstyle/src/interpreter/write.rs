//! The program that interprets kernels.

use super::{AXES, Code, HEAD, NODE, NODES, PARAM, POINTERS, codes, wide};
use crate::write::{Text, preamble};
use crate::{Source, Target, scalar};
use thalweg_hal::DType;
use thalweg_hal::ir::{ReduceOp, Returns, ScalarOp};

/// Its loops, which do not depend on the cases.
const LOOPS: &str = include_str!("loops.cl");

/// Writes the program for a target.
pub(crate) fn source(target: &Target) -> Source {
    let mut text = Text::default();
    preamble(&mut text, target, target.fp64, true);
    let has = |dtypes: &[DType]| target.fp64 || !dtypes.contains(&DType::F64);
    let all = || codes().iter().enumerate();
    text.open("TL_FN u64 tl_step(const i64 code, const u64 x, const u64 y, const u64 z)");
    text.open("switch (code)");
    for (number, code) in all() {
        match *code {
            Code::Op(op, dtype) if has(&[dtype]) => step(&mut text, number, op, dtype),
            Code::Cast(from, to) if has(&[from, to]) => {
                let (a, value) = (get(from, "x"), scalar::cast(from, to, "a"));
                text.line(format!(
                    "case {number}: {{ const {} a = {a}; const {} v = {value}; return {}; }}",
                    scalar::register(from),
                    scalar::register(to),
                    put(to, "v")
                ));
            }
            _ => {}
        }
    }
    text.close();
    text.line("return 0;");
    text.close();
    text.open("TL_FN u64 tl_load(const i64 code, TL_GLOBAL const char *const at)");
    text.open("switch (code)");
    for (number, code) in all() {
        if let Code::Memory(dtype) = *code
            && has(&[dtype])
        {
            let memory = scalar::memory(dtype);
            let value = scalar::loaded(dtype, "m");
            text.line(format!(
                "case {number}: {{ const {memory} m = *(TL_GLOBAL const {memory} *)at; const {} v = {value}; return {}; }}",
                scalar::register(dtype),
                put(dtype, "v")
            ));
        }
    }
    text.close();
    text.line("return 0;");
    text.close();
    text.open("TL_FN void tl_store(const i64 code, TL_GLOBAL char *const at, const u64 x)");
    text.open("switch (code)");
    for (number, code) in all() {
        if let Code::Memory(dtype) = *code
            && has(&[dtype])
        {
            let (memory, register) = (scalar::memory(dtype), scalar::register(dtype));
            text.line(format!(
                "case {number}: {{ const {register} a = {}; *(TL_GLOBAL {memory} *)at = {}; return; }}",
                get(wide(dtype), "x"),
                scalar::stored(dtype, "a")
            ));
        }
    }
    text.close();
    text.close();
    reductions(&mut text, &has);
    for (name, value) in [
        ("POINTERS", POINTERS),
        ("NODES", NODES),
        ("HEAD", HEAD),
        ("AXES", AXES),
        ("PARAM", PARAM),
        ("NODE", NODE),
    ] {
        text.line(format!("#define TL_{name} {value}"));
    }
    text.line(format!("#define TL_CPU {}", u8::from(target.cpu)));
    text.raw(LOOPS);
    let arguments: Vec<String> = (0..POINTERS).map(|p| format!("TL_GLOBAL char *b{p}")).collect();
    let pointers: Vec<String> = (0..POINTERS).map(|p| format!("b{p}")).collect();
    text.open(format!(
        "TL_KERNEL void tl_generic({}, TL_GLOBAL const i64 *words)",
        arguments.join(", ")
    ));
    text.line(format!(
        "TL_GLOBAL char *const pointers[{POINTERS}] = {{{}}};",
        pointers.join(", ")
    ));
    text.line("tl_run(pointers, words);");
    text.close();
    Source {
        text: text.into_string(),
        entries: vec!["tl_generic".into()],
        pointers: POINTERS,
        words_by_value: false,
    }
}

fn step(text: &mut Text, number: usize, op: ScalarOp, dtype: DType) {
    let register = scalar::register(dtype);
    let first = match op {
        ScalarOp::Select => DType::Bool,
        _ => dtype,
    };
    let returned = match op.returns() {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    };
    let mut line = format!(
        "case {number}: {{ const {} a = {};",
        scalar::register(first),
        get(first, "x")
    );
    for (name, word) in [("b", "y"), ("c", "z")].into_iter().take(op.arity() - 1) {
        line.push_str(&format!(" const {register} {name} = {};", get(dtype, word)));
    }
    let value = scalar::op(op, dtype, ["a", "b", "c"]);
    line.push_str(&format!(
        " const {} v = {value}; return {}; }}",
        scalar::register(returned),
        put(returned, "v")
    ));
    text.line(line);
}

fn reductions(text: &mut Text, has: &dyn Fn(&[DType]) -> bool) {
    let all = || {
        let of = |(number, code): (usize, &Code)| match *code {
            Code::Reduce(op, dtype) if has(&[dtype]) => Some((number, op, dtype)),
            _ => None,
        };
        codes().iter().enumerate().filter_map(of)
    };
    text.open("TL_FN u64 tl_identity(const i64 code)");
    text.open("switch (code)");
    for (number, op, dtype) in all() {
        let (register, value) = (scalar::register(dtype), scalar::identity(op, dtype));
        text.line(format!(
            "case {number}: {{ const {register} v = {value}; return {}; }}",
            put(dtype, "v")
        ));
    }
    text.close();
    text.line("return 0;");
    text.close();
    // Whether the result is an index, whose best value is kept beside it.
    text.open("TL_FN bool tl_is_index(const i64 code)");
    text.open("switch (code)");
    for (number, op, _) in all() {
        if matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin) {
            text.line(format!("case {number}: return true;"));
        }
    }
    text.close();
    text.line("return false;");
    text.close();
    text.open("TL_FN u64 tl_combine(const i64 code, const u64 x, const u64 y)");
    text.open("switch (code)");
    for (number, op, dtype) in all() {
        if scalar::beats(op, dtype).is_none() {
            let (register, value) = (scalar::register(dtype), scalar::combined(op, dtype, "a", "b"));
            text.line(format!(
                "case {number}: {{ const {register} a = {}, b = {}; const {register} v = {value}; return {}; }}",
                get(dtype, "x"),
                get(dtype, "y"),
                put(dtype, "v")
            ));
        }
    }
    text.close();
    text.line("return 0;");
    text.close();
    text.open(
        "TL_FN void tl_next(const i64 code, u64 *const best, u64 *const place, const u64 x, const i64 index)",
    );
    text.line("i64 at = (i64)*place;");
    text.open("switch (code)");
    for (number, op, dtype) in all() {
        if let Some(beats) = scalar::beats(op, dtype) {
            let register = scalar::register(dtype);
            text.line(format!(
                "case {number}: {{ {register} a = {}; const {register} b = {}; TL_NEXT({beats}, a, at, b, index) *best = {}; \
                 break; }}",
                get(dtype, "*best"),
                get(dtype, "x"),
                put(dtype, "a")
            ));
        }
    }
    text.close();
    text.line("*place = (u64)at;");
    text.close();
}

/// The value of a register in a word.
fn get(dtype: DType, word: &str) -> String {
    match dtype {
        DType::F64 | DType::F32 => format!("tl_{dtype}_of_bits({word})"),
        DType::Bool => format!("({word} != 0)"),
        _ => format!("({})({word})", scalar::register(dtype)),
    }
}

/// The word of a register's value.
fn put(dtype: DType, value: &str) -> String {
    match wide(dtype) {
        DType::F64 => format!("tl_bits_of_f64({value})"),
        DType::F32 => format!("(u64)tl_bits_of_f32({value})"),
        _ => format!("(u64){value}"),
    }
}
