//! What programs keep of their constants: each form once a device, however many programs read it.

use super::super::memory::{count, give_back, obtain};
use super::super::objects::Instance;
use super::super::profile::note_buffers;
use super::{Program, misplaced};
use crate::backend::{Backend, Device};
use crate::status::{Error, Result};
use crate::tables::{ProfileKind, ProgramInput};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Buffer and offset of the constant, bytes and key of the form.
type Name = (u64, u64, u64, Box<[u64]>);

/// The forms that programs of a device hold.
#[derive(Default)]
pub(in super::super) struct Forms(HashMap<Name, Entry>);

struct Entry {
    buffer: u64,
    made: Arc<OnceLock<()>>,
    holders: usize,
}

/// A form that a program holds.
pub(super) struct Held {
    name: Name,
    pub(super) buffer: u64,
}

impl<D: Device> Program<D> {
    /// Checks that the constants lie where they lay in the first run. Returns the forms that the program holds: as many as it has,
    /// or none.
    pub(super) fn constants<B: Backend<Device = D>>(
        &self,
        instance: &Instance<B>,
        inputs: &[ProgramInput],
    ) -> Result<&[Held]> {
        let place = |&number: &u32| {
            let input = &inputs[number as usize];
            (input.buffer, input.offset)
        };
        let places = match self.places.get() {
            Some(places) => places,
            None => {
                for &number in &self.constants {
                    let (index, input) = (number as usize, &inputs[number as usize]);
                    let buffer = instance.buffer(input.buffer)?;
                    if !buffer.owner.is(self.owner) || !self.inputs[index].fits(input.offset, buffer.bytes())
                    {
                        return Err(misplaced(self, index, input, buffer));
                    }
                }
                (self.places).get_or_init(|| self.constants.iter().map(place).collect())
            }
        };
        if let Some(moved) = (self.constants.iter().zip(places)).find(|(number, old)| place(number) != **old)
        {
            return Err(Error::invalid_argument(format!(
                "input {} is a constant, and lies elsewhere than in the first run",
                moved.0
            )));
        }
        Ok(self.held.get_or_init(|| self.hold(instance, inputs)))
    }

    /// Takes hold of every form, or of none where there is no memory for one.
    #[cold]
    fn hold<B: Backend<Device = D>>(&self, instance: &Instance<B>, inputs: &[ProgramInput]) -> Box<[Held]> {
        let mut all = Vec::with_capacity(self.body.forms.len());
        for form in &self.body.forms {
            let input = &inputs[form.input];
            let name = (input.buffer, input.offset, form.bytes, form.key.clone());
            match self.hold_one(instance, name) {
                Ok(held) => all.push(held),
                Err(_) => {
                    let (held, _): (Vec<Held>, Vec<_>) = all.into_iter().unzip();
                    held.into_iter().for_each(|held| self.drop_one(instance, held));
                    all = Vec::new();
                    break;
                }
            }
        }
        let (held, made): (Vec<Held>, Vec<Arc<OnceLock<()>>>) = all.into_iter().unzip();
        self.body.made.get_or_init(|| made.into());
        held.into()
    }

    fn hold_one<B: Backend<Device = D>>(
        &self,
        instance: &Instance<B>,
        name: Name,
    ) -> Result<(Held, Arc<OnceLock<()>>)> {
        let forms = &self.owner.get().forms;
        let again = |name: &Name| {
            forms.lock().0.get_mut(name).map(|entry| {
                entry.holders += 1;
                (entry.buffer, Arc::clone(&entry.made))
            })
        };
        if let Some((buffer, made)) = again(&name) {
            return Ok((Held { name, buffer }, made));
        }
        // For no stream: the first to use it may be any.
        let (buffer, _, uncounted) = obtain(instance, self.owner, name.2, 0, || None)?;
        count(self.owner.get(), uncounted);
        note_buffers(
            instance,
            self.owner.get(),
            ProfileKind::Alloc,
            (0, None),
            [buffer],
        );
        let mut list = forms.lock();
        let mut spare = Some(buffer);
        let entry = list.0.entry(name.clone()).or_insert_with(|| Entry {
            buffer: spare.take().unwrap_or(buffer),
            made: Arc::default(),
            holders: 0,
        });
        entry.holders += 1;
        let (buffer, made) = (entry.buffer, Arc::clone(&entry.made));
        drop(list);
        if let Some(spare) = spare {
            // Another thread came first.
            give_back::<B, true>(instance, spare, 0)?;
        }
        Ok((Held { name, buffer }, made))
    }

    fn drop_one<B: Backend<Device = D>>(&self, instance: &Instance<B>, held: Held) {
        let mut list = self.owner.get().forms.lock();
        let last = (list.0.get_mut(&held.name)).is_some_and(|entry| {
            entry.holders -= 1;
            entry.holders == 0
        });
        if last {
            list.0.remove(&held.name);
        }
        drop(list);
        if last {
            // It was made for the forms; nobody else frees it.
            let _ = give_back::<B, true>(instance, held.buffer, 0);
        }
    }

    /// Gives up what the program holds.
    pub(super) fn let_go<B: Backend<Device = D>>(mut self, instance: &Instance<B>) {
        let held = self.held.take().unwrap_or_default();
        held.into_iter().for_each(|held| self.drop_one(instance, held));
    }
}
