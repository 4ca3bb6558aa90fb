// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine whose interrupts move: CPUs with pending bits, sources that fire at any moment,
//! messages that arrive late. It panics when an interrupt is lost or doubled.
#![allow(dead_code, reason = "each test binary uses its part")]

mod driver;
pub mod matrix;
pub mod platform;
pub mod quiet;
pub mod rig;
pub mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask, OnCpu};
use irq_core::hotplug::{Affinity, Hotplug, Leaves, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, NoCpu};

use matrix::RealMatrix;
use platform::{Player, locks_held};
use source::Source;

/// A vector of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    pub cpu: u32,
    pub vector: u32,
}

/// A call of the driver's side, as tests look at them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Take(u32),
    /// A place on a CPU was found, and is not known to anybody yet.
    Taken(u32, u32),
    /// No place was found.
    Refused(u32),
    GiveBack(u32, u32),
    Point(u32, u32),
    Pointed(u32, u32),
    Pending(u32),
    Replay(u32, u32),
    Hold(u32),
    Release(u32),
    Open(u32),
    Close(u32),
    Settle(u32),
    Wake(u32),
    Broken(u32, u32),
    Reserve(u32),
    Unreserve(u32),
}

#[derive(Default)]
struct Cpu {
    /// It runs.
    up: bool,
    /// Places on it may be taken.
    open: bool,
    /// What is pending at each vector: the source, and the events.
    irr: BTreeMap<u32, (u32, Vec<u64>)>,
}

#[derive(Default)]
struct Inner {
    cpus: Vec<Cpu>,
    sources: BTreeMap<u32, Source>,
    slots: BTreeMap<Slot, u32>,
    /// Those of them that their source pointed at.
    used: BTreeSet<Slot>,
    /// Those on CPUs that go of which it was asked, and told, that something is pending.
    asked: BTreeSet<Slot>,
    calls: Vec<Call>,
    /// Which source had each event.
    fired: Vec<u32>,
    /// How often each event was handled.
    handled: Vec<u32>,
    reservations: u32,
    /// Picks CPUs and vectors.
    seed: u64,
}

/// Which calls fail.
pub type Fails = fn(Call) -> bool;

/// What runs before each call of the driver's side.
pub type Hook = Box<dyn FnMut(&Sim, Call) + Send>;

pub struct Sim {
    pub leaves: Leaves,
    /// Vectors of each CPU.
    pub vectors: u32,
    /// Who hands the vectors out, if it is the matrix.
    vectors_of: Option<RealMatrix>,
    inner: Mutex<Inner>,
    hook: Mutex<Option<Hook>>,
    /// Lets others run, before each call.
    pub yields: fn(),
    pub fails: Mutex<Option<Fails>>,
}

impl Sim {
    pub fn new(cpus: u32, vectors: u32, leaves: Leaves) -> Self {
        let inner = Inner {
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            seed: 1,
            ..Inner::default()
        };
        Self {
            leaves,
            vectors,
            vectors_of: None,
            inner: Mutex::new(inner),
            hook: Mutex::new(None),
            yields: || (),
            fails: Mutex::new(None),
        }
    }

    /// Vectors are handed out by the matrix.
    pub fn with_matrix(cpus: u32, vectors: u32, leaves: Leaves) -> Self {
        Self {
            vectors_of: Some(RealMatrix::new(cpus, vectors)),
            ..Self::new(cpus, vectors, leaves)
        }
    }

    /// The matrix.
    pub fn matrix(&self) -> &RealMatrix {
        self.vectors_of.as_ref().unwrap()
    }

    /// Choices of CPUs and vectors follow from `seed`; with 0, the first one is chosen.
    pub fn seed(&self, seed: u64) {
        self.lock().seed = seed;
    }

    pub fn set_hook(&self, hook: impl FnMut(&Sim, Call) + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Notes a call, which must come with no lock of ours held, and lets others run.
    fn called(&self, call: Call) -> Result<(), Error> {
        assert_eq!(locks_held(), 0, "{call:?} under a lock");
        (self.yields)();
        self.lock().calls.push(call);
        let hook = self.hook.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook(self, call);
            self.hook.lock().unwrap().get_or_insert(hook);
        }
        match self.fails.lock().unwrap().is_some_and(|fails| fails(call)) {
            true => Err(Error::Refused {
                register: "a test's",
                value: 0,
            }),
            false => Ok(()),
        }
    }

    /// The calls so far, which are forgotten.
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().calls)
    }

    /// The calls so far that `of` selects.
    pub fn calls_of(&self, of: fn(&Call) -> bool) -> Vec<Call> {
        self.calls().into_iter().filter(of).collect()
    }

    /// The source of `irq` exists; held.
    pub fn source(&self, irq: u32, level: bool) {
        let mut inner = self.lock();
        inner.sources.insert(irq, Source::new(level));
    }

    /// Nobody waits for events of `irq` any more.
    pub fn forget(&self, irq: u32) {
        let inner = &mut *self.lock();
        let source = inner.sources.remove(&irq).unwrap();
        assert!(source.held && source.under_way.is_empty(), "{irq}");
        for (owner, handled) in inner.fired.iter().zip(&mut inner.handled) {
            if *owner == irq {
                *handled = 1;
            }
        }
    }

    /// The source has an event: an edge, or its line rises.
    pub fn fire(&self, irq: u32) {
        let inner = &mut *self.lock();
        if let Some(source) = inner.sources.get_mut(&irq) {
            source.fire(inner.fired.len() as u64);
            inner.fired.push(irq);
            inner.handled.push(0);
        }
    }

    /// The driver masks its line, or unmasks it.
    pub fn mask(&self, irq: u32, masked: bool) {
        if let Some(source) = self.lock().sources.get_mut(&irq) {
            source.mask(masked);
        }
    }

    /// The oldest message of the source arrives. Says whether there was one.
    pub fn deliver(&self, irq: u32) -> bool {
        self.lock().deliver(irq)
    }

    /// All messages of all sources arrive.
    pub fn deliver_all(&self) {
        let mut inner = self.lock();
        let irqs: Vec<u32> = inner.sources.keys().copied().collect();
        irqs.iter().for_each(|irq| while inner.deliver(*irq) {});
    }

    /// The CPU takes an interrupt, if one is pending. Returns which.
    pub fn dispatch(&self, hotplug: &Hotplug<Slot>, platform: &Player, on: &OnCpu) -> Option<u32> {
        let cpu = on.cpu().get();
        let (vector, irq, events) = {
            let mut inner = self.lock();
            assert!(inner.cpus[cpu as usize].up);
            let (vector, (irq, events)) = inner.cpus[cpu as usize].irr.pop_first()?;
            (vector, irq, events)
        };
        let slot = Slot { cpu, vector };
        let known = self.lock().slots.get(&slot).copied();
        assert_eq!(known, Some(irq), "an interrupt of another at {slot:?}");
        if let Some(matrix) = &self.vectors_of {
            matrix.expect_owner(slot, irq);
        }
        hotplug.changes(platform, self).arrived(on, Irq::new(irq));
        self.lock().handle(irq, events);
        Some(irq)
    }

    /// The CPU runs, with nothing pending.
    pub fn up(&self, cpu: u32) {
        let known = &mut self.lock().cpus[cpu as usize];
        assert!(!known.up && known.irr.is_empty());
        known.up = true;
    }

    /// The CPU stops: nothing may be pending on it, under way to it, or known on it.
    pub fn down(&self, cpu: u32) {
        let mut inner = self.lock();
        let known = &mut inner.cpus[cpu as usize];
        assert!(known.up && !known.open, "{cpu}");
        known.up = false;
        assert!(known.irr.is_empty(), "lost on cpu{cpu}: {:?}", known.irr);
        // One that was taken and never pointed at is given back by whoever took it.
        let place = inner.used.iter().find(|slot| slot.cpu == cpu);
        assert_eq!(place, None, "a place of a CPU that went");
    }

    /// The CPUs that run.
    pub fn cpus_up(&self) -> Vec<u32> {
        let inner = self.lock();
        let up = |cpu: &u32| inner.cpus[*cpu as usize].up;
        (0..inner.cpus.len() as u32).filter(up).collect()
    }

    /// How many places are taken.
    pub fn places(&self) -> usize {
        self.lock().slots.len()
    }

    /// The number of reservations.
    pub fn reservations(&self) -> u32 {
        self.lock().reservations
    }

    /// Whether `irq` has a source.
    pub fn is_known(&self, irq: u32) -> bool {
        self.lock().sources.contains_key(&irq)
    }

    pub fn is_held(&self, irq: u32) -> bool {
        self.lock().sources[&irq].held
    }

    /// Whether something is pending anywhere, or on its way.
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.cpus.iter().all(|cpu| cpu.irr.is_empty())
            && inner.sources.values().all(|s| s.under_way.is_empty())
    }

    /// The events that were fired and not handled.
    pub fn missing(&self) -> Vec<u64> {
        let inner = self.lock();
        let missing = |event: &u64| inner.handled[*event as usize] == 0;
        (0..inner.fired.len() as u64).filter(missing).collect()
    }
}

impl Inner {
    fn pick(&mut self, count: usize) -> usize {
        if self.seed == 0 {
            return 0;
        }
        // An xorshift generator.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed % count as u64) as usize
    }

    fn source(&mut self, irq: Irq) -> &mut Source {
        self.sources.get_mut(&irq.get()).unwrap()
    }

    fn free_vectors(&self, cpu: u32, vectors: u32) -> Vec<u32> {
        let free = |vector: &u32| {
            let slot = Slot {
                cpu,
                vector: *vector,
            };
            !self.slots.contains_key(&slot)
        };
        (0..vectors).filter(free).collect()
    }

    fn take(&mut self, wanted: &Wanted<'_>, vectors: u32) -> Result<Slot, NoCpu> {
        let open = (0..self.cpus.len() as u32).filter(|cpu| {
            let asked = match wanted.among {
                Among::Machine => true,
                Among::Node(_) => panic!("no node was asked for"),
                Among::Mask(mask) => mask.contains(CpuIndex::new(*cpu)),
            };
            asked && self.cpus[*cpu as usize].open
        });
        let open: Vec<u32> = open.collect();
        if open.is_empty() {
            return Err(NoCpu::Offline);
        }
        let room = |cpu: &u32| !self.free_vectors(*cpu, vectors).is_empty();
        let with_room: Vec<u32> = open.into_iter().filter(room).collect();
        if with_room.is_empty() {
            return Err(NoCpu::Full);
        }
        let cpu = with_room[self.pick(with_room.len())];
        let free = self.free_vectors(cpu, vectors);
        let vector = free[self.pick(free.len())];
        let slot = Slot { cpu, vector };
        self.taken(slot, wanted);
        Ok(slot)
    }

    fn taken(&mut self, slot: Slot, wanted: &Wanted<'_>) {
        if wanted.reserved {
            self.reservations -= 1;
        }
        assert_eq!(self.slots.insert(slot, wanted.irq.get()), None);
    }

    fn arrive(&mut self, irq: u32, slot: Slot, events: Vec<u64>) {
        assert_eq!(
            self.slots.get(&slot),
            Some(&irq),
            "irq{irq} arrived at {slot:?}"
        );
        let cpu = &mut self.cpus[slot.cpu as usize];
        assert!(cpu.up, "irq{irq} arrived at {slot:?}, which is down");
        let (owner, pending) = cpu.irr.entry(slot.vector).or_insert((irq, Vec::new()));
        assert_eq!(*owner, irq);
        pending.extend(events);
    }

    fn deliver(&mut self, irq: u32) -> bool {
        let source = self.sources.get_mut(&irq);
        let Some((slot, events)) = source.and_then(|source| source.under_way.pop_front()) else {
            return false;
        };
        self.arrive(irq, slot, events);
        true
    }

    fn flush(&mut self, irq: Irq) {
        while self.deliver(irq.get()) {}
    }

    /// What is pending at places that go, of which that was told, waits for a replay.
    fn strand(&mut self, irq: u32, at: Option<Slot>) {
        let asked: Vec<Slot> = self.asked.iter().copied().collect();
        for slot in asked {
            let irr = &mut self.cpus[slot.cpu as usize].irr;
            let here = irr
                .get(&slot.vector)
                .is_some_and(|(owner, _)| *owner == irq);
            if here && at.is_none_or(|at| at == slot) {
                let (_, events) = irr.remove(&slot.vector).unwrap();
                self.asked.remove(&slot);
                if let Some(source) = self.sources.get_mut(&irq) {
                    source.stranded.push(events);
                }
            }
        }
    }

    fn handle(&mut self, irq: u32, events: Vec<u64>) {
        // One that was removed meanwhile has no handler.
        let Some(source) = self.sources.get_mut(&irq) else {
            return;
        };
        for event in source.handle(events) {
            self.handled[event as usize] += 1;
            assert_eq!(self.handled[event as usize], 1, "event {event} of irq{irq}");
        }
    }
}

/// The CPUs of a mask.
pub fn mask(cpus: &[u32]) -> Affinity {
    let mut mask = CpuMask::try_new(4096).unwrap();
    for cpu in cpus {
        mask.insert(CpuIndex::new(*cpu)).unwrap();
    }
    Affinity::Of(mask)
}
