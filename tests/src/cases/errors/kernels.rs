//! Kernels and library ops that break a rule.

use super::refused;
use crate::check_eq;
use crate::kit::{Case, Check, Stop};
use crate::rig::{Device, Subject};
use std::ptr::null;
use thalweg_hal::ir::{self, Access, Kernel, KernelDesc, Level, NodeDesc, ParamDesc, Role, ScalarOp};
use thalweg_hal::library::LibraryDesc;
use thalweg_hal::tables::{CompileArgs, KernelTable, Source};
use thalweg_hal::{DType, Status, Str};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("errors", name, run);
    vec![
        case("kernel_sources", sources),
        case("kernel_descriptions", descriptions),
        case("kernel_codes", codes),
        case("kernel_rules", rules),
        case("kernel_options", options),
        case("library_descriptions", library),
    ]
}

pub(super) fn table(device: &Device) -> Result<&'static KernelTable, Stop> {
    device
        .raw()
        .tables
        .kernel
        .ok_or_else(|| Stop::Unsupported("the backend has no table of kernels".into()))
}

/// `out = a + s`.
pub(super) fn sample() -> Kernel {
    let mut kernel = Kernel::new("sample", 1, 0);
    let a = kernel.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let out = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let (value, scalar) = (kernel.load(a), kernel.scalar(DType::F32));
    let sum = kernel.op(ScalarOp::Add, &[value, scalar]);
    kernel.store(out, sum);
    kernel
}

fn args(device: &Device, source: Source) -> CompileArgs {
    CompileArgs {
        device: device.handle(),
        source,
        options: Str::EMPTY,
    }
}

/// Both `supports` and `compile` must refuse.
fn refuse(device: &Device, args: &CompileArgs, expected: &[Status], what: &str) -> Check {
    let (raw, table) = (device.raw(), table(device)?);
    let mut out = 0;
    // SAFETY: what the pointers lead to is readable as far as the counts that a backend may believe.
    unsafe {
        refused(
            raw,
            (table.compile)(raw.context, args, &raw mut out),
            expected,
            &format!("compile: {what}"),
        )?;
        let expected: Vec<_> = expected.iter().copied().chain([Status::Unsupported]).collect();
        refused(
            raw,
            (table.supports)(raw.context, args),
            &expected,
            &format!("supports: {what}"),
        )?;
    }
    check_eq!(out, 0, "handle of a kernel that was refused ({what})");
    Ok(())
}

fn with_desc(device: &Device, desc: &KernelDesc, expected: &[Status], what: &str) -> Check {
    let source = Source {
        kernel: desc,
        library: null(),
    };
    refuse(device, &args(device, source), expected, what)
}

fn sources(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    let owned = ir::encode(&sample());
    let desc = owned.desc();
    let library = LibraryDesc {
        op: 1,
        dtype_count: 3,
        dtypes: [2, 2, 2, 0, 0, 0, 0, 0],
        attributes: [0; 24],
        epilogue: null(),
    };
    let invalid = &[Status::InvalidArgument];
    let none = Source {
        kernel: null(),
        library: null(),
    };
    refuse(&device, &args(&device, none), invalid, "a source that is nothing")?;
    let both = Source {
        kernel: &raw const desc,
        library: &raw const library,
    };
    refuse(&device, &args(&device, both), invalid, "a source that is both")
}

fn descriptions(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    let owned = ir::encode(&sample());
    let good = owned.desc();
    let odd = |ptr: *const u8| ptr.wrapping_add(1);
    let bad = [
        (
            "no parameters",
            KernelDesc {
                params: null(),
                ..good
            },
        ),
        (
            "no scalars",
            KernelDesc {
                scalars: null(),
                ..good
            },
        ),
        (
            "no nodes",
            KernelDesc {
                nodes: null(),
                ..good
            },
        ),
        (
            "misaligned nodes",
            KernelDesc {
                nodes: odd(good.nodes.cast()).cast(),
                ..good
            },
        ),
        (
            "misaligned parameters",
            KernelDesc {
                params: odd(good.params.cast()).cast(),
                ..good
            },
        ),
        (
            "too many parameters",
            KernelDesc {
                param_count: usize::MAX,
                ..good
            },
        ),
        (
            "too many scalars",
            KernelDesc {
                scalar_count: 1 << 40,
                ..good
            },
        ),
        (
            "too many nodes",
            KernelDesc {
                node_count: usize::MAX / 2,
                ..good
            },
        ),
        ("too many outer axes", KernelDesc { outer: 9, ..good }),
        (
            "too many inner axes",
            KernelDesc {
                inner: u32::MAX,
                ..good
            },
        ),
        (
            "a null name",
            KernelDesc {
                name: Str { ptr: null(), len: 4 },
                ..good
            },
        ),
        (
            "an empty name",
            KernelDesc {
                name: Str::EMPTY,
                ..good
            },
        ),
        (
            "a name with a space",
            KernelDesc {
                name: Str::new("a b"),
                ..good
            },
        ),
        (
            "fewer nodes than it needs",
            KernelDesc {
                node_count: good.node_count - 1,
                ..good
            },
        ),
        (
            "a scalar too few",
            KernelDesc {
                scalar_count: 0,
                ..good
            },
        ),
        (
            "a parameter too few",
            KernelDesc {
                param_count: 1,
                ..good
            },
        ),
    ];
    for (what, desc) in bad {
        with_desc(
            &device,
            &desc,
            &[Status::InvalidArgument, Status::CompileFailed],
            what,
        )?;
    }
    let long = "n".repeat(129);
    let desc = KernelDesc {
        name: Str::new(&long),
        ..good
    };
    with_desc(
        &device,
        &desc,
        &[Status::InvalidArgument, Status::CompileFailed],
        "a name of 129 bytes",
    )?;
    device.compile(&sample()).map(drop)
}

fn codes(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    let owned = ir::encode(&sample());
    let good = owned.desc();
    // SAFETY: the description points into `owned`, which lives.
    let (params, nodes) = unsafe {
        (
            std::slice::from_raw_parts(good.params, good.param_count).to_vec(),
            std::slice::from_raw_parts(good.nodes, good.node_count).to_vec(),
        )
    };
    let invalid = &[
        Status::InvalidArgument,
        Status::Unsupported,
        Status::CompileFailed,
    ];
    for code in [0, 99, u32::MAX] {
        for (what, change) in [
            ("dtype", (|p, code| p.dtype = code) as fn(&mut ParamDesc, u32)),
            ("role", |p, code| p.role = code),
            ("level", |p, code| p.level = code),
            ("access", |p, code| p.access = code),
        ] {
            let mut params = params.clone();
            change(&mut params[0], code);
            let desc = KernelDesc {
                params: params.as_ptr(),
                ..good
            };
            with_desc(&device, &desc, invalid, &format!("a parameter's {what} {code}"))?;
        }
        let scalars = [code];
        let desc = KernelDesc {
            scalars: scalars.as_ptr(),
            ..good
        };
        with_desc(&device, &desc, invalid, &format!("a scalar's dtype {code}"))?;
    }
    for op in [0, 9, 0xff, 0x100, 0x1ff, 0x200, 0x2ff, u32::MAX] {
        let mut nodes = nodes.clone();
        nodes[2] = NodeDesc { op, ..nodes[2] };
        let desc = KernelDesc {
            nodes: nodes.as_ptr(),
            ..good
        };
        with_desc(&device, &desc, invalid, &format!("the opcode {op:#x}"))?;
    }
    Ok(())
}

fn rules(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    for (what, text) in [
        (
            "a node that uses a later one",
            "kernel k outer=1 inner=0\np0 out f32 row contiguous\nn0 = neg n1\nn1 = const f32 1.0\nn2 = store p0 n0",
        ),
        (
            "an output that is never stored",
            "kernel k outer=1 inner=0\np0 out f32 row contiguous",
        ),
        (
            "a load from an output",
            "kernel k outer=1 inner=0\np0 out f32 row contiguous\nn0 = load p0\nn1 = store p0 n0",
        ),
        (
            "a store of another dtype",
            "kernel k outer=1 inner=0\np0 out f32 row contiguous\nn0 = const i32 1\nn1 = store p0 n0",
        ),
        (
            "a reduction without an inner space",
            "kernel k outer=1 inner=0\np0 in f32 row contiguous\np1 out f32 row contiguous\nn0 = load p0\nn1 = sum n0\nn2 = store p1 n1",
        ),
        (
            "an element stored at row level",
            "kernel k outer=1 inner=1\np0 in f32 element contiguous\np1 out f32 row contiguous\nn0 = load p0\nn1 = store p1 n0",
        ),
        (
            "an op on two dtypes",
            "kernel k outer=1 inner=0\np0 out f32 row contiguous\nn0 = const f32 1.0\nn1 = const i32 1\nn2 = add n0 n1\nn3 = store p0 n0",
        ),
        (
            "an axis that is not there",
            "kernel k outer=1 inner=0\np0 out i64 row contiguous\nn0 = index 1\nn1 = store p0 n0",
        ),
        (
            "two stores to one output",
            "kernel k outer=1 inner=0\np0 out f32 row contiguous\nn0 = const f32 1.0\nn1 = store p0 n0\nn2 = store p0 n0",
        ),
    ] {
        let kernel = Kernel::parse(text).map_err(|error| Stop::Failed(format!("{what}: {error}")))?;
        let owned = ir::encode(&kernel);
        with_desc(
            &device,
            &owned.desc(),
            &[Status::CompileFailed, Status::InvalidArgument],
            what,
        )?;
    }
    Ok(())
}

fn options(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    device.compile(&sample())?;
    let owned = ir::encode(&sample());
    let desc = owned.desc();
    let source = Source {
        kernel: &raw const desc,
        library: null(),
    };
    let invalid = [0xff_u8, b'=', b'1'];
    for (what, options) in [
        ("an unknown option", Str::new("no-such-option=1")),
        ("an option without a value", Str::new("no-such-option")),
        ("options that are null", Str { ptr: null(), len: 3 }),
        (
            "options that are not UTF-8",
            Str {
                ptr: invalid.as_ptr(),
                len: 3,
            },
        ),
    ] {
        let (raw, table) = (device.raw(), table(&device)?);
        let args = CompileArgs {
            options,
            ..args(&device, source)
        };
        let mut out = 0;
        // SAFETY: the arguments live through the call.
        let code = unsafe { (table.compile)(raw.context, &raw const args, &raw mut out) };
        refused(raw, code, &[Status::InvalidArgument, Status::Unsupported], what)?;
    }
    Ok(())
}

fn library(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    let good = LibraryDesc {
        op: 1,
        dtype_count: 3,
        dtypes: [2, 2, 2, 0, 0, 0, 0, 0],
        attributes: [0; 24],
        epilogue: null(),
    };
    let dtypes = |dtypes: [u32; 3]| {
        let mut desc = good;
        desc.dtypes[..3].copy_from_slice(&dtypes);
        desc
    };
    let batch = |batch: i64| {
        let mut desc = good;
        desc.attributes[0] = batch;
        desc
    };
    for (what, desc) in [
        ("the op 0", LibraryDesc { op: 0, ..good }),
        ("an unknown op", LibraryDesc { op: 9999, ..good }),
        (
            "no dtypes",
            LibraryDesc {
                dtype_count: 0,
                ..good
            },
        ),
        (
            "more dtypes than there is room for",
            LibraryDesc {
                dtype_count: u32::MAX,
                ..good
            },
        ),
        ("an unknown dtype", dtypes([77, 2, 2])),
        ("the dtype 0", dtypes([2, 0, 2])),
        ("an accumulator that does not add", dtypes([3, 3, 3])),
        ("less than no batch axes", batch(-1)),
        ("more batch axes than there are", batch(7)),
        ("more batch axes than numbers", batch(i64::MAX)),
    ] {
        let source = Source {
            kernel: null(),
            library: &raw const desc,
        };
        let allowed = &[Status::InvalidArgument, Status::Unsupported];
        refuse(&device, &args(&device, source), allowed, what)?;
    }
    Ok(())
}
