//! How records are written as bytes and read again: one row a type, for both ways.

use super::*;

/// A payload that no writer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

type Taken<T> = Result<T, Malformed>;

impl Record {
    /// Appends the record's bytes.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.put(to);
    }

    pub(super) fn read(mut payload: &[u8]) -> Taken<Record> {
        let record = Record::take(&mut payload)?;
        if payload.is_empty() {
            Ok(record)
        } else {
            Err(Malformed)
        }
    }
}

/// A field.
trait Field: Sized {
    /// Bytes that each value has at least.
    const LEAST: usize;
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Taken<Self>;
}

fn bytes<'a>(from: &mut &'a [u8], count: usize) -> Taken<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(count).ok_or(Malformed)?;
    *from = rest;
    Ok(taken)
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl Field for $type {
            const LEAST: usize = size_of::<$type>();

            fn put(&self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Taken<$type> {
                let bytes = bytes(from, size_of::<$type>())?.try_into().map_err(|_| Malformed)?;
                Ok(<$type>::from_le_bytes(bytes))
            }
        })*
    };
}

integers!(u8, u32, i32, u64, i64);

fn length(from: &mut &[u8], least: usize) -> Taken<usize> {
    let count = usize::try_from(u64::take(from)?).map_err(|_| Malformed)?;
    // A wrong count asks for no more memory than the file has.
    match count.checked_mul(least.max(1)) {
        Some(bytes) if bytes <= from.len() => Ok(count),
        _ => Err(Malformed),
    }
}

impl Field for String {
    const LEAST: usize = 8;

    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        to.extend(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Taken<String> {
        let count = length(from, 1)?;
        let text = std::str::from_utf8(bytes(from, count)?).map_err(|_| Malformed)?;
        Ok(text.to_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    const LEAST: usize = 8;

    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        self.iter().for_each(|item| item.put(to));
    }

    fn take(from: &mut &[u8]) -> Taken<Vec<T>> {
        let count = length(from, T::LEAST)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<T: Field> Field for Option<T> {
    const LEAST: usize = 1;

    fn put(&self, to: &mut Vec<u8>) {
        to.push(self.is_some().into());
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Taken<Option<T>> {
        match u8::take(from)? {
            0 => Ok(None),
            1 => T::take(from).map(Some),
            _ => Err(Malformed),
        }
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const LEAST: usize = A::LEAST + B::LEAST;

    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut &[u8]) -> Taken<(A, B)> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

/// Bytes as one piece.
struct Blob;

impl Blob {
    fn put(data: &[u8], to: &mut Vec<u8>) {
        (data.len() as u64).put(to);
        to.extend(data);
    }

    fn take(from: &mut &[u8]) -> Taken<Vec<u8>> {
        let count = length(from, 1)?;
        Ok(bytes(from, count)?.to_vec())
    }
}

/// Structs as their fields in this order.
macro_rules! fields {
    ($($type:ident { $($field:ident: $of:ty),+ $(,)? })*) => {
        $(impl Field for $type {
            const LEAST: usize = $(<$of>::LEAST +)+ 0;

            fn put(&self, to: &mut Vec<u8>) {
                $(Field::put(&self.$field, to);)+
            }

            fn take(from: &mut &[u8]) -> Taken<$type> {
                $(let $field = Field::take(from)?;)+
                Ok($type { $($field),+ })
            }
        })*
    };
}

fields! {
    Record { backend: u32, call: Call }
    Start { pid: u32, program: String, version: String, fresh: u64 }
    Backend { name: String, version: String, driver: String }
    Device { device: u64, ordinal: u32, name: String, memory_limit: u64, block_size: u64 }
    Alloc { buffer: u64, device: u64, bytes: u64, stream: u64 }
    Import { buffer: u64, device: u64, bytes: u64, contents: Contents }
    Stream { stream: u64, device: u64, priority: i32 }
    Event { event: u64, device: u64, timing: u32 }
    Mark { event: u64, stream: u64 }
    Kernel { kernel: u64, device: u64, source: Source, options: String }
    Submission { stream: u64, packets: Vec<Packet> }
    Tag { op: String, file: String, line: u32, node: u32 }
    Packet { tag: Tag, work: Work }
    Launch { kernel: u64, extents: Vec<u64>, bindings: Vec<Binding>, scalars: Vec<u64> }
    Binding { buffer: u64, offset: u64, strides: Option<Vec<i64>>, gather_stride: i64, gather_extent: u64 }
    Copy { dst: End, src: End, width: u64, rows: u64 }
    Part { buffer: u64, offset: u64, pitch: u64 }
    Fill { buffer: u64, offset: u64, bytes: u64, pattern: u64, pattern_bytes: u32 }
    Program {
        program: u64, device: u64, packets: Vec<Packet>, dependencies: Vec<(u32, u32)>, inputs: u64,
        outputs: Vec<u64>, scratch: Vec<u64>, bound: Vec<Place>, given: Vec<Given>, arguments: u64,
        constants: Vec<u32>,
    }
    Given { packet: u32, scalar: u32, argument: u32 }
    Place { buffer: u64, offset: u64 }
    Rebind { program: u64, slot: u64, place: Place }
    Run {
        program: u64, stream: u64, inputs: Vec<Place>, arguments: Vec<u64>, outputs: Vec<u64>, tag: Option<Tag>,
    }
    Answer { number: u64, hash: u64 }
}

/// Enums: the number of each variant and what it holds.
macro_rules! variants {
    ($($type:ident { $($number:literal = $variant:ident),+ $(,)? })*) => {
        $(impl Field for $type {
            const LEAST: usize = 1;

            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $($type::$variant(inner) => {
                        to.push($number);
                        inner.put(to);
                    })+
                }
            }

            fn take(from: &mut &[u8]) -> Taken<$type> {
                Ok(match u8::take(from)? {
                    $($number => $type::$variant(Field::take(from)?),)+
                    _ => return Err(Malformed),
                })
            }
        })*
    };
}

variants! {
    Call {
        1 = Start, 2 = Backend, 3 = Open, 4 = Close, 5 = Alloc, 6 = Import, 7 = Map, 8 = Free, 9 = CreateStream,
        10 = DestroyStream, 11 = CreateEvent, 12 = DestroyEvent, 13 = RecordEvent, 14 = WaitEvent, 15 = AwaitEvent,
        16 = SynchronizeStream, 17 = SynchronizeDevice, 18 = Compile, 19 = Release, 20 = Submit, 21 = CreateProgram,
        22 = Rebind, 23 = Run, 24 = DestroyProgram, 25 = Result,
    }
    Work { 1 = Launch, 2 = Copy, 3 = Fill }
    End { 1 = Buffer, 2 = From, 3 = To }
}

impl Field for Contents {
    const LEAST: usize = 9;

    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Contents::Data(data) => {
                to.push(1);
                Blob::put(data, to);
            }
            Contents::Hash(hash) => {
                to.push(2);
                hash.put(to);
            }
            Contents::Seed { hash, seed } => {
                to.push(3);
                (*hash, *seed).put(to);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Taken<Contents> {
        Ok(match u8::take(from)? {
            1 => Contents::Data(Blob::take(from)?),
            2 => Contents::Hash(u64::take(from)?),
            3 => {
                let (hash, seed) = Field::take(from)?;
                Contents::Seed { hash, seed }
            }
            _ => return Err(Malformed),
        })
    }
}

impl Field for Source {
    const LEAST: usize = 9;

    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Source::Kernel(text) => {
                to.push(1);
                text.put(to);
            }
            Source::Library {
                op,
                dtypes,
                attributes,
                epilogue,
            } => {
                to.push(2);
                op.put(to);
                dtypes.put(to);
                attributes.put(to);
                epilogue.put(to);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Taken<Source> {
        Ok(match u8::take(from)? {
            1 => Source::Kernel(Field::take(from)?),
            2 => Source::Library {
                op: Field::take(from)?,
                dtypes: Field::take(from)?,
                attributes: Field::take(from)?,
                epilogue: Field::take(from)?,
            },
            _ => return Err(Malformed),
        })
    }
}
