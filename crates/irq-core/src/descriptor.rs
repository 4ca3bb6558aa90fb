// SPDX-License-Identifier: MIT OR Apache-2.0
//! One interrupt: where its actions are published, and how they change.
//!
//! Dispatch reads the published list from a [`Table`] and never waits. A change makes a new
//! list, publishes it, and waits until no CPU uses the old one. One change of an interrupt at a
//! time; the spin lock is held for a few moves only, never while memory is allocated or a CPU
//! is waited for.
//!
//! No removal allocates: the old list of an earlier change is kept, and is large enough.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use irq_hal::atomic::AtomicBool;
use irq_hal::heap::{out_of_memory, try_vec};
use irq_hal::lock::MaskedLock;
use irq_hal::percpu;
use irq_hal::removal::{Retired, Table};
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Error, Platform};

use crate::action::{Action, ActionContext, WordFn};
use crate::block::Parts;
use crate::lockup::Line;
use crate::outcome::Answer;
use crate::patience::patience;

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

/// Stands for the number of the first action of a list, which nothing has to load then. No
/// action has it.
pub(crate) const FIRST: u64 = 0;

/// The number of the filler in a list that is kept for its room. No action has it.
const FILLER: u64 = 0;

/// The actions of one interrupt, in the order of registration. Most have one.
#[derive(Debug)]
pub(crate) struct Actions {
    pub(crate) first: Entry,
    pub(crate) rest: Vec<Entry>,
}

impl Actions {
    /// An action for a list that is kept for its room.
    fn nothing() -> Entry {
        let not_mine: WordFn = |_, _| Answer::NotMine;
        Entry {
            id: FILLER,
            action: Action::word(not_mine, 0),
        }
    }

    fn clear(&mut self) {
        self.first = Self::nothing();
        self.rest.clear();
    }

    fn refill(&mut self, mut entries: impl Iterator<Item = Entry>) {
        if let Some(first) = entries.next() {
            self.first = first;
        }
        self.rest.extend(entries);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        core::iter::once(&self.first).chain(&self.rest)
    }

    /// Calls the others after the first, which gave `answer`. Returns the greatest answer and
    /// who gave it first.
    #[inline(never)]
    pub(crate) fn run_rest(&self, answer: Answer, cx: &ActionContext<'_>) -> (Answer, u64) {
        let mut best = (answer, FIRST);
        for entry in &self.rest {
            let answer = entry.action.call.run(cx);
            if answer > best.0 {
                best = (answer, entry.id);
            }
        }
        best
    }
}

/// A published list. An array of one, since that is the box that safe code can allocate
/// fallibly.
pub(crate) type List = [Actions; 1];

/// Where an interrupt counts: what dispatch reads of it besides its actions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the block of the CPU that takes it.
    Own(u32),
    /// On a line for all CPUs.
    Shared(u32),
}

/// All interrupts, as dispatch reads them: a place, and a list if there is an action.
pub(crate) type Descriptors = Table<List, Place, Parts>;

/// The part of an interrupt that no handled interrupt reads or writes.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) changes: ChangesLock,
    /// Whether there ever was an action.
    pub(crate) registered: AtomicBool,
    /// Which of the private interrupts it is, if it is one.
    pub(crate) private: Option<u32>,
    /// Of a device interrupt.
    pub(crate) line: Line,
}

impl Upkeep {
    pub(crate) fn new(private: Option<u32>) -> Self {
        Self {
            changes: ChangesLock::default(),
            registered: AtomicBool::new(false),
            private,
            line: Line::new(),
        }
    }
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
    /// The number of the last action that was added; 0 before the first, so that no action has
    /// the number 0.
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
    descriptors: &'a Descriptors,
    index: u32,
    lock: &'a ChangesLock,
    bound: Bound,
    kept: Kept,
}

impl<'a> Change<'a> {
    /// Waits until no other change of this interrupt is under way, and until what an earlier
    /// one left is used by no CPU.
    pub(crate) fn begin(
        platform: &'a dyn Platform,
        descriptors: &'a Descriptors,
        index: u32,
        lock: &'a ChangesLock,
    ) -> Result<Self, Error> {
        if descriptors.in_use_here(platform) {
            return Err(Error::Context {
                what: "changing actions from inside a handler",
            });
        }
        let bound = patience(platform);
        let was_busy = || u32::from(lock.with(platform, |c| mem::replace(&mut c.busy, true)));
        wait(platform, &CHANGE, bound, was_busy, |busy| busy == 0)?;
        let kept = lock.with(platform, |changes| mem::take(&mut changes.kept));
        let mut change = Self {
            platform,
            descriptors,
            index,
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
        let (count, alone) = self.look(|actions| match actions {
            Some(actions) => (
                1 + actions.rest.len(),
                actions.iter().any(|entry| !entry.action.shared),
            ),
            None => (0, false),
        });
        if count > 0 && (alone || !action.shared) {
            return Err(Error::Exists {
                what: "an action that does not share its irq",
            });
        }
        let id = self.kept.last_id + 1;
        let mut list = try_list(count)?;
        let new = core::iter::once(Entry { id, action });
        self.look(|actions| {
            let old = actions.into_iter().flat_map(Actions::iter);
            list[0].refill(old.cloned().chain(new));
        });
        self.kept.last_id = id;
        // The old list serves the next removal. If a CPU still uses it, the next change waits.
        match self.publish(Some(list)) {
            Ok(()) | Err(Error::Timeout { .. }) => Ok(id),
            Err(error) => Err(error),
        }
    }

    /// Takes the action with this number out. It is no error if that happened before: what was
    /// left to do then is done.
    pub(crate) fn remove(mut self, id: u64) -> Result<(), Error> {
        let (count, found) = self.look(|actions| match actions {
            Some(actions) => (
                1 + actions.rest.len(),
                actions.iter().any(|entry| entry.id == id),
            ),
            None => (0, false),
        });
        if !found {
            return Ok(());
        }
        let rest = if count == 1 {
            None
        } else {
            let mut list = match self.kept.spare.take() {
                Some(spare) if spare[0].rest.capacity() >= count - 2 => spare,
                _ => try_list(count - 2)?,
            };
            self.look(|actions| {
                let old = actions.into_iter().flat_map(Actions::iter);
                list[0].refill(old.filter(|entry| entry.id != id).cloned());
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
    fn look<R>(&self, f: impl FnOnce(Option<&Actions>) -> R) -> R {
        percpu::masked(self.platform, |on| {
            let here = self.descriptors.here(on);
            let list = here
                .and_then(|here| here.at(self.index))
                .and_then(|at| at.read(0));
            f(list.as_ref().map(|list| &list[0]))
        })
    }

    fn publish(&mut self, list: Option<Box<List>>) -> Result<(), Error> {
        let old = self.descriptors.replace(self.platform, self.index, list);
        match old.map_err(|(error, _)| error)? {
            Some(old) => self.settle(old),
            None => Ok(()),
        }
    }

    /// Waits until no CPU uses `old` and keeps it for the next removal.
    fn settle(&mut self, old: Retired<List>) -> Result<(), Error> {
        match old.reclaim(self.platform, self.descriptors, self.bound) {
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

/// A list with room for one action and `others`.
fn try_list(others: usize) -> Result<Box<List>, Error> {
    let mut one = try_vec(1)?;
    one.push(Actions {
        first: Actions::nothing(),
        rest: try_vec(others)?,
    });
    one.into_boxed_slice()
        .try_into()
        .map_err(|_| out_of_memory::<List>(1))
}
