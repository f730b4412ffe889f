//! SHA-256 (FIPS 180-4): sums of files, and keys of what is kept on disk.

mod rounds;
#[cfg(test)]
mod tests;

/// Length of a sum.
pub const LENGTH: usize = 32;
const BLOCK: usize = 64;

/// The sum of what [`update`](Sha256::update) was given.
///
/// ```
/// use thalweg_hal::kit::sha256::{Sha256, hexadecimal};
/// let mut sum = Sha256::new();
/// sum.update(b"a");
/// sum.update(b"bc");
/// assert!(hexadecimal(&sum.finish()).starts_with("ba7816bf8f01"));
/// ```
#[derive(Clone, Debug)]
pub struct Sha256 {
    state: [u32; 8],
    /// What does not fill a block yet.
    rest: [u8; BLOCK],
    bytes: u64,
}

impl Default for Sha256 {
    fn default() -> Sha256 {
        Sha256::new()
    }
}

impl Sha256 {
    /// Of nothing.
    pub fn new() -> Sha256 {
        Sha256 {
            state: rounds::FIRST,
            rest: [0; BLOCK],
            bytes: 0,
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let held = self.bytes as usize % BLOCK;
        self.bytes += bytes.len() as u64;
        if held > 0 {
            let taken = bytes.len().min(BLOCK - held);
            self.rest[held..held + taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if held + taken < BLOCK {
                return;
            }
            rounds::compress(&mut self.state, &[self.rest]);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        rounds::compress(&mut self.state, blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The sum.
    pub fn finish(mut self) -> [u8; LENGTH] {
        let bits = self.bytes.wrapping_mul(8);
        let held = self.bytes as usize % BLOCK;
        // A one, zeros, and the number of bits at the end of a block.
        let mut padding = [0; BLOCK + 8];
        padding[0] = 0x80;
        let zeros = (2 * BLOCK - 9 - held) % BLOCK;
        padding[1 + zeros..9 + zeros].copy_from_slice(&bits.to_be_bytes());
        self.update(&padding[..9 + zeros]);
        let mut sum = [0; LENGTH];
        for (bytes, word) in sum.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        sum
    }
}

/// The sum of bytes.
pub fn digest(bytes: &[u8]) -> [u8; LENGTH] {
    let mut sum = Sha256::new();
    sum.update(bytes);
    sum.finish()
}

/// A sum as `sha256sum` writes it.
pub fn hexadecimal(sum: &[u8; LENGTH]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}
