//! How records are written as bytes and read again: one row a type, for both ways.

use super::*;

/// What a payload is written to.
#[derive(Clone, Debug, Default)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    time: u64,
    last: Last,
}

/// What the next command is a difference to.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    correlation: u64,
    queued: u64,
}

/// What a payload is read from.
#[derive(Clone, Debug)]
pub(super) struct In<'a> {
    bytes: &'a [u8],
    time: u64,
    last: Last,
}

/// A payload that no writer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

type Taken<T> = Result<T, Malformed>;

/// A field.
trait Field: Sized {
    fn put(&self, out: &mut Out);
    fn take(input: &mut In<'_>) -> Taken<Self>;
}

impl Out {
    /// Forgets the bytes; what follows is a payload of its own.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        (self.time, self.last) = (0, Last::default());
    }

    pub(super) fn record(&mut self, record: &Record) {
        record.put(self);
    }

    fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn difference(&mut self, to: u64, from: u64) {
        let signed = to.wrapping_sub(from) as i64;
        self.unsigned((signed << 1 ^ signed >> 63) as u64);
    }

    fn plain<T: Field>(&mut self, field: &T) {
        field.put(self);
    }

    fn moment(&mut self, time: &u64) {
        self.difference(*time, self.time);
        self.time = *time;
    }
}

impl<'a> In<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> In<'a> {
        In {
            bytes,
            time: 0,
            last: Last::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn record(&mut self) -> Taken<Record> {
        Record::take(self)
    }

    fn bytes(&mut self, count: usize) -> Taken<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Taken<u8> {
        Ok(self.bytes(1)?[0])
    }

    fn unsigned(&mut self) -> Taken<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn difference(&mut self, from: u64) -> Taken<u64> {
        let zigzag = self.unsigned()?;
        let signed = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        Ok(from.wrapping_add(signed as u64))
    }

    fn plain<T: Field>(&mut self) -> Taken<T> {
        T::take(self)
    }

    fn moment(&mut self) -> Taken<u64> {
        self.time = self.difference(self.time)?;
        Ok(self.time)
    }
}

impl Field for u64 {
    fn put(&self, out: &mut Out) {
        out.unsigned(*self);
    }

    fn take(input: &mut In<'_>) -> Taken<u64> {
        input.unsigned()
    }
}

impl Field for u32 {
    fn put(&self, out: &mut Out) {
        out.unsigned(u64::from(*self));
    }

    fn take(input: &mut In<'_>) -> Taken<u32> {
        input.unsigned()?.try_into().map_err(|_| Malformed)
    }
}

impl Field for f64 {
    fn put(&self, out: &mut Out) {
        out.bytes.extend(self.to_le_bytes());
    }

    fn take(input: &mut In<'_>) -> Taken<f64> {
        let bytes = input.bytes(8)?.try_into().map_err(|_| Malformed)?;
        Ok(f64::from_le_bytes(bytes))
    }
}

impl Field for String {
    fn put(&self, out: &mut Out) {
        out.unsigned(self.len() as u64);
        out.bytes.extend(self.as_bytes());
    }

    fn take(input: &mut In<'_>) -> Taken<String> {
        let length = input.unsigned()?.try_into().map_err(|_| Malformed)?;
        let text = std::str::from_utf8(input.bytes(length)?).map_err(|_| Malformed)?;
        Ok(text.to_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Out) {
        out.unsigned(self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut In<'_>) -> Taken<Vec<T>> {
        let count = input.unsigned()?;
        // Each item has a byte at least, so that a wrong count asks for no more memory than the file has.
        if count > input.bytes.len() as u64 {
            return Err(Malformed);
        }
        (0..count).map(|_| T::take(input)).collect()
    }
}

/// An enum as its number.
macro_rules! numbers {
    ($type:ident { $($variant:ident = $number:literal),+ }) => {
        impl $type {
            /// Its number in files.
            pub(crate) const fn number(self) -> u8 {
                match self {
                    $($type::$variant => $number),+
                }
            }

            /// What has a number.
            pub(crate) const fn of_number(number: u8) -> Option<$type> {
                match number {
                    $($number => Some($type::$variant),)+
                    _ => None,
                }
            }
        }

        impl Field for $type {
            fn put(&self, out: &mut Out) {
                out.bytes.push(self.number());
            }

            fn take(input: &mut In<'_>) -> Taken<$type> {
                $type::of_number(input.byte()?).ok_or(Malformed)
            }
        }
    };
}

numbers!(CommandKind { Launch = 0, Copy = 1, Fill = 2, Wait = 3, Callback = 4 });
numbers!(MemoryKind { Alloc = 0, Free = 1, Reserve = 2, Release = 3 });
numbers!(SpanKind {
    Range = 0, Scope = 1, Epoch = 2, Step = 3, Data = 4, Forward = 5, Backward = 6, Update = 7, Evaluation = 8,
    Callback = 9, Checkpoint = 10, Trace = 11, Rewrite = 12, Lower = 13, Compile = 14, Wait = 15
});

/// A struct as its fields in this order; `moment` is a difference to the time before, `plain` is not.
macro_rules! fields {
    ($type:ident { $($field:ident: $how:ident),+ $(,)? }) => {
        impl Field for $type {
            fn put(&self, out: &mut Out) {
                $(out.$how(&self.$field);)+
            }

            fn take(input: &mut In<'_>) -> Taken<$type> {
                $(let $field = input.$how()?;)+
                Ok($type { $($field),+ })
            }
        }
    };
}

fields!(Start {
    time: moment,
    unix: plain,
    pid: plain,
    rank: plain,
    program: plain,
    version: plain,
    settings: plain
});
fields!(Device {
    id: plain,
    target: plain,
    name: plain,
    unmeasured: plain
});
fields!(Place {
    id: plain,
    op: plain,
    scope: plain,
    file: plain,
    line: plain
});
fields!(Program {
    id: plain,
    device: plain,
    name: plain,
    nodes: plain
});
fields!(Node {
    kind: plain,
    kernel: plain,
    shape: plain,
    flops: plain,
    bytes: plain,
    parts: plain
});
fields!(Part {
    place: plain,
    call: plain,
    cost: plain
});
fields!(Op {
    thread: plain,
    start: moment,
    end: moment,
    place: plain,
    call: plain,
    operands: plain
});
fields!(Run {
    correlation: plain,
    thread: plain,
    stream: plain,
    start: moment,
    end: moment,
    program: plain,
    place: plain,
    call: plain,
});
fields!(Memory {
    time: moment,
    device: plain,
    kind: plain,
    buffer: plain,
    bytes: plain,
    correlation: plain
});
fields!(Span {
    thread: plain,
    kind: plain,
    name: plain,
    number: plain,
    start: moment,
    end: moment
});

/// The first byte of a command says what follows.
mod command {
    pub(super) const KIND: u8 = 0b111;
    pub(super) const EXACT: u8 = 1 << 3;
    /// Another run than that of the command before.
    pub(super) const RUN: u8 = 1 << 4;
    pub(super) const QUEUED: u8 = 1 << 5;
    /// Stream and row.
    pub(super) const ROW: u8 = 1 << 6;
    /// Number in its node and bytes.
    pub(super) const MORE: u8 = 1 << 7;
}

impl Field for Command {
    fn put(&self, out: &mut Out) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let has_run = self.correlation != out.last.correlation;
        let has_queued = self.queued != out.last.queued;
        let has_row = (self.stream, self.row) != (0, 0);
        let has_more = (self.nth, self.bytes) != (0, 0);
        let flags = flag(self.exact, command::EXACT)
            | flag(has_run, command::RUN)
            | flag(has_queued, command::QUEUED)
            | flag(has_row, command::ROW)
            | flag(has_more, command::MORE);
        out.bytes.push(self.kind.number() | flags);
        if has_run {
            out.difference(self.correlation, out.last.correlation);
        }
        out.plain(&self.node);
        if has_row {
            out.plain(&self.stream);
            out.plain(&self.row);
        }
        if has_more {
            out.plain(&self.nth);
            out.plain(&self.bytes);
        }
        out.moment(&self.start);
        out.moment(&self.end);
        if has_queued {
            out.difference(self.queued, out.last.queued);
        }
        out.last = Last {
            correlation: self.correlation,
            queued: self.queued,
        };
    }

    fn take(input: &mut In<'_>) -> Taken<Command> {
        let first = input.byte()?;
        let has = |bit: u8| first & bit != 0;
        let mut taken = Command {
            kind: CommandKind::of_number(first & command::KIND).ok_or(Malformed)?,
            exact: has(command::EXACT),
            correlation: input.last.correlation,
            queued: input.last.queued,
            ..Command::default()
        };
        if has(command::RUN) {
            taken.correlation = input.difference(input.last.correlation)?;
        }
        taken.node = input.plain()?;
        if has(command::ROW) {
            (taken.stream, taken.row) = (input.plain()?, input.plain()?);
        }
        if has(command::MORE) {
            (taken.nth, taken.bytes) = (input.plain()?, input.plain()?);
        }
        (taken.start, taken.end) = (input.moment()?, input.moment()?);
        if has(command::QUEUED) {
            taken.queued = input.difference(input.last.queued)?;
        }
        input.last = Last {
            correlation: taken.correlation,
            queued: taken.queued,
        };
        Ok(taken)
    }
}

/// The record enum: the number of each variant and what it holds, a struct or named fields.
macro_rules! records {
    ($($number:literal = $variant:ident $(($inner:ident))? $({ $($field:ident: $how:ident),+ })?),+ $(,)?) => {
        impl Field for Record {
            fn put(&self, out: &mut Out) {
                match self {
                    $(Record::$variant $(($inner))? $({ $($field),+ })? => {
                        out.bytes.push($number);
                        $(out.plain($inner);)?
                        $($(out.$how($field);)+)?
                    })+
                }
            }

            fn take(input: &mut In<'_>) -> Taken<Record> {
                Ok(match input.byte()? {
                    $($number => {
                        $(let $inner = input.plain()?;)?
                        $($(let $field = input.$how()?;)+)?
                        Record::$variant $(($inner))? $({ $($field),+ })?
                    })+
                    _ => return Err(Malformed),
                })
            }
        }
    };
}

records! {
    1 = Start(start),
    2 = Text { id: plain, text: plain },
    3 = Thread { id: plain, name: plain },
    4 = Device(device),
    5 = Stream { id: plain, device: plain, name: plain },
    6 = Place(place),
    7 = Program(program),
    8 = Op(op),
    9 = Run(run),
    10 = Command(one),
    11 = Memory(memory),
    12 = Span(span),
    13 = Mark { thread: plain, time: moment, name: plain },
    14 = Counter { time: moment, name: plain, value: plain },
    15 = Failure { thread: plain, time: moment, text: plain },
    16 = Lost { source: plain, count: plain },
    17 = End { time: moment },
}
