//! Which steps of a program are recorded.

use crate::record::error::ProfileError;

/// Which steps are recorded: cycles of `wait` steps that are not, `warmup` steps that are recorded and thrown away, and `active`
/// steps that are kept. A step ends with [`Profile::step`](super::Profile::step).
///
/// ```
/// use thalweg::observe::Schedule;
/// // Step 5 is thrown away, 6 and 7 are kept, once.
/// let schedule = Schedule { skip_first: 3, wait: 1, warmup: 1, active: 2, repeat: 1 };
/// # let _ = schedule;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// Steps of a cycle that are not recorded.
    pub wait: u64,
    /// Steps that are recorded and thrown away: what happens once at the start of a recording is in none that is kept.
    pub warmup: u64,
    /// Steps that are kept, at least 1.
    pub active: u64,
    /// Cycles; 0 for no end.
    pub repeat: u64,
    /// Steps in front of the first cycle.
    pub skip_first: u64,
}

impl Default for Schedule {
    /// Every step in a recording of its own.
    fn default() -> Schedule {
        Schedule {
            wait: 0,
            warmup: 0,
            active: 1,
            repeat: 0,
            skip_first: 0,
        }
    }
}

/// What is done with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    WarmUp,
    /// Kept, in a cycle that is counted from 1.
    Active {
        cycle: u64,
        last: bool,
    },
}

impl Schedule {
    /// The steps `first` to `last`, which count from 1.
    pub(super) fn of_steps(first: u64, last: u64) -> Result<Schedule, ProfileError> {
        let wrong = |key, value, allowed| Err(ProfileError::Steps { key, value, allowed });
        if first == 0 {
            return wrong("start_step", first, "steps are counted from 1");
        }
        if last < first {
            return wrong("stop_step", last, "it is start_step or a later one");
        }
        Ok(Schedule {
            active: last - first + 1,
            repeat: 1,
            skip_first: first - 1,
            ..Schedule::default()
        })
    }

    /// # Errors
    /// A value that is not allowed.
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        let (key, value, allowed) = if self.active == 0 {
            ("active", self.active, "a cycle keeps 1 step or more")
        } else if self.period().is_none() {
            let allowed = "wait, warmup and active are together below 2^64";
            ("wait", self.wait, allowed)
        } else {
            return Ok(());
        };
        Err(ProfileError::Steps { key, value, allowed })
    }

    fn period(&self) -> Option<u64> {
        self.wait.checked_add(self.warmup)?.checked_add(self.active)
    }

    /// What is done with a step, which counts from 0.
    pub(super) fn plan(&self, step: u64) -> Plan {
        let (Some(at), Some(period)) = (step.checked_sub(self.skip_first), self.period()) else {
            return Plan::Nothing;
        };
        let (cycle, at) = (at / period, at % period);
        if self.repeat != 0 && cycle >= self.repeat || at < self.wait {
            Plan::Nothing
        } else if at - self.wait < self.warmup {
            Plan::WarmUp
        } else {
            Plan::Active {
                cycle: cycle + 1,
                last: at + 1 == period,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(schedule: Schedule, steps: u64) -> String {
        let letter = |step| match schedule.plan(step) {
            Plan::Nothing => '.'.to_string(),
            Plan::WarmUp => 'w'.to_string(),
            Plan::Active { cycle, last } => format!("{cycle}{}", if last { "!" } else { "" }),
        };
        (0..steps).map(letter).collect()
    }

    #[test]
    fn cycles_are_as_the_schedule_says() {
        let every = Schedule::default();
        assert_eq!(plans(every, 3), "1!2!3!");
        let schedule = Schedule {
            wait: 1,
            warmup: 1,
            active: 2,
            repeat: 2,
            skip_first: 3,
        };
        assert_eq!(plans(schedule, 14), "....w11!.w22!...");
        let endless = Schedule {
            repeat: 0,
            ..schedule
        };
        assert_eq!(plans(endless, 16), "....w11!.w22!.w33!.");
        assert_eq!(plans(Schedule::of_steps(1, 10).unwrap(), 12), "1111111111!..");
        assert_eq!(plans(Schedule::of_steps(3, 3).unwrap(), 5), "..1!..");
    }

    #[test]
    fn wrong_values_are_named() {
        let text = |error: ProfileError| error.to_string();
        let of_steps = |first, last| text(Schedule::of_steps(first, last).unwrap_err());
        assert_eq!(
            of_steps(0, 3),
            "profile: start_step is 0; steps are counted from 1"
        );
        assert_eq!(
            of_steps(4, 3),
            "profile: stop_step is 3; it is start_step or a later one"
        );
        let check = |schedule: Schedule| text(schedule.check().unwrap_err());
        let none = Schedule {
            active: 0,
            ..Schedule::default()
        };
        assert_eq!(check(none), "profile: active is 0; a cycle keeps 1 step or more");
        let long = Schedule {
            wait: u64::MAX,
            ..Schedule::default()
        };
        assert!(check(long).starts_with("profile: wait is 18446744073709551615; "));
        assert!(Schedule::default().check().is_ok());
    }
}
