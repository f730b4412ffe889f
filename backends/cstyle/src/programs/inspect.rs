//! What is shown of the programs of a kernel.

use super::{Builder, Compiler, Variants};
use crate::{Routine, Source, Variant};
use std::fmt::Write;
use thalweg_hal::tables::KernelPart;
use thalweg_hal::{Error, Result};

impl Routine {
    /// A part of the program of a variant, as [`Device::inspect`](thalweg_hal::backend::Device::inspect) returns it. `name` is the
    /// kernel's.
    ///
    /// # Errors
    /// Those of the compiler, which may run once more for binary and log.
    pub fn inspect<C: Compiler, T>(
        &self,
        (name, builder): (&str, &Builder<C>),
        variants: &Variants<T>,
        program: usize,
        part: KernelPart,
    ) -> Result<Vec<u8>> {
        let variant = (variants.nth(program))
            .ok_or_else(|| Error::invalid_argument(format!("kernel {name} has no program {program}")))?;
        let source = self.render(&variant)?;
        Ok(match part {
            KernelPart::Source => source.text.into_bytes(),
            KernelPart::Binary => builder.artefact(name, &source.text)?.0,
            KernelPart::Log => builder.artefact(name, &source.text)?.1.into_bytes(),
            KernelPart::Facts => self.facts(&variant, &source, &builder.options).into_bytes(),
            KernelPart::Lines => lines(&source).into_bytes(),
            part => {
                return Err(Error::unsupported(format!(
                    "this backend does not show the {} of kernels",
                    part.name()
                )));
            }
        })
    }

    fn facts(&self, variant: &Variant, source: &Source, options: &str) -> String {
        let dialect = self.target().dialect;
        [
            ("extension", dialect.extension().to_owned()),
            ("language", dialect.language().to_owned()),
            ("options", options.to_owned()),
            ("form", format!("{:?}", variant.form)),
            ("entries", source.entries.join(" ")),
            ("group_size", variant.group.to_string()),
            ("lanes", variant.lanes.to_string()),
            ("index_bits", if variant.wide { "64" } else { "32" }.to_owned()),
            ("in_place", variant.in_place.to_string()),
            ("axes_of_rows", variant.outer.to_string()),
            ("axes_walked", variant.inner.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect()
    }
}

fn lines(source: &Source) -> String {
    let mut text = String::new();
    for (line, node) in &source.lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line} {node}");
    }
    text
}
