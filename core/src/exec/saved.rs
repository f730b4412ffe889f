//! The files of one graph that is compiled, and of its program.

use super::evaluate::How;
use super::executable::Executable;
use crate::context::{Context, Level, Saves};
use crate::engine::{Engine, kernel_meta};
use crate::graph::{Graph, NodeId};
use crate::hal::KernelPart;
use crate::lower::{Argument, Program, Scalar, Slot, Source, Step};
use crate::record::flight;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

/// Longest name of a function in the name of a file.
const NAME_BYTES: usize = 100;

/// Saves what becomes of one graph; nothing where nobody asked, or where the graph is no function's.
pub(super) struct Saving<'a> {
    to: Option<(&'a Saves, String)>,
    /// Whether the flight recorder keeps it, and under which number.
    in_flight: Option<Option<usize>>,
    device: &'a str,
    passes: usize,
}

impl<'a> Saving<'a> {
    /// Of a graph that is compiled so.
    pub(super) fn of(context: &'a Context, how: How) -> Saving<'a> {
        let name = |name: &str| of_file(name) + if how.part { ".part" } else { "" };
        Saving {
            to: context.saves().zip(how.name.map(name)),
            in_flight: (how.name.is_some() && flight::is_on()).then_some(None),
            device: context.device().target(),
            passes: 0,
        }
    }

    /// Saves the graph of a stage.
    pub(super) fn graph(&mut self, stage: &str, graph: &Graph) {
        self.keep(|| graph.annotated(&mut |_, _| {}));
        self.stage(stage, graph);
    }

    /// Hands a text to the flight recorder, in place of that of the stage before.
    fn keep(&mut self, text: impl FnOnce() -> String) {
        if let Some(number) = &mut self.in_flight {
            *number = flight::graph(*number, &format!("# device {}\n{}", self.device, text()));
        }
    }

    fn stage(&self, stage: &str, graph: &Graph) {
        let Some((saves, name)) = &self.to else { return };
        let sorted = saves.by_calls().then(|| graph.by_calls());
        let graph = sorted.as_ref().unwrap_or(graph);
        let text = graph.annotated(&mut |_, _| {});
        self.write(saves, &format!("{name}_{stage}"), graph, &text);
    }

    /// Saves the graph after a pass, where every pass is asked for.
    pub(super) fn pass(&mut self, pass: &str, graph: &Graph) {
        self.passes += 1;
        if (self.to.as_ref()).is_some_and(|(saves, _)| saves.level() >= Level::Passes) {
            self.stage(&format!("pass{}_{pass}", self.passes), graph);
        }
    }

    /// Saves the program of a rewritten graph, and its kernels where they are asked for.
    pub(super) fn program(&mut self, rewritten: &Graph, program: &Program) {
        self.keep(|| of_program(rewritten, program).1);
        let Some((saves, name)) = &self.to else { return };
        let (graph, text) = of_program(rewritten, program);
        self.write(saves, &format!("{name}_program"), &graph, &text);
        if saves.level() < Level::Kernels {
            return;
        }
        let mut written = HashSet::new();
        for step in &program.steps {
            if let Step::Launch { source, .. } = step
                && written.insert(Arc::as_ptr(source))
            {
                let (text, kernel) = (of_kernel(source, program), of_file(source.name()));
                let text = format!("# device {}\n{text}", self.device);
                saves.write(&format!("{name}_kernel_{kernel}"), &[("kernel", text.as_str())]);
            }
        }
    }

    /// Has the sources of its kernels saved when it has run, where kernels are asked for.
    pub(super) fn sources(&self, executable: Executable) -> Executable {
        match &self.to {
            Some((saves, name)) if saves.level() >= Level::Kernels => {
                executable.saving_sources((*saves).clone(), name.clone())
            }
            Some(_) | None => executable,
        }
    }

    fn write(&self, saves: &Saves, name: &str, graph: &Graph, text: &str) {
        let text = format!("# device {}\n{text}", self.device);
        match saves.level() >= Level::Passes {
            true => saves.write(name, &[("ir", text.as_str()), ("dot", graph.to_dot().as_str())]),
            false => saves.write(name, &[("ir", text.as_str())]),
        }
    }
}

/// Saves what the backend wrote for kernels, each once. A backend that writes no source has no such file.
pub(super) fn save_sources<'a>(
    engine: &Engine,
    saves: &Saves,
    name: &str,
    sources: impl Iterator<Item = &'a Arc<Source>>,
) {
    let mut written = HashSet::new();
    for source in sources.filter(|source| written.insert(Arc::as_ptr(source))) {
        let Ok(kernel) = engine.kernel(source) else {
            continue;
        };
        let of = format!("{name}_source_{}", of_file(source.name()));
        for program in 0..u32::try_from(kernel.programs().unwrap_or(0)).unwrap_or(u32::MAX) {
            match kernel_meta::text(&kernel, program, KernelPart::Source) {
                Ok(text) if !text.is_empty() => {
                    let facts = kernel_meta::facts(&kernel, program);
                    saves.write(&of, &[(kernel_meta::extension(&facts), text.as_str())]);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// The name of a function as part of the name of a file: `networks::step` is `networks.step`.
fn of_file(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.replace("::", ".")
        .chars()
        .map(plain)
        .take(NAME_BYTES)
        .collect()
}

/// The nodes of a program in the order in which its steps compute them, and the text of that: each step as a comment in front of what it
/// computes.
fn of_program(rewritten: &Graph, program: &Program) -> (Graph, String) {
    let steps = steps_of(rewritten, program);
    let (graph, moved) = rewritten.ordered(|id| steps[id.index()]);
    let mut step_at = vec![usize::MAX; moved.len()];
    for (id, to) in moved.iter().enumerate() {
        step_at[to.index()] = steps[id];
    }
    let inputs = graph.inputs().len();
    let mut said = 0;
    let mut text = graph.annotated(&mut |id, out| {
        // Behind the inputs, which come first.
        if id.index() >= inputs {
            let to = step_at[id.index()].saturating_add(1).min(program.steps.len());
            said = said_to(out, program, said, to);
        }
    });
    let mut rest = String::new();
    said_to(&mut rest, program, said, program.steps.len());
    let end = text.rfind("return").unwrap_or(text.len());
    text.insert_str(end, &rest);
    (graph, locals(program) + &text)
}

/// The step that computes each node: the first one that has it done for those in a buffer, the first that needs it for the others.
fn steps_of(graph: &Graph, program: &Program) -> Vec<usize> {
    let mut steps = vec![usize::MAX; graph.nodes().len()];
    for stored in &program.stored {
        steps[stored.node.index()] = stored.after.saturating_sub(1);
    }
    let in_buffer: HashSet<NodeId> = program.stored.iter().map(|stored| stored.node).collect();
    for (at, node) in graph.nodes().iter().enumerate().rev() {
        for input in &node.inputs {
            if !in_buffer.contains(input) {
                steps[input.index()] = steps[input.index()].min(steps[at]);
            }
        }
    }
    steps
}

fn locals(program: &Program) -> String {
    let mut text = String::new();
    for (at, local) in program.locals.iter().enumerate() {
        push(&mut text, format_args!("# local {at}: {} B\n", local.bytes));
    }
    for (at, output) in program.outputs.iter().enumerate() {
        let (slot, layout) = (slot(output.slot), &output.layout);
        let strides = layout.strides();
        push(
            &mut text,
            format_args!(
                "# output {at}: {slot} from element {}, strides {strides:?}\n",
                layout.offset
            ),
        );
    }
    text
}

/// Writes the steps from `from` to `to` as comments; how many were written then.
fn said_to(out: &mut String, program: &Program, from: usize, to: usize) -> usize {
    for (at, step) in program.steps.iter().enumerate().take(to).skip(from) {
        push(out, format_args!("# step {at}: {}\n", of_step(step)));
    }
    from.max(to)
}

fn of_step(step: &Step) -> String {
    match step {
        Step::Launch { source, launch, .. } => {
            let arguments = launch.arguments.iter().map(of_argument);
            let scalars = launch.scalars.iter().map(|scalar| match scalar {
                Scalar::Bits(bits) => format!("bits {bits:#x}"),
                Scalar::Argument(at) => format!("scalar {at}"),
            });
            let with: Vec<String> = arguments.chain(scalars).collect();
            format!("{} over {:?}: {}", source.name(), launch.extents, with.join(", "))
        }
        Step::Fill {
            slot: of,
            offset,
            bytes,
            pattern,
            ..
        } => format!("fill {bytes} B of {} at {offset} with {pattern:#x}", slot(*of)),
    }
}

fn of_argument(argument: &Argument) -> String {
    let mut text = slot(argument.slot);
    if argument.offset > 0 {
        push(&mut text, format_args!(" at {}", argument.offset));
    }
    if let Some(strides) = &argument.strides {
        push(&mut text, format_args!(" strides {strides:?}"));
    }
    if argument.gather != (0, 0) {
        let (step, count) = argument.gather;
        push(&mut text, format_args!(" gather {count} by {step}"));
    }
    text
}

fn slot(slot: Slot) -> String {
    match slot {
        Slot::Input(at) => format!("input {at}"),
        Slot::Local(at) => format!("local {at}"),
    }
}

/// The text of a kernel, or of what a library op computes.
fn of_kernel(source: &Source, program: &Program) -> String {
    let mut text = String::new();
    for (at, step) in program.steps.iter().enumerate() {
        if let Step::Launch {
            source: of, launch, ..
        } = step
            && std::ptr::eq(&**of, source)
        {
            push(&mut text, format_args!("# step {at} over {:?}\n", launch.extents));
        }
    }
    match source {
        Source::Kernel(kernel) => text += &kernel.to_text(),
        Source::Library(op) => {
            push(&mut text, format_args!("# library op {op:?}\n"));
            match op.definition() {
                Ok(kernel) => text += &kernel.to_text(),
                Err(refusal) => push(&mut text, format_args!("# {refusal}\n")),
            }
        }
    }
    text
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}
