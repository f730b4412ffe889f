use super::scale::read;
use super::*;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[test]
fn the_clock_is_the_systems() {
    let time = now();
    std::thread::sleep(Duration::from_millis(2));
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split_whitespace().next().unwrap().parse().unwrap();
    // The kernel counts suspended time and hundredths.
    assert!(seconds > time as f64 / 1e9 - 0.02, "{seconds} s up, {time} ns");
    assert!(now() >= time + 2_000_000);
}

#[test]
fn ticks_are_the_clock_to_a_microsecond_over_a_second() {
    let mut scale = Scale::new();
    let start = Instant::now();
    let (mut moments, mut round) = (Vec::new(), 0_u32);
    while start.elapsed() < Duration::from_secs(1) {
        moments.push(read());
        round += 1;
        // Long and short gaps between the anchors, and none.
        if round % 17 == 0 || round % 23 < 2 {
            scale.refresh();
        }
        std::thread::sleep(Duration::from_micros(u64::from(round * 37 % 1900)));
    }
    scale.refresh();
    let mut last = 0;
    let mut judged = 0;
    for &(ticks, time, width) in &moments {
        let found = scale.nanoseconds(ticks);
        assert!(found >= last, "{found} after {last}");
        last = found;
        // What was interrupted in the middle of reading says nothing.
        if scale.nanoseconds(ticks + width) - scale.nanoseconds(ticks) < 500 {
            assert!(found.abs_diff(time) < 1_000, "{found}, the clock says {time}");
            judged += 1;
        }
    }
    assert!(judged > moments.len() / 2, "{judged} of {}", moments.len());
}

#[test]
fn ticks_outside_the_anchors_are_near() {
    let before = read();
    std::thread::sleep(Duration::from_millis(1));
    let scale = Scale::new();
    std::thread::sleep(Duration::from_millis(1));
    let after = read();
    for (ticks, time, _) in [before, after] {
        // From 20 µs to a millisecond: errors of reading grow fifty times.
        assert!(scale.nanoseconds(ticks).abs_diff(time) < 50_000);
    }
    assert!(scale.nanoseconds(0) >= 1);
    assert!(scale.nanoseconds(u64::MAX) >= after.1);
}

#[test]
fn what_was_turned_stays() {
    let mut scale = Scale::new();
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for _ in 0..100 {
        let moment = ticks();
        scale.refresh();
        kept.push((moment, scale.nanoseconds(moment)));
    }
    assert!(kept.iter().all(|&(ticks, time)| scale.nanoseconds(ticks) == time));
}

#[test]
fn no_thread_sees_time_run_back() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut scale, mut last, mut rounds) = (Scale::new(), 0, 0);
                    while !stop.load(Ordering::Relaxed) || rounds == 0 {
                        let own: Vec<u64> = (0..1000).map(|_| ticks()).collect();
                        scale.refresh();
                        for moment in own {
                            let time = scale.nanoseconds(moment);
                            assert!(time >= last, "{time} after {last}");
                            last = time;
                        }
                        rounds += 1;
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_line_goes_through_its_moments() {
    let mut line = Line::new();
    assert_eq!((line.at(0), line.at(7)), (1, 7));
    line.add(1_000, 5_000_000);
    assert_eq!((line.at(900), line.at(1_250)), (4_999_900, 5_000_250));
    line.add(2_000, 5_002_000);
    // Twice as fast, and on both sides.
    assert_eq!(line.at(1_500), 5_001_000);
    assert_eq!((line.at(500), line.at(3_000)), (4_999_000, 5_004_000));
    let before = line.at(1_999);
    line.add(4_000, 5_002_100);
    // Not later by one clock or the other.
    line.add(4_000, 5_009_999);
    line.add(5_000, 5_002_100);
    assert_eq!((line.at(1_999), line.at(4_000)), (before, 5_002_100));
    assert!((0..6_000).map(|own| line.at(own)).is_sorted());
    for moment in 1..1_000 {
        line.add(4_000 + moment, 5_002_100 + 3 * moment);
    }
    assert_eq!(line.at(4_900), 5_004_800);
}

#[test]
fn a_clock_is_read_together_with_the_host() {
    let (own, time, width) = together(|| Some(now())).unwrap();
    assert!(own.abs_diff(time) <= width / 2 + 1);
    assert_eq!(together(|| None), None);
}
