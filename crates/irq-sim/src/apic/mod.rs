// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local APICs of a machine with x86-64 CPUs, in x2APIC mode, with the pair of 8259s and
//! CPUID beside them. Written from the manuals (Intel SDM vol. 3, "Advanced Programmable
//! Interrupt Controller"; AMD APM vol. 2), not from any emulator: it does what hardware does.
//!
//! # Vocabulary
//! - *stray*: an interrupt that reached nobody, or that its CPU did not accept.
//! - *parked*: a CPU that firmware halted with its own interrupt table.
//! - *waiting*: a CPU after INIT, which only a start-up IPI starts.
//! - *late*: an interrupt that the task priority masked after it was signalled: the CPU gets
//!   the spurious vector.
//!
//! # What is judged
//! A write or read that hardware answers with a general-protection fault is a panic with
//! `#GP` in its text. So are, without it, things that hardware lets pass and a driver must not
//! do: an EOI that ends another interrupt than the handled one, an IPI whose payload was not
//! published, INIT to the boot CPU, an NMI to a parked one, LINT0 masked under the 8259s, a
//! moved base address, a spurious vector among the exceptions.
//!
//! Not modelled: the register page of xAPIC mode, I/O APICs, AMD's extended registers.
//!
//! # Example
//! ```
//! use irq_hal::{Barrier, Bus};
//! use irq_sim::apic::{ApicModel, Mode, msr};
//! use irq_sim::{SimPlatform, Unit};
//!
//! let sim = SimPlatform::new(2);
//! let model = ApicModel::builder(&sim).mode(Mode::X2apic).build();
//! let msrs = model.msrs();
//! sim.as_cpu(1, |_| msrs.store(msr::IA32_X2APIC_SIVR, 0x1ff));
//! msrs.publish();
//! msrs.store(msr::IA32_X2APIC_ICR, 1 << 32 | 0x4000 | 0x40);
//! let taken = model.take(1, |_, vector| {
//!     assert_eq!(vector, 0x40);
//!     msrs.store(msr::IA32_X2APIC_EOI, 0);
//! });
//! assert!(taken);
//! ```

mod base;
mod builder;
mod bus;
mod call;
mod cpuid;
mod delivery;
mod icr;
mod local;
mod lvt;
mod machine;
pub mod msr;
mod pic;
mod registers;
mod start;
mod timer;
mod vectors;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use irq_hal::percpu::OnCpu;

pub use builder::ApicBuilder;
pub use bus::{MsrBus, PortBus};
pub use cpuid::Cpuid;
pub use icr::{Refusal, Stray};
pub use machine::{Aps, Lock, Mode, Vendor};

use crate::platform::SimPlatform;
use local::LocalApic;
use lvt::Lvt;
use machine::Machine;
use pic::Pair;

/// All of the machine that accesses change.
#[derive(Debug)]
struct State {
    machine: Machine,
    cpus: Vec<LocalApic>,
    pic: Option<Pair>,
    tsc: u64,
    /// The platform's clock at the last access.
    now: u64,
    strays: Vec<Stray>,
    /// Vectors of level interrupts whose end was told to the I/O APICs.
    broadcasts: Vec<u8>,
    /// CPUs that the access under way has started.
    started: Vec<(u32, u8)>,
}

/// What runs on a CPU that is started.
#[derive(Clone)]
struct Entry(Arc<dyn Fn(u32, u8) + Send + Sync>);

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entry")
    }
}

#[derive(Debug)]
struct Shared {
    sim: SimPlatform,
    state: Mutex<State>,
    entry: Mutex<Option<Entry>>,
}

/// Modelled local APICs. A handle: clones share the machine.
#[derive(Clone, Debug)]
pub struct ApicModel {
    shared: Arc<Shared>,
}

impl ApicModel {
    /// Local APICs for the CPUs of `sim`, to be described further.
    pub fn builder(sim: &SimPlatform) -> ApicBuilder {
        ApicBuilder::new(sim)
    }

    fn new(sim: &SimPlatform, machine: Machine) -> Self {
        let cpus = (0..machine.cpus.len()).map(|cpu| LocalApic::new(&machine, cpu));
        let state = State {
            cpus: cpus.collect(),
            pic: machine.pic.then(|| Pair::new(machine.imcr)),
            machine,
            tsc: 0x1000,
            now: 0,
            strays: Vec::new(),
            broadcasts: Vec::new(),
            started: Vec::new(),
        };
        let shared = Shared {
            sim: sim.clone(),
            state: Mutex::new(state),
            entry: Mutex::new(None),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self) -> MutexGuard<'_, Option<Entry>> {
        self.shared
            .entry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn run_started(&self, cpu: u32, page: u8) {
        let entry = self.entry().clone();
        if let Some(Entry(entry)) = entry {
            entry(cpu, page);
        }
    }

    /// The machine that the APICs are part of.
    pub fn sim(&self) -> &SimPlatform {
        &self.shared.sim
    }

    /// The MSRs of whichever CPU uses them.
    pub fn msrs(&self) -> MsrBus {
        MsrBus::new(self.clone())
    }

    /// The ports of the 8259s.
    pub fn ports(&self) -> PortBus {
        PortBus::new(self.clone())
    }

    /// CPUID of whichever CPU asks.
    pub fn cpuid(&self) -> Cpuid {
        Cpuid::new(self.clone())
    }

    /// The APIC id of `cpu`.
    pub fn id(&self, cpu: u32) -> u32 {
        self.state().cpus[cpu as usize].id()
    }

    /// The mode of the APIC of `cpu`.
    pub fn mode(&self, cpu: u32) -> Mode {
        self.state().cpus[cpu as usize].mode()
    }

    /// What a register of `cpu` holds, whatever its mode: not an access.
    ///
    /// # Panics
    /// If it holds nothing.
    pub fn register(&self, cpu: u32, number: usize) -> u64 {
        self.state().cpus[cpu as usize].peek(number)
    }

    /// The vectors that are requested on `cpu`, in rising order.
    pub fn irr(&self, cpu: u32) -> Vec<u8> {
        self.state().cpus[cpu as usize].irr.list()
    }

    /// The vectors that are in service on `cpu`, in rising order.
    pub fn isr(&self, cpu: u32) -> Vec<u8> {
        self.state().cpus[cpu as usize].isr.list()
    }

    /// The vectors whose last interrupt on `cpu` was level-triggered, in rising order.
    pub fn tmr(&self, cpu: u32) -> Vec<u8> {
        self.state().cpus[cpu as usize].tmr.list()
    }

    /// The vector that `cpu` would take, were its interrupts enabled.
    pub fn pending(&self, cpu: u32) -> Option<u8> {
        self.state().pending(cpu as usize)
    }

    /// `cpu` takes an interrupt, if one is signalled and it does not mask interrupts: masks
    /// them, runs `entry` on that CPU with the vector, and unmasks again. Says whether it did.
    ///
    /// # Panics
    /// If `entry` leaves an interrupt mask of the driver unrestored.
    pub fn take(&self, cpu: u32, entry: impl FnOnce(&OnCpu, u8)) -> bool {
        let sim = self.sim();
        if sim.masked(cpu) {
            return false;
        }
        let index = cpu as usize;
        let (vector, published, depth) = {
            let mut state = self.state();
            let depth = state.cpus[index].entered.len();
            let Some(vector) = state.enter(index) else {
                return false;
            };
            (vector, state.cpus[index].published.take(), depth)
        };
        sim.set_masked(cpu, true);
        sim.as_cpu(cpu, |on| entry(on, vector));
        sim.set_masked(cpu, false);
        let mut state = self.state();
        state.cpus[index].entered.truncate(depth);
        state.cpus[index].published = published;
        true
    }

    /// `cpu` takes an NMI, if one is pending and it is not in one: runs `entry` on it, whether
    /// it masks interrupts or not. Says whether it did.
    pub fn take_nmi(&self, cpu: u32, entry: impl FnOnce(&OnCpu)) -> bool {
        let index = cpu as usize;
        {
            let mut state = self.state();
            let apic = &mut state.cpus[index];
            if !apic.nmi_pending || apic.in_nmi {
                return false;
            }
            apic.nmi_pending = false;
            apic.in_nmi = true;
        }
        self.sim().as_cpu(cpu, entry);
        self.state().cpus[index].in_nmi = false;
        true
    }

    /// How many NMIs reached `cpu`.
    pub fn nmis(&self, cpu: u32) -> u64 {
        self.state().cpus[cpu as usize].nmis
    }

    /// How many INITs reached `cpu`.
    pub fn inits(&self, cpu: u32) -> u64 {
        self.state().cpus[cpu as usize].inits
    }

    /// How many start-up IPIs reached `cpu` since the last INIT.
    pub fn sipis(&self, cpu: u32) -> u64 {
        self.state().cpus[cpu as usize].sipis
    }

    /// The page at which `cpu` was started, if it was since its last INIT.
    pub fn started(&self, cpu: u32) -> Option<u8> {
        self.state().cpus[cpu as usize].page
    }

    /// From now on `entry` is called with each CPU that is started, and its page, inside the
    /// access that started it: it plays the CPU, or has a thread do so.
    pub fn when_started(&self, entry: impl Fn(u32, u8) + Send + Sync + 'static) {
        *self.entry() = Some(Entry(Arc::new(entry)));
    }

    /// IPIs that reached nobody, or were refused.
    pub fn strays(&self) -> Vec<Stray> {
        self.state().strays.clone()
    }

    /// The vectors whose end was told to the I/O APICs, in order.
    pub fn eoi_broadcasts(&self) -> Vec<u8> {
        self.state().broadcasts.clone()
    }

    /// The clocks of the timers, and the TSC, go on by `ticks`.
    pub fn advance(&self, ticks: u64) {
        self.state().advance(ticks);
    }

    /// The TSC.
    pub fn tsc(&self) -> u64 {
        self.state().tsc
    }

    /// A device's message arrives at `cpu`. Says whether it was accepted.
    pub fn raise(&self, cpu: u32, vector: u8, level: bool) -> bool {
        let mut state = self.state();
        state.cpus[cpu as usize].accept(vector, level).is_ok()
    }

    /// The event of an LVT entry of `cpu` happens.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn raise_lvt(&self, cpu: u32, register: usize) {
        let mut state = self.state();
        let lvt = Lvt::of(register).filter(|lvt| *lvt as u8 <= state.machine.max_lvt);
        let lvt = lvt.unwrap_or_else(|| panic!("no LVT entry {register:#x}"));
        state.cpus[cpu as usize].fire(lvt);
    }

    /// Pin LINT0 or LINT1 of `cpu` is `high` from now on.
    pub fn set_pin(&self, cpu: u32, pin: usize, high: bool) {
        self.state().cpus[cpu as usize].set_pin(pin, high);
    }

    /// `cpu` gets the spurious vector next, unless a vector is signalled.
    pub fn inject_spurious(&self, cpu: u32) {
        self.state().cpus[cpu as usize].late = true;
    }

    /// The APIC of `cpu` finds an error: `bit` of `ESR`.
    pub fn inject_error(&self, cpu: u32, bit: u32) {
        self.state().cpus[cpu as usize].detect(bit);
    }

    /// An input of the 8259s is `high` from now on.
    ///
    /// # Panics
    /// If there are none.
    pub fn pic_line(&self, irq: u8, high: bool) {
        let mut state = self.state();
        state.pic.as_mut().expect("no 8259s").set_line(irq, high);
    }

    /// The 8259s interrupt the CPU and have nothing to say when asked: 7 or 15.
    ///
    /// # Panics
    /// If there are none.
    pub fn pic_spurious(&self, irq: u8) {
        self.state().pic.as_mut().expect("no 8259s").glitch(irq);
    }

    /// Whether both 8259s mask all inputs; true where there are none.
    pub fn pic_masked(&self) -> bool {
        self.state().pic.as_ref().is_none_or(Pair::masked)
    }
}
