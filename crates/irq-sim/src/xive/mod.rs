// SPDX-License-Identifier: MIT OR Apache-2.0
//! A POWER XIVE of generation 1 (POWER9) or 2 (POWER10), native, as a hypervisor-mode kernel on
//! OPAL firmware sees it: event sources and their two-bit states, queues, the presenter, and
//! the firmware calls that set all of that up.
//!
//! # Vocabulary
//! - *girq*: firmware's number of a source.
//! - *virtual processor*: what events are sent to; each hardware thread is one, by its PIR.
//! - *END*: the descriptor of one queue: one for each virtual processor and priority.
//! - *lost*: a trigger that no state keeps and no queue shows.
//! - *pool*: the numbers that `ALLOCATE_IRQ` gives out.
//!
//! # What is judged
//! A wrong width, a load from a trigger page, an operation that the page does not have, event
//! data 0, a queue that is not aligned to its size or not zero, a queue that overflows, an event
//! for a queue that is not set up, a source unrouted before it is off, a trigger for another
//! CPU whose payload was not published, no synchronization after an acknowledge, a load that
//! may pass a store that ends, `CPPR` values that there are not, `CPPR` opened beyond what was
//! interrupted or not given back, and memory given back that the controller still writes to.
//!
//! Judged where hardware shows it: loads of a queue are plain loads of memory, which no model
//! sees. What comes too early there shows at the next access.
//!
//! Not modelled: pool, OS and user rings, escalation, groups and crowds, the tables in memory
//! and their caches, XICS emulation, indirect access to other threads' rings.
//!
//! # Example
//! ```
//! use irq_hal::{Barrier, Bus, PhysAddr};
//! use irq_sim::SimPlatform;
//! use irq_sim::xive::{XiveModel, call};
//!
//! let sim = SimPlatform::new(1);
//! let model = XiveModel::builder(&sim).build();
//! let pir = u64::from(model.pir(0));
//! model.opal(call::RESET, [1, 0, 0, 0, 0, 0, 0]);
//! // Priority 5 of the thread: notified, written nowhere.
//! model.opal(call::SET_QUEUE_INFO, [pir, 5, 0, 0, 3, 0, 0]);
//! let girq = model.opal(call::ALLOCATE_IRQ, [0; 7]);
//! model.opal(call::SET_IRQ_CONFIG, [girq as u64, pir, 5, 1, 0, 0, 0]);
//!
//! let tima = model.map(model.tima(), 0x1_0000)?;
//! let esb = model.map(model.esb(girq as u32), 0x2_0000)?;
//! Bus::<u64>::load(&esb, 0x1_0c00); // PQ=00
//! Bus::<u8>::store(&tima, 0x31, 0xff);
//! Bus::<u64>::store(&esb, 0, 0);
//! let taken = model.take(0, |_| {
//!     assert_eq!(Bus::<u16>::load(&tima, 0x830).swap_bytes(), 0x8005);
//!     tima.synchronize();
//!     Bus::<u64>::load(&esb, 0x1_0c00);
//!     Bus::<u8>::store(&tima, 0x31, 0xff);
//! });
//! assert!(taken);
//! # Ok::<(), irq_hal::Error>(())
//! ```

mod access;
mod builder;
mod delivery;
mod end;
mod faults;
mod inspect;
mod line;
mod machine;
mod opal;
mod pq;
mod presenter;
mod source;
mod tima;
mod vp;
mod window;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error, NodeId, PhysAddr};

pub use builder::XiveBuilder;
pub use end::Queue;
pub use line::Line;
pub use machine::{Gen, Pages, SourceSpec, flags};
pub use opal::{call, code};
pub use pq::Pq;
pub use source::Eas;
pub use window::XiveWindow;

use crate::memory::Memory;
use crate::platform::SimPlatform;
use end::{End, QueueId};
use faults::Faults;
use machine::{Machine, TIMA, TIMA_LEN};
use presenter::Thread;
use source::Source;
use vp::Processor;
use window::END_PAIR;

/// What the pages at an address belong to.
#[derive(Clone, Copy, Debug)]
enum Target {
    Source(u32),
    Queue(u32, u8),
}

/// Adjacent pages of one owner.
#[derive(Clone, Copy, Debug)]
struct Page {
    chip: usize,
    target: Target,
    len: u64,
}

/// All of the machine that accesses and calls change.
#[derive(Debug)]
struct State {
    machine: Machine,
    memory: Memory,
    sources: BTreeMap<u32, Source>,
    ends: BTreeMap<QueueId, End>,
    threads: Vec<Thread>,
    vps: BTreeMap<u32, Processor>,
    /// By first address.
    pages: BTreeMap<u64, Page>,
    /// Events by chip of the source and chip of the receiver.
    forwards: BTreeMap<(usize, usize), u64>,
    /// Source numbers in the order in which they were given out.
    allocated: Vec<u32>,
    /// Queues' memory that a late write may still reach.
    unsynced: Vec<u64>,
    /// Pages that firmware was given: chip, address.
    donated: Vec<(usize, u64)>,
    faults: Faults,
    fail_map: bool,
    /// Firmware is in exploitation mode.
    exploitation: bool,
}

#[derive(Debug)]
struct Shared {
    sim: SimPlatform,
    tima: PhysAddr,
    chip_nodes: Vec<NodeId>,
    lsis: Vec<u32>,
    msis: Vec<u32>,
    extra: Vec<u32>,
    state: Mutex<State>,
}

/// A modelled XIVE with its firmware. A handle: clones share the machine.
#[derive(Clone, Debug)]
pub struct XiveModel {
    shared: Arc<Shared>,
}

/// Indices on a chip from which sources of a kind are counted: messages, levels.
const MSIS: u32 = 0xfe000;
const LSIS: u32 = 0xffff0;

/// Makes the sources of a machine.
struct Sources<'m> {
    machine: &'m Machine,
    all: BTreeMap<u32, Source>,
    pages: BTreeMap<u64, Page>,
    msis: Vec<u32>,
    lsis: Vec<u32>,
}

impl Sources<'_> {
    fn add(&mut self, spec: SourceSpec, index: u32, pool: bool) -> u32 {
        let girq = self.machine.girq(spec.chip, index);
        let at = self.machine.esb(&spec, index);
        let page = Page {
            chip: spec.chip,
            target: Target::Source(girq),
            len: 1 << spec.shift,
        };
        assert!(at.is_multiple_of(page.len), "pages of source {girq:#x}");
        self.pages.insert(at, page);
        self.all.insert(girq, Source::new(spec, at, pool));
        girq
    }

    fn pool(&mut self, chip: usize) {
        let spec = SourceSpec::ipi(self.machine.generation, chip);
        let first = Machine::first_ipi(chip);
        for index in first..first + self.machine.ipis {
            self.add(spec, index, true);
        }
    }

    /// A source of a device, at the next free index of its kind.
    fn device(&mut self, spec: SourceSpec) -> u32 {
        let (list, first) = if spec.psi {
            (&mut self.lsis, LSIS)
        } else {
            (&mut self.msis, MSIS)
        };
        let index = first + list[spec.chip];
        list[spec.chip] += 1;
        assert!(!spec.psi || list[spec.chip] <= 0xf, "levels of one chip");
        self.add(spec, index, false)
    }
}

impl XiveModel {
    /// A XIVE for the CPUs of `sim`, to be described further.
    pub fn builder(sim: &SimPlatform) -> XiveBuilder {
        XiveBuilder::new(sim)
    }

    fn new(sim: &SimPlatform, machine: Machine, lsis: &[usize], msis: &[usize]) -> Self {
        let mut sources = Sources {
            machine: &machine,
            all: BTreeMap::new(),
            pages: BTreeMap::new(),
            msis: vec![0; machine.chips],
            lsis: vec![0; machine.chips],
        };
        (0..machine.chips).for_each(|chip| sources.pool(chip));
        let generation = machine.generation;
        let lsis = lsis.iter().map(|chip| SourceSpec::lsi(generation, *chip));
        let lsis = lsis.map(|spec| sources.device(spec)).collect();
        let msis = msis.iter().map(|chip| SourceSpec::msi(generation, *chip));
        let msis = msis.map(|spec| sources.device(spec)).collect();
        let extra = machine.extra.iter();
        let extra = extra.map(|spec| sources.device(*spec)).collect();
        let Sources { all, mut pages, .. } = sources;
        let mut vps = BTreeMap::new();
        for thread in &machine.threads {
            let first = (thread.pir & 0x7f) * 8;
            vps.insert(thread.pir, Processor::hard(thread.chip, first));
            end_pages(&machine, &mut pages, thread.pir, thread.chip, first);
        }
        let node = |chip: usize| {
            let cpu = machine.threads.iter().position(|one| one.chip == chip);
            let cpu = cpu.map(|cpu| sim.node_of(CpuIndex::new(cpu as u32)));
            cpu.unwrap_or(NodeId::new(chip as u32))
        };
        let chip_nodes = (0..machine.chips).map(node).collect();
        let threads = machine.threads.iter();
        let threads = threads.map(|spec| Thread::new(&machine, *spec)).collect();
        let state = State {
            memory: sim.memory().clone(),
            sources: all,
            ends: BTreeMap::new(),
            threads,
            vps,
            pages,
            forwards: BTreeMap::new(),
            allocated: Vec::new(),
            unsynced: Vec::new(),
            donated: Vec::new(),
            faults: Faults::default(),
            fail_map: false,
            exploitation: generation == Gen::Two,
            machine,
        };
        let shared = Shared {
            sim: sim.clone(),
            tima: PhysAddr::new(TIMA),
            chip_nodes,
            lsis,
            msis,
            extra,
            state: Mutex::new(state),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine that the controller is part of.
    pub fn sim(&self) -> &SimPlatform {
        &self.shared.sim
    }

    /// Maps `len` bytes of device space at `at`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] while [`fail_map`](Self::fail_map) says so.
    ///
    /// # Panics
    /// If the pages of one source, one queue or the management area do not cover that, or the
    /// driver masks interrupts.
    pub fn map(&self, at: PhysAddr, len: usize) -> Result<XiveWindow, Error> {
        self.sim().not_masked_by_driver("mapping of device space");
        let state = self.state();
        if state.fail_map {
            return Err(Error::Unsupported {
                feature: "this mapping",
            });
        }
        let end = at.get() + len as u64;
        let in_tima = at.get() >= TIMA && end <= TIMA + TIMA_LEN;
        let covers = |(start, page): (&u64, &Page)| end <= start + page.len;
        let found = state.pages.range(..=at.get()).next_back();
        let found = in_tima || found.is_some_and(covers);
        drop(state);
        assert!(
            found,
            "{len:#x} bytes at {at} are mapped, where no such pages are"
        );
        Ok(XiveWindow::new(self.clone(), at, len))
    }

    /// `cpu` takes the hypervisor virtualization interrupt, if it is signalled, enabled by
    /// `LPCR.HVICE`, and the CPU does not mask interrupts: masks them, runs `entry` on that
    /// CPU, and unmasks again. Says whether it did.
    ///
    /// # Panics
    /// If `entry` leaves an interrupt mask of the driver unrestored, or has acknowledged
    /// something and leaves `CPPR` where the acknowledge set it.
    pub fn take(&self, cpu: u32, entry: impl FnOnce(&OnCpu)) -> bool {
        let sim = self.sim();
        if sim.masked(cpu) {
            return false;
        }
        let index = cpu as usize;
        let (depth, outer) = {
            let mut state = self.state();
            let thread = &mut state.threads[index];
            if !(thread.hvice && thread.signalled()) {
                return false;
            }
            (thread.unrestored(), thread.enter())
        };
        sim.set_masked(cpu, true);
        sim.as_cpu(cpu, |on| entry(on));
        sim.set_masked(cpu, false);
        let mut state = self.state();
        let thread = &mut state.threads[index];
        thread.leave(outer);
        let (left, cppr) = (thread.unrestored(), thread.cppr);
        drop(state);
        assert!(
            left <= depth,
            "cpu{cpu} leaves an interrupt with CPPR {cppr:#x}: the interrupted level is not \
             restored, the CPU stays deaf"
        );
        true
    }
}

/// Adds the pages of the queues of a virtual processor.
fn end_pages(machine: &Machine, pages: &mut BTreeMap<u64, Page>, vp: u32, chip: usize, first: u32) {
    for prio in 0..8 {
        let at = machine.end_esb(chip, first + u32::from(prio));
        let page = Page {
            chip,
            target: Target::Queue(vp, prio),
            len: END_PAIR,
        };
        pages.insert(at, page);
    }
}
