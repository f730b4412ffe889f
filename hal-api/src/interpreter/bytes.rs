//! Memory of a launch as plain bytes.

use super::Memory;

/// Buffers of bytes. What lies outside of its buffer is an error of the caller and panics.
#[derive(Clone, Debug)]
pub struct Bytes {
    /// What the buffers hold.
    pub buffers: Vec<Vec<u8>>,
    /// For each parameter its buffer, and the byte of it where the element at index 0 starts.
    pub origins: Vec<(usize, usize)>,
}

impl Bytes {
    /// A buffer for each parameter, which starts with the element at index 0.
    pub fn of(buffers: Vec<Vec<u8>>) -> Bytes {
        let origins = (0..buffers.len()).map(|at| (at, 0)).collect();
        Bytes { buffers, origins }
    }

    fn place(&self, param: usize, offset: i64) -> (usize, usize) {
        let (buffer, origin) = self.origins[param];
        (buffer, (origin as i64 + offset) as usize)
    }
}

impl Memory for Bytes {
    fn read(&self, param: usize, offset: i64, bytes: &mut [u8]) {
        let (buffer, at) = self.place(param, offset);
        bytes.copy_from_slice(&self.buffers[buffer][at..][..bytes.len()]);
    }

    fn write(&mut self, param: usize, offset: i64, bytes: &[u8]) {
        let (buffer, at) = self.place(param, offset);
        self.buffers[buffer][at..][..bytes.len()].copy_from_slice(bytes);
    }
}
