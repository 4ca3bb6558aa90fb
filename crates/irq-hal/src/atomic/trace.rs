// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics that log who touched which cache line: only under `--cfg irq_trace`, on a host.
//!
//! A test names the CPU that a piece of code plays ([`on_cpu`]), records what the code does
//! ([`record`]) and asks which lines two CPUs met on ([`shared_lines`]). Recording is per
//! thread: one thread plays all CPUs, one after the other, so that a result is the same in
//! every run. Accesses outside of `on_cpu` belong to no CPU and are not recorded.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::sync::atomic::{self as real, Ordering};
use std::collections::BTreeMap;
use std::vec::Vec;

use crate::ids::CpuIndex;

/// The size of what counts as one line, in bytes: what POWER caches, and what x86-64 and arm64
/// prefetch in pairs.
pub const LINE: usize = 128;

/// What an access does to its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A load, or a compare-exchange that failed.
    Read,
    /// A store.
    Write,
    /// A read-modify-write.
    Update,
    /// A lock was taken.
    Lock,
}

impl Kind {
    /// Whether the CPU needs the line for itself.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The CPU that the code played.
    pub cpu: CpuIndex,
    /// The line: its address divided by [`LINE`].
    pub line: usize,
    /// What was done.
    pub kind: Kind,
}

/// A line that one CPU wrote and another one read or wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLine {
    /// The line: its address divided by [`LINE`].
    pub line: usize,
    /// The CPUs that wrote it, in order.
    pub writers: Vec<CpuIndex>,
    /// The CPUs that touched it, in order.
    pub cpus: Vec<CpuIndex>,
}

std::thread_local! {
    static CPU: Cell<Option<CpuIndex>> = const { Cell::new(None) };
    static EVENTS: RefCell<Option<Vec<Event>>> = const { RefCell::new(None) };
}

/// Runs `f` as the CPU `cpu`. Nests.
pub fn on_cpu<R>(cpu: CpuIndex, f: impl FnOnce() -> R) -> R {
    struct Back(Option<CpuIndex>);
    impl Drop for Back {
        fn drop(&mut self) {
            CPU.set(self.0);
        }
    }
    let _back = Back(CPU.replace(Some(cpu)));
    f()
}

/// Runs `f` and returns what it did on its CPUs, in order.
///
/// # Panics
/// If this thread records already.
pub fn record(f: impl FnOnce()) -> Vec<Event> {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            EVENTS.take();
        }
    }
    let before = EVENTS.replace(Some(Vec::new()));
    assert!(before.is_none(), "recording does not nest");
    let _stop = Stop;
    f();
    EVENTS.take().unwrap_or_default()
}

/// The lines that one CPU wrote and another one touched, by address.
pub fn shared_lines(events: &[Event]) -> Vec<SharedLine> {
    let mut lines = BTreeMap::<usize, BTreeMap<CpuIndex, bool>>::new();
    for event in events {
        let wrote = lines
            .entry(event.line)
            .or_default()
            .entry(event.cpu)
            .or_default();
        *wrote |= event.kind.writes();
    }
    let shared = |cpus: &BTreeMap<CpuIndex, bool>| cpus.len() > 1 && cpus.values().any(|w| *w);
    lines
        .into_iter()
        .filter(|(_, cpus)| shared(cpus))
        .map(|(line, cpus)| SharedLine {
            line,
            writers: cpus
                .iter()
                .filter(|(_, wrote)| **wrote)
                .map(|(cpu, _)| *cpu)
                .collect(),
            cpus: cpus.into_keys().collect(),
        })
        .collect()
}

/// Logs that the lock at `at` is taken: our locks are not made of these atomics.
pub fn note_lock(at: *const ()) {
    note(at, Kind::Lock);
}

fn note(at: *const (), kind: Kind) {
    let Some(cpu) = CPU.get() else { return };
    let event = Event {
        cpu,
        line: at.addr() / LINE,
        kind,
    };
    EVENTS.with_borrow_mut(|events| {
        if let Some(events) = events {
            events.push(event);
        }
    });
}

macro_rules! traced {
    ($name:ident $(<$p:ident>)?, $real:ty, $value:ty) => {
        #[doc = concat!("`core`'s `", stringify!($name), "`, logged.")]
        #[repr(transparent)]
        pub struct $name $(<$p>)? ($real);

        impl $(<$p>)? $name $(<$p>)? {
            /// Holds `value`.
            pub const fn new(value: $value) -> Self {
                Self(<$real>::new(value))
            }

            fn note(&self, kind: Kind) {
                note(core::ptr::from_ref(self).cast(), kind);
            }

            /// As `core`'s.
            pub fn load(&self, order: Ordering) -> $value {
                self.note(Kind::Read);
                self.0.load(order)
            }

            /// As `core`'s.
            pub fn store(&self, value: $value, order: Ordering) {
                self.note(Kind::Write);
                self.0.store(value, order);
            }

            /// As `core`'s.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.note(Kind::Update);
                self.0.swap(value, order)
            }

            /// As `core`'s.
            ///
            /// # Errors
            /// The value that was there instead of `current`.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let result = self.0.compare_exchange(current, new, success, failure);
                self.note(if result.is_ok() { Kind::Update } else { Kind::Read });
                result
            }

            /// As `core`'s, but it fails only if the value differs.
            ///
            /// # Errors
            /// The value that was there instead of `current`.
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As `core`'s; exclusive access is not logged.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As `core`'s.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl $(<$p>)? fmt::Debug for $name $(<$p>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$p>)? Default for $name $(<$p>)? {
            fn default() -> Self {
                Self(<$real>::default())
            }
        }
    };
}

macro_rules! updates {
    ($name:ident, $value:ty, $($op:ident)*) => {
        impl $name { $(
            /// As `core`'s.
            pub fn $op(&self, value: $value, order: Ordering) -> $value {
                self.note(Kind::Update);
                self.0.$op(value, order)
            }
        )* }
    };
}

traced!(AtomicBool, real::AtomicBool, bool);
traced!(AtomicU8, real::AtomicU8, u8);
traced!(AtomicU32, real::AtomicU32, u32);
traced!(AtomicU64, real::AtomicU64, u64);
traced!(AtomicUsize, real::AtomicUsize, usize);
traced!(AtomicPtr<T>, real::AtomicPtr<T>, *mut T);
updates!(AtomicBool, bool, fetch_and fetch_or fetch_xor);
updates!(AtomicU8, u8, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
updates!(AtomicU32, u32, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
updates!(AtomicU64, u64, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
updates!(AtomicUsize, usize, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
