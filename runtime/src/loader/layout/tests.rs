use super::*;
use thalweg_hal::manifest::ABI;
use thalweg_hal::tables::LAYOUT;

const OURS: &str =
    "Info{kind:u32,cores:u32}Host{log:fn()}DeviceTable{open:fn(u32)->u64,info:fn(u64,*mut Info)->i32}";

/// What is said of a plugin whose text has `to` instead of `from`.
fn said(from: &str, to: &str) -> Result<(), String> {
    let theirs = OURS.replace(from, to);
    assert_ne!(theirs, OURS);
    check(OURS, &theirs, AbiVersion { major: 1, minor: 2 }).map_err(|error| error.to_string())
}

#[test]
fn older_and_newer_plugins_fit() {
    assert_eq!(check(OURS, OURS, ABI), Ok(()));
    assert_eq!(check(LAYOUT, LAYOUT, ABI), Ok(()));
    // A table and its structs that one side lacks.
    let newer = format!("{OURS}GraphTable{{launch:fn(u64)->i32}}GraphArgs{{graph:u64}}");
    assert_eq!(check(OURS, &newer, ABI), Ok(()));
    assert_eq!(check(&newer, OURS, ABI), Ok(()));
    // A function behind the known ones.
    assert_eq!(
        said("*mut Info)->i32}", "*mut Info)->i32,reset:fn(u64)->i32}"),
        Ok(())
    );
}

#[test]
fn every_other_difference_is_one_line() {
    let built = format!(" (built against thalweg-hal 1.2; rebuild it against {ABI})");
    for (from, to, text) in [
        (
            "cores:u32",
            "cores:u64",
            "Info.cores: this program expects u32, the plugin has u64",
        ),
        (
            "cores:u32",
            "cores:u32,speed:u32",
            "Info.speed: this program does not know it",
        ),
        (
            "kind:u32,",
            "",
            "Info.kind: in its place the plugin has the field `cores`",
        ),
        (
            "log:fn()",
            "log:fn(),notify:fn()",
            "Host.notify: this program does not know it",
        ),
        (
            ",info:fn(u64,*mut Info)->i32",
            "",
            "DeviceTable.info: the plugin lacks it",
        ),
        (
            "open:fn(u32)->u64",
            "open:fn(u32,u32)->u64",
            "DeviceTable.open: this program expects fn(u32)->u64, the plugin has fn(u32,u32)->u64",
        ),
    ] {
        assert_eq!(said(from, to), Err(format!("{text}{built}")));
    }
}

#[test]
fn a_text_that_cannot_be_read_is_one_line() {
    for text in ["Info", "Info{", "Info{kind}", "}", "Info{kind:u32}x"] {
        let error = check(OURS, text, ABI).unwrap_err().to_string();
        assert!(
            error.contains("layout") && error.ends_with("structs read Name{field:type,field:type}"),
            "{text}: {error}"
        );
    }
}
