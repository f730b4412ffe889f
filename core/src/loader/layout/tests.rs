use super::*;
use abi_stable::StableAbi;

/// The same root module as different versions of the contract have it.
macro_rules! version {
    ($version:ident, $cores:ty, [$($optional:ident),*]) => { version!($version, $cores, [$($optional),*], [], [], []); };
    ($version:ident, $cores:ty, [$($optional:ident),*], [$($call:ident),*], [$($info:ident),*], [$($lent:ident),*]) => {
        #[allow(dead_code, unreachable_pub, missing_docs)]
        mod $version {
            use abi_stable::StableAbi;

            #[repr(C)]
            #[derive(StableAbi)]
            pub struct Info {
                pub kind: u32,
                pub cores: $cores,
                $(pub $info: u32,)*
            }

            #[repr(C)]
            #[derive(StableAbi)]
            pub struct Host {
                pub log: extern "C" fn(),
                $(pub $lent: extern "C" fn(),)*
            }

            #[repr(C)]
            #[derive(StableAbi)]
            pub struct Device {
                pub open: extern "C" fn(u32) -> u64,
                pub info: unsafe extern "C" fn(device: u64, out: *mut Info) -> i32,
                $(pub $call: extern "C" fn(),)*
            }

            #[repr(C)]
            #[derive(StableAbi)]
            #[sabi(kind(Prefix(prefix_ref = ModuleRef, prefix_fields = ModulePrefix)))]
            #[sabi(missing_field(option))]
            pub struct Module {
                pub entry: unsafe extern "C" fn(host: *const Host),
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
version!(longer, u32, [], [reset], [], []);
version!(longer_and_newer, u32, [graph], [reset], [], []);
version!(longer_and_changed, u64, [graph], [reset], [], []);
version!(wider, u32, [], [reset], [speed], []);
version!(lent_more, u32, [graph], [reset], [], [notify]);

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
                (built against thalweg-hal 1.2.0; rebuild it against 2.0)";
    let (ours, newer) = (layout::<first::ModuleRef>(), layout::<second::ModuleRef>());
    for theirs in [
        layout::<changed::ModuleRef>(),
        layout::<changed_and_newer::ModuleRef>(),
    ] {
        assert_eq!(check(ours, theirs, "1.2.0").unwrap_err().to_string(), want);
        assert_eq!(check(newer, theirs, "1.2.0").unwrap_err().to_string(), want);
    }
}

#[test]
fn a_table_may_go_on_in_a_newer_plugin_alone() {
    let (old, longer) = (layout::<first::ModuleRef>(), layout::<longer::ModuleRef>());
    assert_eq!(check(old, longer, "1.1"), Ok(()));
    assert_eq!(check(old, layout::<longer_and_newer::ModuleRef>(), "1.1"), Ok(()));
    let want = |theirs, text: &str| {
        let error = check(old, theirs, "1.1").unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    };
    want(
        layout::<longer_and_changed::ModuleRef>(),
        "device.info().cores: this program expects u32, the plugin has u64 ",
    );
    want(
        layout::<wider::ModuleRef>(),
        "device.info(): this program expects 8 bytes, the plugin has 12 ",
    );
    want(
        layout::<lent_more::ModuleRef>(),
        "entry(): this program expects 8 bytes, the plugin has 16 ",
    );
    let error = check(longer, old, "1.0").unwrap_err().to_string();
    assert!(
        error.starts_with("device: this program expects 24 bytes, the plugin has 16 "),
        "{error}"
    );
}
