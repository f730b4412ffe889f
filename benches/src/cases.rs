//! Cases with the names that `benches/peers` uses. Every call makes a new result, as there.

use crate::kernels;
use thalweg::hal::{Buffer, DType, Device, Element, Kernel, Launch, Result, Stream};
use thalweg_hal::library::{Attention, LibraryOp, Matmul};

/// What bounds a case.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Bytes read and written, each once.
    Bytes(f64),
    /// Floating-point operations.
    Flops(f64),
    /// Floating-point operations, and bytes read and written: what takes longer.
    FlopsOrBytes(f64, f64),
    /// Operations on integers of 8 bits that are summed in 32.
    Dots(f64),
    /// Operations on numbers of bf16 that are summed in f32.
    HalfDots(f64),
    /// The same by AMX.
    HalfSquares(f64),
}

/// One case, ready to run.
pub struct Case {
    /// Its name, as in `benches/peers/cases.py`.
    pub name: String,
    /// What bounds it.
    pub limit: Limit,
    /// Runs it once, to the end.
    pub run: Box<dyn FnMut() -> Result<()>>,
}

pub(crate) fn filled(stream: &Stream, len: usize) -> Result<Buffer> {
    filled_with(stream, len, |value| value)
}

fn filled_with<T: Element>(stream: &Stream, len: usize, of: impl Fn(f32) -> T) -> Result<Buffer> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let data: Vec<T> = (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            of((state >> 40) as f32 / (1 << 24) as f32 * 2.0 - 1.0)
        })
        .collect();
    Buffer::from_slice(stream, &data)
}

/// Makes a case on a device.
type Make = fn(&Device) -> Result<Case>;

/// The cases of fused kernels and reductions whose names are wanted.
///
/// # Errors
/// Those of allocation and compilation.
pub fn kernels(device: &Device, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let all: [(&str, Make); 9] = [
        ("energy_1e8", energy),
        ("softmax_1024x1024", |device| {
            rows(
                device,
                "softmax_1024x1024",
                &kernels::softmax(),
                [1024, 1024],
                false,
            )
        }),
        ("layernorm_4096x768", |device| {
            rows(
                device,
                "layernorm_4096x768",
                &kernels::layer_norm(768),
                [4096, 768],
                true,
            )
        }),
        ("add_1e7", |device| fresh(device, "add_1e7", &kernels::add(), 2)),
        ("gelu_1e7", |device| {
            fresh(device, "gelu_1e7", &kernels::gelu(), 1)
        }),
        ("sum_axis0_4096", |device| {
            sum(device, "sum_axis0_4096", [1, 4096])
        }),
        ("sum_axis1_4096", |device| {
            sum(device, "sum_axis1_4096", [4096, 1])
        }),
        ("argmax_1e7", argmax),
        ("transpose_4096", transpose),
    ];
    (all.into_iter().filter(|(name, _)| wanted(name)))
        .map(|(_, make)| make(device))
        .collect()
}

fn energy(device: &Device) -> Result<Case> {
    const N: usize = 100_000_000;
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, &kernels::energy())?;
    let (x, owner) = (filled(&stream, N)?, device.clone());
    let run = move || {
        let out = owner.alloc(4)?;
        let scalars = [1.0_f32.bits(), 1.0_f32.bits()];
        stream.launch(&Launch::new(&kernel, &[N as u64], &[x.arg(), out.arg()]).scalars(&scalars))?;
        stream.synchronize()
    };
    Ok(Case {
        name: "energy_1e8".into(),
        limit: Limit::Bytes(4e8),
        run: Box::new(run),
    })
}

fn rows(
    device: &Device,
    name: &str,
    ir: &thalweg::hal::ir::Kernel,
    [outer, inner]: [usize; 2],
    affine: bool,
) -> Result<Case> {
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, ir)?;
    let x = filled(&stream, outer * inner)?;
    let (scale, shift) = (filled(&stream, inner)?, filled(&stream, inner)?);
    let bytes = 4 * (outer * inner) as u64;
    let owner = device.clone();
    let run = move || {
        let out = owner.alloc(bytes)?;
        let per_row = [0, 1];
        let affine_args = [
            x.arg(),
            scale.arg().strides(&per_row),
            shift.arg().strides(&per_row),
            out.arg(),
        ];
        let plain_args = [x.arg(), out.arg()];
        let args = if affine { &affine_args[..] } else { &plain_args[..] };
        stream.launch(&Launch::new(&kernel, &[outer as u64, inner as u64], args))?;
        stream.synchronize()
    };
    Ok(Case {
        name: name.into(),
        limit: Limit::Bytes(2.0 * bytes as f64),
        run: Box::new(run),
    })
}

fn fresh(device: &Device, name: &str, ir: &thalweg::hal::ir::Kernel, inputs: usize) -> Result<Case> {
    const N: usize = 10_000_000;
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, ir)?;
    let buffers = (0..inputs)
        .map(|_| filled(&stream, N))
        .collect::<Result<Vec<_>>>()?;
    let owner = device.clone();
    let run = move || {
        let out = owner.alloc(4 * N as u64)?;
        let args: Vec<_> = buffers.iter().chain([&out]).map(Buffer::arg).collect();
        stream.launch(&Launch::new(&kernel, &[N as u64], &args))?;
        stream.synchronize()
    };
    let bytes = 4.0 * N as f64 * (inputs + 1) as f64;
    Ok(Case {
        name: name.into(),
        limit: Limit::Bytes(bytes),
        run: Box::new(run),
    })
}

fn sum(device: &Device, name: &str, strides: [i64; 2]) -> Result<Case> {
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, &kernels::sum())?;
    let (x, owner) = (filled(&stream, 4096 * 4096)?, device.clone());
    let run = move || {
        let out = owner.alloc(4 * 4096)?;
        stream.launch(&Launch::new(
            &kernel,
            &[4096, 4096],
            &[x.arg().strides(&strides), out.arg()],
        ))?;
        stream.synchronize()
    };
    Ok(Case {
        name: name.into(),
        limit: Limit::Bytes(4.0 * 4096.0 * 4096.0),
        run: Box::new(run),
    })
}

fn argmax(device: &Device) -> Result<Case> {
    const N: usize = 10_000_000;
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, &kernels::argmax())?;
    let (x, owner) = (filled(&stream, N)?, device.clone());
    let run = move || {
        let out = owner.alloc(8)?;
        stream.launch(&Launch::new(&kernel, &[N as u64], &[x.arg(), out.arg()]))?;
        stream.synchronize()
    };
    Ok(Case {
        name: "argmax_1e7".into(),
        limit: Limit::Bytes(4.0 * N as f64),
        run: Box::new(run),
    })
}

fn transpose(device: &Device) -> Result<Case> {
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, &kernels::copy())?;
    let x = filled(&stream, 4096 * 4096)?;
    let owner = device.clone();
    let run = move || {
        let out = owner.alloc(4 * 4096 * 4096)?;
        stream.launch(&Launch::new(
            &kernel,
            &[4096, 4096],
            &[x.arg().strides(&[1, 4096]), out.arg()],
        ))?;
        stream.synchronize()
    };
    Ok(Case {
        name: "transpose_4096".into(),
        limit: Limit::Bytes(8.0 * 4096.0 * 4096.0),
        run: Box::new(run),
    })
}

/// The cases of matrix products whose names are wanted.
///
/// # Errors
/// Those of allocation and compilation.
pub fn products(device: &Device, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let plain = [false; 2];
    let squares =
        [32, 64, 96, 128, 256, 512, 1024, 2048].map(|n| (format!("matmul_{n}"), [1, n, n, n], plain));
    // Batch, rows, columns and terms, and whether the first and the second matrix lie by columns.
    let others = [
        ("matmul_256x32", [256, 32, 32, 32], plain),
        ("matmul_32x128", [32, 128, 128, 128], plain),
        ("matmul_128x512x784", [1, 128, 512, 784], plain),
        ("matmul_16x1024x1024", [1, 16, 1024, 1024], plain),
        ("matmul_1024x16x1024", [1, 1024, 16, 1024], plain),
        ("matmul_1024x1024x16", [1, 1024, 1024, 16], plain),
        ("matmul_first_by_columns_512", [1, 512, 512, 512], [true, false]),
        ("matmul_second_by_columns_64", [1, 64, 64, 64], [false, true]),
        ("matmul_second_by_columns_512", [1, 512, 512, 512], [false, true]),
        ("gemv_4096", [1, 4096, 1, 4096], plain),
        ("gemv_by_rows_4096", [1, 1, 4096, 4096], plain),
    ];
    let others = others.map(|(name, extents, by_columns)| (name.to_owned(), extents, by_columns));
    let mut cases = Vec::new();
    for (name, extents, by_columns) in squares.into_iter().chain(others) {
        if wanted(&name) {
            cases.push(matmul(device, name, extents, by_columns, [DType::F32; 2])?);
        }
    }
    let halves = [
        ("matmul_bf16_1024", DType::BF16),
        ("matmul_bf16_f32_1024", DType::F32),
    ];
    for (name, output) in halves.into_iter().filter(|(name, _)| wanted(name)) {
        cases.push(matmul(
            device,
            name.into(),
            [1, 1024, 1024, 1024],
            plain,
            [DType::BF16, output],
        )?);
    }
    let integers = [
        ("matmul_u8_i8_1024", [DType::U8, DType::I8]),
        ("matmul_i8_1024", [DType::I8, DType::I8]),
    ];
    for (name, operands) in integers.into_iter().filter(|(name, _)| wanted(name)) {
        cases.push(integer_matmul(device, name, operands)?);
    }
    let attentions = [
        ("attention_12x512", [12, 512, 512], false),
        ("attention_causal_8x2048", [8, 2048, 2048], true),
        ("attention_decode_32x2048", [32, 1, 2048], false),
    ];
    for (name, extents, causal) in attentions.into_iter().filter(|(name, ..)| wanted(name)) {
        cases.push(attention(device, name, extents, causal)?);
    }
    Ok(cases)
}

fn by_amx(device: &Device) -> bool {
    device.properties().arch.contains(" amx_bf16")
}

/// Of heads, each with queries, keys and values of 64 numbers.
fn attention(device: &Device, name: &str, [heads, queries, keys]: [usize; 3], causal: bool) -> Result<Case> {
    let depth = 64;
    let stream = device.create_stream()?;
    let op = LibraryOp::Attention(Attention {
        batch: 1,
        causal,
        mask: None,
        dtype: DType::F32,
        accumulate: DType::F32,
    });
    let kernel = Kernel::compile(device, &op)?;
    let fill = |positions: usize| filled(&stream, heads * positions * depth);
    let (q, k, v) = (fill(queries)?, fill(keys)?, fill(keys)?);
    let (owner, bytes) = (device.clone(), 4 * (heads * queries * depth) as u64);
    let [of_queries, of_keys, row] = [queries * depth, keys * depth, depth].map(|step| step as i64);
    let extents = [heads, queries, depth, keys, depth].map(|extent| extent as u64);
    let scale = (1.0 / (depth as f32).sqrt()).bits();
    let (on_q, on_out) = ([of_queries, row, 0, 0, 1], [of_queries, row, 1]);
    let (on_k, on_v) = ([of_keys, 0, 0, row, 1], [of_keys, 0, 1, row, 0]);
    let run = move || {
        let out = owner.alloc(bytes)?;
        let args = [
            q.arg().strides(&on_q),
            k.arg().strides(&on_k),
            v.arg().strides(&on_v),
            out.arg().strides(&on_out),
        ];
        stream.launch(&Launch::new(&kernel, &extents, &args).scalars(&[scale]))?;
        stream.synchronize()
    };
    let seen = match causal {
        true => queries * (queries + 1) / 2,
        false => queries * keys,
    };
    // One query waits for memory.
    let limit = match queries {
        1 => Limit::Bytes(8.0 * (heads * keys * depth) as f64),
        _ => Limit::Flops(4.0 * (heads * depth) as f64 * seen as f64),
    };
    Ok(Case {
        name: name.into(),
        limit,
        run: Box::new(run),
    })
}

/// Square matrices of 1024 rows of bytes, the second one of constants as any other.
fn integer_matmul(device: &Device, name: &str, operands: [DType; 2]) -> Result<Case> {
    const N: usize = 1024;
    let stream = device.create_stream()?;
    let op = LibraryOp::Matmul(Matmul {
        batch: 0,
        operands,
        accumulate: DType::I32,
        output: DType::I32,
        epilogue: None,
    });
    let kernel = Kernel::compile(device, &op)?;
    let bytes: Vec<u8> = (0..N * N)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let (a, b) = (
        Buffer::from_slice(&stream, &bytes)?,
        Buffer::from_slice(&stream, &bytes)?,
    );
    let (n, owner) = (N as i64, device.clone());
    let (on_a, on_b, on_out) = ([n, 0, 1], [0, 1, n], [n, 1]);
    let run = move || {
        let out = owner.alloc(4 * (N * N) as u64)?;
        let args = [
            a.arg().strides(&on_a),
            b.arg().strides(&on_b),
            out.arg().strides(&on_out),
        ];
        stream.launch(&Launch::new(&kernel, &[N as u64; 3], &args))?;
        stream.synchronize()
    };
    Ok(Case {
        name: name.into(),
        limit: Limit::Dots(2.0 * (N * N * N) as f64),
        run: Box::new(run),
    })
}

/// Of f32 or bf16, as the dtypes of operands and result say.
fn matmul(
    device: &Device,
    name: String,
    [batch, m, n, k]: [usize; 4],
    [a_by_columns, b_by_columns]: [bool; 2],
    [dtype, output]: [DType; 2],
) -> Result<Case> {
    let stream = device.create_stream()?;
    let accumulate = DType::F32;
    let op = LibraryOp::Matmul(Matmul {
        batch: 1,
        operands: [dtype; 2],
        accumulate,
        output,
        epilogue: None,
    });
    let kernel = Kernel::compile(device, &op)?;
    let fill = |len: usize| match dtype {
        DType::BF16 => filled_with(&stream, len, thalweg_hal::dtype::types::bf16::from_f32),
        _ => filled(&stream, len),
    };
    let (a, b) = (fill(batch * m * k)?, fill(batch * k * n)?);
    let (owner, bytes) = (device.clone(), (output.size() * batch * m * n) as u64);
    let signed = |values: [usize; 4]| values.map(|value| value as i64);
    let on_a = signed(match a_by_columns {
        true => [m * k, 1, 0, m],
        false => [m * k, k, 0, 1],
    });
    let on_b = signed(match b_by_columns {
        true => [k * n, 0, k, 1],
        false => [k * n, 0, 1, n],
    });
    let on_out = [(m * n) as i64, n as i64, 1];
    let extents = [batch, m, n, k].map(|extent| extent as u64);
    let run = move || {
        let out = owner.alloc(bytes)?;
        let args = [
            a.arg().strides(&on_a),
            b.arg().strides(&on_b),
            out.arg().strides(&on_out),
        ];
        stream.launch(&Launch::new(&kernel, &extents, &args))?;
        stream.synchronize()
    };
    // A product with a vector waits for memory.
    let operations = 2.0 * (batch * m) as f64 * (n * k) as f64;
    let limit = match (m.min(n), dtype) {
        (1, _) => Limit::Bytes((dtype.size() * batch * m.max(n) * k) as f64),
        (_, DType::BF16) if by_amx(device) => Limit::HalfSquares(operations),
        (_, DType::BF16) => Limit::HalfDots(operations),
        _ => Limit::Flops(operations),
    };
    Ok(Case {
        name,
        limit,
        run: Box::new(run),
    })
}
