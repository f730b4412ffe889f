//! Any bytes are files of a flight recorder, or none; any text is its configuration, or an error of one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{LazyLock, Mutex};
use tempfile::TempDir;
use thalweg::observe::flight::{Flight, check_config};
use thalweg::observe::recording::MAGIC;

/// Bytes of the mapped file: a head of 512, then twice 4096 events of five words.
const RING: usize = 512 + 2 * 4096 * 40;

/// The mapped file. A case differs from the one before it in few pages, and only these are written.
struct Mapped {
    file: File,
    held: Vec<u8>,
    next: Vec<u8>,
}

const PAGE: usize = 4096;

impl Mapped {
    fn new() -> Mapped {
        let file = File::create(FOLDER.path().join("ring.tw")).expect("the system gives a file");
        file.set_len(RING as u64).expect("the system takes bytes");
        Mapped {
            file,
            held: vec![0; RING],
            next: vec![0; RING],
        }
    }

    fn put(&mut self, fill: impl FnOnce(&mut [u8])) {
        self.next.fill(0);
        fill(&mut self.next);
        let pages = self.held.chunks_mut(PAGE).zip(self.next.chunks(PAGE));
        for (at, (held, next)) in pages.enumerate().filter(|(_, (held, next))| held != next) {
            let written = self.file.write_all_at(next, (PAGE * at) as u64);
            written.expect("the system takes bytes");
            held.copy_from_slice(next);
        }
    }
}

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("the system gives a folder"));

/// Fills the mapped file with what words stand for: its end and its counts, then events at numbers, each with the right sum.
fn ring(words: &[u64], file: &mut [u8]) {
    let mut put = |at: usize, word: u64| file[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    put(0, u64::from_be_bytes(*b"TWFLIGH\x01"));
    for (at, place) in [(0, 8), (1, 64), (2, 128)] {
        put(place, word(at));
    }
    for event in words.get(3..).unwrap_or_default().chunks_exact(5) {
        let [number, a, b, c, time] = [event[0], event[1], event[2], event[3], event[4]];
        let first = 512 + (number >> 63) as usize * 4096 * 40;
        let number = number & (u64::MAX >> 1);
        let odd = 0x9e37_79b9_7f4a_7c15;
        let mixed = a ^ b.rotate_left(16) ^ c.rotate_left(32) ^ time.rotate_left(48);
        let sum = (mixed ^ number.wrapping_add(1).wrapping_mul(odd)).wrapping_mul(odd);
        for (part, word) in [a, b, c, time, sum].into_iter().enumerate() {
            put(first + (number % 4096) as usize * 40 + part * 8, word);
        }
    }
}

/// Names: a recording of one payload with the right sum.
fn names(payload: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend((payload.len() as u32).to_le_bytes());
    file.extend(crc32fast::hash(payload).to_le_bytes());
    file.extend(payload);
    file
}

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data)
        && let Err(error) = check_config(text)
    {
        let line = error.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "{line}");
    }
    static MAPPED: LazyLock<Mutex<Mapped>> = LazyLock::new(|| Mutex::new(Mapped::new()));
    let (head, rest) = data.split_at(data.len().min(2));
    let (first, second) = rest.split_at(rest.len().min(usize::from(head.get(1).copied().unwrap_or(0)) * 8));
    let plain = head.first().is_some_and(|byte| byte & 1 == 1);
    let mut mapped = MAPPED.lock().expect("one thread");
    mapped.put(|file| match plain {
        true => {
            // The bytes as they are, in a file of the right size.
            ring(&[], file);
            file[..first.len()].copy_from_slice(first);
        }
        false => {
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            ring(&first.chunks(8).map(word).collect::<Vec<_>>(), file);
        }
    });
    let put = |name: &str, bytes: &[u8]| {
        fs::write(FOLDER.path().join(name), bytes).expect("the system takes bytes")
    };
    put("names.tw", &names(second));
    put("log.txt", second);
    put("error.txt", second);
    if let Ok(flight) = Flight::read(FOLDER.path()) {
        assert!(flight.launches.len() <= 4096 && flight.memory.len() <= 4096);
        assert!(flight.log.is_empty() || flight.log.ends_with('\n'));
        assert!(!flight.to_string().is_empty());
        flight.write().expect("tables are written");
    }
});
