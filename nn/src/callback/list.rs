//! Lists of callbacks as callbacks.

use super::{Callback, RunContext};
use crate::error::{Error, Result};

/// Implements each hook by calling that of every callback that `$body` hands to `$call`.
macro_rules! list {
    ([$($generics:tt)*] $type:ty, |$list:ident, $call:ident| $body:expr) => {
        impl<$($generics)*> Callback for $type {
            list!(@hooks $list $call $body; begin epoch_begin step_begin step_end step_done evaluated epoch_end end
                eval_begin eval_step_begin eval_step_end eval_end predict_begin predict_end);

            fn failed(&mut self, run: &mut RunContext<'_>, error: &Error) {
                let mut $call = |callback: &mut dyn Callback| -> Result<()> {
                    callback.failed(run, error);
                    Ok(())
                };
                let each = || -> Result<()> {
                    let $list = self;
                    $body
                };
                // Nothing that is called returns an error.
                let _ = each();
            }

            fn wants_gradient_norms(&mut self) -> bool {
                let mut wanted = false;
                let mut $call = |callback: &mut dyn Callback| -> Result<()> {
                    wanted |= callback.wants_gradient_norms();
                    Ok(())
                };
                let each = || -> Result<()> {
                    let $list = self;
                    $body
                };
                let _ = each();
                wanted
            }
        }
    };
    (@hooks $list:ident $call:ident $body:expr; $($hook:ident)*) => { $(
        fn $hook(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            let mut $call = |callback: &mut dyn Callback| callback.$hook(run);
            let $list = self;
            $body
        }
    )* };
}

impl Callback for () {}

list!(['c] Box<dyn Callback + 'c>, |list, call| call(&mut **list));
list!([C: Callback] &mut C, |list, call| call(&mut **list));
list!([C: Callback] Option<C>, |list, call| list.iter_mut().try_for_each(|callback| call(callback)));
list!([C: Callback] Vec<C>, |list, call| list.iter_mut().try_for_each(|callback| call(callback)));
list!([C: Callback, const N: usize] [C; N], |list, call| list.iter_mut().try_for_each(|callback| call(callback)));

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)*) => { $(
        list!([$($name: Callback),+] ($($name,)+), |list, call| {
            $(call(&mut list.$at)?;)+
            Ok(())
        });
    )* };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}
