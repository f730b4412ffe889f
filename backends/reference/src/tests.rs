//! The backend through its tables, as a host sees it.

use super::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use thalweg_hal::ir::{Kernel, encode};
use thalweg_hal::tables::*;
use thalweg_hal::{Status, Str};

unsafe extern "C" fn log(_: *mut c_void, _: *const LogRecord) {}
unsafe extern "C" fn parallel_for(_: *mut c_void, _: *const ParallelArgs) {}
unsafe extern "C" fn max_threads(_: *mut c_void) -> usize {
    1
}
unsafe extern "C" fn config(_: *mut c_void, _: Str, _: *mut u8, _: usize, _: *mut usize) -> i32 {
    1
}
unsafe extern "C" fn trace(_: *mut c_void, _: *const TraceSpan) {}
unsafe extern "C" fn notify(_: *mut c_void, _: *const Notice) {}

static HOST: HostApi = HostApi {
    abi: ABI_VERSION,
    log_level: 0,
    context: null_mut(),
    log,
    parallel_for,
    max_threads,
    config,
    trace,
    notify,
};

struct Plugin(BackendApi);

impl Plugin {
    fn start() -> Plugin {
        let mut api = BackendApi::empty();
        // SAFETY: both pointers are valid.
        let code = unsafe { thalweg_backend(ABI_VERSION, &raw const HOST, &raw mut api) };
        assert_eq!(code, 0);
        Plugin(api)
    }

    fn table<T: Table>(&self) -> &'static T {
        // SAFETY: the plugin's own function; what is not null is a table of this type.
        let table = unsafe { (self.0.query_interface)(self.0.context, T::ID as u32, T::VERSION) };
        // SAFETY: as above.
        unsafe { table.cast::<T>().as_ref() }.unwrap()
    }

    /// Calls with an out pointer; the error's class and text otherwise.
    fn call<T: Default>(&self, call: impl FnOnce(Context, *mut T) -> i32) -> Result<T, (Status, String)> {
        let mut out = T::default();
        let code = call(self.0.context, &raw mut out);
        if code == 0 {
            return Ok(out);
        }
        let mut text = [0; 512];
        // SAFETY: the buffer has the capacity that is passed.
        let len =
            unsafe { (self.table::<CoreTable>().last_error)(self.0.context, text.as_mut_ptr(), text.len()) };
        Err((
            Status::from_code(code).unwrap(),
            String::from_utf8(text[..len].to_vec()).unwrap(),
        ))
    }
}

#[test]
fn a_sum_through_the_tables() {
    let plugin = Plugin::start();
    let (devices, memory) = (plugin.table::<DeviceTable>(), plugin.table::<MemoryTable>());
    let (streams, kernels) = (plugin.table::<StreamTable>(), plugin.table::<KernelTable>());
    let options = DeviceOptions {
        ordinal: 0,
        reserved: 0,
        memory_limit: 0,
        block_size: 1 << 20,
    };
    // SAFETY: every call passes valid pointers and keeps what they lead to until the stream is idle.
    unsafe {
        let device = plugin
            .call(|c, out| (devices.open)(c, &raw const options, out))
            .unwrap();
        let args = StreamArgs {
            device,
            priority: 0,
            reserved: 0,
        };
        let stream = plugin
            .call(|c, out| (streams.create)(c, &raw const args, out))
            .unwrap();
        let alloc = |bytes| {
            let args = AllocArgs {
                device,
                bytes,
                stream,
                tag: null(),
            };
            plugin
                .call(|c, out| (memory.alloc)(c, &raw const args, out))
                .unwrap()
        };
        let (input, output) = (alloc(24), alloc(8));

        let kernel = Kernel::parse(
            "kernel rows outer=1 inner=1\np0 in f32 element strided\np1 out f32 row contiguous\n\
             n0 = load p0\nn1 = sum n0\nn2 = store p1 n1\n",
        );
        let owned = encode(&kernel.unwrap());
        let desc = owned.desc();
        let (kernel, library) = (&raw const desc, null());
        let source = Source { kernel, library };
        let args = CompileArgs {
            device,
            source,
            options: Str::EMPTY,
        };
        let kernel = plugin
            .call(|c, out| (kernels.compile)(c, &raw const args, out))
            .unwrap();

        let mut host = [1.0f32, 2.0, 3.0, 10.0, 20.0, 30.0];
        let place = |buffer, host| Place {
            buffer,
            host,
            offset: 0,
            pitch: 0,
        };
        let (src, dst) = (place(0, host.as_mut_ptr().cast()), place(input, null_mut()));
        let copy = Copy {
            dst,
            src,
            width: 24,
            rows: 1,
        };
        let packet = Packet {
            kind: PacketKind::Copy as u32,
            reserved: 0,
            tag: null(),
            launch: null(),
            copy: &raw const copy,
            fill: null(),
        };
        plugin
            .call(|c, _: *mut ()| (streams.submit)(c, stream, &raw const packet, 1))
            .unwrap();

        let run = |strides: [i64; 2]| {
            let bind = |buffer, strides| Binding {
                buffer,
                offset: 0,
                strides,
                gather_stride: 0,
                gather_extent: 0,
            };
            let bindings = [bind(input, strides.as_ptr()), bind(output, null())];
            let launch = Launch {
                kernel,
                extents: [2, 3].as_ptr(),
                extent_count: 2,
                bindings: bindings.as_ptr(),
                binding_count: 2,
                scalars: null(),
                scalar_count: 0,
            };
            plugin.call(|c, _: *mut ()| (streams.launch)(c, stream, &raw const launch, null()))
        };
        let sums = || {
            plugin
                .call(|c, _: *mut ()| (streams.synchronize)(c, stream))
                .unwrap();
            let map = |c, out: *mut usize| (memory.map)(c, output, out.cast());
            *(plugin.call(map).unwrap() as *const [f32; 2])
        };
        run([3, 1]).unwrap();
        assert_eq!(sums(), [6.0, 60.0]);
        run([1, 2]).unwrap();
        assert_eq!(sums(), [24.0, 42.0]);
        let (status, text) = run([4, 1]).unwrap_err();
        assert_eq!(status, Status::OutOfBounds);
        assert_eq!(
            text,
            "rows: parameter 0 reaches bytes 0..28 of a buffer of 24 bytes"
        );

        plugin.call(|c, _: *mut ()| (memory.free)(c, input)).unwrap();
        assert_eq!(run([3, 1]).unwrap_err().0, Status::InvalidHandle);
        plugin.call(|c, _: *mut ()| (devices.close)(c, device)).unwrap();
        assert_eq!(
            plugin
                .call(|c, _: *mut ()| (streams.synchronize)(c, stream))
                .unwrap_err()
                .0,
            Status::InvalidHandle
        );
    }
}
