//! What every layer is made of: its function, its place over a backend, its calls.

use crate::forward::Tables;
use crate::next::Next;
use crate::said;
use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use thalweg_hal::kit::queue::panic_error;
use thalweg_hal::tables::{ABI_MAJOR, BackendApi, Context, HostApi, LogLevel, TableId};
use thalweg_hal::{Error, Host, Result, Status};

/// A layer: its state over one backend.
pub(crate) trait Layer: Sized + Send + Sync + 'static {
    /// The name that users ask for.
    const NAME: &'static str;

    /// Its tables; [`Tables::forward`] has the functions that it does not replace.
    const TABLES: &'static Tables;

    /// The state over a backend.
    fn start(host: Host, next: &Next) -> Result<Self>;

    /// Where it stands.
    fn places() -> &'static Places<Self>;
}

/// A layer over one backend. It lives as long as the process.
pub(crate) struct Place<L> {
    pub(crate) next: Next,
    pub(crate) layer: L,
    // The place that was taken before.
    earlier: *const Place<L>,
}

/// The backends that a layer stands over, told apart by their contexts. They are added and never taken away.
pub(crate) struct Places<L>(AtomicPtr<Place<L>>);

impl<L: 'static> Places<L> {
    /// None.
    pub(crate) const fn new() -> Places<L> {
        Places(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    fn get(&self, context: Context) -> Option<&'static Place<L>> {
        let mut at = self.0.load(Ordering::Acquire).cast_const();
        // SAFETY: null or a place that was leaked, and so are those before it.
        while let Some(place) = unsafe { at.as_ref() } {
            if place.next.api.context == context {
                return Some(place);
            }
            at = place.earlier;
        }
        None
    }

    fn add(&self, next: Next, layer: L) -> Result<()> {
        let new = Box::leak(Box::new(Place {
            next,
            layer,
            earlier: ptr::null(),
        }));
        loop {
            if next.api.context.is_null() || self.get(next.api.context).is_some() {
                return Err(Error::invalid_argument(
                    "the backend's context is null or another backend's; a layer tells backends apart by it",
                ));
            }
            let head = self.0.load(Ordering::Acquire);
            new.earlier = head;
            if (self
                .0
                .compare_exchange(head, new, Ordering::AcqRel, Ordering::Relaxed))
            .is_ok()
            {
                return Ok(());
            }
        }
    }
}

/// The layer's place over the backend with this context; a code where it stands over none.
#[inline]
pub(crate) fn over<L: Layer>(context: Context) -> std::result::Result<&'static Place<L>, i32> {
    L::places().get(context).ok_or_else(nowhere)
}

#[cold]
#[inline(never)]
fn nowhere() -> i32 {
    said::set(&Error::invalid_argument("the context is no backend's"))
}

/// Why a call of a layer ends early.
pub(crate) enum Stop {
    /// What is below has failed with this code and keeps the text.
    Below(i32),
    /// The layer refuses.
    Own(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Own(error)
    }
}

/// What a call of a layer comes to.
pub(crate) type Answer = std::result::Result<(), Stop>;

/// The answer of what is below.
#[inline]
pub(crate) fn below(code: i32) -> Answer {
    match code {
        0 => Ok(()),
        code => Err(Stop::Below(code)),
    }
}

/// Runs a call of a layer: its place, panics, error text.
#[inline]
pub(crate) fn enter<L: Layer>(context: Context, call: impl FnOnce(&'static Place<L>) -> Answer) -> i32 {
    let place = match over::<L>(context) {
        Ok(place) => place,
        Err(code) => return code,
    };
    said::clear();
    match catch_unwind(AssertUnwindSafe(|| call(place))) {
        Ok(Ok(())) => 0,
        Ok(Err(stop)) => stopped(stop),
        Err(payload) => panicked(L::NAME, &*payload),
    }
}

#[cold]
#[inline(never)]
fn stopped(stop: Stop) -> i32 {
    match stop {
        Stop::Below(code) => code,
        Stop::Own(error) => said::set(&error),
    }
}

#[cold]
#[inline(never)]
fn panicked(layer: &str, payload: &(dyn Any + Send)) -> i32 {
    let error = panic_error(payload);
    let text = format!("layer {layer}: {}", error.message);
    said::set(&Error::new(error.status, text))
}

pub(crate) unsafe extern "C" fn last_error<L: Layer>(
    context: Context,
    buffer: *mut u8,
    capacity: usize,
) -> usize {
    // SAFETY: the contract of the tables.
    if let Some(length) = unsafe { said::copy(buffer, capacity) } {
        return length;
    }
    match over::<L>(context) {
        // SAFETY: the arguments are handed on as they came.
        Ok(place) => unsafe { (place.next.core.last_error)(context, buffer, capacity) },
        Err(_) => 0,
    }
}

unsafe extern "C" fn query_interface<L: Layer>(context: Context, table: u32, version: u32) -> *const c_void {
    let Some(place) = L::places().get(context) else {
        return ptr::null();
    };
    let known = TableId::from_code(table).filter(|id| version == 1 && place.next.has(*id));
    match known {
        Some(TableId::Core) => ptr::from_ref(&L::TABLES.core).cast(),
        Some(TableId::Device) => ptr::from_ref(&L::TABLES.device).cast(),
        Some(TableId::Memory) => ptr::from_ref(&L::TABLES.memory).cast(),
        Some(TableId::Stream) => ptr::from_ref(&L::TABLES.stream).cast(),
        Some(TableId::Event) => ptr::from_ref(&L::TABLES.event).cast(),
        Some(TableId::Kernel) => ptr::from_ref(&L::TABLES.kernel).cast(),
        Some(TableId::Program) => ptr::from_ref(&L::TABLES.program).cast(),
        Some(TableId::Profile) => ptr::from_ref(&L::TABLES.profile).cast(),
        None => place.next.query(table, version),
    }
}

/// The function of the layer `L`, as [`LayerEntry`](thalweg_hal::tables::LayerEntry) says.
///
/// # Safety
/// The pointers are null or valid: `host` for the life of the process, `next` filled by a function that keeps the contract.
pub(crate) unsafe extern "C" fn entry<L: Layer>(
    abi: u32,
    host: *const HostApi,
    next: *const BackendApi,
    out: *mut BackendApi,
) -> i32 {
    // SAFETY: the caller vouches for `host`.
    let host = match unsafe { Host::new(host) } {
        Ok(host) => host,
        Err(error) => return said::set(&error),
    };
    let result = Host::guard(|| {
        if (abi >> 16) as u16 != ABI_MAJOR {
            let text = format!(
                "built against thalweg-hal {ABI_MAJOR}.x, this program speaks {}.x",
                abi >> 16
            );
            return Err(Error::new(Status::IncompatibleAbi, text));
        }
        // SAFETY: the caller vouches for both.
        let (Some(api), Some(out)) = (unsafe { next.as_ref() }, unsafe { out.as_mut() }) else {
            return Err(Error::invalid_argument(
                "the tables below or the out pointer are null",
            ));
        };
        // SAFETY: the caller vouches for `next`.
        let next = unsafe { Next::new(api)? };
        L::places().add(next, L::start(host, &next)?)?;
        *out = BackendApi {
            query_interface: query_interface::<L>,
            ..*api
        };
        Ok(())
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            host.log(LogLevel::Error, L::NAME, &error.message);
            said::set(&error)
        }
    }
}
