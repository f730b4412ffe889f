//! The abi_stable root module of a Rust plugin. It holds the entry function and the tables, so that a layout check reaches
//! every struct and function of the contract; calls go through the entry function alone.

use crate::backend::Backend;
use crate::export::Tables;
use crate::tables::{
    BackendApi, CoreTable, DeviceTable, Entry, EventTable, HostApi, KernelTable, MemoryTable, ProgramTable,
    StreamTable,
};
use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_types::VersionStrings;

/// What a Rust plugin exports beside its C symbol. Tables that come later are appended behind `program`, which stays the end of the
/// prefix: a program compares the fields that it knows, so an older one takes a newer plugin.
#[derive(StableAbi)]
#[repr(C)]
#[sabi(kind(Prefix(prefix_ref = BackendModuleRef, prefix_fields = BackendModulePrefix)))]
#[sabi(missing_field(option))]
pub struct BackendModule {
    /// The entry function, the same as the C symbol.
    pub entry: unsafe extern "C" fn(abi: u32, host: *const HostApi, out: *mut BackendApi) -> i32,
    /// See [`CoreTable`].
    pub core: &'static CoreTable,
    /// See [`DeviceTable`].
    pub device: &'static DeviceTable,
    /// See [`MemoryTable`].
    pub memory: &'static MemoryTable,
    /// See [`StreamTable`].
    pub stream: &'static StreamTable,
    /// See [`EventTable`].
    pub event: &'static EventTable,
    /// See [`KernelTable`].
    pub kernel: &'static KernelTable,
    /// See [`ProgramTable`].
    #[sabi(last_prefix_field)]
    pub program: &'static ProgramTable,
}

impl RootModule for BackendModuleRef {
    abi_stable::declare_root_module_statics! {BackendModuleRef}
    const BASE_NAME: &'static str = "thalweg_backend";
    const NAME: &'static str = "thalweg_backend";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

/// The root module of a backend.
pub fn root_module<B: Backend>(entry: Entry) -> BackendModuleRef {
    BackendModule {
        entry,
        core: Tables::<B>::CORE,
        device: Tables::<B>::DEVICE,
        memory: Tables::<B>::MEMORY,
        stream: Tables::<B>::STREAM,
        event: Tables::<B>::EVENT,
        kernel: Tables::<B>::KERNEL,
        program: Tables::<B>::PROGRAM,
    }
    .leak_into_prefix()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn fields_stay_in_their_places() {
        let places = [
            offset_of!(BackendModule, entry),
            offset_of!(BackendModule, core),
            offset_of!(BackendModule, device),
            offset_of!(BackendModule, memory),
            offset_of!(BackendModule, stream),
            offset_of!(BackendModule, event),
            offset_of!(BackendModule, kernel),
            offset_of!(BackendModule, program),
        ];
        for (at, place) in places.into_iter().enumerate() {
            assert_eq!(place, at * size_of::<usize>());
        }
        assert_eq!(
            size_of::<BackendModulePrefix>(),
            size_of_val(&places),
            "the prefix ends with `program`"
        );
    }
}
