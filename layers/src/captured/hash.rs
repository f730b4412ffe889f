//! The hash of contents: XXH64 with seed 0 (Collet, xxHash, 2014), which takes eight bytes in a few cycles.

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

const fn round(state: u64, word: u64) -> u64 {
    (state.wrapping_add(word.wrapping_mul(P2)))
        .rotate_left(31)
        .wrapping_mul(P1)
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The XXH64 of `bytes`: equal bytes have equal hashes, and others nearly never.
pub fn hash(bytes: &[u8]) -> u64 {
    let (stripes, mut rest) = bytes.as_chunks::<32>();
    let mut hash = match stripes {
        [] => P5,
        stripes => {
            let mut lanes = [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)];
            for stripe in stripes {
                for (lane, bytes) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                    *lane = round(*lane, u64::from_le_bytes(*bytes));
                }
            }
            let turns = [1, 7, 12, 18];
            let joined = lanes.iter().zip(turns).fold(0_u64, |sum, (lane, turn)| {
                sum.wrapping_add(lane.rotate_left(turn))
            });
            lanes.iter().fold(joined, |hash, &lane| {
                (hash ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4)
            })
        }
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((bytes, more)) = rest.split_at_checked(8) {
        hash = (hash ^ round(0, word(bytes)))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4);
        rest = more;
    }
    if let Some((bytes, more)) = rest.split_at_checked(4) {
        hash = (hash ^ word(bytes).wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        rest = more;
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn known_values() {
        // Of the reference implementation.
        assert_eq!(hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(hash(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(hash(b"abc"), 0x44bc_2cf5_ad77_0999);
        let text = b"Nobody inspects the spammish repetition";
        assert_eq!(hash(text), 0xfbce_a83c_8a37_8bf1);
    }
}
