//! The ABI: `repr(C)` tables of `extern "C"` functions.
//!
//! # Rules
//! - A published table never changes. New functions come in a new table with a new [`TableId`] or version, asked for with
//!   [`BackendApi::query_interface`]; what a plugin lacks reads as null.
//! - Every function takes the plugin's context first, its arguments as a struct, and returns a [`Status`] code; `0` is
//!   success. After another code the text is read with [`CoreTable::last_error`] on the same thread.
//! - Out pointers are written only on success.
//! - A handle is a u64, `generation << 32 | index`, never 0 and never a pointer. A stale one is [`Status::InvalidHandle`].
//!   An object must not be destroyed while another thread is inside a call that uses it; before and after are errors, not
//!   undefined.
//! - Functions may be called from any thread. No function unwinds.
//! - Pointers passed in are valid for the duration of the call; what asynchronous work needs later is copied.
//!
//! [`Status`]: crate::Status
//! [`Status::InvalidHandle`]: crate::Status::InvalidHandle

mod core;
mod device;
mod event;
mod host;
mod kernel;
mod layout;
mod memory;
mod profile;
mod program;
mod stream;

pub use self::core::{BackendInfo, CoreTable};
pub use device::{Capability, DeviceOptions, DeviceProperties, DeviceTable, Kind, PropertyKey};
pub use event::{ElapsedArgs, EventArgs, EventStreamArgs, EventTable, EventWaitArgs};
pub use host::{HostApi, LogLevel, LogRecord, Notice, NoticeKind, ParallelArgs, TraceSpan};
pub use kernel::{CompileArgs, InspectArgs, KernelPart, KernelTable};
pub use layout::LAYOUT;
pub use memory::{
    AllocArgs, Copy, Fill, ImportArgs, MemoryInfo, MemoryRange, MemoryStatistics, MemoryTable, MemoryUse,
    Place,
};
pub use profile::{
    ProfileCounter, ProfileCountersArgs, ProfileDrainArgs, ProfileFlag, ProfileKind, ProfileRecord,
    ProfileStartArgs, ProfileTable,
};
pub use program::{
    ProgramArgs, ProgramDependency, ProgramInput, ProgramRebindArgs, ProgramRunArgs, ProgramScalar,
    ProgramTable,
};
pub use stream::{
    Binding, CallbackArgs, Launch, Packet, PacketKind, StreamArgs, StreamTable, Tag, WaitEventArgs,
};

use crate::library::LibraryDesc;
use std::ffi::c_void;

/// Major version: host and plugin must agree.
pub const ABI_MAJOR: u16 = 2;
/// Minor version: grows with every new table.
pub const ABI_MINOR: u16 = 1;
/// `major << 16 | minor`, as the entry function takes it.
pub const ABI_VERSION: u32 = ((ABI_MAJOR as u32) << 16) | ABI_MINOR as u32;
/// Name of the entry function of every plugin.
pub const ENTRY_SYMBOL: &str = "thalweg_backend";

/// A plugin's context, handed back as the first argument of each of its functions.
pub type Context = *mut c_void;

/// The entry function: fills `out` and returns a status code. It must not initialise any device. On failure the
/// message goes to the host's log.
pub type Entry = unsafe extern "C" fn(abi: u32, host: *const HostApi, out: *mut BackendApi) -> i32;

/// What a plugin hands over.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BackendApi {
    /// The ABI version the plugin was built against, as [`ABI_VERSION`].
    pub abi: u32,
    /// 0.
    pub reserved: u32,
    /// First argument of every function.
    pub context: Context,
    /// The table of a [`TableId`] code in the given version, or null; valid for the life of the process.
    pub query_interface: unsafe extern "C" fn(context: Context, table: u32, version: u32) -> *const c_void,
}

/// Name of the function of every layer.
pub const LAYER_SYMBOL: &str = "thalweg_layer";

/// The function of a layer: given the tables of a backend, or of the layer below, fills `out` with its own and returns a status
/// code. It is called once for each backend, and must not initialise any device. On failure the message goes to the host's log.
///
/// Handles and the context stay the backend's: `out` is a copy of `next` with another `query_interface`, and every table takes the
/// same context. No two backends under a layer have the same context, so a layer finds its own state by it. The answer to a
/// table or version that the layer does not know is that of `next`. `next` is valid for the call; what it leads to for the life of
/// the process.
pub type LayerEntry = unsafe extern "C" fn(
    abi: u32,
    host: *const HostApi,
    next: *const BackendApi,
    out: *mut BackendApi,
) -> i32;

// SAFETY: the context is used through the tables only, whose functions may be called from any thread.
unsafe impl Send for BackendApi {}
// SAFETY: as above.
unsafe impl Sync for BackendApi {}

impl BackendApi {
    /// A value for the entry function to overwrite; every query answers null.
    pub const fn empty() -> BackendApi {
        unsafe extern "C" fn nothing(_: Context, _: u32, _: u32) -> *const c_void {
            std::ptr::null()
        }
        BackendApi {
            abi: 0,
            reserved: 0,
            context: std::ptr::null_mut(),
            query_interface: nothing,
        }
    }
}

/// Defines the tables that a backend hands over. The columns after the name are the type, the field of [`Tables`], and whether a
/// backend without it is refused.
macro_rules! table_ids {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $table:ident, $field:ident, $need:ident;)*) => {
        /// Names a table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum TableId { $($(#[$doc])* $name = $code,)* }

        impl TableId {
            /// Every table of this version.
            pub const ALL: &'static [TableId] = &[$(TableId::$name),*];

            /// The name in messages.
            pub const fn name(self) -> &'static str { match self { $(TableId::$name => $text,)* } }

            /// Whether a backend without it is refused.
            pub const fn required(self) -> bool { match self { $(TableId::$name => table_ids!(@required $need),)* } }

            /// How many functions it has; it has nothing else.
            pub const fn functions(self) -> usize {
                match self { $(TableId::$name => size_of::<$table>() / size_of::<Entry>(),)* }
            }

            /// The table of a code.
            pub const fn from_code(code: u32) -> Option<TableId> { match code { $($code => Some(TableId::$name),)* _ => None } }
        }

        $(
            impl Table for $table {
                const ID: TableId = TableId::$name;
            }
        )*

        /// The tables that a backend handed over; `None` for one that it lacks.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct Tables { $($(#[$doc])* pub $field: table_ids!(@type $need $table),)* }

        impl Tables {
            /// Asks for every table.
            ///
            /// # Errors
            /// A required table that is missing.
            ///
            /// # Safety
            /// `api` was filled by an entry function that keeps the contract of this module.
            pub unsafe fn of(api: &BackendApi) -> Result<Tables, TableId> {
                // SAFETY: the caller vouches for `api`.
                unsafe { Ok(Tables { $($field: table_ids!(@ask $need table::<$table>(api)),)* }) }
            }

            /// Whether there is a table.
            pub const fn has(&self, id: TableId) -> bool {
                match id { $(TableId::$name => table_ids!(@has $need self.$field),)* }
            }
        }
    };
    (@required required) => { true };
    (@required optional) => { false };
    (@type required $table:ident) => { &'static $table };
    (@type optional $table:ident) => { Option<&'static $table> };
    (@ask required $table:expr) => { $table? };
    (@ask optional $table:expr) => { $table.ok() };
    (@has required $table:expr) => { true };
    (@has optional $table:expr) => { $table.is_some() };
}

/// Asks for a table.
///
/// # Safety
/// `api` was filled by an entry function that keeps the contract of this module.
unsafe fn table<T: Table>(api: &BackendApi) -> Result<&'static T, TableId> {
    // SAFETY: the caller vouches for `api`; a table lives as long as the process and has the layout of its id and version.
    let table = unsafe {
        (api.query_interface)(api.context, T::ID as u32, T::VERSION)
            .cast::<T>()
            .as_ref()
    };
    table.ok_or(T::ID)
}

/// A table that can be asked for. All of them are at version 1.
pub trait Table: Sized + 'static {
    /// Its id.
    const ID: TableId;
    /// Its version.
    const VERSION: u32 = 1;
}

table_ids! {
    /// Who it is, and the text of its last error: [`CoreTable`].
    Core = 1, "core", CoreTable, core, required;
    /// Devices: [`DeviceTable`].
    Device = 2, "device", DeviceTable, device, required;
    /// Memory: [`MemoryTable`].
    Memory = 3, "memory", MemoryTable, memory, required;
    /// Streams: [`StreamTable`].
    Stream = 4, "stream", StreamTable, stream, required;
    /// Events: [`EventTable`].
    Event = 5, "event", EventTable, event, required;
    /// Kernels: [`KernelTable`]. A backend without it only moves memory.
    Kernel = 6, "kernel", KernelTable, kernel, optional;
    /// Programs: [`ProgramTable`].
    Program = 7, "program", ProgramTable, program, optional;
    /// Profiles: [`ProfileTable`].
    Profile = 8, "profile", ProfileTable, profile, optional;
}

/// What a kernel is compiled from: exactly one of the pointers is not null.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Source {
    /// A kernel in the IR.
    pub kernel: *const crate::ir::KernelDesc,
    /// A library op.
    pub library: *const LibraryDesc,
}
