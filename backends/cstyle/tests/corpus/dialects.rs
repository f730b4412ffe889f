//! One text for two dialects: what is common stands once, and lines of one dialect alone follow a mark that names it.

/// Marks of the lines that follow.
const BOTH: &str = "@both";
const OPENCL: &str = "@opencl";
const CUDA: &str = "@cuda";

/// One text of two. [`apart`] gives both back.
///
/// # Panics
/// When a line starts with `@`, as marks do.
pub(crate) fn together(opencl: &str, cuda: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (opencl.lines().collect(), cuda.lines().collect());
    assert!(
        a.iter().chain(&b).all(|line| !line.starts_with('@')),
        "a line looks like a mark"
    );
    // Lengths of the longest common subsequences of what follows.
    let mut longest = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = if a[i] == b[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut mark, mut text) = (0, 0, BOTH, String::new());
    while i < a.len() || j < b.len() {
        let both = i < a.len() && j < b.len() && a[i] == b[j];
        // OpenCL's lines of a difference come first.
        let opencl = i < a.len() && (j == b.len() || longest[i + 1][j] >= longest[i][j + 1]);
        let (now, line) = match (both, opencl) {
            (true, _) => (BOTH, a[i]),
            (false, true) => (OPENCL, a[i]),
            (false, false) => (CUDA, b[j]),
        };
        if now != mark {
            text.extend([now, "\n"]);
            mark = now;
        }
        text.extend([line, "\n"]);
        i += usize::from(now != CUDA);
        j += usize::from(now != OPENCL);
    }
    text
}

/// The texts of OpenCL and CUDA.
pub(crate) fn apart(text: &str) -> [String; 2] {
    [OPENCL, CUDA].map(|own| {
        let (mut mark, mut of) = (BOTH, String::new());
        for line in text.lines() {
            if line.starts_with('@') {
                mark = line;
            } else if mark == BOTH || mark == own {
                of.extend([line, "\n"]);
            }
        }
        of
    })
}
