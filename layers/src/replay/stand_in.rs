//! Values in the place of contents that a capture does not have.

use super::flat::flatten;
use crate::captured::{File, Handle, Work};
use std::collections::HashMap;
use thalweg_hal::dtype::{Class, DType};
use thalweg_hal::ir::Level;
use thalweg_hal::narrow::float_bits;
use thalweg_hal::{Error, Result};

/// The dtypes of buffers, by backend and handle: those that the first kernel sees there.
pub(super) type DTypes = HashMap<(u32, Handle), DType>;

/// The dtypes of all buffers of a capture.
pub(super) fn dtypes(file: &File) -> Result<DTypes> {
    let (mut kernels, mut found) = (HashMap::new(), DTypes::new());
    for record in &flatten(file)?.records {
        if let Some(kernel) = record.call.kernel() {
            let signature = kernel.source.decoded()?.signature()?;
            kernels.insert((record.backend, kernel.kernel), signature.slots);
        }
        for packet in record.call.packets() {
            let Work::Launch(launch) = &packet.work else {
                continue;
            };
            let Some(slots) = kernels.get(&(record.backend, launch.kernel)) else {
                continue;
            };
            for (slot, binding) in slots.iter().zip(&launch.bindings) {
                found
                    .entry((record.backend, binding.buffer))
                    .or_insert(slot.dtype);
            }
        }
    }
    Ok(found)
}

/// So many bytes of values: floats from -1 to 1, whole numbers from 0 to 3, truth values. Equal seeds give equal values on every
/// device.
pub(super) fn values(dtype: DType, seed: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut all = zeros(bytes)?;
    let mut state = seed;
    let mut next = || {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    for element in all.chunks_exact_mut(dtype.size()) {
        let drawn = next();
        let bits = match dtype.class() {
            Class::Float => float_bits(dtype, (drawn >> 11) as f64 / (1_u64 << 52) as f64 - 1.0),
            Class::Signed | Class::Unsigned => drawn % 4,
            Class::Bool => drawn % 2,
        };
        element.copy_from_slice(&bits.to_le_bytes()[..dtype.size()]);
    }
    Ok(all)
}

/// So many zeros, or an error where there is no room for them.
pub(super) fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let count = usize::try_from(bytes).ok();
    match count.filter(|&count| all.try_reserve_exact(count).is_ok()) {
        Some(count) => {
            all.resize(count, 0);
            Ok(all)
        }
        None => Err(Error::out_of_memory(format!(
            "the host has no room for {bytes} bytes that the capture asks for"
        ))),
    }
}

/// How many axes the strides of a level have.
pub(super) fn axes(level: Level, outer: usize, inner: usize) -> usize {
    match level {
        Level::Row => outer,
        Level::Element => outer + inner,
    }
}
