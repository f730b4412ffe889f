//! Which op the user called.

use crate::hal;
use crate::record::recording::PlaceId;
use crate::record::scope::{self, ScopeId};
use crate::record::{calls, parts, place, switch};
use std::cell::Cell;
use std::panic::Location;

/// The op that the user called and where; what it is made of carries the same tag.
#[derive(Clone, Copy, Debug)]
pub struct OpTag {
    /// Name of the op.
    pub op: &'static str,
    /// Who called it, which may be the standard library; readers take [`OpTag::location`].
    pub(crate) caller: Option<&'static Location<'static>>,
    /// In which part of a network.
    pub(crate) scope: ScopeId,
    /// Number of the call in its trace or step, from 1; 0 where nobody counts.
    pub(crate) call: u32,
    /// Tells calls of one name apart, such as those of two turns of a loop; 0 where nobody counts.
    pub(crate) serial: u32,
    /// Number of the primitive in its call, from 1; 0 for the call itself.
    pub(crate) primitive: u32,
}

/// [`OpTag::call`] of what stands for "no op is under way, and calls are counted".
const COUNTED: u32 = u32::MAX;
/// [`OpTag::call`] of what stands for "no op is under way, and lines are [`REPLACED`]".
const PLACED: u32 = u32::MAX - 1;

type Line = &'static Location<'static>;

thread_local! {
    static OUTER: Cell<Option<OpTag>> = const { Cell::new(None) };
    /// Ops called at the first line count as called at the second.
    static REPLACED: Cell<Option<(Line, Line)>> = const { Cell::new(None) };
}

/// The line that stands for this one.
fn replaced(location: Line) -> Line {
    match REPLACED.get() {
        Some((from, to)) if from == location || !place::is_of_program(location.file()) => to,
        _ => location,
    }
}

/// While it lives, ops of this thread called at a line count as called at another. Dropping it, also by a panic, ends that.
#[derive(Debug)]
pub(crate) struct Placed {
    outer: Option<OpTag>,
    replaced: Option<(Line, Line)>,
    // It ends on the thread that it began on.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Placed {
    /// Ops called at `from` count as called at `to`.
    pub(crate) fn new(from: Line, to: Line) -> Placed {
        let outer = OUTER.get();
        let mark = OpTag {
            call: PLACED,
            ..OpTag::NONE
        };
        OUTER.set(outer.or(Some(mark)));
        Placed {
            outer,
            replaced: REPLACED.replace(Some((from, to))),
            _not_send: std::marker::PhantomData,
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        OUTER.set(self.outer);
        REPLACED.set(self.replaced);
    }
}

/// While it lives, another op is the outer one. It is no part of the generic functions that hold it, so that it is compiled once.
struct Under(Option<OpTag>);

impl Under {
    #[inline(never)]
    fn new(outer: Option<OpTag>) -> Under {
        Under(OUTER.replace(outer))
    }

    #[inline(never)]
    fn of_op(tag: OpTag) -> Under {
        if !switch::is_off() {
            calls::observe();
        }
        Under::new(Some(tag))
    }
}

impl Drop for Under {
    #[inline(never)]
    fn drop(&mut self) {
        OUTER.set(self.0);
    }
}

impl OpTag {
    /// Nobody called it.
    pub const NONE: OpTag = OpTag {
        op: "",
        caller: None,
        scope: ScopeId::NONE,
        call: 0,
        serial: 0,
        primitive: 0,
    };

    /// `op` at the caller's line, unless a larger op is under way, whose tag it is then. While ops are traced or recorded it has a scope
    /// and a number.
    #[inline]
    #[track_caller]
    pub fn new(op: &'static str) -> OpTag {
        match OUTER.get() {
            Some(outer) if outer.is_op() => outer,
            None if switch::is_off() => OpTag {
                op,
                caller: Some(Location::caller()),
                scope: ScopeId::NONE,
                call: 0,
                serial: 0,
                primitive: 0,
            },
            _ => OpTag::counted(op, Location::caller()),
        }
    }

    #[cold]
    fn counted(op: &'static str, location: &'static Location<'static>) -> OpTag {
        let caller = Some(replaced(location));
        if switch::is_off() && OUTER.get().is_none_or(|outer| outer.call != COUNTED) {
            return OpTag {
                op,
                caller,
                ..OpTag::NONE
            };
        }
        if !switch::is_off() {
            calls::observe();
        }
        OpTag {
            op,
            caller,
            scope: scope::current(),
            call: calls::next(),
            serial: calls::serial(),
            primitive: 0,
        }
    }

    /// Whether it is an op, and not one of the marks in [`OUTER`].
    #[inline]
    fn is_op(&self) -> bool {
        self.call < PLACED
    }

    /// As [`OpTag::new`] without a number, for what computes nothing itself: reads of values, and functions of functions. So calls have
    /// the same numbers whether such a function is there or not.
    #[inline]
    #[track_caller]
    pub(crate) fn uncounted(op: &'static str) -> OpTag {
        let location = Location::caller();
        let scope = match OUTER.get() {
            Some(outer) if outer.is_op() => return outer,
            Some(outer) if outer.call == COUNTED => scope::current(),
            _ if switch::is_off() => ScopeId::NONE,
            _ => scope::current(),
        };
        OpTag {
            op,
            caller: Some(replaced(location)),
            scope,
            call: 0,
            serial: 0,
            primitive: 0,
        }
    }

    /// As [`OpTag::uncounted`], of what no line of a program asked for, such as a number that stands among operands.
    pub(crate) fn unplaced(op: &'static str) -> OpTag {
        match OUTER.get() {
            Some(outer) if outer.is_op() => outer,
            Some(_) | None => OpTag {
                caller: None,
                ..OpTag::uncounted(op)
            },
        }
    }

    /// The user's line; `None` also for a call of a function that was given as a value, whose caller is the standard library.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.caller.filter(|line| place::is_of_program(line.file()))
    }

    /// Whether an op is under way on this thread, of which what is called is a part.
    #[inline]
    pub(crate) fn is_under_way() -> bool {
        OUTER.get().is_some_and(|outer| outer.is_op())
    }

    /// The op that is under way, which this one was called in; itself where none is. A rule for gradients knows the tag of its op,
    /// and runs as a part of what computes the gradient.
    pub(crate) fn within(self) -> OpTag {
        match OUTER.get() {
            Some(outer) if outer.is_op() && !outer.op.is_empty() => outer,
            _ => self,
        }
    }

    /// The tag of the next primitive by this name that the call is made of. The first one of the op's own name is the call itself.
    pub(crate) fn of_primitive(self, name: &str) -> OpTag {
        if self.call == 0 {
            return self;
        }
        OpTag {
            primitive: calls::primitive(name == self.op),
            ..self
        }
    }

    /// Runs `body`; tags made inside are this one.
    pub fn scope<R>(self, body: impl FnOnce() -> R) -> R {
        let _under = Under::of_op(self);
        body()
    }

    /// Runs `body`, in which the calls of ops are counted.
    pub(crate) fn counting<R>(body: impl FnOnce() -> R) -> R {
        let counted = OpTag {
            call: COUNTED,
            ..OpTag::NONE
        };
        let _under = Under::new(OUTER.get().filter(OpTag::is_op).or(Some(counted)));
        body()
    }

    /// Runs `body` as no part of the op that is under way: its ops have tags of their own, and are not counted.
    pub(crate) fn apart<R>(body: impl FnOnce() -> R) -> R {
        let (count, counted) = (
            calls::count(),
            OpTag {
                call: COUNTED,
                ..OpTag::NONE
            },
        );
        let under = Under::new(Some(counted));
        let result = body();
        drop(under);
        calls::count_from(count);
        result
    }

    /// The tag of what computes the gradient of this op's operands.
    pub(crate) fn gradient(self) -> OpTag {
        if self.scope == ScopeId::NONE && !parts::is_naming() {
            return self;
        }
        calls::begin();
        OpTag {
            op: if self.op.is_empty() { "gradient" } else { self.op },
            scope: self.scope.gradients(),
            ..self
        }
    }

    /// Whether it computes the gradient of something.
    pub(crate) fn is_gradient(&self) -> bool {
        self.scope.is_gradients()
    }

    /// The same op at the same line.
    pub(crate) fn is_at(&self, other: &OpTag) -> bool {
        let same_line = match (self.caller, other.caller) {
            (Some(one), Some(other)) => std::ptr::eq(one, other) || one == other,
            (None, None) => true,
            _ => false,
        };
        self.op == other.op && same_line
    }

    /// The same call.
    pub(crate) fn is_call(&self, other: &OpTag) -> bool {
        (self.scope, self.call) == (other.scope, other.call) && self.is_at(other)
    }

    /// Its place in recordings.
    #[inline(always)]
    pub(crate) fn place(&self) -> PlaceId {
        place::of(self.op, self.caller, self.scope)
    }

    /// The call in recordings.
    #[inline(always)]
    pub(crate) fn of_record(&self) -> place::Call {
        place::Call {
            place: self.place(),
            number: self.call,
        }
    }

    /// `Default/conv1/conv2d-op3`: scope, op and number, as far as it has them.
    pub fn name(&self) -> String {
        let mut name = self.scope.path().to_string();
        if !name.is_empty() && !self.op.is_empty() {
            name.push('/');
        }
        name.push_str(self.op);
        if self.call > 0 {
            name.push_str(&format!("-op{}", self.call));
        }
        name
    }
}

/// The tag of a piece of work on the device.
#[inline]
pub(crate) fn hal_tag(tag: &OpTag) -> hal::Tag<'static> {
    match tag.caller {
        Some(location) => hal::Tag::at(tag.op, location),
        None => hal::Tag::new(tag.op),
    }
}
