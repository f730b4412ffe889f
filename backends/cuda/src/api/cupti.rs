//! CUPTI, which tells when the device ran what. It is optional.
//!
//! Records and callbacks are read by the offsets of their fields. Later libraries write longer records with the same beginning.

use super::driver::{RawContext, RawGraphNode, dotted};
use super::library::{Search, functions, opaque};
use cudarc::cupti::sys;
use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use thalweg_hal::{Error, Result};

opaque! {
    /// `CUpti_SubscriberHandle`.
    RawSubscriber;
}

type Out<T> = *mut T;
type Code = u32;

/// `CUpti_CallbackFunc`: what was registered with it, domain, number of the callback, its data.
pub(crate) type OnCall = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
/// `CUpti_BuffersCallbackRequestFunc`: where the buffer, its bytes, and the most records of it go.
pub(crate) type OnRequest = unsafe extern "C" fn(Out<*mut u8>, Out<usize>, Out<usize>);
/// `CUpti_BuffersCallbackCompleteFunc`: two that are always null, the buffer, its bytes, and those that are valid.
pub(crate) type OnComplete = unsafe extern "C" fn(RawContext, u32, *mut u8, usize, usize);

functions! {
    /// The functions of CUPTI.
    Cupti:
    version = "cuptiGetVersion"(Out<u32>) -> Code;
    result_string = "cuptiGetResultString"(Code, Out<*const c_char>) -> Code;
    subscribe = "cuptiSubscribe"(Out<RawSubscriber>, OnCall, *mut c_void) -> Code;
    unsubscribe = "cuptiUnsubscribe"(RawSubscriber) -> Code;
    enable_domain = "cuptiEnableDomain"(u32, RawSubscriber, u32) -> Code;
    enable_callback = "cuptiEnableCallback"(u32, RawSubscriber, u32, u32) -> Code;
    register_buffers = "cuptiActivityRegisterCallbacks"(OnRequest, OnComplete) -> Code;
    register_clock = "cuptiActivityRegisterTimestampCallback"(unsafe extern "C" fn() -> u64) -> Code;
    enable = "cuptiActivityEnable"(u32) -> Code;
    disable = "cuptiActivityDisable"(u32) -> Code;
    flush = "cuptiActivityFlushAll"(u32) -> Code;
    next = "cuptiActivityGetNextRecord"(*mut u8, usize, Out<*mut u8>) -> Code;
    dropped = "cuptiActivityGetNumDroppedRecords"(RawContext, u32, Out<usize>) -> Code;
    node_id = "cuptiGetGraphNodeId"(RawGraphNode, Out<u64>) -> Code;
}

/// Callbacks of these domains.
pub(crate) const DRIVER: u32 = sys::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API as u32;
pub(crate) const RUNTIME: u32 = sys::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RUNTIME_API as u32;
pub(crate) const RESOURCE: u32 = sys::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RESOURCE as u32;
/// Callbacks of the last of these.
pub(crate) const NODE_MADE: u32 = sys::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED as u32;
pub(crate) const NODE_COPIED: u32 = sys::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED as u32;

const KERNEL: u32 = sys::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as u32;
const COPY: u32 = sys::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY as u32;
const PEER: u32 = sys::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY2 as u32;
const SET: u32 = sys::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMSET as u32;
/// Kinds of work that there are records of.
pub(crate) const KINDS: [u32; 4] = [KERNEL, COPY, PEER, SET];

/// The oldest version that will do, that of CUDA 12.0. Versions count from 1 to 28, and are those of CUDA from 13.0 on.
const OLDEST: u32 = 18;

/// A field of what a library wrote, whatever its alignment.
macro_rules! field {
    ($at:expr, $type:ty, $field:ident as $as:ty) => {
        $at.cast::<u8>()
            .add(offset_of!($type, $field))
            .cast::<$as>()
            .read_unaligned()
    };
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// CUPTI's number of the call that submitted it.
    pub(crate) call: u32,
    /// The node of a graph that it was; 0 outside of graphs.
    pub(crate) node: u64,
    /// When it began, by the clock that was registered; 0 if that is not known.
    pub(crate) start: u64,
    /// When it ended.
    pub(crate) end: u64,
}

macro_rules! told {
    ($record:expr, $type:ty) => {
        Told {
            call: field!($record, $type, correlationId as u32),
            node: field!($record, $type, graphNodeId as u64),
            start: field!($record, $type, start as u64),
            end: field!($record, $type, end as u64),
        }
    };
}

impl Told {
    /// What a record says, if it is of a kind of [`KINDS`].
    ///
    /// # Safety
    /// `record` is one of CUPTI's.
    pub(crate) unsafe fn read(record: *const u8) -> Option<Told> {
        // SAFETY: each kind has records that begin so, and all begin with their kind.
        unsafe {
            match record.cast::<u32>().read_unaligned() {
                KERNEL => Some(told!(record, sys::CUpti_ActivityKernel9)),
                COPY => Some(told!(record, sys::CUpti_ActivityMemcpy5)),
                PEER => Some(told!(record, sys::CUpti_ActivityMemcpyPtoP4)),
                SET => Some(told!(record, sys::CUpti_ActivityMemset4)),
                _ => None,
            }
        }
    }
}

/// CUPTI's number of a call that begins; `None` when it ends.
///
/// # Safety
/// `data` is that of a callback of [`DRIVER`] or [`RUNTIME`].
pub(crate) unsafe fn call_number(data: *const c_void) -> Option<u32> {
    const ENTER: u32 = sys::CUpti_ApiCallbackSite::CUPTI_API_ENTER as u32;
    // SAFETY: the caller's contract.
    unsafe {
        let site = field!(data, sys::CUpti_CallbackData, callbackSite as u32);
        (site == ENTER).then(|| field!(data, sys::CUpti_CallbackData, correlationId as u32))
    }
}

/// A node of a graph that was made, and the one that it is a copy of, which may be null; `None` for nodes that do nothing themselves.
///
/// # Safety
/// `data` is that of a callback [`NODE_MADE`] or [`NODE_COPIED`].
pub(crate) unsafe fn nodes(data: *const c_void) -> Option<(RawGraphNode, RawGraphNode)> {
    use cudarc::driver::sys::CUgraphNodeType_enum as Type;
    const WORK: [u32; 3] = [
        Type::CU_GRAPH_NODE_TYPE_KERNEL as u32,
        Type::CU_GRAPH_NODE_TYPE_MEMCPY as u32,
        Type::CU_GRAPH_NODE_TYPE_MEMSET as u32,
    ];
    // SAFETY: the caller's contract.
    unsafe {
        let graph = field!(data, sys::CUpti_ResourceData, resourceDescriptor as *const u8);
        if graph.is_null() || !WORK.contains(&field!(graph, sys::CUpti_GraphData, nodeType as u32)) {
            return None;
        }
        let node = field!(graph, sys::CUpti_GraphData, node as *mut c_void);
        let original = field!(graph, sys::CUpti_GraphData, originalNode as *mut c_void);
        Some((RawGraphNode(node), RawGraphNode(original)))
    }
}

impl Cupti {
    /// Opens CUPTI for a driver of this version.
    ///
    /// # Errors
    /// [`Unavailable`](thalweg_hal::Status::Unavailable): it is not there, or too old.
    pub(crate) fn open(search: &Search, driver: i32) -> Result<&'static Cupti> {
        let names: &[&str] = if driver >= 13_000 {
            &["libcupti.so.13", "libcupti.so.12"]
        } else {
            &["libcupti.so.12"]
        };
        let advice = "install CUPTI of the CUDA toolkit, and name its folder in `cuda.libraries`";
        let (library, name) = search.open(names, advice)?;
        let api = Cupti::resolve(library, &name)?;
        let mut version = 0;
        // SAFETY: plain call.
        api.check("cuptiGetVersion", unsafe { (api.version)(&raw mut version) })?;
        if version < OLDEST {
            // Never closed: it may have started threads.
            std::mem::forget(api);
            return Err(Error::unavailable(format!(
                "{name} has the version {version}, and {OLDEST}, that of CUDA {}, or later is needed; update it",
                dotted(12_000)
            )));
        }
        Ok(Box::leak(Box::new(api)))
    }

    /// An error unless `code` is success.
    pub(crate) fn check(&self, call: &str, code: u32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: CUPTI writes a pointer to a text of its own, or null.
        let name = unsafe {
            (self.result_string)(code, &raw mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let name = name.unwrap_or_else(|| "an unknown code".into());
        Err(Error::unavailable(format!("{call} returned {name} ({code})")))
    }

    /// The number of a node in records.
    pub(crate) fn number(&self, node: RawGraphNode) -> Option<u64> {
        let mut number = 0;
        // SAFETY: a node of the driver's.
        let code = unsafe { (self.node_id)(node, &raw mut number) };
        (code == 0).then_some(number)
    }
}

/// Records of CUDA 13 begin as those of 12.
const _: () = {
    use sys::{CUpti_ActivityKernel9 as Old, CUpti_ActivityKernel10 as New};
    assert!(offset_of!(Old, start) == offset_of!(New, start) && offset_of!(Old, end) == offset_of!(New, end));
    assert!(offset_of!(Old, correlationId) == offset_of!(New, correlationId));
    assert!(offset_of!(Old, graphNodeId) == offset_of!(New, graphNodeId));
    use sys::{CUpti_ActivityMemcpy5 as Before, CUpti_ActivityMemcpy6 as After};
    assert!(offset_of!(Before, start) == offset_of!(After, start));
    assert!(offset_of!(Before, correlationId) == offset_of!(After, correlationId));
    assert!(offset_of!(Before, graphNodeId) == offset_of!(After, graphNodeId));
};
