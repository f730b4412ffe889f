//! Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11).

use crate::isa::{Isa, versions};

versions!(
    /// `out[i]` = word `counter[i] % 4` of the block `counter[i] / 4`.
    Rounds, pick, PhiloxFn(n: usize, out: *mut u8, key: *const u8, counter: *const u8)
);

#[inline(always)]
fn block(key: u64, counter: u64) -> [u32; 4] {
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    let [mut c0, mut c1, mut c2, mut c3] = [counter as u32, (counter >> 32) as u32, 0, 0];
    for _ in 0..10 {
        let p0 = u64::from(c0) * 0xd251_1f53;
        let p1 = u64::from(c2) * 0xcd9e_8d57;
        [c0, c1, c2, c3] = [
            (p1 >> 32) as u32 ^ c1 ^ k0,
            p1 as u32,
            (p0 >> 32) as u32 ^ c3 ^ k1,
            p0 as u32,
        ];
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [c0, c1, c2, c3]
}

#[inline(always)]
fn word(key: u64, counter: u64) -> u32 {
    let words = block(key, counter >> 2);
    let low = if counter & 1 == 0 { words[0] } else { words[1] };
    let high = if counter & 1 == 0 { words[2] } else { words[3] };
    if counter & 2 == 0 { low } else { high }
}

/// One word per element, and four per block where the counters of one key run on by one.
struct Words<const KEY_SINGLE: bool>;

impl<const KEY_SINGLE: bool> Rounds for Words<KEY_SINGLE> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, key: *const u8, counter: *const u8) {
        let (out, key, counter) = (out.cast::<u32>(), key.cast::<u64>(), counter.cast::<u64>());
        let mut done = 0;
        // SAFETY: a single key and the first n elements of blocks are valid.
        unsafe {
            if KEY_SINGLE && n > 0 {
                let (key, first) = (*key, *counter);
                let gaps = (0..n).fold(0, |gaps, i| {
                    gaps | (*counter.add(i) ^ first.wrapping_add(i as u64))
                });
                if gaps == 0 && first.checked_add(n as u64).is_some() {
                    let head = ((4 - first % 4) % 4).min(n as u64) as usize;
                    for i in 0..head {
                        *out.add(i) = word(key, first + i as u64);
                    }
                    let base = (first + head as u64) / 4;
                    let groups = (n - head) / 4;
                    let four = out.add(head).cast::<[u32; 4]>();
                    for g in 0..groups {
                        *four.add(g) = block(key, base + g as u64);
                    }
                    done = head + groups * 4;
                }
            }
            for i in done..n {
                let key = if KEY_SINGLE { *key } else { *key.add(i) };
                *out.add(i) = word(key, *counter.add(i));
            }
        }
    }
}

/// The Philox loop; the counter is a block, the key a single value or a block.
pub(crate) fn philox(isa: Isa, key_single: bool) -> PhiloxFn {
    if key_single {
        pick::<Words<true>>(isa)
    } else {
        pick::<Words<false>>(isa)
    }
}
