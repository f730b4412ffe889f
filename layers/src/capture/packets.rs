//! Packets, programs and host memory as records.

use super::Capture;
use super::options::Keep;
use super::sink;
use crate::captured::{
    self, Answer, Binding, Call, Contents, End, Fill, Given, Launch, Packet, Part, Place, Program, Tag, Work,
    hash,
};
use crate::layer;
use std::borrow::Cow;
use std::ffi::c_void;
use thalweg_hal::Result;
use thalweg_hal::kit::args::{array, optional};
use thalweg_hal::kit::packet::Kind;
use thalweg_hal::tables::{self, CallbackArgs};

/// Rows of host memory.
struct Rows {
    first: *const u8,
    width: u64,
    rows: u64,
    pitch: u64,
}

impl Rows {
    fn of(copy: &tables::Copy, end: &tables::Place) -> Rows {
        Rows {
            first: (end.host.cast_const().cast::<u8>()).wrapping_add(end.offset as usize),
            width: copy.width,
            rows: copy.rows,
            pitch: if copy.rows > 1 { end.pitch } else { copy.width },
        }
    }

    /// The bytes, rows without gaps; none where they cannot be so many, which what is below refuses.
    ///
    /// # Safety
    /// All rows are readable for `'a`, and nobody writes them.
    unsafe fn bytes<'a>(&self) -> Cow<'a, [u8]> {
        let total = self.width.checked_mul(self.rows);
        let reach = (self.rows.saturating_sub(1)).checked_mul(self.pitch);
        let (Some(total), Some(_)) = (total.filter(|&total| total <= isize::MAX as u64), reach) else {
            return Cow::default();
        };
        if total == 0 || self.first.is_null() {
            return Cow::default();
        }
        let width = self.width as usize;
        // SAFETY: the caller vouches for the rows, which are one piece here.
        let piece = |at: *const u8, bytes: usize| unsafe { std::slice::from_raw_parts(at, bytes) };
        if self.pitch == self.width {
            return Cow::Borrowed(piece(self.first, total as usize));
        }
        let row = |row: u64| piece(self.first.wrapping_add((row * self.pitch) as usize), width);
        Cow::Owned((0..self.rows).flat_map(row).copied().collect())
    }
}

/// Host memory that a stream writes, to be looked at behind the copy.
pub(super) struct Awaited {
    layer: &'static Capture,
    number: u64,
    rows: Rows,
}

impl Awaited {
    /// Looks at the memory when the stream has passed the copy.
    pub(super) fn watch(self, place: &layer::Place<Capture>, stream: u64) {
        let args = CallbackArgs {
            stream,
            function: Some(look),
            data: Box::into_raw(Box::new(self)).cast(),
        };
        // SAFETY: the function takes what it is given, and is called once.
        let code = unsafe { (place.next.stream.callback)(place.next.api.context, &raw const args) };
        if code != 0 {
            // SAFETY: what is below has refused, so it never calls the function.
            drop(unsafe { Box::from_raw(args.data.cast::<Awaited>()) });
        }
    }
}

unsafe extern "C" fn look(data: *mut c_void) -> i32 {
    // SAFETY: `watch` has made it, and it is called once.
    let awaited = unsafe { Box::from_raw(data.cast::<Awaited>()) };
    // SAFETY: the program keeps the memory until the stream has passed the copy, which it learns behind this callback.
    let hash = hash(&unsafe { awaited.rows.bytes() });
    let number = awaited.number;
    awaited.layer.note(|| Call::Result(Answer { number, hash }));
    0
}

/// What reads packets.
pub(super) struct Packets {
    pub(super) layer: &'static Capture,
    pub(super) awaited: Vec<Awaited>,
}

impl Packets {
    pub(super) fn new(layer: &'static Capture) -> Packets {
        Packets {
            layer,
            awaited: Vec::new(),
        }
    }

    fn keep(&self) -> Keep {
        self.layer.begun.get().map_or(Keep::Hash, |&(_, keep)| keep)
    }

    /// What host memory holds.
    ///
    /// # Safety
    /// `bytes` bytes at `first` are readable, and nobody writes them.
    pub(super) unsafe fn import(&self, first: *const c_void, bytes: u64) -> Contents {
        let rows = Rows {
            first: first.cast(),
            width: bytes,
            rows: 1,
            pitch: bytes,
        };
        // SAFETY: the caller vouches for them.
        self.keep().contents(&unsafe { rows.bytes() })
    }

    /// # Safety
    /// The pointers are null or valid, as the contract of the tables says.
    pub(super) unsafe fn list(&mut self, packets: &[tables::Packet]) -> Result<Vec<Packet>> {
        // SAFETY: the caller vouches for the pointers.
        packets
            .iter()
            .map(|packet| unsafe { self.packet(packet) })
            .collect()
    }

    /// # Safety
    /// As [`Packets::list`].
    unsafe fn packet(&mut self, packet: &tables::Packet) -> Result<Packet> {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            Ok(Packet {
                tag: tag(packet.tag)?.unwrap_or_default(),
                work: match Kind::of(packet)? {
                    Kind::Launch(one) => Work::Launch(self.launch(one)?),
                    Kind::Copy(one) => Work::Copy(self.copy(one)),
                    Kind::Fill(one) => Work::Fill(Fill {
                        buffer: one.buffer,
                        offset: one.offset,
                        bytes: one.bytes,
                        pattern: one.pattern,
                        pattern_bytes: one.pattern_bytes,
                    }),
                },
            })
        }
    }

    /// # Safety
    /// The pointers are null or valid; strides are as many as the parameter's level has axes.
    pub(super) unsafe fn launch(&self, launch: &tables::Launch) -> Result<Launch> {
        let axes = self.layer.kernels.lock().get(&launch.kernel).cloned();
        let axes = axes.unwrap_or_default();
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            let bindings = array(launch.bindings, launch.binding_count)?;
            let binding = |(at, binding): (usize, &tables::Binding)| {
                let strides = match (binding.strides.is_null(), axes.get(at)) {
                    (false, Some(&axes)) => Some(array(binding.strides, axes)?.to_vec()),
                    _ => None,
                };
                Ok(Binding {
                    buffer: binding.buffer,
                    offset: binding.offset,
                    strides,
                    gather_stride: binding.gather_stride,
                    gather_extent: binding.gather_extent,
                })
            };
            Ok(Launch {
                kernel: launch.kernel,
                extents: array(launch.extents, launch.extent_count)?.to_vec(),
                bindings: bindings.iter().enumerate().map(binding).collect::<Result<_>>()?,
                scalars: array(launch.scalars, launch.scalar_count)?.to_vec(),
            })
        }
    }

    /// # Safety
    /// Host memory is valid, as [`tables::Copy`] says.
    unsafe fn copy(&mut self, copy: &tables::Copy) -> captured::Copy {
        let part = |place: &tables::Place| {
            End::Buffer(Part {
                buffer: place.buffer,
                offset: place.offset,
                pitch: place.pitch,
            })
        };
        let dst = match copy.dst.buffer {
            0 => {
                let number = sink::answer();
                self.awaited.push(Awaited {
                    layer: self.layer,
                    number,
                    rows: Rows::of(copy, &copy.dst),
                });
                End::To(number)
            }
            _ => part(&copy.dst),
        };
        let src = match copy.src.buffer {
            // SAFETY: the caller vouches for the memory.
            0 => End::From(
                self.keep()
                    .contents(&unsafe { Rows::of(copy, &copy.src).bytes() }),
            ),
            _ => part(&copy.src),
        };
        captured::Copy {
            dst,
            src,
            width: copy.width,
            rows: copy.rows,
        }
    }
}

/// # Safety
/// The pointers are null or valid.
pub(super) unsafe fn tag(tag: *const tables::Tag) -> Result<Option<Tag>> {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        let Some(tag) = optional(tag)? else {
            return Ok(None);
        };
        Ok(Some(Tag {
            op: tag.op.get()?.to_owned(),
            file: tag.file.get()?.to_owned(),
            line: tag.line,
            node: tag.node,
        }))
    }
}

/// # Safety
/// The pointers are null or valid.
pub(super) unsafe fn places(first: *const tables::ProgramInput, count: usize) -> Result<Vec<Place>> {
    // SAFETY: the caller vouches for the array.
    Ok(unsafe { array(first, count)? }.iter().map(place).collect())
}

pub(super) fn place(input: &tables::ProgramInput) -> Place {
    Place {
        buffer: input.buffer,
        offset: input.offset,
    }
}

/// # Safety
/// The pointers are null or valid.
pub(super) unsafe fn program(
    packets: &mut Packets,
    args: &tables::ProgramArgs,
    handle: u64,
) -> Result<Program> {
    // SAFETY: the caller vouches for the arrays.
    unsafe {
        let dependencies = array(args.dependencies, args.dependency_count)?;
        let given = array(args.scalars, args.scalar_count)?;
        Ok(Program {
            program: handle,
            device: args.device,
            packets: packets.list(array(args.packets, args.packet_count)?)?,
            dependencies: dependencies.iter().map(|one| (one.packet, one.earlier)).collect(),
            inputs: args.input_count as u64,
            outputs: array(args.outputs, args.output_count)?.to_vec(),
            scratch: array(args.scratch, args.scratch_count)?.to_vec(),
            bound: places(args.bound, args.bound_count)?,
            given: (given.iter())
                .map(|one| Given {
                    packet: one.packet,
                    scalar: one.scalar,
                    argument: one.argument,
                })
                .collect(),
            arguments: args.argument_count as u64,
            constants: array(args.constants, args.constant_count)?.to_vec(),
        })
    }
}
