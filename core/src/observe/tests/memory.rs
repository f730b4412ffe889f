//! Who holds memory.

use super::{alone, numbers, profiled};
use crate::context::Context;
use crate::observe::recording::MemoryKind;
use crate::observe::{memory_snapshot, record_memory_history, scope};
use crate::tensor::Tensor;
use crate::{DType, jit};
use std::collections::HashSet;

/// The history is kept while this lives.
struct Kept;

impl Kept {
    fn of(changes: usize) -> Kept {
        record_memory_history(changes);
        Kept
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        record_memory_history(0);
    }
}

#[test]
fn a_snapshot_names_every_buffer_by_op_line_and_scope() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let kept = Kept::of(100);
    let before = memory_snapshot(&cx).unwrap();
    let line = line!() + 3;
    let made = {
        let _scope = scope("conv1");
        x.exp()
    };
    // Two results of one program, each by its own op.
    let both = jit(|x: &Tensor| {
        let _scope = scope("head");
        (x.sin(), x.sum())
    });
    let (sine, sum) = both.call(&x);
    let after = memory_snapshot(&cx).unwrap();
    let more: Vec<(String, String, i64, i64)> = (after.diff(&before).into_iter())
        .map(|change| (change.op, change.scope, change.buffers, change.bytes))
        .collect();
    let change = |op: &str, scope: &str, bytes| (op.to_owned(), scope.to_owned(), 1, bytes);
    for wanted in [
        change("exp", "Default/conv1", 24),
        change("sin", "Default/head", 24),
        change("sum", "Default/head", 4),
    ] {
        assert!(more.contains(&wanted), "{wanted:?} is not in {more:#?}");
    }
    let block = after
        .blocks
        .iter()
        .find(|block| block.name.contains("/conv1/exp-op"))
        .unwrap();
    assert!(
        block.location.ends_with(&format!("tests/memory.rs:{line}")),
        "{block:?}"
    );
    assert!(block.time > 0 && block.bytes == 24);
    assert!(after.to_string().contains("of exp at "), "{after}");
    // It goes, and the history tells both.
    let id = block.id;
    drop((made, sine, sum));
    let last = memory_snapshot(&cx).unwrap();
    assert!(last.blocks.iter().all(|block| block.id != id));
    let told: Vec<bool> = (last.history.iter())
        .filter(|change| change.block == id)
        .map(|change| change.made)
        .collect();
    assert_eq!(told, [true, false]);
    assert_eq!(last.diff(&before), []);
    drop(kept);
    let plain = x.exp();
    assert_eq!(memory_snapshot(&cx).unwrap().blocks.len(), last.blocks.len());
    drop(plain);
}

#[test]
fn a_history_keeps_the_last_changes() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let _kept = Kept::of(5);
    for _ in 0..10 {
        drop(x.exp());
    }
    let history = memory_snapshot(&cx).unwrap().history;
    assert_eq!(history.len(), 5);
    assert!(history.is_sorted_by_key(|change| change.time));
}

/// The table of an error.
#[test]
fn out_of_memory_names_small_buffers_and_scopes_while_a_history_is_kept() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let _kept = Kept::of(10);
    let small = {
        let _scope = scope("embedding");
        Tensor::ones([16, 16], DType::F32, &cx)
    };
    let error = Tensor::zeros([1 << 24, 1 << 24], DType::F32, &cx)
        .ok()
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("of ones at ") && text.contains(", Default/embedding"),
        "{text}"
    );
    assert!(!text.contains("below 1 MiB"), "{text}");
    drop(small);
}

/// A device hands its records out in no order.
#[test]
fn memory_is_told_in_the_order_in_which_it_happened() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let recording = profiled(&cx, || {
        for _ in 0..2_000 {
            (&x + 1.0).to_vec::<f32>().unwrap();
        }
    });
    let (mut live, mut last, mut allocated) = (HashSet::new(), 0, 0);
    for memory in &recording.memory {
        assert!(memory.time >= last, "{memory:?} after {last}");
        last = memory.time;
        match memory.kind {
            MemoryKind::Alloc => {
                assert!(live.insert(memory.buffer), "{memory:?}");
                allocated += 1;
            }
            MemoryKind::Free => assert!(live.remove(&memory.buffer), "{memory:?}"),
            MemoryKind::Reserve | MemoryKind::Release => {}
        }
    }
    assert_eq!((recording.lost, live.len()), (0, 0));
    assert!(allocated >= 2_000, "{allocated}");
}
