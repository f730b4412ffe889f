//! A text that parses prints, parses again, and prints the same bytes; no text panics, and rewrites of what parses neither.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::graph::{Graph, fast_math, rewrite};

fn survives(graph: &Graph) {
    let printed = graph.to_text();
    let again = Graph::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.to_text(), printed);
}

fuzz_target!(|text: &str| {
    let Ok(graph) = Graph::parse(text) else { return };
    survives(&graph);
    let _ = graph.to_dot();
    let rewritten = rewrite(&graph);
    survives(&rewritten);
    survives(&fast_math(&rewritten));
});
