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
    preamble(&mut text, target, target.fp64, true, false);
    steps(&mut text, target);
    memory(&mut text, target);
    reductions(&mut text, target);
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
    let (text, lines) = text.finish();
    Source {
        text,
        lines,
        entries: vec!["tl_generic".into()],
        pointers: POINTERS,
        words_by_value: false,
    }
}

/// The codes that a target takes, with their numbers.
fn all(target: &Target) -> impl Iterator<Item = (usize, Code)> + use<> {
    let fp64 = target.fp64;
    let has = move |code: &Code| {
        let dtypes = match *code {
            Code::Cast(from, to) => [from, to],
            Code::Op(_, dtype) | Code::Reduce(_, dtype) | Code::Memory(dtype) => [dtype; 2],
        };
        fp64 || !dtypes.contains(&DType::F64)
    };
    codes()
        .iter()
        .copied()
        .enumerate()
        .filter(move |(_, code)| has(code))
}

/// A function that does what the first of its arguments says, or returns `other`.
fn switch(text: &mut Text, head: &str, cases: impl Iterator<Item = (usize, String)>, other: Option<&str>) {
    text.open(format!("TL_FN {head}"));
    text.open("switch (code)");
    for (number, case) in cases {
        text.line(format!("case {number}: {case}"));
    }
    text.close();
    if let Some(other) = other {
        text.line(format!("return {other};"));
    }
    text.close();
}

fn steps(text: &mut Text, target: &Target) {
    let case = |(number, code)| match code {
        Code::Op(op, dtype) => Some((number, step(op, dtype))),
        Code::Cast(from, to) => {
            let (a, value) = (get(from, "x"), scalar::cast(from, to, "a"));
            let (source, target, v) = (scalar::register(from), scalar::register(to), put(to, "v"));
            let case = format!("{{ const {source} a = {a}; const {target} v = {value}; return {v}; }}");
            Some((number, case))
        }
        Code::Reduce(..) | Code::Memory(_) => None,
    };
    let head = "u64 tl_step(const i64 code, const u64 x, const u64 y, const u64 z)";
    switch(text, head, all(target).filter_map(case), Some("0"));
}

fn step(op: ScalarOp, dtype: DType) -> String {
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
    let mut case = format!("{{ const {} a = {};", scalar::register(first), get(first, "x"));
    for (name, word) in [("b", "y"), ("c", "z")].into_iter().take(op.arity() - 1) {
        case.push_str(&format!(" const {register} {name} = {};", get(dtype, word)));
    }
    let value = scalar::op(op, dtype, ["a", "b", "c"]);
    let (register, v) = (scalar::register(returned), put(returned, "v"));
    case + &format!(" const {register} v = {value}; return {v}; }}")
}

fn memory(text: &mut Text, target: &Target) {
    let all = || {
        all(target).filter_map(|(number, code)| match code {
            Code::Memory(dtype) => Some((number, dtype, scalar::memory(dtype), scalar::register(dtype))),
            _ => None,
        })
    };
    let load = |(number, dtype, memory, register)| {
        let (value, v) = (scalar::loaded(dtype, "m"), put(dtype, "v"));
        let at = format!("*(TL_GLOBAL const {memory} *)at");
        let case = format!("{{ const {memory} m = {at}; const {register} v = {value}; return {v}; }}");
        (number, case)
    };
    let head = "u64 tl_load(const i64 code, TL_GLOBAL const char *const at)";
    switch(text, head, all().map(load), Some("0"));
    let store = |(number, dtype, memory, register)| {
        let (a, element) = (get(wide(dtype), "x"), scalar::stored(dtype, "a"));
        let at = format!("*(TL_GLOBAL {memory} *)at");
        let case = format!("{{ const {register} a = {a}; {at} = {element}; return; }}");
        (number, case)
    };
    let head = "void tl_store(const i64 code, TL_GLOBAL char *const at, const u64 x)";
    switch(text, head, all().map(store), None);
}

fn reductions(text: &mut Text, target: &Target) {
    let all = || {
        all(target).filter_map(|(number, code)| match code {
            Code::Reduce(op, dtype) => Some((number, op, dtype, scalar::register(dtype))),
            _ => None,
        })
    };
    let identity = |(number, op, dtype, register)| {
        let (value, v) = (scalar::identity(op, dtype), put(dtype, "v"));
        let case = format!("{{ const {register} v = {value}; return {v}; }}");
        (number, case)
    };
    let head = "u64 tl_identity(const i64 code)";
    switch(text, head, all().map(identity), Some("0"));
    // Whether the result is an index, whose best value is kept beside it.
    let is_index = |(number, op, ..): (usize, _, DType, _)| {
        matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin).then(|| (number, "return true;".to_owned()))
    };
    let head = "bool tl_is_index(const i64 code)";
    switch(text, head, all().filter_map(is_index), Some("false"));
    let combine = |(number, op, dtype, register)| {
        let (value, v) = (scalar::combined(op, dtype, "a", "b"), put(dtype, "v"));
        let (a, b) = (get(dtype, "x"), get(dtype, "y"));
        let case =
            format!("{{ const {register} a = {a}, b = {b}; const {register} v = {value}; return {v}; }}");
        scalar::beats(op, dtype).is_none().then_some((number, case))
    };
    let head = "u64 tl_combine(const i64 code, const u64 x, const u64 y)";
    switch(text, head, all().filter_map(combine), Some("0"));
    text.open(
        "TL_FN void tl_next(const i64 code, u64 *const best, u64 *const place, const u64 x, const i64 index)",
    );
    text.line("i64 at = (i64)*place;");
    text.open("switch (code)");
    for (number, op, dtype, register) in all() {
        if let Some(beats) = scalar::beats(op, dtype) {
            let (a, b, best) = (get(dtype, "*best"), get(dtype, "x"), put(dtype, "a"));
            text.line(format!(
                "case {number}: {{ {register} a = {a}; const {register} b = {b}; TL_NEXT({beats}, a, at, b, index) *best = {best}; \
                 break; }}"
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
