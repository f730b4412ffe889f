//! The packets of a capture as text.

use crate::text::line;
use std::collections::HashMap;
use std::io::{self, Write};
use thalweg_layers::captured::{Call, Contents, Copy, End, File, Handle, Kernel, Packet, Source, Tag, Work};

/// Names of kernels by backend and handle.
pub(super) fn kernels(file: &File) -> HashMap<(u32, Handle), String> {
    let named = file.records.iter().filter_map(|record| {
        let kernel = record.call.kernel()?;
        Some(((record.backend, kernel.kernel), kernel.source.name()))
    });
    named.collect()
}

/// What a packet does, in a word or two.
pub(super) fn name(packet: &Packet, backend: u32, kernels: &HashMap<(u32, Handle), String>) -> String {
    match &packet.work {
        Work::Launch(launch) => match kernels.get(&(backend, launch.kernel)) {
            Some(name) => name.clone(),
            None => format!("kernel {:#x}", launch.kernel),
        },
        Work::Copy(copy) => match (&copy.dst, &copy.src) {
            (End::To(_), _) => "copy to host".to_owned(),
            (_, End::From(_)) => "copy from host".to_owned(),
            (End::Buffer(_) | End::From(_), End::Buffer(_) | End::To(_)) => "copy".to_owned(),
        },
        Work::Fill(_) => "fill".to_owned(),
    }
}

/// Where a packet comes from: `matmul at src/main.rs:7`.
pub(super) fn origin(tag: &Tag) -> String {
    match (tag.op.as_str(), tag.line) {
        ("", _) => "work without a name".to_owned(),
        (op, 0) => op.to_owned(),
        (op, number) => format!("{op} at {}:{number}", tag.file),
    }
}

/// Where the result of a number was read back.
pub(super) fn place_of(file: &File, number: u64) -> String {
    let mut mine = file.packets().filter(|(_, packet)| match &packet.work {
        Work::Copy(Copy { dst: End::To(to), .. }) => *to == number,
        Work::Copy(_) | Work::Launch(_) | Work::Fill(_) => false,
    });
    mine.next().map_or_else(
        || "its copy is not in the file".to_owned(),
        |(_, packet)| origin(&packet.tag),
    )
}

/// Writes kernels, programs and packets in order.
pub(super) fn write(file: &File, out: &mut dyn Write) -> io::Result<()> {
    let kernels = kernels(file);
    for record in &file.records {
        if let Some(kernel) = record.call.kernel() {
            source(kernel, out)?;
        } else if let Call::CreateProgram(program) = &record.call {
            writeln!(out, "program {:#x}:", program.program)?;
            packets(&program.packets, record.backend, &kernels, out)?;
        } else if let Call::Run(run) = &record.call {
            writeln!(out, "run program {:#x}", run.program)?;
        } else {
            packets(record.call.packets(), record.backend, &kernels, out)?;
        }
    }
    Ok(())
}

fn source(kernel: &Kernel, out: &mut dyn Write) -> io::Result<()> {
    let handle = kernel.kernel;
    match &kernel.source {
        Source::Kernel(text) => {
            writeln!(out, "kernel {handle:#x}:")?;
            for row in text.lines() {
                writeln!(out, "  {}", line(row))?;
            }
        }
        Source::Library { .. } => {
            let name = kernel.source.name();
            writeln!(out, "kernel {handle:#x}: library op {}", line(&name))?;
        }
    }
    Ok(())
}

fn packets(
    list: &[Packet],
    backend: u32,
    kernels: &HashMap<(u32, Handle), String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for packet in list {
        let text = format!(
            "{}{}, {}",
            name(packet, backend, kernels),
            details(packet),
            origin(&packet.tag)
        );
        writeln!(out, "  {}", line(&text))?;
    }
    Ok(())
}

fn details(packet: &Packet) -> String {
    match &packet.work {
        Work::Launch(launch) => {
            let buffers: Vec<String> = (launch.bindings.iter())
                .map(|binding| format!("{:#x}+{}", binding.buffer, binding.offset))
                .collect();
            format!(" {:?} ({})", launch.extents, buffers.join(", "))
        }
        Work::Copy(copy) => {
            let kept = match packet.contents() {
                None => "",
                Some(Contents::Data(_)) => " of known contents",
                Some(Contents::Hash(_)) => " of contents that were not kept",
                Some(Contents::Seed { .. }) => " of stand-in values",
            };
            format!(" {} × {} B{kept}", copy.rows, copy.width)
        }
        Work::Fill(fill) => format!(" {} B", fill.bytes),
    }
}
