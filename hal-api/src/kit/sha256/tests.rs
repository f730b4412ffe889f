//! Values of FIPS 180-4 and of `sha256sum`, and the two forms of the rounds against each other.

use super::{Sha256, digest, hexadecimal, rounds};
use proptest::prelude::*;

#[test]
fn sums_are_those_of_the_standard() {
    let million = vec![b'a'; 1_000_000];
    let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    let cases: [(&[u8], &str); 4] = [
        (
            b"",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            two_blocks,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (
            &million,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ),
    ];
    for (text, sum) in cases {
        assert_eq!(hexadecimal(&digest(text)), sum);
    }
}

#[test]
fn every_length_of_padding() {
    // `for n in $(seq 0 130); do head -c $n /dev/zero | sha256sum | cut -c-64; done | tr -d '\n' | sha256sum`
    let sums: String = (0..=130)
        .map(|length| hexadecimal(&digest(&vec![0; length])))
        .collect();
    assert_eq!(
        hexadecimal(&digest(sums.as_bytes())),
        "54e76fce7077001577d4cd003983a26b89611ab84dce9950b9aaf77133a69f94"
    );
}

proptest! {
    #[test]
    fn parts_make_the_same_sum(bytes in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(0..400_usize, 0..4)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let mut sum = Sha256::new();
        for pair in cuts.windows(2) {
            sum.update(&bytes[pair[0]..pair[1]]);
        }
        prop_assert_eq!(sum.finish(), digest(&bytes));
    }

    #[test]
    fn both_forms_of_the_rounds_agree(state in any::<[u32; 8]>(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let blocks = bytes.as_chunks().0;
        let (mut one, mut other) = (state, state);
        rounds::compress(&mut one, blocks);
        rounds::plain(&mut other, blocks);
        prop_assert_eq!(one, other);
    }
}
