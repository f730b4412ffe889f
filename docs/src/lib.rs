//! Compiles and runs the Rust blocks of the pages in `docs/` and of the README. There is no other code here.
#![allow(rustdoc::all, reason = "links of the pages are relative to their files")]

macro_rules! pages {
    ($($name:ident: $path:literal;)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($path)]
            pub struct $name;
        )*

        /// The pages whose blocks are tests, relative to `docs/src`.
        pub const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    Readme: "../../README.md";
    FirstTensor: "../guide/first-tensor.md";
    Devices: "../guide/devices.md";
    GradientsAndJit: "../guide/gradients-and-jit.md";
    Training: "../guide/training.md";
    EightBits: "../guide/eight-bits.md";
    Saving: "../guide/saving.md";
    DebuggingErrors: "../guide/debugging-errors.md";
    Streams: "../guide/streams.md";
    UsingPlugins: "../guide/using-plugins.md";
    WritingAPlugin: "../guide/writing-a-plugin.md";
    SeeingWhatRuns: "../seeing-what-runs.md";
    SeeingWhatHappened: "../seeing-what-happened.md";
    Sessions: "../sessions.md";
    SeeingWhatIsComputed: "../seeing-what-is-computed.md";
    AddingALayer: "../adding-a-layer.md";
    WritingABackend: "../writing-a-backend.md";
    AddingAnOp: "../adding-an-op.md";
    Contributing: "../../CONTRIBUTING.md";
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    fn pages_under(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pages_under(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                found.push(path);
            }
        }
    }

    /// A page with a block of Rust that is no test would go stale.
    #[test]
    fn every_page_with_rust_is_tested() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
        let listed: Vec<_> = super::PAGES
            .iter()
            .map(|path| docs.join("src").join(path).canonicalize().unwrap())
            .collect();
        let mut pages = Vec::new();
        pages_under(docs, &mut pages);
        let missing: Vec<_> = pages
            .into_iter()
            .filter(|path| std::fs::read_to_string(path).unwrap().contains("```rust"))
            .filter(|path| !listed.contains(&path.canonicalize().unwrap()))
            .collect();
        assert!(missing.is_empty(), "not in docs/src/lib.rs: {missing:?}");
    }
}
