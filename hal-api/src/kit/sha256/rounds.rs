//! The rounds over blocks, with the instructions for them where the processor has them.

use super::BLOCK;

/// The first 32 bits of the fractions of the square roots of the first 8 primes.
pub(super) const FIRST: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// The first 32 bits of the fractions of the cube roots of the first 64 primes.
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Adds whole blocks to the state.
pub(super) fn compress(state: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") {
        // SAFETY: the processor has both sets of instructions.
        return unsafe { instructions::compress(state, blocks) };
    }
    plain(state, blocks);
}

/// By integer instructions.
pub(super) fn plain(state: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
    for block in blocks {
        let mut w = [0; 64];
        for (word, bytes) in w.iter_mut().zip(block.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            w[i] = s0.wrapping_add(s1).wrapping_add(w[i - 16]).wrapping_add(w[i - 7]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        for i in 0..64 {
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let t = h
                .wrapping_add(s1)
                .wrapping_add(choice)
                .wrapping_add(K[i])
                .wrapping_add(w[i]);
            let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            (h, g, f, e) = (g, f, e, d.wrapping_add(t));
            (d, c, b, a) = (c, b, a, t.wrapping_add(s0).wrapping_add(majority));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = old.wrapping_add(new);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use super::{BLOCK, K};
    use std::arch::x86_64::*;

    /// As [`plain`](super::plain), two rounds an instruction.
    #[target_feature(enable = "sha,sse4.1")]
    pub(super) fn compress(state: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
        // The instructions hold the state as the words a b e f and c d g h, the first in the highest lane.
        let [a, b, c, d, e, f, g, h] = state.map(|word| word as i32);
        let (mut abef, mut cdgh) = (_mm_set_epi32(a, b, e, f), _mm_set_epi32(c, d, g, h));
        let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        for block in blocks {
            let before = (abef, cdgh);
            let mut w = [_mm_setzero_si128(); 4];
            for (w, bytes) in w.iter_mut().zip(block.as_chunks::<16>().0) {
                // SAFETY: 16 bytes are read, of any alignment.
                let loaded = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
                *w = _mm_shuffle_epi8(loaded, big_endian);
            }
            for (i, k) in K.as_chunks::<4>().0.iter().enumerate() {
                let [k0, k1, k2, k3] = k.map(|word| word as i32);
                if i >= 4 {
                    let [w0, w1, w2, w3] = w;
                    let seventh = _mm_alignr_epi8(w3, w2, 4);
                    let next = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), seventh), w3);
                    w = [w1, w2, w3, next];
                }
                let added = _mm_add_epi32(w[i.min(3)], _mm_set_epi32(k3, k2, k1, k0));
                cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
                abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
            }
            (abef, cdgh) = (_mm_add_epi32(abef, before.0), _mm_add_epi32(cdgh, before.1));
        }
        let lanes = |from: __m128i| {
            [
                _mm_extract_epi32(from, 3),
                _mm_extract_epi32(from, 2),
                _mm_extract_epi32(from, 1),
                _mm_extract_epi32(from, 0),
            ]
            .map(|lane| lane as u32)
        };
        let ([a, b, e, f], [c, d, g, h]) = (lanes(abef), lanes(cdgh));
        *state = [a, b, c, d, e, f, g, h];
    }
}
