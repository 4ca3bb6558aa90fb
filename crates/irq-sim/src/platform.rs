// SPDX-License-Identifier: MIT OR Apache-2.0
//! The embedding kernel of a test: clock, CPUs, interrupt masks, memory.
//!
//! A thread is a CPU for as long as it is inside [`SimPlatform::as_cpu`]; outside of any, the
//! thread that made the platform is CPU 0, and other threads are no CPU at all.

use std::alloc::Layout;
use std::cell::RefCell;
use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::percpu::OnCpu;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::release::Release;
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};

use crate::log::{Costs, Event, Log};
use crate::memory::Memory;

thread_local! {
    /// The CPUs that this thread is, innermost last, each with the platform it belongs to.
    static RUNNING_AS: RefCell<Vec<(usize, CpuIndex)>> = const { RefCell::new(Vec::new()) };
}

/// By how many ticks each step advances the clock. One tick is a microsecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// A call of [`Platform::now`].
    pub now: u64,
    /// A call of [`Platform::relax`].
    pub relax: u64,
    /// An access to a device model.
    pub access: u64,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            now: 1,
            relax: 10,
            access: 1,
        }
    }
}

#[derive(Debug)]
struct Cpu {
    node: NodeId,
    /// The thread that is this CPU, and how often it said so.
    runner: Mutex<Option<(ThreadId, usize)>>,
    masked: AtomicBool,
    /// What `irq_save` handed out and `irq_restore` did not get back yet.
    saves: Mutex<Vec<usize>>,
    irq_saves: AtomicU64,
    relaxes: AtomicU64,
    this_cpu_calls: AtomicU64,
    ranks: HeldRanks,
}

#[derive(Debug)]
struct Shared {
    log: Log,
    memory: Memory,
    costs: Costs,
    steps: Steps,
    cpus: Vec<Cpu>,
    clock: AtomicU64,
    stopped: AtomicBool,
    tokens: AtomicU64,
    maker: ThreadId,
}

/// A simulated machine's kernel side. A handle: clones share the machine.
#[derive(Clone, Debug)]
pub struct SimPlatform {
    shared: Arc<Shared>,
}

/// What a [`SimPlatform`] is made of.
#[derive(Clone, Debug)]
pub struct SimPlatformBuilder {
    nodes: Vec<NodeId>,
    coherent: bool,
    costs: Costs,
    steps: Steps,
}

impl SimPlatformBuilder {
    /// The node of each CPU, by CPU index. CPUs beyond the list are on the last one.
    pub fn nodes(mut self, nodes: &[u32]) -> Self {
        for (cpu, node) in self.nodes.iter_mut().enumerate() {
            if let Some(number) = nodes.get(cpu).or(nodes.last()) {
                *node = NodeId::new(*number);
            }
        }
        self
    }

    /// Devices do not snoop the CPUs' caches.
    pub fn non_coherent(mut self) -> Self {
        self.coherent = false;
        self
    }

    /// What accesses are charged.
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// How the clock advances.
    pub fn steps(mut self, steps: Steps) -> Self {
        self.steps = steps;
        self
    }

    /// The machine.
    pub fn build(self) -> SimPlatform {
        let cpu = |node: &NodeId| Cpu {
            node: *node,
            runner: Mutex::new(None),
            masked: AtomicBool::new(false),
            saves: Mutex::new(Vec::new()),
            irq_saves: AtomicU64::new(0),
            relaxes: AtomicU64::new(0),
            this_cpu_calls: AtomicU64::new(0),
            ranks: HeldRanks::new(),
        };
        let shared = Shared {
            log: Log::new(),
            memory: Memory::new(self.coherent),
            costs: self.costs,
            steps: self.steps,
            cpus: self.nodes.iter().map(cpu).collect(),
            clock: AtomicU64::new(0x1000),
            stopped: AtomicBool::new(false),
            tokens: AtomicU64::new(1),
            maker: thread::current().id(),
        };
        SimPlatform {
            shared: Arc::new(shared),
        }
    }
}

/// Leaves a CPU again, also when the test unwinds.
struct Leave<'p> {
    platform: &'p SimPlatform,
    cpu: CpuIndex,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        RUNNING_AS.with_borrow_mut(|stack| stack.pop());
        let mut runner = self.platform.lock(&self.platform.cpu(self.cpu).runner);
        *runner = match *runner {
            Some((thread, depth)) if depth > 1 => Some((thread, depth - 1)),
            _ => None,
        };
    }
}

impl SimPlatform {
    /// A coherent machine with `cpus` CPUs on one node.
    pub fn new(cpus: u32) -> Self {
        Self::builder(cpus).build()
    }

    /// A machine with `cpus` CPUs, to be described further.
    pub fn builder(cpus: u32) -> SimPlatformBuilder {
        assert!(cpus > 0, "a machine has at least one CPU");
        SimPlatformBuilder {
            nodes: vec![NodeId::FLAT; cpus as usize],
            coherent: true,
            costs: Costs::default(),
            steps: Steps::default(),
        }
    }

    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> std::sync::MutexGuard<'a, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cpu(&self, cpu: CpuIndex) -> &Cpu {
        let cpus = self.shared.cpus.len();
        self.shared
            .cpus
            .get(cpu.index())
            .unwrap_or_else(|| panic!("{cpu} of {cpus}"))
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// The number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.shared.cpus.len() as u32
    }

    /// The node of `cpu`.
    pub fn node_of(&self, cpu: CpuIndex) -> NodeId {
        self.cpu(cpu).node
    }

    /// The machine's log.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// The machine's memory.
    pub fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    /// What accesses are charged.
    pub fn costs(&self) -> Costs {
        self.shared.costs
    }

    /// Runs `f` as `cpu`: accesses in it come from that CPU.
    ///
    /// # Panics
    /// If another thread is that CPU, or it does not exist.
    pub fn as_cpu<R>(&self, cpu: u32, f: impl FnOnce(&OnCpu) -> R) -> R {
        let cpu = CpuIndex::new(cpu);
        let me = thread::current().id();
        let mut runner = self.lock(&self.cpu(cpu).runner);
        let depth = match *runner {
            Some((thread, _)) if thread != me => {
                drop(runner);
                panic!("two threads run as {cpu}");
            }
            Some((_, depth)) => depth,
            None => 0,
        };
        *runner = Some((me, depth + 1));
        drop(runner);
        RUNNING_AS.with_borrow_mut(|stack| stack.push((self.id(), cpu)));
        let _leave = Leave {
            platform: self,
            cpu,
        };
        // SAFETY: this thread alone is `cpu` until `_leave` is dropped, after `f`.
        let on = unsafe { OnCpu::new(cpu) };
        f(&on)
    }

    /// The clock stands still from now on: the poll bound alone must end waits.
    pub fn stop_clock(&self) {
        self.shared.stopped.store(true, Relaxed);
    }

    /// The clock, without advancing it.
    pub fn peek_clock(&self) -> Ticks {
        Ticks(self.shared.clock.load(Relaxed))
    }

    fn advance(&self, ticks: u64) -> u64 {
        let ticks = if self.shared.stopped.load(Relaxed) {
            0
        } else {
            ticks
        };
        self.shared.clock.fetch_add(ticks, Relaxed) + ticks
    }

    pub(crate) fn note_access(&self) {
        self.advance(self.shared.steps.access);
    }

    /// Whether `cpu` takes no interrupts.
    pub fn masked(&self, cpu: u32) -> bool {
        self.cpu(CpuIndex::new(cpu)).masked.load(Relaxed)
    }

    /// Masks or unmasks interrupts on `cpu`, as the embedder does, not the driver.
    ///
    /// # Panics
    /// If the driver has masked them and not restored yet.
    pub fn set_masked(&self, cpu: u32, masked: bool) {
        let cpu = self.cpu(CpuIndex::new(cpu));
        assert!(
            self.lock(&cpu.saves).is_empty(),
            "the driver holds this CPU's interrupt mask"
        );
        cpu.masked.store(masked, Relaxed);
    }

    /// How often the code on `cpu` called [`Platform::irq_save`].
    pub fn irq_saves(&self, cpu: u32) -> u64 {
        self.cpu(CpuIndex::new(cpu)).irq_saves.load(Relaxed)
    }

    /// How often the code on `cpu` called [`Platform::relax`].
    pub fn relaxes(&self, cpu: u32) -> u64 {
        self.cpu(CpuIndex::new(cpu)).relaxes.load(Relaxed)
    }

    /// How often the code on `cpu` called [`Platform::this_cpu`]: never on a hot path.
    pub fn this_cpu_calls(&self, cpu: u32) -> u64 {
        self.cpu(CpuIndex::new(cpu)).this_cpu_calls.load(Relaxed)
    }

    /// The CPU that this thread is, for the models: not counted.
    pub(crate) fn current(&self) -> CpuIndex {
        self.running_as()
            .expect("this thread is no CPU of the platform: use as_cpu")
    }

    fn this(&self) -> &Cpu {
        self.cpu(self.current())
    }

    /// `what` must not run while the driver masks interrupts (which its locks do too).
    pub(crate) fn not_masked_by_driver(&self, what: &str) {
        let masked = self
            .running_as()
            .is_some_and(|cpu| !self.lock(&self.cpu(cpu).saves).is_empty());
        assert!(
            !masked,
            "{what} with interrupts masked by the driver or a lock of it held"
        );
    }

    fn running_as(&self) -> Option<CpuIndex> {
        let id = self.id();
        let inner = RUNNING_AS.with_borrow(|stack| {
            stack
                .iter()
                .rev()
                .find(|(platform, _)| *platform == id)
                .map(|(_, cpu)| *cpu)
        });
        let boot = self.shared.maker == thread::current().id();
        inner.or(boot.then_some(CpuIndex::new(0)))
    }
}

/// What a region's [`Release`] needs: token is the exposed address of a leaked box of it.
struct GiveBack {
    platform: SimPlatform,
    memory: Memory,
    device: PhysAddr,
}

/// # Safety
/// `token` is the exposed address of a leaked [`GiveBack`], and this is the only call for it.
unsafe fn give_back(_base: NonNull<u8>, _len: usize, token: usize) {
    // SAFETY: the caller promises a leaked box that nobody else takes back.
    let back = unsafe { Box::from_raw(with_exposed_provenance_mut::<GiveBack>(token)) };
    back.memory.free(back.device);
    if !thread::panicking() {
        back.platform.not_masked_by_driver("DMA memory given back");
    }
}

// SAFETY: memory comes from the allocator, zeroed, and stays until the region's release runs;
// `map_device` maps nothing; no interrupt is ever taken behind the driver's back; `as_cpu`
// lets one thread at a time be a CPU, and only the maker's thread is CPU 0 by default.
unsafe impl Platform for SimPlatform {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        self.not_masked_by_driver("dma_alloc");
        self.shared
            .memory
            .alloc(layout, node, limits, |memory, device| {
                let back = Box::new(GiveBack {
                    platform: self.clone(),
                    memory,
                    device,
                });
                let token = Box::into_raw(back).expose_provenance();
                // SAFETY: the token is a leaked `GiveBack`, and an owner releases once.
                unsafe { Release::new(give_back, token) }
            })
    }

    fn dma_publish(&self, region: &DmaRegion, range: Range<usize>) {
        assert!(
            range.end <= region.len(),
            "dma_publish of {range:?} of {:#x} bytes",
            region.len()
        );
        let at = PhysAddr::new(region.device().get() + range.start as u64);
        self.shared.log.push(Event::Clean {
            cpu: self.this_cpu(),
            at,
            len: range.len(),
        });
        self.shared.memory.publish(at, range.len());
    }

    fn dma_observe(&self, region: &DmaRegion, range: Range<usize>) {
        assert!(
            range.end <= region.len(),
            "dma_observe of {range:?} of {:#x} bytes",
            region.len()
        );
        let at = PhysAddr::new(region.device().get() + range.start as u64);
        self.shared.log.push(Event::Invalidate {
            cpu: self.this_cpu(),
            at,
            len: range.len(),
        });
        self.shared.memory.observe(at, range.len());
    }

    fn map_device(&self, _page: PhysAddr, _len: usize) -> Result<Mmio, Error> {
        self.not_masked_by_driver("map_device");
        Err(Error::Unsupported {
            feature: "mapping of device pages on the simulated machine",
        })
    }

    fn now(&self) -> Ticks {
        Ticks(self.advance(self.shared.steps.now))
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }

    fn relax(&self) {
        self.this().relaxes.fetch_add(1, Relaxed);
        self.advance(self.shared.steps.relax);
        thread::yield_now();
    }

    fn this_cpu(&self) -> CpuIndex {
        self.this().this_cpu_calls.fetch_add(1, Relaxed);
        self.current()
    }

    fn irq_save(&self) -> IrqState {
        let cpu = self.this();
        cpu.irq_saves.fetch_add(1, Relaxed);
        let before = cpu.masked.swap(true, Relaxed);
        let token = self.shared.tokens.fetch_add(1, Relaxed) as usize * 2 + usize::from(before);
        self.lock(&cpu.saves).push(token);
        IrqState(token)
    }

    unsafe fn irq_restore(&self, state: IrqState) {
        let cpu = self.this();
        let mut saves = self.lock(&cpu.saves);
        match saves.last() {
            Some(token) if *token == state.0 => {
                saves.pop();
            }
            latest => {
                let known = saves.contains(&state.0);
                let latest = latest.copied();
                drop(saves);
                if thread::panicking() {
                    return;
                }
                match (latest, known) {
                    (_, true) => panic!("irq_restore out of order: an inner irq_save is open"),
                    (_, false) => panic!("irq_restore of a state that this CPU has not open"),
                }
            }
        }
        cpu.masked.store(state.0 & 1 != 0, Relaxed);
    }

    fn held_ranks(&self) -> Option<&HeldRanks> {
        Some(&self.this().ranks)
    }
}
