use super::*;
use std::cell::{Cell, RefCell};

#[derive(Default)]
struct Device {
    passed: RefCell<HashMap<u64, u64>>,
    free: Cell<u64>,
}

impl Device {
    fn new(bytes: u64) -> Device {
        Device {
            free: Cell::new(bytes),
            ..Device::default()
        }
    }
    fn pass(&self, stream: u64, position: u64) {
        self.passed.borrow_mut().insert(stream, position);
    }
}

impl Source for Device {
    type Chunk = u64;
    fn reserve(&self, bytes: u64) -> Result<u64> {
        match self.free.get().checked_sub(bytes) {
            Some(rest) => {
                self.free.set(rest);
                Ok(bytes)
            }
            None => Err(Error::out_of_memory("device is full")),
        }
    }
    fn passed(&self, fence: Fence) -> bool {
        self.passed
            .borrow()
            .get(&fence.stream)
            .is_some_and(|&p| p >= fence.position)
    }
}

#[test]
fn figures_of_the_acceptance_cases() {
    let device = Device::new(1 << 40);
    let mut pool = Pool::new(0, 0, 0);
    let a = pool.alloc(8, 0, &device).unwrap();
    let b = pool.alloc(8, 0, &device).unwrap();
    let c = pool.alloc(8, 0, &device).unwrap();
    pool.free(c.block, &[], &device);
    let figures = pool.statistics(&device);
    assert_eq!((figures.allocated, figures.reserved), (1024, 1 << 30));
    assert_eq!(figures.idle, (1 << 30) - 1024);
    assert_eq!(figures.largest_free, (1 << 30) - 1024);
    pool.free(a.block, &[], &device);
    pool.free(b.block, &[], &device);
    assert_eq!(pool.trim(&device), 1 << 30);
    assert_eq!(pool.statistics(&device).reserved, 0);
    pool.reset_peak();
    assert_eq!(pool.statistics(&device).max_reserved, 0);
}

#[test]
fn a_stream_takes_its_own_memory_back_and_others_wait() {
    let device = Device::new(1 << 20);
    let mut pool = Pool::new(0, 1 << 20, 0);
    let a = pool.alloc(1 << 19, 7, &device).unwrap();
    let keep = pool.alloc(1 << 19, 7, &device).unwrap();
    pool.free(
        a.block,
        &[Fence {
            stream: 7,
            position: 5,
        }],
        &device,
    );
    assert_eq!(pool.statistics(&device).eager_free, 1 << 19);
    assert!(pool.alloc(1 << 19, 8, &device).is_err());
    let again = pool.alloc(1 << 19, 7, &device).unwrap();
    assert_eq!(again.offset, a.offset);
    pool.free(
        again.block,
        &[
            Fence {
                stream: 7,
                position: 6,
            },
            Fence {
                stream: 9,
                position: 1,
            },
        ],
        &device,
    );
    device.pass(7, 6);
    assert!(pool.alloc(1 << 19, 7, &device).is_err());
    device.pass(9, 1);
    let last = pool.alloc(1 << 19, 8, &device).unwrap();
    assert_eq!(last.offset, a.offset);
    pool.free(last.block, &[], &device);
    pool.free(keep.block, &[], &device);
    let figures = pool.statistics(&device);
    assert_eq!((figures.allocated, figures.eager_free), (0, 0));
    assert_eq!(figures.largest_free, 1 << 20);
}

#[test]
fn a_limit_is_kept_and_cached_blocks_are_given_back() {
    let device = Device::new(1 << 40);
    let mut pool = Pool::new(8 << 20, 4 << 20, 0);
    let a = pool.alloc(3 << 20, 0, &device).unwrap();
    let b = pool.alloc(3 << 20, 0, &device).unwrap();
    let error = pool.alloc(3 << 20, 0, &device).unwrap_err();
    assert_eq!(error.status, crate::Status::OutOfMemory);
    assert!(error.message.contains("3145728 B do not fit") && error.message.contains("limit is 8388608 B"));
    pool.free(a.block, &[], &device);
    pool.free(b.block, &[], &device);
    assert!(pool.alloc(8 << 20, 0, &device).is_err() && pool.may_fit(8 << 20));
    let whole = pool.alloc_at_last(8 << 20, 0, &device).unwrap();
    assert_eq!(pool.statistics(&device).retries, 1);
    assert!(pool.alloc(u64::MAX, 0, &device).is_err() && !pool.may_fit(u64::MAX));
    assert!(pool.alloc_at_last(9 << 20, 0, &device).is_err() && !pool.may_fit(9 << 20));
    pool.free(whole.block, &[], &device);
}

#[test]
fn random_traffic_never_overlaps_and_comes_back_whole() {
    let device = Device::new(1 << 30);
    let mut pool = Pool::new(0, 1 << 22, 0);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut live: Vec<(Range<u64>, u64)> = Vec::new();
    let mut clock = 0;
    for _ in 0..20_000 {
        clock += 1;
        if next() % 3 != 0 && live.len() < 200 {
            let bytes = 1 + next() % (1 << (next() % 21));
            let range = pool.alloc(bytes, next() % 3, &device).unwrap();
            let size = bytes.next_multiple_of(GRANULARITY);
            for (other, len) in &live {
                let apart = other.chunk != range.chunk
                    || range.offset + size <= other.offset
                    || other.offset + len <= range.offset;
                assert!(apart);
            }
            live.push((range, size));
        } else if !live.is_empty() {
            let (range, _) = live.swap_remove(next() as usize % live.len());
            let fences: Vec<Fence> = (0..next() % 3)
                .map(|i| Fence {
                    stream: 1 + i,
                    position: clock,
                })
                .collect();
            pool.free(range.block, &fences, &device);
        }
        if next() % 16 == 0 {
            device.pass(1 + next() % 2, clock);
        }
        let figures = pool.statistics(&device);
        assert_eq!(figures.allocated, live.iter().map(|(_, len)| len).sum::<u64>());
        assert_eq!(
            figures.idle + figures.eager_free + figures.allocated,
            figures.reserved
        );
    }
    device.pass(1, clock);
    device.pass(2, clock);
    for (range, _) in live {
        pool.free(range.block, &[], &device);
    }
    let reserved = pool.statistics(&device).reserved;
    assert_eq!(pool.trim(&device), reserved);
    assert_eq!(pool.statistics(&device).reserved, 0);
}

#[test]
fn memory_that_a_stream_takes_back_unused_stays_its_own() {
    let device = Device::new(1 << 20);
    let mut pool = Pool::new(0, 1 << 20, 0);
    let fence = Fence {
        stream: 7,
        position: 5,
    };
    let first = pool.alloc(1 << 20, 7, &device).unwrap();
    assert_eq!(first.fence, None);
    pool.free(first.block, &[fence], &device);
    let part = pool.alloc(1 << 19, 7, &device).unwrap();
    assert_eq!(part.fence, Some(fence));
    pool.free(part.block, part.fence.as_slice(), &device);
    assert!(pool.alloc(1 << 19, 8, &device).is_err());
    device.pass(7, 5);
    pool.alloc(1 << 20, 8, &device).unwrap();
}

#[test]
fn sizes_that_no_device_has_are_refused() {
    let device = Device::new(1 << 20);
    let mut pool = Pool::new(0, u64::MAX, 0);
    pool.alloc(512, 0, &device).unwrap();
    for bytes in [1 << 56, 1 << 62, u64::MAX - 511, u64::MAX] {
        assert_eq!(
            pool.alloc(bytes, 0, &device).unwrap_err().status,
            crate::Status::OutOfMemory
        );
    }
}
