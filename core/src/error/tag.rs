//! Which op the user called.

use crate::hal;
use std::cell::Cell;
use std::panic::Location;

/// The op that the user called and where; what it is made of carries the same tag.
#[derive(Clone, Copy, Debug)]
pub struct OpTag {
    /// Name of the op.
    pub op: &'static str,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
}

thread_local! {
    static OUTER: Cell<Option<OpTag>> = const { Cell::new(None) };
}

impl OpTag {
    /// Nobody called it.
    pub const NONE: OpTag = OpTag {
        op: "",
        location: None,
    };

    /// `op` at the caller's line, unless a larger op is under way, whose tag it is then.
    #[inline]
    #[track_caller]
    pub fn new(op: &'static str) -> OpTag {
        match OUTER.get() {
            Some(outer) => outer,
            None => OpTag {
                op,
                location: Some(Location::caller()),
            },
        }
    }

    /// Whether an op is under way on this thread, of which what is called is a part.
    #[inline]
    pub(crate) fn is_under_way() -> bool {
        OUTER.get().is_some()
    }

    /// Runs `body`; tags made inside are this one.
    pub fn scope<R>(self, body: impl FnOnce() -> R) -> R {
        struct Restore(Option<OpTag>);
        impl Drop for Restore {
            fn drop(&mut self) {
                OUTER.set(self.0);
            }
        }
        let _restore = Restore(OUTER.replace(Some(self)));
        body()
    }
}

/// The tag of a piece of work on the device.
#[inline]
pub(crate) fn hal_tag(tag: OpTag) -> hal::Tag<'static> {
    match tag.location {
        Some(location) => hal::Tag::at(tag.op, location),
        None => hal::Tag::new(tag.op),
    }
}
