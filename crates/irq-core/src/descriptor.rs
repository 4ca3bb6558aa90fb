// SPDX-License-Identifier: MIT OR Apache-2.0
//! One interrupt: where its actions are published, and how they change.
//!
//! Dispatch reads the published list through a [`Slot`] and never waits. A change makes a new
//! list, publishes it, and waits until no CPU uses the old one. One change of an interrupt at a
//! time; the spin lock is held for a few moves only, never while memory is allocated or a CPU
//! is waited for.
//!
//! No removal allocates: the old list of an earlier change is kept, and is large enough.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use irq_hal::heap::{out_of_memory, try_vec};
use irq_hal::lock::MaskedLock;
use irq_hal::percpu;
use irq_hal::removal::{Readers, Retired, Slot};
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Error, Platform};

use crate::action::Action;
use crate::counts::Place;

/// How long a change waits for handlers on other CPUs, and for another change.
const PATIENCE_US: u32 = 1_000_000;
const PATIENCE_POLLS: u32 = 10_000_000;

static CHANGE: WaitFor = WaitFor {
    register: "registrations of an irq",
    state: "idle",
};

/// An action with the number that its registration knows it by.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) action: Action,
}

/// The actions of one interrupt, in the order of registration. An array of one, since that is
/// the box that safe code can allocate fallibly.
pub(crate) type List = [Vec<Entry>; 1];

/// The part of an interrupt that dispatch reads and nothing writes but a change of its actions.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) actions: Slot<List>,
    pub(crate) place: Place,
}

/// What changes of one interrupt's actions share.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    busy: bool,
    kept: Kept,
}

/// What one change leaves to the next.
#[derive(Debug, Default)]
struct Kept {
    last_id: u64,
    /// Taken out by a change whose wait timed out: a CPU may still use it.
    outstanding: Option<Retired<List>>,
    /// Free for the next removal; at least one shorter than the published list, unless
    /// `outstanding` is.
    spare: Option<Box<List>>,
}

pub(crate) type ChangesLock = MaskedLock<Changes, 4>;

/// The right to change the actions of one interrupt; given back when dropped.
pub(crate) struct Change<'a> {
    platform: &'a dyn Platform,
    readers: &'a Readers,
    descriptor: &'a Descriptor,
    lock: &'a ChangesLock,
    bound: Bound,
    kept: Kept,
}

impl<'a> Change<'a> {
    /// Waits until no other change of this interrupt is under way, and until what an earlier
    /// one left is used by no CPU.
    pub(crate) fn begin(
        platform: &'a dyn Platform,
        readers: &'a Readers,
        descriptor: &'a Descriptor,
        lock: &'a ChangesLock,
    ) -> Result<Self, Error> {
        if readers.in_use_here(platform) {
            return Err(Error::Context {
                what: "changing actions from inside a handler",
            });
        }
        let bound = Bound::new(platform, PATIENCE_US, PATIENCE_POLLS);
        let was_busy = || u32::from(lock.with(platform, |c| mem::replace(&mut c.busy, true)));
        wait(platform, &CHANGE, bound, was_busy, |busy| busy == 0)?;
        let kept = lock.with(platform, |changes| mem::take(&mut changes.kept));
        let mut change = Self {
            platform,
            readers,
            descriptor,
            lock,
            bound,
            kept,
        };
        if let Some(outstanding) = change.kept.outstanding.take() {
            change.settle(outstanding)?;
        }
        Ok(change)
    }

    /// Adds `action` behind the others and returns its number.
    pub(crate) fn add(mut self, action: Action) -> Result<u64, Error> {
        let (count, alone) =
            self.look(|list| (list.len(), list.iter().any(|entry| !entry.action.shared)));
        if count > 0 && (alone || !action.shared) {
            return Err(Error::Exists {
                what: "an action that does not share its irq",
            });
        }
        let mut list = try_list(count + 1)?;
        self.look(|old| list[0].extend_from_slice(old));
        self.kept.last_id += 1;
        let id = self.kept.last_id;
        list[0].push(Entry { id, action });
        // The old list serves the next removal. If a CPU still uses it, the next change waits.
        match self.publish(Some(list)) {
            Ok(()) | Err(Error::Timeout { .. }) => Ok(id),
            Err(error) => Err(error),
        }
    }

    /// Takes the action with this number out. It is no error if that happened before: what was
    /// left to do then is done.
    pub(crate) fn remove(mut self, id: u64) -> Result<(), Error> {
        let (count, found) =
            self.look(|list| (list.len(), list.iter().any(|entry| entry.id == id)));
        if !found {
            return Ok(());
        }
        let rest = if count == 1 {
            None
        } else {
            let mut list = match self.kept.spare.take() {
                Some(spare) if spare[0].capacity() >= count - 1 => spare,
                _ => try_list(count - 1)?,
            };
            self.look(|old| {
                list[0].extend(old.iter().filter(|entry| entry.id != id).cloned());
            });
            Some(list)
        };
        let empty = rest.is_none();
        self.publish(rest)?;
        if empty {
            self.kept.spare = None;
        }
        Ok(())
    }

    /// Reads the published actions. They stay the same during a change.
    fn look<R>(&self, f: impl FnOnce(&[Entry]) -> R) -> R {
        percpu::masked(self.platform, |on| {
            match self.descriptor.actions.read(self.readers, on) {
                Some(list) => f(&list[0]),
                None => f(&[]),
            }
        })
    }

    fn publish(&mut self, list: Option<Box<List>>) -> Result<(), Error> {
        let old = self
            .descriptor
            .actions
            .replace(self.platform, self.readers, list);
        match old.map_err(|(error, _)| error)? {
            Some(old) => self.settle(old),
            None => Ok(()),
        }
    }

    /// Waits until no CPU uses `old` and keeps it for the next removal.
    fn settle(&mut self, old: Retired<List>) -> Result<(), Error> {
        match old.reclaim(self.platform, self.readers, self.bound) {
            Ok(mut list) => {
                list[0].clear();
                self.kept.spare = Some(list);
                Ok(())
            }
            Err((error, old)) => {
                self.kept.outstanding = Some(old);
                Err(error)
            }
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let kept = mem::take(&mut self.kept);
        self.lock.with(self.platform, |changes| {
            changes.kept = kept;
            changes.busy = false;
        });
    }
}

fn try_list(capacity: usize) -> Result<Box<List>, Error> {
    let mut one = try_vec(1)?;
    one.push(try_vec(capacity)?);
    one.into_boxed_slice()
        .try_into()
        .map_err(|_| out_of_memory::<List>(1))
}
