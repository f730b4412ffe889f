//! A text that parses prints and parses back to the same kernel, and no text panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_hal::ir::Kernel;

fuzz_target!(|text: &str| {
    let Ok(kernel) = Kernel::parse(text) else { return };
    let printed = kernel.to_text();
    assert_eq!(Kernel::parse(&printed).as_ref(), Ok(&kernel), "{printed}");
    let _ = kernel.verify();
});
