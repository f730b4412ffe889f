//! Programs run on the CPU and compared with the walk.

use super::naive;
use crate::graph::{Graph, Type};
use crate::hal::library::LibraryOp;
use crate::hal::{self, Arg, Buffer, DType, Fill, Kernel, Launch};
use crate::lower::{Bounds, Given, Program, Scalar, Slot, Source, Step, Support, in_parts, lower};
use crate::tensor::layout::Layout;

/// The CPU's library ops: none, those without an epilogue, all; and all with convolutions that keep their channels first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cpu {
    None,
    Plain,
    All,
    ChannelsFirst,
}

impl Support for Cpu {
    fn library(&self, op: &LibraryOp) -> bool {
        let taken = match self {
            Cpu::None => false,
            Cpu::Plain => op.epilogue().is_none(),
            Cpu::All | Cpu::ChannelsFirst => true,
        };
        taken && Kernel::supports(&hal::device("cpu").unwrap(), op).is_ok()
    }

    fn channels_last(&self, _: DType) -> bool {
        !matches!(self, Cpu::ChannelsFirst)
    }
}

/// Cuts whatever may be cut, into single samples.
pub(super) const ALL: Bounds = Bounds {
    least: 0,
    part: 0,
    again: 0,
};

/// Runs a program on arguments of f32 or i64 and returns the outputs as f64.
fn run(program: &Program, inputs: &[(DType, Vec<f64>)]) -> Vec<Vec<f64>> {
    let device = hal::device("cpu").unwrap();
    let stream = device.default_stream().unwrap();
    let upload = |(dtype, data): &(DType, Vec<f64>)| match dtype {
        DType::F32 => Buffer::from_slice(&stream, &data.iter().map(|&v| v as f32).collect::<Vec<_>>()),
        DType::I64 => Buffer::from_slice(&stream, &data.iter().map(|&v| v as i64).collect::<Vec<_>>()),
        DType::Bool => Buffer::from_slice(&stream, &data.iter().map(|&v| v as u8).collect::<Vec<_>>()),
        other => panic!("{other}"),
    };
    let arguments: Vec<Buffer> = inputs.iter().map(|input| upload(input).unwrap()).collect();
    let locals: Vec<Buffer> = program
        .locals
        .iter()
        .map(|local| device.alloc(local.bytes).unwrap())
        .collect();
    let buffer = |slot: Slot| match slot {
        Slot::Input(at) => &arguments[at as usize],
        Slot::Local(at) => &locals[at as usize],
    };
    for step in &program.steps {
        match step {
            Step::Launch {
                source,
                launch:
                    crate::lower::Launch {
                        extents,
                        arguments,
                        scalars,
                    },
                ..
            } => {
                let kernel = match &**source {
                    Source::Kernel(kernel) => Kernel::compile(&device, kernel)
                        .unwrap_or_else(|error| panic!("{error}\n{}", kernel.to_text())),
                    Source::Library(op) => Kernel::compile(&device, op).unwrap(),
                };
                let args: Vec<Arg<'_>> = (arguments.iter())
                    .map(|argument| {
                        let mut arg = Arg::new(buffer(argument.slot)).offset(argument.offset);
                        if let Some(strides) = &argument.strides {
                            arg = arg.strides(strides);
                        }
                        arg.gather(argument.gather.0, argument.gather.1)
                    })
                    .collect();
                let scalars: Vec<u64> = (scalars.iter())
                    .map(|scalar| match scalar {
                        Scalar::Bits(bits) => *bits,
                        Scalar::Argument(at) => panic!("scalar argument {at}"),
                    })
                    .collect();
                let launch = Launch::new(&kernel, extents, &args).scalars(&scalars);
                stream
                    .launch(&launch)
                    .unwrap_or_else(|error| panic!("{error}\n{source:?}\n{extents:?} {arguments:?}"));
            }
            Step::Fill {
                slot,
                offset,
                bytes,
                pattern,
                pattern_bytes,
                ..
            } => {
                let fill = match pattern_bytes {
                    8 => Fill::new(buffer(*slot), *pattern),
                    4 => Fill::new(buffer(*slot), *pattern as u32),
                    _ => Fill::new(buffer(*slot), *pattern as u8),
                };
                stream.fill(&fill.range(*offset, *bytes)).unwrap();
            }
        }
    }
    let read = |at: usize| {
        let output = &program.outputs[at];
        let buffer = buffer(output.slot);
        let all: Vec<f64> = match output.ty.dtype {
            DType::F32 => buffer
                .download::<f32>(&stream)
                .unwrap()
                .iter()
                .map(|&v| f64::from(v))
                .collect(),
            DType::I64 => buffer
                .download::<i64>(&stream)
                .unwrap()
                .iter()
                .map(|&v| v as f64)
                .collect(),
            DType::Bool => buffer
                .download::<u8>(&stream)
                .unwrap()
                .iter()
                .map(|&v| f64::from(v))
                .collect(),
            other => panic!("{other}"),
        };
        let layout = &output.layout;
        naive::indices(&layout.shape)
            .map(|index| {
                let at: i64 = index
                    .iter()
                    .zip(layout.strides())
                    .map(|(&i, &s)| i as i64 * s)
                    .sum();
                all[(layout.offset as i64 + at) as usize]
            })
            .collect()
    };
    (0..program.outputs.len()).map(read).collect()
}

/// Random numbers of the type, the same every time.
fn data(ty: &Type, seed: u32) -> Vec<f64> {
    let mut generator = crate::random::Mt19937::new(seed);
    let mut next = || match ty.dtype {
        DType::F32 => f64::from(generator.random() as f32 - 0.5),
        DType::Bool => f64::from(generator.next_u32() & 1),
        _ => f64::from(generator.next_u32() % 7) - 2.0,
    };
    (0..ty.shape.elements()).map(|_| next()).collect()
}

/// The program of a graph on contiguous arguments.
pub(super) fn program(graph: &Graph, cpu: Cpu) -> Program {
    let given = |&input| Given::Buffer(Layout::contiguous(graph.node(input).ty.shape));
    let given: Vec<Given> = graph.inputs().iter().map(given).collect();
    lower(graph, &given, &cpu).unwrap()
}

/// Checks a graph on contiguous arguments, and returns its program.
#[track_caller]
pub(super) fn check(graph: &Graph) -> Program {
    let types: Vec<Type> = graph.inputs().iter().map(|&input| graph.node(input).ty).collect();
    let inputs: Vec<(DType, Vec<f64>)> = types
        .iter()
        .enumerate()
        .map(|(at, ty)| (ty.dtype, data(ty, at as u32)))
        .collect();
    let expected = naive::evaluate(
        graph,
        &inputs.iter().map(|(_, data)| data.clone()).collect::<Vec<_>>(),
    );
    for library in [Cpu::None, Cpu::Plain, Cpu::All, Cpu::ChannelsFirst] {
        let program = program(graph, library);
        let results = run(&program, &inputs);
        for (at, (result, expected)) in results.iter().zip(&expected).enumerate() {
            for (place, (&got, &wanted)) in result.iter().zip(expected).enumerate() {
                let same = got == wanted
                    || (got - wanted).abs() <= 1e-4 * wanted.abs().max(1.0)
                    || (got.is_nan() && wanted.is_nan());
                assert!(
                    same,
                    "output {at} at {place}: {got}, not {wanted}\n{graph:#?}\n{program:#?}"
                );
            }
            assert_eq!(result.len(), expected.len());
        }
        let steps = program.steps.len();
        let parts = in_parts(program, &ALL);
        if parts.steps.len() > steps {
            for (at, (result, whole)) in run(&parts, &inputs).iter().zip(&results).enumerate() {
                let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(
                    result.iter().zip(whole).all(same),
                    "output {at} in parts\n{parts:#?}"
                );
            }
        }
    }
    program(graph, Cpu::All)
}
