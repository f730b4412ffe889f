use super::*;
use crate::ir::proptests::any_kernel;
use proptest::prelude::*;

const EXAMPLE: &str = "\
kernel energy outer=0 inner=1
p0 in f32 element contiguous
p1 out f32 row contiguous
s0 f32
n0 = load p0
n1 = const f32 1.0
n2 = scalar s0
n3 = sub n0 n1
n4 = loadat p0 n9
n5 = index 0
n6 = cast f64 n3
n7 = rand n1 n2
n8 = sum n3
n9 = store p1 n8
n10 = max n3
n11 = max n3 n4
n12 = select n1 n2 n3
";

#[test]
fn the_example_reads_and_prints() {
    let kernel = parse(EXAMPLE).unwrap();
    assert_eq!(print(&kernel), EXAMPLE);
    assert_eq!(
        kernel.nodes[10],
        Node::Reduce {
            op: ReduceOp::Max,
            arg: NodeId(3)
        }
    );
    let max = Node::Op {
        op: ScalarOp::Max,
        args: [NodeId(3), NodeId(4), NodeId(3)],
    };
    assert_eq!(kernel.nodes[11], max);
    let commented = format!("# a comment\n\n  {}", EXAMPLE.replace('\n', "   # more\r\n\n"));
    assert_eq!(parse(&commented).unwrap(), kernel);
}

#[test]
fn constants() {
    let cases = [
        (DType::F32, 0x3f80_0000, "1.0"),
        (DType::F32, 0x8000_0000, "-0.0"),
        (DType::F32, 0x7f80_0000, "inf"),
        (DType::F32, 0x7fc0_0001, "0x7fc00001"),
        (DType::F32, 1, "1e-45"),
        (DType::F64, (0.1f64).to_bits(), "0.1"),
        (DType::F64, u64::MAX, "0xffffffffffffffff"),
        (DType::F16, 0x2e66, "0.1"),
        (DType::F16, 0x7bff, "65500.0"),
        (DType::F16, 0xfc00, "-inf"),
        (DType::F16, 1, "6e-8"),
        (DType::BF16, 0x3dcd, "0.1"),
        (DType::BF16, 0x7f7f, "3.39e38"),
        (DType::BF16, 0x7fc0, "0x7fc0"),
        (DType::F8E4M3, 0x7e, "450.0"),
        (DType::F8E4M3, 0x7f, "0x7f"),
        (DType::F8E4M3, 0x81, "-0.002"),
        (DType::F8E5M2, 0x7c, "inf"),
        (DType::F8E5M2, 0x2e, "0.09"),
        (DType::I8, 0x80, "-128"),
        (DType::I64, u64::MAX, "-1"),
        (DType::U64, u64::MAX, "18446744073709551615"),
        (DType::U8, 0x100, "0x100"),
        (DType::Bool, 1, "true"),
        (DType::Bool, 2, "0x2"),
    ];
    for (dtype, bits, text) in cases {
        assert_eq!(literal(dtype, bits), text, "{dtype} {bits:#x}");
        assert_eq!(parse_literal(dtype, text), Ok(bits), "{dtype} {text}");
    }
}

#[test]
fn every_narrow_float_is_read_back() {
    for bits in 0..=u64::from(u16::MAX) {
        for dtype in [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2] {
            let bits = bits & (u64::MAX >> (64 - 8 * dtype.size()));
            assert_eq!(
                parse_literal(dtype, &literal(dtype, bits)),
                Ok(bits),
                "{dtype} {bits:#x}"
            );
        }
    }
}

#[test]
fn errors_name_the_line_and_the_word() {
    let at = |body: &str| {
        parse(&format!("kernel k outer=1 inner=0\n{body}"))
            .unwrap_err()
            .to_string()
    };
    let whole = |text: &str| parse(text).unwrap_err().to_string();
    let long = "n0 = ".to_owned() + &"x".repeat(100_000);
    let cases = [
        (whole(""), "line 1: no line `kernel NAME outer=N inner=N`"),
        (
            whole("\nn0 = index 0"),
            "line 2: expected `kernel NAME outer=N inner=N`, found `n0`",
        ),
        (
            whole("kernel"),
            "line 1: expected a kernel name, found the end of the line",
        ),
        (
            whole("kernel a/b outer=1 inner=0"),
            "line 1: `a/b` is not a kernel name",
        ),
        (
            whole("kernel k outer=9 inner=0"),
            "line 1: 9 outer axes, the limit is 8",
        ),
        (
            whole("kernel k outer=99999999999 inner=0"),
            "line 1: expected `outer=N`, found `outer=99999999999`",
        ),
        (at("n1 = index 0"), "line 2: expected `n0`, found `n1`"),
        (at("n0 index 0"), "line 2: expected `=`, found `index`"),
        (at("n0 = index +1"), "line 2: expected `N`, found `+1`"),
        (at("n0 = load n0"), "line 2: expected `pN`, found `n0`"),
        (
            at("n0 = add n0"),
            "line 2: expected `nN`, found the end of the line",
        ),
        (
            at("n0 = max n0 n0 n0"),
            "line 2: expected the end of the line, found `n0`",
        ),
        (
            at("n0 = argmax n0 n0"),
            "line 2: expected the end of the line, found `n0`",
        ),
        (at("n0 = frob n0"), "line 2: unknown op `frob`"),
        (
            at(&long),
            "line 2: unknown op `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`",
        ),
        (
            at("p0 in f33 row strided"),
            "line 2: expected a dtype, found `f33`",
        ),
        (
            at("p0 inout f32 row strided"),
            "line 2: expected `in` or `out`, found `inout`",
        ),
        (
            at("q0"),
            "line 2: expected a parameter, scalar or node, found `q0`",
        ),
        (at("n0 = const f32 nan"), "line 2: `nan` is not a constant of f32"),
        (at("n0 = const f32 1e39"), "line 2: `1e39` is too large for f32"),
        (at("n0 = const f16 65520"), "line 2: `65520` is too large for f16"),
        (
            at("n0 = const f8e4m3 465"),
            "line 2: `465` is too large for f8e4m3",
        ),
        (
            at("n0 = const f8e4m3 inf"),
            "line 2: `inf` is too large for f8e4m3",
        ),
        (at("n0 = const i8 128"), "line 2: `128` is not a constant of i8"),
        (at("n0 = const u8 -1"), "line 2: `-1` is not a constant of u8"),
        (at("n0 = const u8 0x"), "line 2: `0x` is not a constant of u8"),
        (at("n0 = const u8 0x+1"), "line 2: `0x+1` is not a constant of u8"),
        (at("n0 = const bool 1"), "line 2: `1` is not a constant of bool"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn limits_hold_while_parsing() {
    let mut text = "kernel k outer=1 inner=0\n".to_owned();
    for i in 0..=MAX_SCALARS {
        text += &format!("s{i} u8\n");
    }
    assert_eq!(
        parse(&text).unwrap_err().to_string(),
        "line 66: `s64` is beyond the limit of 64"
    );
}

proptest! {
    #[test]
    fn parse_undoes_print(kernel in any_kernel()) {
        let text = print(&kernel);
        prop_assert_eq!(parse(&text), Ok(kernel));
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = parse(&text);
    }

    #[test]
    fn no_damaged_kernel_panics(kernel in any_kernel(), cut: prop::sample::Index, junk in "[ -~]{0,4}") {
        let mut text = print(&kernel);
        text.insert_str(cut.index(text.len()), &junk);
        if let Ok(other) = parse(&text) {
            let _ = other.verify();
        }
    }
}
