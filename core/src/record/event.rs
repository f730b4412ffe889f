//! Events: what a thread notes, in 64 bytes, and the writer makes records of.

use super::place::Call;
use super::recording::{PlaceId, SpanKind, TextId};

/// Words of an event.
pub(crate) const WORDS: usize = 8;
pub(crate) type Words = [u64; WORDS];

/// What a thread notes. Times are ticks of [`super::clock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    Op {
        start: u64,
        end: u64,
        call: Call,
        operands: TextId,
        /// Equal for the parts of one call.
        serial: u32,
    },
    Run {
        start: u64,
        end: u64,
        correlation: u64,
        /// Number of the device in this process.
        device: u32,
        /// Handle of the stream.
        stream: u64,
        program: u32,
        call: Call,
        /// Of a run that is all of a call: what [`Event::Op`] says beside it.
        op: Option<OpOfRun>,
    },
    Span {
        start: u64,
        end: u64,
        kind: SpanKind,
        name: TextId,
        number: u64,
    },
    Mark {
        time: u64,
        name: TextId,
    },
    Counter {
        time: u64,
        name: TextId,
        value: f64,
    },
    Failure {
        time: u64,
        text: TextId,
    },
    /// A run on a device that does not measure, between two of its events.
    Bracket {
        end: u64,
        /// Nanoseconds.
        took: u64,
        correlation: u64,
        device: u32,
        stream: u64,
    },
}

/// The call of an op that is one run, and has its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpOfRun {
    pub(crate) operands: TextId,
    pub(crate) serial: u32,
}

/// Two halves of a word.
fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The first word: kind, session, and a number.
fn head(kind: u8, session: u16, number: u32) -> u64 {
    u64::from(kind) | u64::from(session) << 16 | u64::from(number) << 32
}

impl Event {
    /// As words.
    #[inline(always)]
    pub(crate) fn words(self, session: u16) -> Words {
        let of_call = |call: Call| joined(call.place, call.number);
        match self {
            Event::Op {
                start,
                end,
                call,
                operands,
                serial,
            } => {
                let head = head(1, session, operands);
                [head, start, end, of_call(call), u64::from(serial), 0, 0, 0]
            }
            Event::Run {
                start,
                end,
                correlation,
                device,
                stream,
                program,
                call,
                op,
            } => {
                let (kind, OpOfRun { operands, serial }) = match op {
                    None => (2, OpOfRun::default()),
                    Some(op) => (8, op),
                };
                [
                    head(kind, session, device),
                    start,
                    end,
                    of_call(call),
                    correlation,
                    stream,
                    joined(program, serial),
                    u64::from(operands),
                ]
            }
            Event::Span {
                start,
                end,
                kind,
                name,
                number,
            } => {
                let head = head(3, session, name);
                [head, start, end, u64::from(kind.number()), number, 0, 0, 0]
            }
            Event::Mark { time, name } => [head(4, session, name), time, 0, 0, 0, 0, 0, 0],
            Event::Counter { time, name, value } => {
                [head(5, session, name), time, value.to_bits(), 0, 0, 0, 0, 0]
            }
            Event::Failure { time, text } => [head(6, session, text), time, 0, 0, 0, 0, 0, 0],
            Event::Bracket {
                end,
                took,
                correlation,
                device,
                stream,
            } => [head(7, session, device), took, end, 0, correlation, stream, 0, 0],
        }
    }

    /// The event and its session; `None` for words that are none.
    pub(crate) fn of_words(words: Words) -> Option<(u16, Event)> {
        let [first, start, end, third, fourth, fifth, sixth, seventh] = words;
        let call = Call {
            place: low(third) as PlaceId,
            number: high(third),
        };
        let number = high(first);
        let event = match first as u8 {
            1 => Event::Op {
                start,
                end,
                call,
                operands: number,
                serial: low(fourth),
            },
            kind @ (2 | 8) => Event::Run {
                start,
                end,
                correlation: fourth,
                device: number,
                stream: fifth,
                program: low(sixth),
                call,
                op: (kind == 8).then_some(OpOfRun {
                    operands: low(seventh),
                    serial: high(sixth),
                }),
            },
            3 => Event::Span {
                start,
                end,
                kind: SpanKind::of_number(third as u8)?,
                name: number,
                number: fourth,
            },
            4 => Event::Mark {
                time: start,
                name: number,
            },
            5 => Event::Counter {
                time: start,
                name: number,
                value: f64::from_bits(end),
            },
            6 => Event::Failure {
                time: start,
                text: number,
            },
            7 => Event::Bracket {
                end,
                took: start,
                correlation: fourth,
                device: number,
                stream: fifth,
            },
            _ => return None,
        };
        Some(((first >> 16) as u16, event))
    }
}
