//! `thalweg.h` says the same as the Rust tables: it compiles as C99 and C++, and a C program sees the sizes, offsets and
//! codes that Rust sees.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_hal::ir::{self, Access, KernelDesc, Level, NodeDesc, ParamDesc, ReduceOp, Role, ScalarOp};
use thalweg_hal::library::{self, LibraryDesc};
use thalweg_hal::tables::*;
use thalweg_hal::{DType, Status, Str, manifest};

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Runs the compiler on `source` and returns the path of its output.
fn compile(compiler: &str, name: &str, source: &str, args: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, out) = (folder.join(name), folder.join(format!("{name}.out")));
    std::fs::write(&file, source).unwrap();
    let run = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic"])
        // ISO C promises 4095 characters of a string; the text of the structs has more.
        .arg("-Wno-overlength-strings")
        .args(args)
        .arg(format!("-I{}", include().display()))
        .args(["-o".as_ref(), out.as_os_str(), file.as_os_str()])
        .output()
        .unwrap_or_else(|error| panic!("this test needs the compiler `{compiler}`: {error}"));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    out
}

/// Maps `struct.field` to size and offset. The pattern does not compile when a field is left out.
macro_rules! layouts {
    ($($kind:ident { $($field:ident),* $(,)? })*) => {{
        let mut all = BTreeMap::new();
        $(
            let _ = |$kind { $($field: _),* }: $kind| ();
            $(all.insert(
                format!("thalweg_{}.{}", snake(stringify!($kind)), stringify!($field)),
                (size_of::<$kind>(), std::mem::offset_of!($kind, $field)),
            );)*
        )*
        all
    }};
}

fn layouts() -> BTreeMap<String, (usize, usize)> {
    layouts! {
        Str { ptr, len }
        BackendApi { abi, reserved, context, query_interface }
        Source { kernel, library }
        LogRecord { level, line, target, file, message }
        ParallelArgs { body, data, count, priority, reserved }
        TraceSpan { name, stream, start_ns, end_ns }
        Notice { kind, ordinal, message }
        HostApi { abi, log_level, context, log, parallel_for, max_threads, config, trace, notify }
        BackendInfo { name, version, driver }
        CoreTable { info, device_count, last_error, shutdown }
        DeviceProperties {
            name, arch, id, kind, compute_units, total_memory, capabilities, alignment, priority_low, priority_high
        }
        DeviceOptions { ordinal, reserved, memory_limit, block_size }
        DeviceTable { properties, is_available, open, close, synchronize, status, query }
        AllocArgs { device, bytes, stream, tag }
        ImportArgs { device, ptr, bytes, release, data }
        Place { buffer, host, offset, pitch }
        Copy { dst, src, width, rows }
        Fill { buffer, offset, bytes, pattern, pattern_bytes, reserved }
        MemoryStatistics {
            reserved, allocated, idle, eager_free, max_reserved, max_allocated, largest_free, limit, live, allocations,
            frees, reserves, retries, out_of_memory
        }
        MemoryInfo { free, total }
        MemoryRange { block, block_bytes, offset, bytes, buffer, usage, reserved }
        MemoryTable { alloc, free, import, map, size, trim, statistics, ranges, reset_peaks, set_limit, info }
        StreamArgs { device, priority, reserved }
        Tag { op, file, line, node }
        Binding { buffer, offset, strides, gather_stride, gather_extent }
        Launch { kernel, extents, extent_count, bindings, binding_count, scalars, scalar_count }
        Packet { kind, reserved, tag, launch, copy, fill }
        WaitEventArgs { stream, event }
        CallbackArgs { stream, function, data }
        StreamTable { create, destroy, launch, submit, query, wait_event, callback, synchronize }
        EventArgs { device, timing, reserved }
        EventStreamArgs { event, stream }
        EventWaitArgs { event, timeout_ns }
        ElapsedArgs { start, end }
        EventTable { create, destroy, record, query, wait, elapsed }
        NodeDesc { op, dtype, a, b, c, reserved, imm }
        ParamDesc { dtype, role, level, access }
        KernelDesc { name, outer, inner, params, param_count, scalars, scalar_count, nodes, node_count }
        LibraryDesc { op, dtype_count, dtypes, attributes, epilogue }
        CompileArgs { device, source, options }
        InspectArgs { kernel, program, part, buffer, capacity, len, programs }
        KernelTable { supports, compile, release, inspect }
        ProgramScalar { packet, scalar, argument, reserved }
        ProgramDependency { packet, earlier }
        ProgramInput { buffer, offset }
        ProgramArgs {
            device, packets, packet_count, dependencies, dependency_count, input_count, outputs, output_count, scratch,
            scratch_count, bound, bound_count, scalars, scalar_count, argument_count, constants, constant_count,
        }
        ProgramRebindArgs { program, slot, input }
        ProgramRunArgs {
            program, stream, inputs, input_count, arguments, argument_count, outputs, output_count, tag, missing,
        }
        ProgramTable { create, rebind, run, destroy }
        ProfileStartArgs { device, kinds, capacity }
        ProfileRecord {
            correlation, stream, object, bytes, queued_ns, start_ns, end_ns, packet, command, row, kind, flags, reserved,
        }
        ProfileDrainArgs { device, out, capacity, written, lost }
        ProfileCounter { name, unit, value }
        ProfileCountersArgs { device, out, capacity, count }
        ProfileTable { start, stop, correlate, drain, counters }
    }
}

/// `AllocArgs` as `alloc_args`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.char_indices() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Codes by their C names.
fn codes() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut add = |group: &str, name: &str, code: u64| {
        let name = name.to_uppercase().replace(' ', "_");
        assert!(all.insert(format!("THALWEG_{group}_{name}"), code).is_none());
    };
    // Where the words of messages differ, C has the Rust name.
    for status in Status::ALL {
        add(
            "STATUS",
            snake(&format!("{status:?}")).trim_start_matches('_'),
            *status as u64,
        );
    }
    for op in ReduceOp::ALL {
        add("REDUCE_OP", &op.name().replace("arg", "arg "), op.code().into());
    }
    DType::ALL
        .iter()
        .for_each(|dtype| add("DTYPE", dtype.name(), dtype.code().into()));
    TableId::ALL
        .iter()
        .for_each(|id| add("TABLE_ID", id.name(), *id as u64));
    ScalarOp::ALL
        .iter()
        .for_each(|op| add("SCALAR_OP", op.name(), op.code().into()));
    Role::ALL
        .iter()
        .for_each(|role| add("ROLE", role.name(), role.code().into()));
    Level::ALL
        .iter()
        .for_each(|level| add("LEVEL", level.name(), level.code().into()));
    Access::ALL
        .iter()
        .for_each(|access| add("ACCESS", access.name(), access.code().into()));
    ProfileKind::ALL
        .iter()
        .for_each(|(kind, name)| add("PROFILE_KIND", name, *kind as u64));
    MemoryUse::ALL
        .iter()
        .for_each(|(usage, name)| add("MEMORY_USE", name, *usage as u64));
    Capability::ALL
        .iter()
        .for_each(|(bit, name)| add("CAPABILITY", name, bit.bit()));
    for (group, name, code) in [
        ("KIND", "CPU", Kind::Cpu as u64),
        ("KIND", "GPU", Kind::Gpu as u64),
        ("KIND", "ACCELERATOR", Kind::Accelerator as u64),
        ("PACKET_KIND", "LAUNCH", PacketKind::Launch as u64),
        ("PACKET_KIND", "COPY", PacketKind::Copy as u64),
        ("PACKET_KIND", "FILL", PacketKind::Fill as u64),
        ("PROFILE_FLAG", "EXACT", ProfileFlag::Exact as u64),
        ("PROFILE_FLAG", "BRACKETED", ProfileFlag::Bracketed as u64),
        ("KERNEL_PART", "SOURCE", KernelPart::Source as u64),
        ("KERNEL_PART", "BINARY", KernelPart::Binary as u64),
        ("KERNEL_PART", "LOG", KernelPart::Log as u64),
        ("KERNEL_PART", "FACTS", KernelPart::Facts as u64),
        ("KERNEL_PART", "LINES", KernelPart::Lines as u64),
        ("LOG_LEVEL", "ERROR", LogLevel::Error as u64),
        ("LOG_LEVEL", "WARN", LogLevel::Warn as u64),
        ("LOG_LEVEL", "INFO", LogLevel::Info as u64),
        ("LOG_LEVEL", "DEBUG", LogLevel::Debug as u64),
        ("LOG_LEVEL", "TRACE", LogLevel::Trace as u64),
        ("NOTICE_KIND", "DEVICE_LOST", NoticeKind::DeviceLost as u64),
        (
            "NOTICE_KIND",
            "MEMORY_PRESSURE",
            NoticeKind::MemoryPressure as u64,
        ),
        ("PROPERTY_KEY", "L1_CACHE", PropertyKey::L1Cache as u64),
        ("PROPERTY_KEY", "L2_CACHE", PropertyKey::L2Cache as u64),
        ("PROPERTY_KEY", "L3_CACHE", PropertyKey::L3Cache as u64),
        ("PROPERTY_KEY", "VECTOR_BITS", PropertyKey::VectorBits as u64),
        ("PROPERTY_KEY", "THREADS", PropertyKey::Threads as u64),
        ("ABI", "MAJOR", ABI_MAJOR.into()),
        ("ABI", "MINOR", ABI_MINOR.into()),
        ("ABI", "VERSION", ABI_VERSION.into()),
        ("MAX", "RANK", ir::MAX_RANK as u64),
        ("MAX", "PARAMS", ir::MAX_PARAMS as u64),
        ("MAX", "SCALARS", ir::MAX_SCALARS as u64),
        ("MAX", "NODES", ir::MAX_NODES as u64),
        ("MAX", "NAME", ir::MAX_NAME as u64),
        ("OP", "CONST", ir::OP_CONST.into()),
        ("OP", "SCALAR", ir::OP_SCALAR.into()),
        ("OP", "LOAD", ir::OP_LOAD.into()),
        ("OP", "LOAD_AT", ir::OP_LOAD_AT.into()),
        ("OP", "INDEX", ir::OP_INDEX.into()),
        ("OP", "CAST", ir::OP_CAST.into()),
        ("OP", "RAND", ir::OP_RAND.into()),
        ("OP", "STORE", ir::OP_STORE.into()),
        ("OP", "SCALAR_OP", ir::OP_SCALAR_OP.into()),
        ("OP", "REDUCE_OP", ir::OP_REDUCE_OP.into()),
        ("LIBRARY", "MATMUL", library::MATMUL.into()),
        ("LIBRARY", "CONV", library::CONV.into()),
        ("LIBRARY", "CONV_GRAD_INPUT", library::CONV_GRAD_INPUT.into()),
        ("LIBRARY", "CONV_GRAD_WEIGHT", library::CONV_GRAD_WEIGHT.into()),
        ("LIBRARY", "SCATTER", library::SCATTER.into()),
        ("LIBRARY", "SCAN", library::SCAN.into()),
        ("LIBRARY", "SORT", library::SORT.into()),
        ("LIBRARY", "ATTENTION", library::ATTENTION.into()),
        ("MANIFEST", "NOTE_TYPE", manifest::NOTE_TYPE.into()),
        ("MANIFEST", "MAX_LEN", manifest::MAX_LEN as u64),
        ("MANIFEST", "MAX_NAME", manifest::MAX_NAME as u64),
    ] {
        add(group, name, code);
    }
    all
}

/// Texts by their C names.
const TEXTS: [(&str, &str); 7] = [
    ("THALWEG_ENTRY_SYMBOL", ENTRY_SYMBOL),
    ("THALWEG_LAYER_SYMBOL", LAYER_SYMBOL),
    ("THALWEG_MANIFEST_SECTION", manifest::SECTION),
    ("THALWEG_MANIFEST_ABI_TEXT", manifest::ABI_TEXT),
    ("THALWEG_MANIFEST_LAYER_KIND", manifest::LAYER_KIND),
    ("THALWEG_MANIFEST_LAYOUT", thalweg_hal::tables::LAYOUT),
    ("THALWEG_MANIFEST_ARCH", std::env::consts::ARCH),
];

#[test]
fn it_compiles_alone() {
    let plugin = "#include \"thalweg.h\"\nTHALWEG_MANIFEST(\"name=a\\nkind=cpu\\nversion=1.0.0\");\n";
    compile("cc", "alone.c", plugin, &["-std=c99", "-c"]);
    compile("c++", "alone.cpp", plugin, &["-std=c++11", "-c"]);
}

#[test]
fn c_sees_what_rust_sees() {
    let (layouts, codes) = (layouts(), codes());
    let mut source = String::from("#include <stdio.h>\n#include \"thalweg.h\"\nint main(void) {\n");
    let mut expected = Vec::new();
    for (path, (size, offset)) in &layouts {
        let (kind, field) = path.split_once('.').unwrap();
        writeln!(
            source,
            "printf(\"{path} %zu %zu\\n\", sizeof({kind}), offsetof({kind}, {field}));"
        )
        .unwrap();
        expected.push(format!("{path} {size} {offset}"));
    }
    for (name, code) in &codes {
        writeln!(source, "printf(\"{name} %llu\\n\", (unsigned long long){name});").unwrap();
        expected.push(format!("{name} {code}"));
    }
    for (name, text) in TEXTS {
        writeln!(source, "puts({name});").unwrap();
        expected.push(text.into());
    }
    source += "return 0;\n}\n";
    let run = Command::new(compile("cc", "layout.c", &source, &["-std=c99"]))
        .output()
        .unwrap();
    let seen = String::from_utf8(run.stdout).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn everything_in_the_header_is_compared() {
    let header = std::fs::read_to_string(include().join("thalweg.h")).unwrap();
    let (layouts, codes) = (layouts(), codes());
    let mut compared = 0;
    for line in header.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("typedef struct ") {
            let name = rest.split(' ').next().unwrap();
            let prefix = format!("{name}.");
            assert!(
                layouts.keys().any(|path| path.starts_with(&prefix)),
                "{name} is not compared"
            );
            compared += 1;
        }
        let name = line
            .strip_prefix("#define ")
            .unwrap_or(line)
            .split([' ', ','])
            .next()
            .unwrap();
        let text = TEXTS.iter().any(|(text, _)| *text == name);
        // Macros with arguments are no values. `it_compiles_alone` and the plugins in C use them.
        if name.contains('(') {
            continue;
        }
        if name.starts_with("THALWEG_") && !text && !["THALWEG_H", "THALWEG_EXPORT"].contains(&name) {
            assert!(codes.contains_key(name), "{name} is not compared");
            compared += 1;
        }
    }
    assert!(compared > 150, "the header has only {compared} names");
}
