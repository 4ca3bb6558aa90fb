// SPDX-License-Identifier: MIT OR Apache-2.0
//! The top object: interrupts, their actions, and the dispatch of an entry.

use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use irq_hal::heap::try_vec;
use irq_hal::percpu::OnCpu;
use irq_hal::removal::Readers;
use irq_hal::{CpuIndex, Error, Platform};

use crate::action::{Action, ActionContext, Call};
use crate::context::IrqContext;
use crate::counts::{Counts, CpuCounts, Place, Tallies};
use crate::descriptor::{Change, ChangesLock, Descriptor};
use crate::driver::Flow;
use crate::irq::{Irq, IrqRange};
use crate::outcome::{Answer, Bits, Outcome, Taken};
use crate::registration::Registration;

/// All interrupts of a machine, or of one of its domains.
///
/// It is built by value once there is a heap, moves into the kernel's one static, and needs
/// `&self` only. Everything is sized at construction: a descriptor never moves, and dispatch
/// allocates nothing and takes no lock.
#[derive(Debug)]
pub struct Interrupts {
    irqs: IrqRange,
    descriptors: Vec<Descriptor>,
    changes: Vec<ChangesLock>,
    tallies: Tallies,
    readers: Readers,
}

impl Interrupts {
    /// For `cpus` possible CPUs and the numbers `irqs`, each of them a device interrupt.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] for no CPU.
    pub fn new(cpus: u32, irqs: IrqRange) -> Result<Self, Error> {
        Self::with_private(cpus, irqs, &[])
    }

    /// Likewise, where the numbers in `private` are interrupts that each CPU has for itself
    /// (timers, SGIs): these count per CPU.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_private(cpus: u32, irqs: IrqRange, private: &[IrqRange]) -> Result<Self, Error> {
        let readers = Readers::new(cpus)?;
        let count = irqs.count() as usize;
        let mut descriptors = try_vec(count)?;
        let mut changes = try_vec(count)?;
        let (mut privates, mut devices) = (0, 0);
        for irq in irqs.iter() {
            let (next, place): (&mut u32, fn(u32) -> Place) =
                if private.iter().any(|range| range.contains(irq)) {
                    (&mut privates, Place::Private)
                } else {
                    (&mut devices, Place::Device)
                };
            descriptors.push(Descriptor {
                actions: readers.slot(),
                place: place(*next),
            });
            changes.push(ChangesLock::default());
            *next += 1;
        }
        let tallies = Tallies::new(cpus, privates, devices)?;
        Ok(Self {
            irqs,
            descriptors,
            changes,
            tallies,
            readers,
        })
    }

    /// The numbers that this object covers.
    pub const fn irqs(&self) -> IrqRange {
        self.irqs
    }

    /// The number of possible CPUs.
    pub fn cpus(&self) -> u32 {
        self.tallies.cpus()
    }

    fn descriptor(&self, irq: Irq) -> Option<&Descriptor> {
        self.descriptors.get(self.irqs.offset(irq)? as usize)
    }

    /// Puts `action` on `irq`, behind those that are there. The line is left as it is: masked,
    /// until its owner unmasks it.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Exists`] if this action, or one that is there, does not
    /// share; [`Error::Unsupported`] for a shared end-first action; [`Error::Context`] from
    /// inside a handler; [`Error::OutOfMemory`]; [`Error::Timeout`] if another change of this
    /// interrupt does not end.
    ///
    /// # Context
    /// Thread, interrupts unmasked and no lock held; at any time after construction.
    pub fn register<'a>(
        &'a self,
        platform: &'a dyn Platform,
        irq: Irq,
        action: Action,
    ) -> Result<Registration<'a>, Error> {
        if action.shared && matches!(action.call, Call::EndFirst(..)) {
            return Err(Error::Unsupported {
                feature: "a shared end-first action",
            });
        }
        let call = action.call.clone();
        let id = self.change(platform, irq)?.add(action)?;
        Ok(Registration::new(self, platform, irq, id, call))
    }

    pub(crate) fn change<'a>(
        &'a self,
        platform: &'a dyn Platform,
        irq: Irq,
    ) -> Result<Change<'a>, Error> {
        let unknown = Error::NoSuchIrq { irq: irq.get() };
        let offset = self.irqs.offset(irq).ok_or(unknown)? as usize;
        let descriptor = self.descriptors.get(offset).ok_or(unknown)?;
        let lock = self.changes.get(offset).ok_or(unknown)?;
        Change::begin(platform, &self.readers, descriptor, lock)
    }

    /// Takes one interrupt: acknowledges it, runs its actions, ends it.
    ///
    /// Everything of ours is finished when it returns. The hardware raises what else is
    /// pending; calling again until [`Taken::Nothing`] is fine too. If an action unwinds, its
    /// interrupt is ended and the unwind goes on.
    ///
    /// # Context
    /// Interrupts masked, on the CPU of `cx`; nested after an end, and from an unmaskable
    /// entry, too. No lock, no allocation, no log.
    #[inline]
    pub fn dispatch<F: Flow + ?Sized>(&self, flow: &F, cx: &IrqContext<'_>) -> Outcome {
        let Some((irq, active)) = flow.ack(cx) else {
            self.tallies.nothing(cx.cpu());
            return Outcome::NOTHING;
        };
        let ending = Ending {
            flow,
            active: Some(active),
        };
        let Some(descriptor) = self.descriptor(irq) else {
            self.tallies.stray(cx.cpu());
            return Outcome {
                taken: Taken::Unhandled,
                bits: Bits::NONE,
            };
        };
        self.tallies.taken(descriptor.place, cx.cpu());
        let bits = Cell::new(Bits::NONE);
        let answer = self.run(descriptor, ending, &ActionContext::new(cx, irq, &bits));
        let taken = match answer {
            Answer::Handled => Taken::Handled,
            Answer::Deferred => Taken::Deferred,
            Answer::NotMine => {
                self.tallies.unhandled(descriptor.place, cx.cpu());
                Taken::Unhandled
            }
        };
        Outcome {
            taken,
            bits: bits.get(),
        }
    }

    /// Runs the actions and ends the interrupt, in the order that the actions ask for.
    #[inline]
    fn run<F: Flow + ?Sized>(
        &self,
        descriptor: &Descriptor,
        ending: Ending<'_, F>,
        cx: &ActionContext<'_>,
    ) -> Answer {
        let Some(list) = descriptor.actions.read(&self.readers, cx.entry().on()) else {
            return Answer::NotMine;
        };
        let mut answer = Answer::NotMine;
        for entry in &list[0] {
            let one = match &entry.action.call {
                Call::Shared(f) => f(cx),
                Call::Word(f, word) => f(*word, cx),
                Call::EndFirst(f, word) => {
                    let (f, word) = (*f, *word);
                    drop(list);
                    drop(ending);
                    // The call may come back on another CPU: nothing reads the entry's proof
                    // after it. What is left needs the number of the CPU that took the
                    // interrupt, and a count that any CPU may add to.
                    return match f(word, cx) {
                        Answer::NotMine => Answer::NotMine,
                        Answer::Handled | Answer::Deferred => Answer::Handled,
                    };
                }
            };
            // One that defers outweighs one that handled, which outweighs those that did not.
            answer = match (answer, one) {
                (Answer::Deferred, _) | (_, Answer::Deferred) => Answer::Deferred,
                (Answer::Handled, _) | (_, Answer::Handled) => Answer::Handled,
                (Answer::NotMine, Answer::NotMine) => Answer::NotMine,
            };
        }
        drop(list);
        if answer == Answer::Deferred && !ending.defer() {
            Answer::Handled
        } else {
            answer
        }
    }

    /// How often `irq` was taken, over all CPUs. For a private interrupt it is a sum over CPUs
    /// that count on.
    pub fn counts(&self, irq: Irq) -> Option<Counts> {
        Some(self.tallies.total(self.descriptor(irq)?.place))
    }

    /// How often `cpu` took the private interrupt `irq`; nothing for a device interrupt.
    pub fn counts_on(&self, irq: Irq, cpu: CpuIndex) -> Option<Counts> {
        self.tallies.on(self.descriptor(irq)?.place, cpu)
    }

    /// What `cpu` met besides our interrupts.
    pub fn cpu_counts(&self, cpu: CpuIndex) -> Option<CpuCounts> {
        self.tallies.cpu(cpu)
    }

    /// Prints a line for each interrupt that was taken or has an action: its number, how often
    /// it was taken and not handled, and the names of its actions.
    ///
    /// Allocates nothing and takes no lock: usable masked, and in a panic.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn snapshot(&self, on: &OnCpu, out: &mut dyn fmt::Write) -> fmt::Result {
        for (irq, descriptor) in self.irqs.iter().zip(&self.descriptors) {
            let counts = self.tallies.total(descriptor.place);
            let list = descriptor.actions.read(&self.readers, on);
            if list.is_none() && counts == Counts::default() {
                continue;
            }
            write!(
                out,
                "{irq} taken={} unhandled={}",
                counts.taken, counts.unhandled
            )?;
            for entry in list.iter().flat_map(|list| &list[0]) {
                write!(out, " {}", entry.action.name)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Ends an acknowledged interrupt when dropped, also by an unwind.
struct Ending<'f, F: Flow + ?Sized> {
    flow: &'f F,
    active: Option<F::Active>,
}

impl<F: Flow + ?Sized> Ending<'_, F> {
    /// Defers it instead, if the controller can.
    fn defer(mut self) -> bool {
        let deferred = self
            .active
            .is_some_and(|active| self.flow.defer(active).is_ok());
        if deferred {
            self.active = None;
        }
        deferred
    }
}

impl<F: Flow + ?Sized> Drop for Ending<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if let Some(active) = self.active {
            self.flow.end(active);
        }
    }
}
