//! What packets write, element by element.

use super::Player;
use super::session::{Compiled, known};
use super::stand_in::axes;
use crate::captured::{Binding, Copy, End, Handle, Packet, Work};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Role};
use thalweg_hal::kit::checks::Slot;
use thalweg_hal::{Error, Result};

/// Elements that a packet writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The buffer, by its handle in the capture.
    pub buffer: Handle,
    /// Their dtype; `None` for bytes of which nothing is known.
    pub dtype: Option<DType>,
    offset: u64,
    extents: Vec<u64>,
    /// Elements from one to the next.
    strides: Vec<i64>,
}

/// Most elements that are looked at; of more the capture is not one of a real program.
const MOST: u64 = 1 << 40;

impl Output {
    /// Number of elements.
    ///
    /// # Errors
    /// More than there can be.
    pub fn elements(&self) -> Result<u64> {
        let product = self
            .extents
            .iter()
            .try_fold(1_u64, |all, &extent| all.checked_mul(extent));
        product.filter(|&count| count <= MOST).ok_or_else(|| {
            Error::invalid_argument(format!("extents {:?} have too many points", self.extents))
        })
    }

    fn size(&self) -> u64 {
        self.dtype.map_or(1, |dtype| dtype.size() as u64)
    }

    /// First byte and the byte behind the last, from the start of the buffer; `None` where there is no element.
    fn span(&self) -> Result<Option<(u64, u64)>> {
        if self.elements()? == 0 {
            return Ok(None);
        }
        let (mut low, mut high) = (0_i128, 0_i128);
        for (&extent, &stride) in self.extents.iter().zip(&self.strides) {
            let reach = i128::from(extent - 1) * i128::from(stride);
            if reach < 0 {
                low += reach;
            } else {
                high += reach;
            }
        }
        let (start, size) = (i128::from(self.offset), i128::from(self.size()));
        let ends = (
            u64::try_from(start + low * size),
            u64::try_from(start + (high + 1) * size),
        );
        match ends {
            (Ok(first), Ok(last)) => Ok(Some((first, last))),
            _ => Err(Error::out_of_bounds("a packet writes outside of its buffer")),
        }
    }

    /// The place of each element in a span that begins at byte `first`.
    fn places(&self, first: u64) -> impl Iterator<Item = usize> {
        let mut at = vec![0_u64; self.extents.len()];
        let mut left = self.elements().unwrap_or(0);
        let (start, size) = ((self.offset as i64) - (first as i64), self.size() as i64);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let elements = at
                .iter()
                .zip(&self.strides)
                .map(|(&at, &stride)| at as i64 * stride);
            let place = start + elements.sum::<i64>() * size;
            for (at, &extent) in at.iter_mut().zip(&self.extents).rev() {
                *at += 1;
                if *at < extent {
                    break;
                }
                *at = 0;
            }
            Some(place as usize)
        })
    }
}

/// The elements of a parameter.
fn of_slot(slot: &Slot, kernel: &Compiled, extents: &[u64], binding: &Binding) -> Option<Output> {
    let count = axes(slot.level, kernel.signature.outer, kernel.signature.inner);
    let extents = extents.get(..count)?.to_vec();
    let (extents, strides) = match (slot.access, &binding.strides) {
        (_, Some(strides)) => (extents, strides.clone()),
        (Access::Broadcast, None) => (Vec::new(), Vec::new()),
        (Access::Contiguous | Access::Strided, None) => {
            let mut strides = vec![1_i64; count];
            for axis in (1..count).rev() {
                strides[axis - 1] = strides[axis].saturating_mul(extents[axis] as i64);
            }
            (extents, strides)
        }
    };
    Some(Output {
        buffer: binding.buffer,
        dtype: Some(slot.dtype),
        offset: binding.offset,
        extents,
        strides,
    })
}

impl Player {
    /// What a packet of a stream writes to memory of devices, which is not known of packets of programs.
    ///
    /// # Errors
    /// A kernel that is not there, a launch that does not fit it.
    pub fn outputs(&self, backend: u32, packet: &Packet) -> Result<Vec<Output>> {
        let bytes = |buffer: Handle, offset: u64, extents: Vec<u64>, strides: Vec<i64>| Output {
            buffer,
            dtype: None,
            offset,
            extents,
            strides,
        };
        Ok(match &packet.work {
            Work::Launch(launch) => {
                let session = self.sessions.get(backend as usize);
                let session = session.ok_or_else(|| Error::invalid_argument("no such backend"))?;
                let kernel = known(&session.kernels, "kernel", launch.kernel)?;
                let slots = kernel.signature.slots.iter().zip(&launch.bindings);
                let outputs = slots.filter(|(slot, _)| slot.role == Role::Out);
                let found = outputs.map(|(slot, binding)| of_slot(slot, kernel, &launch.extents, binding));
                let found: Option<Vec<Output>> = found.collect();
                found.ok_or_else(|| Error::invalid_argument("a launch has too few extents for its kernel"))?
            }
            Work::Copy(Copy {
                dst: End::Buffer(part),
                width,
                rows,
                ..
            }) => {
                let pitch = if *rows > 1 { part.pitch } else { 0 };
                let pitch =
                    i64::try_from(pitch).map_err(|_| Error::invalid_argument("a copy of 2^63 bytes"))?;
                vec![bytes(
                    part.buffer,
                    part.offset,
                    vec![*rows, *width],
                    vec![pitch, 1],
                )]
            }
            Work::Copy(_) => Vec::new(),
            Work::Fill(fill) => vec![bytes(fill.buffer, fill.offset, vec![fill.bytes], vec![1])],
        })
    }

    /// The elements as bytes without gaps, when the stream has come so far.
    ///
    /// # Errors
    /// What the backend says, and errors of the stream's work.
    pub fn read(&self, (backend, stream): (u32, Handle), output: &Output) -> Result<Vec<u8>> {
        let Some((first, last)) = output.span()? else {
            return Ok(Vec::new());
        };
        let span = self
            .at(backend)?
            .download((output.buffer, first), stream, last - first)?;
        let size = output.size() as usize;
        let mut all = Vec::with_capacity(span.len());
        for place in output.places(first) {
            let element = span.get(place..place + size);
            all.extend(element.ok_or_else(|| Error::out_of_bounds("an element lies outside of its buffer"))?);
        }
        Ok(all)
    }

    /// Writes the elements, as [`Player::read`] gives them.
    ///
    /// # Errors
    /// As [`Player::read`].
    pub fn write(&self, (backend, stream): (u32, Handle), output: &Output, elements: &[u8]) -> Result<()> {
        let Some((first, last)) = output.span()? else {
            return Ok(());
        };
        let session = self.at(backend)?;
        let mut span = session.download((output.buffer, first), stream, last - first)?;
        let size = output.size() as usize;
        for (place, element) in output.places(first).zip(elements.chunks_exact(size)) {
            let to = span.get_mut(place..place + size);
            to.ok_or_else(|| Error::out_of_bounds("an element lies outside of its buffer"))?
                .copy_from_slice(element);
        }
        session.upload((output.buffer, first), stream, &span)
    }

    fn at(&self, backend: u32) -> Result<&super::session::Session> {
        let found = self.sessions.get(backend as usize);
        found.ok_or_else(|| Error::invalid_argument(format!("the capture has no backend {backend}")))
    }
}
