//! Any bytes are a capture that is good up to some record, or none. What is read is written and read back to the same, and unrolling
//! its programs ends in work or in an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_hal::kit::frames::head;
use thalweg_layers::captured::{Call, File, MAGIC};
use thalweg_layers::replay::{backends, flatten, has_contents};

/// The capture of some payloads: with right sums, which a mutation seldom hits. The first byte of each is its length in eights.
fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    while let Some((&length, rest)) = data.split_first() {
        let (payload, rest) = rest.split_at(rest.len().min(8 * usize::from(length)));
        file.extend(head(payload).expect("a short payload"));
        file.extend(payload);
        data = rest;
    }
    file
}

fuzz_target!(|data: &[u8]| {
    let bytes = match data.first() {
        Some(b'T') | None => data.to_vec(),
        Some(_) => framed(data),
    };
    let Ok(file) = File::read(&bytes[..]) else { return };
    let mut written = Vec::new();
    file.write(&mut written).expect("memory takes bytes");
    let again = File::read(&written[..]).expect("what was written is read");
    assert_eq!(
        (&again.start, &again.records, again.cut),
        (&file.start, &file.records, None)
    );
    let _ = (backends(&file).len(), has_contents(&file));
    for record in &file.records {
        if let Call::Compile(kernel) = &record.call {
            // A source is sound or an error.
            let _ = kernel.source.decoded().map(|decoded| decoded.signature());
        }
    }
    if let Ok(flat) = flatten(&file) {
        assert!(
            flat.records
                .iter()
                .all(|record| !matches!(record.call, Call::Run(_)))
        );
    }
});
