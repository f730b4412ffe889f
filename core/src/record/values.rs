//! Whether somebody looks at values.

use super::switch;
use parking_lot::Mutex;

/// How many look.
static LOOKING: Mutex<usize> = Mutex::new(0);

/// While it lives, programs ask who wants to see their values.
#[derive(Debug)]
pub(crate) struct Looking(());

impl Looking {
    pub(crate) fn begin() -> Looking {
        let mut looking = LOOKING.lock();
        *looking += 1;
        switch::set_values(true);
        Looking(())
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let mut looking = LOOKING.lock();
        *looking -= 1;
        if *looking == 0 {
            switch::set_values(false);
        }
    }
}
