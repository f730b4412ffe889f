use super::*;

fn message(text: &str) -> String {
    let kernel = Kernel::parse(text).unwrap();
    kernel.verify().unwrap_err().to_string()
}

fn ranked(outer: u32, inner: u32, body: &str) -> String {
    message(&format!("kernel k outer={outer} inner={inner}\n{body}"))
}

#[test]
fn types_and_levels_of_a_softmax() {
    let kernel = Kernel::parse(
        "kernel softmax outer=1 inner=1\np0 in f16 element contiguous\np1 out f16 element strided\n\
         n0 = load p0\nn1 = cast f32 n0\nn2 = max n1\nn3 = sub n1 n2\nn4 = exp n3\nn5 = sum n4\n\
         n6 = div n4 n5\nn7 = cast f16 n6\nn8 = store p1 n7\n",
    )
    .unwrap();
    let info = kernel.verify().unwrap();
    let (f16, f32, row, element) = (Some(DType::F16), Some(DType::F32), Level::Row, Level::Element);
    assert_eq!(info.dtypes, [f16, f32, f32, f32, f32, f32, f32, f16, None]);
    assert_eq!(
        info.levels,
        [
            element, element, row, element, element, row, element, element, element
        ]
    );
}

#[test]
fn one_line_per_broken_rule() {
    let io = "p0 in f32 row contiguous\np1 out f32 row contiguous\n";
    let with = |body: &str| ranked(1, 0, &format!("{io}{body}"));
    let cases = [
        (with("n0 = load p0"), "p1 is an output and never stored"),
        (with("n0 = load p1"), "n0 load: p1 is an output"),
        (with("n0 = load p2"), "n0 load: there is no p2"),
        (with("n0 = load p0\nn1 = store p0 n0"), "n1 store: p0 is an input"),
        (
            with("n0 = load p0\nn1 = store p1 n0\nn2 = store p1 n0"),
            "n2 store: p1 is already stored by n1",
        ),
        (
            with("n0 = load p0\nn1 = store p1 n0\nn2 = neg n1"),
            "n2 neg: n1 is a store and has no value",
        ),
        (
            with("n0 = neg n0"),
            "n0 neg: n0 comes later or is the node itself",
        ),
        (with("n0 = neg n7"), "n0 neg: there is no n7"),
        (
            with("n0 = load p0\nn1 = const i32 1\nn2 = add n0 n1"),
            "n2 add: arguments have dtypes f32 and i32; cast one of them",
        ),
        (
            with("n0 = load p0\nn1 = not n0"),
            "n1 not: n0 is f32, which the op does not take; cast it",
        ),
        (
            with("n0 = load p0\nn1 = select n0 n0 n0"),
            "n1 select: the condition n0 is f32, not bool; cast it",
        ),
        (
            with("n0 = load p0\nn1 = loadat p0 n0"),
            "n1 loadat: the index n0 is f32, not i64; cast it",
        ),
        (
            with("n0 = index 0\nn1 = rand n0 n0"),
            "n1 rand: the key n0 is i64, not u64; cast it",
        ),
        (
            with("n0 = index 1"),
            "n0 index: there is no axis 1; the kernel has 1 outer and 0 inner axes",
        ),
        (
            with("n0 = load p0\nn1 = sum n0"),
            "n1 sum: a reduction in a kernel without inner axes",
        ),
        (with("n0 = scalar s0"), "n0 scalar: there is no s0"),
        (
            with("n0 = const bool 0x2"),
            "n0 const: the bits 0x2 do not fit bool",
        ),
        (
            with("n0 = const f16 0x10000"),
            "n0 const: the bits 0x10000 do not fit f16",
        ),
        (
            with("n0 = index 0\nn1 = store p1 n0"),
            "n1 store: n0 is i64 and p1 is f32; cast the value",
        ),
        (
            ranked(1, 0, "p0 in f32 element strided"),
            "p0 is declared element, but the kernel has no inner axes",
        ),
        (
            ranked(1, 0, "p0 out f32 row broadcast"),
            "p0 is an output and declared broadcast",
        ),
        (
            ranked(1, 1, "p0 in f32 row strided\nn0 = load p0\nn1 = sum n0"),
            "n1 sum: n0 is the same along the whole inner space; there is nothing to reduce",
        ),
        (
            ranked(1, 1, "p0 in f16 element strided\nn0 = load p0\nn1 = sum n0"),
            "n1 sum: n0 is f16, which the reduction does not take; cast it",
        ),
        (
            ranked(
                1,
                1,
                "p0 in f32 element strided\np1 out f32 row strided\nn0 = load p0\nn1 = store p1 n0",
            ),
            "n1 store: n0 is at element level and p1 at row level; reduce the value",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn limits_and_names() {
    let error = |kernel: &Kernel| kernel.verify().unwrap_err().message;
    assert_eq!(error(&Kernel::new("k", 9, 0)), "9 outer axes, the limit is 8");
    assert_eq!(
        error(&Kernel::new("k", 0, u32::MAX)),
        "4294967295 inner axes, the limit is 8"
    );
    for name in ["", "a b", "ä", &"x".repeat(129)] {
        assert!(
            error(&Kernel::new(name, 0, 0)).starts_with("kernel name `"),
            "{name}"
        );
    }
    assert!(Kernel::new("x".repeat(128), 8, 8).verify().is_ok());

    let mut kernel = Kernel::new("k", 0, 0);
    for _ in 0..=MAX_NODES {
        kernel.push(Node::Index { axis: 0 });
    }
    assert_eq!(error(&kernel), "4097 nodes, the limit is 4096");
}

#[test]
fn padding_repeats_the_first_argument() {
    let mut kernel = Kernel::new("k", 1, 0);
    let (a, b) = (kernel.const_f32(1.0), kernel.const_f32(2.0));
    kernel.push(Node::Op {
        op: ScalarOp::Neg,
        args: [a, b, a],
    });
    let error = kernel.verify().unwrap_err();
    assert_eq!(error.node, Some(NodeId(2)));
    assert_eq!(
        error.message,
        "n2 neg: arguments beyond the arity do not repeat the first"
    );
}

#[test]
fn unused_parameters_are_allowed() {
    assert!(
        Kernel::parse("kernel k outer=0 inner=0\np0 in u8 row broadcast\ns0 bool")
            .unwrap()
            .verify()
            .is_ok()
    );
}
