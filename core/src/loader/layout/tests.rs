use super::*;
use abi_stable::StableAbi;

/// The same root module as different versions of the contract have it.
macro_rules! version {
    ($version:ident, $cores:ty, [$($optional:ident),*]) => {
        #[allow(dead_code, unreachable_pub, missing_docs)]
        mod $version {
            use abi_stable::StableAbi;

            #[repr(C)]
            #[derive(StableAbi)]
            pub struct Info {
                pub kind: u32,
                pub cores: $cores,
            }

            #[repr(C)]
            #[derive(StableAbi)]
            pub struct Device {
                pub open: extern "C" fn(u32) -> u64,
                pub info: unsafe extern "C" fn(device: u64, out: *mut Info) -> i32,
            }

            #[repr(C)]
            #[derive(StableAbi)]
            #[sabi(kind(Prefix(prefix_ref = ModuleRef, prefix_fields = ModulePrefix)))]
            #[sabi(missing_field(option))]
            pub struct Module {
                #[sabi(last_prefix_field)]
                pub device: &'static Device,
                $(pub $optional: extern "C" fn(),)*
            }
        }
    };
}

version!(first, u32, []);
version!(second, u32, [graph]);
version!(changed, u64, []);
version!(changed_and_newer, u64, [graph]);

fn layout<T: StableAbi>() -> &'static TypeLayout {
    T::LAYOUT
}

#[test]
fn older_and_newer_plugins_fit() {
    let (old, new) = (layout::<first::ModuleRef>(), layout::<second::ModuleRef>());
    assert_eq!(check(old, old, "1.0"), Ok(()));
    assert_eq!(check(old, new, "1.1"), Ok(()));
    assert_eq!(check(new, old, "1.0"), Ok(()));
}

#[test]
fn a_changed_field_is_one_line() {
    let want = "device.info().cores: this program expects u32, the plugin has u64 \
                (built against thalweg-hal 1.2.0; rebuild it against 1.0)";
    let (ours, newer) = (layout::<first::ModuleRef>(), layout::<second::ModuleRef>());
    for theirs in [
        layout::<changed::ModuleRef>(),
        layout::<changed_and_newer::ModuleRef>(),
    ] {
        assert_eq!(check(ours, theirs, "1.2.0").unwrap_err().to_string(), want);
        assert_eq!(check(newer, theirs, "1.2.0").unwrap_err().to_string(), want);
    }
}
