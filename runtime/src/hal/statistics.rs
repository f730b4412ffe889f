//! The pool's figures: as numbers, by name, as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// True figures of a device's pool, in bytes or numbers of events.
pub type MemoryStats = thalweg_hal::tables::MemoryStatistics;

/// A part of a block of a device's pool.
pub type MemoryRange = thalweg_hal::tables::MemoryRange;

/// What a [`MemoryRange`] is for.
pub type MemoryUse = thalweg_hal::tables::MemoryUse;

/// The figures by name, under the names of MindSpore's and PyTorch's tables.
pub fn to_map(stats: &MemoryStats) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("total_reserved_memory", stats.reserved),
        ("total_allocated_memory", stats.allocated),
        ("total_idle_memory", stats.idle),
        ("total_eager_free_memory", stats.eager_free),
        ("max_reserved_memory", stats.max_reserved),
        ("max_allocated_memory", stats.max_allocated),
        ("largest_free_block", stats.largest_free),
        ("memory_limit", stats.limit),
        ("live_buffers", stats.live),
        ("num_allocations", stats.allocations),
        ("num_frees", stats.frees),
        ("num_reserves", stats.reserves),
        ("num_alloc_retries", stats.retries),
        ("num_ooms", stats.out_of_memory),
    ])
}

/// A size in the unit that the summary shows it in: the next unit is taken when the number in this one, cut to a whole
/// number, reaches 786432.
pub fn size_in_unit(bytes: u64) -> (u64, &'static str) {
    const LIMIT: u64 = 786_432;
    let mut size = bytes;
    for unit in ["B", "KB", "MB", "GB"] {
        if size < LIMIT {
            return (size, unit);
        }
        size >>= 10;
    }
    (size, "TB")
}

/// The figures as a table of 47 columns.
pub fn summary(stats: &MemoryStats) -> String {
    let rows = [
        ("Reserved memory", stats.reserved),
        ("Allocated memory", stats.allocated),
        ("Idle memory", stats.idle),
        ("Eager free memory", stats.eager_free),
        ("Max reserved memory", stats.max_reserved),
        ("Max allocated memory", stats.max_allocated),
    ];
    let (double, single) = ("=".repeat(45), "-".repeat(45));
    let mut text = format!("|{double}|\n|{:^45}|\n|{double}|\n", "Memory summary ");
    // Writing to a string does not fail.
    let _ = writeln!(text, "| {:<20} | {:<20} |", "Metric", "Data");
    for (name, bytes) in rows {
        let (size, unit) = size_in_unit(bytes);
        let _ = writeln!(
            text,
            "|{single}|\n| {name:<20} | {:<20} |",
            format!("{size:>6} {unit}")
        );
    }
    let _ = writeln!(text, "|{double}|");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_next_unit_at_786432() {
        assert_eq!(size_in_unit(0), (0, "B"));
        assert_eq!(size_in_unit(786_431), (786_431, "B"));
        assert_eq!(size_in_unit(786_432), (768, "KB"));
        assert_eq!(size_in_unit(1 << 30), (1024, "MB"));
        assert_eq!(size_in_unit((786_432 << 10) - 1), (786_431, "KB"));
        assert_eq!(size_in_unit(786_432 << 10), (768, "MB"));
        assert_eq!(size_in_unit(u64::MAX), (16_777_215, "TB"));
    }

    #[test]
    fn the_summary_is_the_accepted_one_byte_for_byte() {
        use sha2::{Digest, Sha256};
        let stats = MemoryStats {
            reserved: 1 << 30,
            allocated: 4096,
            idle: (1 << 30) - 4096,
            max_reserved: 1 << 30,
            max_allocated: 8192,
            ..MemoryStats::default()
        };
        let text = summary(&stats);
        let hash: String = Sha256::digest(&text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(text.len(), 816, "{text}");
        assert_eq!(
            hash, "cfe5383015c498c2298a7ab9bdda776bde220a8d782feef7ada69f6b63479ecb",
            "{text}"
        );
    }
}
