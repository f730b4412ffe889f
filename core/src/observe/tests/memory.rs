//! Who holds memory.

use super::{alone, numbers, profiled};
use crate::context::Context;
use crate::hal::statistics::MemoryUse;
use crate::observe::recording::MemoryKind;
use crate::observe::{Block, memory_snapshot, record_memory_history, scope};
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
    let buffer = after
        .buffers
        .iter()
        .find(|buffer| buffer.name.contains("/conv1/exp-op"))
        .unwrap();
    assert!(
        buffer.location.ends_with(&format!("tests/memory.rs:{line}")),
        "{buffer:?}"
    );
    assert!(buffer.time > 0 && buffer.bytes == 24);
    // The blocks of the pool have each listed buffer once, and their ranges leave no gap.
    let id = buffer.id;
    let ranges = || after.blocks.iter().flat_map(|block| &block.ranges);
    let of: Vec<_> = ranges().filter(|range| range.buffer == Some(id)).collect();
    assert_eq!(
        of.iter()
            .map(|range| (range.bytes, range.usage))
            .collect::<Vec<_>>(),
        [(512, MemoryUse::Allocated)]
    );
    let held = |block: &Block| block.ranges.iter().map(|range| range.bytes).sum::<u64>();
    assert!(after.blocks.iter().all(|block| held(block) == block.bytes));
    assert_eq!(
        after.blocks.iter().map(|block| block.bytes).sum::<u64>(),
        after.stats.reserved
    );
    assert!(after.to_string().contains("of exp at "), "{after}");
    // It goes, and the history tells both.
    drop((made, sine, sum));
    let last = memory_snapshot(&cx).unwrap();
    assert!(last.buffers.iter().all(|buffer| buffer.id != id));
    let told: Vec<bool> = (last.history.iter())
        .filter(|change| change.buffer == id)
        .map(|change| change.made)
        .collect();
    assert_eq!(told, [true, false]);
    assert_eq!(last.diff(&before), []);
    drop(kept);
    let plain = x.exp();
    assert_eq!(memory_snapshot(&cx).unwrap().buffers.len(), last.buffers.len());
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
