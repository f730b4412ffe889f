use super::*;
use crate::kit::spin::SPIN;
use std::sync::mpsc::channel;

fn job(run: impl FnOnce() -> Result<()> + Send + 'static) -> Job {
    Job {
        run: Box::new(run),
        describe: Box::new(|| "op add".into()),
    }
}

#[test]
fn jobs_run_in_order_from_many_inline_and_queued() {
    let queue = Queue::new("test");
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = |i| {
        let log = Arc::clone(&log);
        job(move || {
            log.lock().push(i);
            Ok(())
        })
    };
    for i in 0..10_000 {
        if i % 7 == 3 {
            std::thread::sleep(Duration::from_nanos(i % 50));
        }
        match queue.try_inline() {
            Some(inline) => inline.run(
                || {
                    log.lock().push(i);
                    Ok(())
                },
                String::new,
            ),
            None => queue.push(noted(i)).unwrap(),
        }
        if i % 11 == 0 {
            queue.push(noted(i)).unwrap();
        }
    }
    queue.synchronize().unwrap();
    let log = log.lock();
    assert!(log.is_sorted() && log.len() > 10_000);
}

#[test]
fn a_long_job_does_not_block_the_caller() {
    let queue = Queue::new("test");
    let (release, gate) = channel();
    queue
        .push(job(move || {
            gate.recv().ok();
            Ok(())
        }))
        .unwrap();
    assert!(!queue.is_idle() && queue.try_inline().is_none());
    release.send(()).unwrap();
    queue.synchronize().unwrap();
    assert!(queue.is_idle() && queue.try_inline().is_some());
}

#[test]
fn a_job_starts_by_itself_however_its_thread_sleeps() {
    let queue = Queue::new("test");
    // Spinning, in a nap, deep asleep.
    for pause in [Duration::ZERO, 3 * NAP, (NAPS + 10) * NAP, Duration::ZERO] {
        std::thread::sleep(pause);
        let (done, end) = channel();
        queue
            .push(job(move || {
                done.send(()).ok();
                Ok(())
            }))
            .unwrap();
        end.recv_timeout(Duration::from_secs(20))
            .expect("the queue's thread runs it");
    }
    queue.synchronize().unwrap();
}

#[test]
fn who_waits_at_once_runs_its_jobs() {
    const ROUNDS: u32 = 100;
    // The thread spins when the next job comes, or naps, whose ends are in between now and then.
    for pause in [Duration::ZERO, SPIN * 3] {
        let (queue, own) = (Queue::new("test"), Arc::new(AtomicU64::new(0)));
        let counted = || {
            let (caller, own) = (std::thread::current().id(), Arc::clone(&own));
            job(move || {
                let here = std::thread::current().id() == caller;
                own.fetch_add(u64::from(here), Ordering::Relaxed);
                Ok(())
            })
        };
        for _ in 0..ROUNDS {
            queue.push(counted()).unwrap();
            queue.push_awaited(counted()).unwrap();
            queue.synchronize().unwrap();
            std::thread::sleep(pause);
        }
        let own = own.load(Ordering::Relaxed);
        assert!(own > u64::from(ROUNDS), "{own} of {} after {pause:?}", 2 * ROUNDS);
    }
}

/// A queue whose thread takes the longest naps, because callers run long jobs.
fn in_long_naps() -> Queue {
    let (queue, start) = (Queue::new("test"), Instant::now());
    let rested = |pending: &Pending| {
        pending.sleep == Sleep::Long && pending.delayed.elapsed() > 2 * NAP_PART * LONG_NAP
    };
    while !rested(&queue.shared.pending.lock()) {
        queue.push(job(pause)).unwrap();
        queue.wait();
        assert!(start.elapsed() < Duration::from_secs(20), "no long nap");
    }
    queue
}

fn pause() -> Result<()> {
    std::thread::sleep(5 * NAP);
    Ok(())
}

#[test]
fn nobody_wakes_often_while_a_caller_runs_long_jobs() {
    // A caller that loses its core between a job and the wait for it makes naps short again.
    let seldom = (0..5).any(|_| {
        let queue = in_long_naps();
        let woken = || queue.shared.pending.lock().woken;
        let (start, before) = (Instant::now(), woken());
        for _ in 0..40 {
            queue.push(job(pause)).unwrap();
            queue.wait();
        }
        woken() - before <= start.elapsed().as_millis() as u64 / 3
    });
    assert!(seldom);
}

#[test]
fn a_delay_ends_long_naps() {
    let waits: [fn(&Queue); 2] = [
        |queue| queue.wait(),
        |queue| queue.push_awaited(job(|| Ok(()))).unwrap(),
    ];
    for wait in waits {
        // The nap may end of itself between the delay and the look.
        let ended = (0..10).any(|_| {
            let queue = in_long_naps();
            let before = queue.shared.pending.lock().woken;
            queue.push(job(|| Ok(()))).unwrap();
            std::thread::sleep(2 * PROMPT);
            wait(&queue);
            let pending = queue.shared.pending.lock();
            pending.woken == before && pending.sleep == Sleep::Deep && pending.delayed.elapsed() < LONG_NAP
        });
        assert!(ended);
    }
}

#[test]
fn the_first_error_is_reported_once() {
    let queue = Queue::new("test");
    queue.push(job(|| Err(Error::launch_failed("broken")))).unwrap();
    queue.push(job(|| panic!("worse"))).unwrap();
    queue.wait();
    let error = queue.synchronize().unwrap_err();
    assert_eq!(
        (error.status, error.message.as_str()),
        (Status::LaunchFailed, "op add: broken")
    );
    queue.synchronize().unwrap();
    queue.push(job(|| panic!("again"))).unwrap();
    assert_eq!(queue.synchronize().unwrap_err().status, Status::Panicked);
}
