// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of the kernel that is there anyway, played by a modelled machine with two CPU
//! clusters and two redistributor regions. One machine per process, as the kernel's statics want.

use std::alloc::{alloc_zeroed, dealloc};
use std::cell::OnceCell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use core::alloc::Layout;

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use irq_gicv3::CpuInterface;
use irq_hal::percpu::OnCpu;
use irq_hal::platform::IrqState;
use irq_hal::{CpuIndex, Error, PhysAddr, Platform};
use irq_sim::SimPlatform;
use irq_sim::gic::{Affinity, GicBus, GicModel, IccBus, Region};

/// A mapped window of device registers: `irq_hal::Mmio` on hardware.
pub type Window = GicBus;
/// The CPU interface's registers: `irq_gicv3::SysRegs` on hardware.
pub type Registers = IccBus;
/// A static that is set once.
pub type Once<T> = OnceLock<T>;

/// What the vectors save.
#[derive(Debug)]
pub struct TrapFrame {
    /// Where the interrupted code goes on.
    pub pc: usize,
}

/// What a vector calls, masked. It returns where to store the stack pointer of the task that
/// is switched away from, or null.
pub type Vector = extern "C" fn(&TrapFrame) -> *mut usize;

/// A CPU's own block, behind TPIDR_EL1.
#[derive(Debug, Default)]
pub struct CoreLocal {
    /// Its number, in the order of the devicetree.
    pub id: u32,
    /// Its CPU interface, for the kernel that takes the driver alone.
    pub interface: OnceCell<CpuInterface<Registers>>,
    /// Where the stack pointer of its current task goes.
    stack_pointer: usize,
    switches: AtomicU32,
    executor_runs: AtomicU32,
    timer_ticks: AtomicU32,
}

// SAFETY: a block is used by its own CPU alone, but for the atomics; a thread that runs as a
// CPU is that CPU.
unsafe impl Send for CoreLocal {}
// SAFETY: as for `Send`.
unsafe impl Sync for CoreLocal {}

/// The machine that the kernel runs on.
#[derive(Debug)]
pub struct Machine {
    /// Its CPUs, clock and memory.
    pub sim: SimPlatform,
    /// Its interrupt controller.
    pub model: GicModel,
    cores: Vec<CoreLocal>,
    tree: Vec<u8>,
    vector: Vector,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();
static FRAMES_OUT: AtomicUsize = AtomicUsize::new(0);
static ONE_TEST: Mutex<()> = Mutex::new(());

const GICD: u64 = 0x800_0000;
const GICR: [u64; 2] = [0x80a_0000, 0x40_0000_0000];
/// The affinities of the CPUs: Aff1.Aff0, two in a cluster, as no index is.
const AFFINITIES: [u32; 4] = [0x000, 0x001, 0x100, 0x101];

/// Boots a machine with `cpus` CPUs (1 to 4), once in the process: `init` on the first CPU,
/// then `init_cpu` on each, masked, then `start` on the first, unmasked. Each test holds the
/// machine for itself.
///
/// # Panics
/// If the bring-up fails.
pub fn boot(
    cpus: u32,
    vector: Vector,
    init: fn() -> Result<(), Error>,
    init_cpu: fn() -> Result<(), Error>,
    start: fn() -> Result<(), Error>,
) -> (MutexGuard<'static, ()>, &'static Machine) {
    let alone = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    let mut fresh = false;
    let machine = MACHINE.get_or_init(|| {
        fresh = true;
        machine(cpus, vector)
    });
    if fresh {
        let as_cpu = |cpu, masked, f: fn() -> Result<(), Error>| {
            machine.sim.set_masked(cpu, masked);
            let done = machine.sim.as_cpu(cpu, |_| f());
            done.unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        };
        as_cpu(0, true, init);
        for cpu in 0..cpus {
            as_cpu(cpu, true, init_cpu);
            machine.sim.set_masked(cpu, false);
        }
        as_cpu(0, false, start);
    }
    (alone, machine)
}

fn machine(cpus: u32, vector: Vector) -> Machine {
    let affinities = || AFFINITIES.map(Affinity).into_iter().take(cpus as usize);
    let mut regions = vec![Region::new().rds(affinities().take(2))];
    if cpus > 2 {
        regions.push(Region::new().rds(affinities().skip(2)));
    }
    let sim = SimPlatform::new(cpus);
    let model = GicModel::builder(&sim)
        .qemu_virt()
        .spis(352)
        .affinities(affinities())
        .regions(regions)
        .build();
    let core = |id| CoreLocal {
        id,
        ..CoreLocal::default()
    };
    Machine {
        tree: tree(cpus, model.regions()),
        sim,
        model,
        cores: (0..cpus).map(core).collect(),
        vector,
    }
}

fn tree(cpus: u32, regions: usize) -> Vec<u8> {
    let node = |name: &str| DeviceTreeNode::new(name).expect("a node's name");
    let cells = |node: &mut DeviceTreeNode, name, cells: &[u32]| {
        let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_be_bytes()).collect();
        node.add_property(DeviceTreeProperty::new(name, bytes).expect("a property's name"));
    };
    let text = |node: &mut DeviceTreeNode, name, value: &str| {
        let bytes = [value.as_bytes(), b"\0"].concat();
        node.add_property(DeviceTreeProperty::new(name, bytes).expect("a property's name"));
    };
    let mut tree = DeviceTree::new();
    let root = &mut tree.root;
    cells(root, "#address-cells", &[2]);
    cells(root, "#size-cells", &[2]);
    cells(root, "interrupt-parent", &[1]);
    let mut intc = node("intc");
    text(&mut intc, "compatible", "arm,gic-v3");
    cells(&mut intc, "phandle", &[1]);
    cells(&mut intc, "#interrupt-cells", &[3]);
    cells(&mut intc, "#redistributor-regions", &[regions as u32]);
    let mut reg = vec![0, GICD as u32, 0, 0x1_0000];
    for base in &GICR[..regions] {
        reg.extend([(base >> 32) as u32, *base as u32, 0, 0x4_0000]);
    }
    cells(&mut intc, "reg", &reg);
    root.add_child(intc);
    let mut parent = node("cpus");
    cells(&mut parent, "#address-cells", &[1]);
    for affinity in &AFFINITIES[..cpus as usize] {
        let mut cpu = node(&format!("cpu@{affinity:x}"));
        text(&mut cpu, "device_type", "cpu");
        cells(&mut cpu, "reg", &[*affinity]);
        parent.add_child(cpu);
    }
    root.add_child(parent);
    let mut timer = node("timer");
    text(&mut timer, "compatible", "arm,armv8-timer");
    let interrupts = [1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4];
    cells(&mut timer, "interrupts", &interrupts);
    root.add_child(timer);
    let mut uart = node("pl011");
    text(&mut uart, "compatible", "arm,pl011");
    cells(&mut uart, "interrupts", &[0, 1, 4]);
    root.add_child(uart);
    tree.to_dtb()
}

impl Machine {
    /// `cpu` takes the interrupts that are signalled to it, until there are none.
    pub fn run(&self, cpu: u32) {
        while self.model.take_irq(cpu, |_| self.enter()) {}
    }

    fn enter(&self) {
        let old_stack = (self.vector)(&TrapFrame { pc: 0x8_0000 });
        if !old_stack.is_null() {
            core_local().switches.fetch_add(1, Relaxed);
        }
    }

    /// Runs `f` as `cpu`.
    pub fn on<R>(&self, cpu: u32, f: impl FnOnce() -> R) -> R {
        self.sim.as_cpu(cpu, |_: &OnCpu| f())
    }

    /// How often `cpu` switched tasks.
    pub fn switches(&self, cpu: u32) -> u32 {
        self.core(cpu).switches.load(Relaxed)
    }

    /// How often `cpu` polled its executor.
    pub fn executor_runs(&self, cpu: u32) -> u32 {
        self.core(cpu).executor_runs.load(Relaxed)
    }

    /// How often the timer of `cpu` ticked.
    pub fn timer_ticks(&self, cpu: u32) -> u32 {
        self.core(cpu).timer_ticks.load(Relaxed)
    }

    fn core(&self, cpu: u32) -> &CoreLocal {
        &self.cores[cpu as usize]
    }

    /// The timer of `cpu` expires.
    pub fn expire_timer(&self, cpu: u32) {
        self.model.private_line(cpu, 27).assert();
    }
}

/// The machine that was booted.
///
/// # Panics
/// Before.
pub fn this_machine() -> &'static Machine {
    MACHINE.get().expect("a booted machine")
}

/// The device tree that firmware left.
pub fn devicetree() -> &'static [u8] {
    &this_machine().tree
}

/// How many CPUs it names.
pub fn possible_cpus() -> u32 {
    this_machine().cores.len() as u32
}

/// The block of the running CPU.
pub fn core_local() -> &'static CoreLocal {
    this_machine().core(this_machine().sim.this_cpu().get())
}

/// `MPIDR_EL1`.
pub fn mpidr() -> u64 {
    this_machine().model.mpidr(core_local().id)
}

/// The CPU interface of the running CPU: `SysRegs` on hardware.
pub fn registers() -> Registers {
    this_machine().model.sysregs()
}

/// Maps a window of device registers: `PLATFORM.map_device` on hardware.
///
/// # Errors
/// [`Error::Unsupported`] where no device is.
pub fn map_window(base: PhysAddr, len: u64) -> Result<Window, Error> {
    assert!(len.is_multiple_of(0x1_0000), "a window of whole frames");
    match base.get() {
        GICD => Ok(this_machine().model.gicd()),
        at => match GICR.iter().position(|base| *base == at) {
            Some(region) => Ok(this_machine().model.gicr(region)),
            None => Err(Error::Unsupported {
                feature: "a device that is not there",
            }),
        },
    }
}

/// Contiguous zeroed memory, identity-mapped.
pub fn allocate_frames(layout: Layout) -> Option<NonNull<u8>> {
    if layout.size() == 0 {
        return None;
    }
    FRAMES_OUT.fetch_add(layout.size(), Relaxed);
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

/// Gives frames back.
///
/// # Safety
/// - `base` came from [`allocate_frames`] with `layout`, and nothing uses it any more.
pub unsafe fn free_frames(base: NonNull<u8>, layout: Layout) {
    FRAMES_OUT.fetch_sub(layout.size(), Relaxed);
    // SAFETY: the caller promises that this is the layout of the allocation.
    unsafe { dealloc(base.as_ptr(), layout) }
}

/// How many bytes of frames are not given back.
pub fn frames_out() -> usize {
    FRAMES_OUT.load(Relaxed)
}

/// Maps device pages for good.
pub fn map_pages(base: PhysAddr, _len: usize) -> Option<NonNull<u8>> {
    // The mapping is the identity, and a test maps what it allocated.
    NonNull::new(std::ptr::with_exposed_provenance_mut(base.get() as usize))
}

/// Cleans (or cleans and invalidates) the data cache to the point of coherency.
pub fn clean_cache(_at: NonNull<u8>, _len: usize, _invalidate: bool) {}

/// `CNTVCT_EL0`, behind an ISB.
pub fn counter() -> u64 {
    this_machine().sim.now().0
}

/// `CNTFRQ_EL0`.
pub fn counter_frequency() -> u64 {
    1_000_000
}

/// The body of a spin.
pub fn spin_hint() {
    this_machine().sim.relax();
}

/// `DAIF`, with interrupts masked from now on.
pub fn save_and_mask() -> usize {
    this_machine().sim.irq_save().0
}

/// Puts `DAIF` back.
///
/// # Safety
/// - `state` came from the latest open [`save_and_mask`] on this CPU.
pub unsafe fn restore(state: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe { this_machine().sim.irq_restore(IrqState(state)) }
}

/// Lets interrupts in: those that are pending are taken before the next statement.
pub fn unmask() {
    let cpu = core_local().id;
    this_machine().sim.set_masked(cpu, false);
    this_machine().run(cpu);
}

/// Polls the async tasks of this core.
pub fn run_executor() {
    core_local().executor_runs.fetch_add(1, Relaxed);
}

/// Picks the next task. Null if this one goes on.
pub fn schedule() -> *mut usize {
    (&raw const core_local().stack_pointer).cast_mut()
}

/// No task is switched away from.
pub fn same_task() -> *mut usize {
    null_mut()
}

/// Stops the timer of this core, and wakes those that waited for it.
pub fn timer_interrupt() {
    let core = core_local();
    core.timer_ticks.fetch_add(1, Relaxed);
    this_machine().model.private_line(core.id, 27).deassert();
}

/// The CPU with this number.
pub fn cpu(core: u32) -> CpuIndex {
    CpuIndex::new(core)
}
