// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions: what runs when an interrupt was taken.

use alloc::sync::Arc;
use core::any::Any;
use core::cell::Cell;
use core::fmt;

use irq_hal::CpuIndex;
use irq_hal::exclusive::Exclusive;

use crate::context::IrqContext;
use crate::irq::Irq;
use crate::outcome::{Answer, Bits};

/// What an action sees: which interrupt it is called for, and the entry.
#[derive(Debug)]
pub struct ActionContext<'a> {
    entry: &'a IrqContext<'a>,
    irq: Irq,
    bits: Cell<Bits>,
}

impl<'a> ActionContext<'a> {
    #[inline]
    pub(crate) const fn new(entry: &'a IrqContext<'a>, irq: Irq) -> Self {
        let bits = Cell::new(Bits::NONE);
        Self { entry, irq, bits }
    }

    /// What was asked for so far.
    #[inline]
    pub(crate) const fn bits(&self) -> Bits {
        self.bits.get()
    }

    /// The interrupt.
    #[inline]
    pub const fn irq(&self) -> Irq {
        self.irq
    }

    /// The CPU that took it.
    #[inline]
    pub const fn cpu(&self) -> CpuIndex {
        self.entry.cpu()
    }

    /// The entry that this call is part of.
    #[inline]
    pub const fn entry(&self) -> &'a IrqContext<'a> {
        self.entry
    }

    /// The embedder's reference, as [`IrqContext::frame`].
    #[inline]
    pub fn frame<T: Any>(&self) -> Option<&'a T> {
        self.entry.frame()
    }

    /// Asks the kernel for `bits` after the dispatch.
    #[inline]
    pub fn request(&self, bits: Bits) {
        self.bits.set(self.bits.get().union(bits));
    }
}

/// An action in the form that allocates nothing: a function and one word of its owner's.
pub type WordFn = fn(word: usize, cx: &ActionContext<'_>) -> Answer;

/// The shared form of an action that is a closure.
pub type SharedFn = Arc<dyn Fn(&ActionContext<'_>) -> Answer + Send + Sync>;

/// How an action is called.
#[derive(Clone)]
pub(crate) enum Call {
    Word(WordFn, usize),
    Shared(SharedFn),
    EndFirst(WordFn, usize),
}

impl Call {
    /// Calls it before the end.
    #[inline]
    pub(crate) fn run(&self, cx: &ActionContext<'_>) -> Answer {
        match self {
            Self::Word(f, word) | Self::EndFirst(f, word) => f(*word, cx),
            Self::Shared(f) => f(cx),
        }
    }
}

/// What to run for an interrupt, given to [`Control::register`](crate::Control::register).
///
/// An action is alone on its interrupt unless it is made [`shared`](Self::shared).
///
/// ```
/// use irq_core::{Action, Answer, Bits};
///
/// let timer = Action::new(|cx| cx.request(Bits::RESCHEDULE)).named("timer");
/// let disk = Action::new(|_| Answer::NotMine).shared().named("disk");
/// # let _ = (timer, disk);
/// ```
#[derive(Clone)]
pub struct Action {
    pub(crate) call: Call,
    pub(crate) name: &'static str,
    pub(crate) shared: bool,
}

impl Action {
    /// A closure, called before the interrupt is ended. One that returns nothing counts as
    /// [`Answer::Handled`].
    ///
    /// It may run on several CPUs at once, masked, with the registration in use: it must return
    /// or unwind, and must not block or switch tasks. It allocates the closure's box here, the
    /// one allocation of this crate that aborts where there is no memory; see
    /// [`from_shared`](Self::from_shared).
    pub fn new<F, R>(f: F) -> Self
    where
        F: Fn(&ActionContext<'_>) -> R + Send + Sync + 'static,
        R: Into<Answer>,
    {
        Self::from_shared(Arc::new(move |cx: &ActionContext<'_>| f(cx).into()))
    }

    /// A closure that changes what it owns. It runs on one CPU at a time: an interrupt that
    /// comes while it runs, on another CPU or nested in it, lets it run once more where it runs,
    /// with the context of that entry, and counts as handled. So each interrupt is followed by a
    /// run, and nobody waits.
    ///
    /// If it unwinds, the next interrupt calls it again.
    pub fn exclusive<F, R>(f: F) -> Self
    where
        F: FnMut(&ActionContext<'_>) -> R + Send + 'static,
        R: Into<Answer>,
    {
        let f = Exclusive::new(f);
        Self::new(move |cx| {
            let mut answer = Answer::NotMine;
            if f.run(|f| answer = answer.max(f(cx).into())) {
                answer
            } else {
                Answer::Handled
            }
        })
    }

    /// As [`new`](Self::new), in memory that the caller got.
    pub const fn from_shared(f: SharedFn) -> Self {
        Self::from_call(Call::Shared(f))
    }

    /// A function that gets `word`, called before the interrupt is ended. Allocates nothing.
    pub const fn word(f: WordFn, word: usize) -> Self {
        Self::from_call(Call::Word(f, word))
    }

    /// A function that gets `word`, called *after* the interrupt is ended, for timers and
    /// wake-ups that switch stacks or never return: nothing of ours is held during the call.
    ///
    /// Hence removing the registration does not wait for a call that has begun. Never shared.
    /// Answering [`Answer::Deferred`] or [`Answer::HandedOver`] counts as handled: there is
    /// nothing left to defer.
    pub const fn end_first(f: WordFn, word: usize) -> Self {
        Self::from_call(Call::EndFirst(f, word))
    }

    const fn from_call(call: Call) -> Self {
        Self {
            call,
            name: "",
            shared: false,
        }
    }

    /// Lets other shared actions stand on the same interrupt. All of them are called, in the
    /// order of registration.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// A name for the snapshot.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.call {
            Call::Shared(_) => "closure",
            Call::Word(..) => "word",
            Call::EndFirst(..) => "end first",
        };
        f.debug_struct("Action")
            .field("name", &self.name)
            .field("kind", &kind)
            .field("shared", &self.shared)
            .finish()
    }
}
