//! Tables whose functions all call what is below. A layer replaces those that it has something to say about.

use crate::layer::{Layer, last_error, over};
use crate::said;
use std::ffi::c_void;
use thalweg_hal::Error;
use thalweg_hal::tables::*;

/// Tables of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) core: CoreTable,
    pub(crate) device: DeviceTable,
    pub(crate) memory: MemoryTable,
    pub(crate) stream: StreamTable,
    pub(crate) event: EventTable,
    pub(crate) kernel: KernelTable,
    pub(crate) program: ProgramTable,
    pub(crate) profile: ProfileTable,
}

macro_rules! forward {
    ($($field:ident: $table:ident { $($name:ident($($arg:ident: $ty:ty),*);)* })*) => {
        $(
            /// The functions of one table.
            pub(crate) mod $field {
                use super::*;

                $(
                    pub(crate) unsafe extern "C" fn $name<L: Layer>(context: Context, $($arg: $ty),*) -> i32 {
                        let place = match over::<L>(context) {
                            Ok(place) => place,
                            Err(code) => return code,
                        };
                        said::clear();
                        let table: Option<&'static $table> = place.next.$field.into();
                        match table {
                            // SAFETY: the arguments are handed on as they came.
                            Some(table) => unsafe { (table.$name)(context, $($arg),*) },
                            None => said::set(&Error::unsupported(concat!(
                                "no ", stringify!($field), " table is below the layer"
                            ))),
                        }
                    }
                )*

                /// The table.
                pub(crate) const fn table<L: Layer>() -> $table {
                    forward!(@table $field $table L $($name)*)
                }
            }
        )*

        impl Tables {
            /// Tables that only forward.
            pub(crate) const fn forward<L: Layer>() -> Tables {
                Tables { $($field: $field::table::<L>()),* }
            }
        }
    };
    (@table core $table:ident $layer:ident $($name:ident)*) => {
        $table { last_error: last_error::<$layer>, $($name: $name::<$layer>),* }
    };
    (@table $field:ident $table:ident $layer:ident $($name:ident)*) => { $table { $($name: $name::<$layer>),* } };
}

forward! {
    core: CoreTable {
        info(out: *mut BackendInfo);
        device_count(out: *mut u32);
        shutdown();
    }
    device: DeviceTable {
        properties(ordinal: u32, out: *mut DeviceProperties);
        is_available(ordinal: u32);
        open(options: *const DeviceOptions, out: *mut u64);
        close(device: u64);
        synchronize(device: u64);
        status(device: u64);
        query(device: u64, key: u32, out: *mut u64);
    }
    memory: MemoryTable {
        alloc(args: *const AllocArgs, out: *mut u64);
        free(buffer: u64);
        import(args: *const ImportArgs, out: *mut u64);
        map(buffer: u64, out: *mut *mut c_void);
        size(buffer: u64, out: *mut u64);
        trim(device: u64, out: *mut u64);
        statistics(device: u64, out: *mut MemoryStatistics);
        ranges(device: u64, out: *mut MemoryRange, capacity: usize, len: *mut usize);
        reset_peaks(device: u64);
        set_limit(device: u64, bytes: u64);
        info(device: u64, out: *mut MemoryInfo);
    }
    stream: StreamTable {
        create(args: *const StreamArgs, out: *mut u64);
        destroy(stream: u64);
        launch(stream: u64, launch: *const Launch, tag: *const Tag);
        submit(stream: u64, packets: *const Packet, count: usize);
        query(stream: u64, out: *mut u32);
        wait_event(args: *const WaitEventArgs);
        callback(args: *const CallbackArgs);
        synchronize(stream: u64);
    }
    event: EventTable {
        create(args: *const EventArgs, out: *mut u64);
        destroy(event: u64);
        record(args: *const EventStreamArgs);
        query(event: u64, out: *mut u32);
        wait(args: *const EventWaitArgs);
        elapsed(args: *const ElapsedArgs, out: *mut i64);
    }
    kernel: KernelTable {
        supports(args: *const CompileArgs);
        compile(args: *const CompileArgs, out: *mut u64);
        release(kernel: u64);
        inspect(args: *const InspectArgs);
    }
    program: ProgramTable {
        create(args: *const ProgramArgs, out: *mut u64);
        rebind(args: *const ProgramRebindArgs);
        run(args: *const ProgramRunArgs);
        destroy(program: u64);
    }
    profile: ProfileTable {
        start(args: *const ProfileStartArgs);
        stop(device: u64);
        correlate(id: u64);
        drain(args: *const ProfileDrainArgs);
        counters(args: *const ProfileCountersArgs);
    }
}
