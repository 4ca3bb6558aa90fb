// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local APICs of all CPUs under our dense irq numbers.
//!
//! ```text
//! boot CPU     Apic::probe     refuses, or knows what there is; writes nothing
//! every CPU    cpu_online      brings its local APIC into x2APIC mode and up
//! entry        ack .. end      through irq_core::Flow: the vector is in the IrqContext
//! to a CPU     kick, kick_mask  through irq_core::Kick, by the vector of Config::ipi
//! control      mask, unmask, set_lint, unmask_private, timer, ...
//! ```
//! The value is `Sync`, is built once and needs `&self` only; it holds no reference into
//! itself, so it can be moved into the kernel's static.
//!
//! irq `base + n` is vector `32 + n`, on every CPU: all are private.

mod flow;
mod kick;
mod lines;
mod online;
mod probe;
mod send;
mod snapshot;
mod targets;

use irq_core::{Irq, IrqRange, Trigger};
use irq_hal::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use irq_hal::percpu::{CachePadded, OnCpu, PerCpu};
use irq_hal::{CpuIndex, Error, Platform};

use crate::acpi::{self, Inti};
use crate::id::ApicId;
use crate::local_apic::{LocalApic, SendOrder};
use crate::msrs::Msrs;
use crate::pic::Pics;
use crate::regs::apic::ApicBus;
use crate::regs::lvt::{LvtEntry, Polarity};
use crate::timer::{Deadline, Divide, Timer, TimerState};
use crate::vector::{FIRST, Vector};

pub use flow::{Active, Counts};
pub use snapshot::Snapshot;

use targets::Targets;

/// What the machine has, as firmware tells.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// The ids of the CPUs that firmware names, in any order: the boot CPU is among them, and
    /// none is there twice. May be empty: ids are then known when CPUs come online.
    pub cpus: &'a [ApicId],
    /// Both 8259s are silent.
    pub pics: Pics,
    /// Firmware asks to stay in xAPIC mode (DMAR flag X2APIC_OPT_OUT).
    pub opt_out: bool,
}

impl<'a> Description<'a> {
    /// A machine with silent 8259s, and nothing special.
    pub const fn new(pics: Pics) -> Self {
        Self {
            cpus: &[],
            pics,
            opt_out: false,
        }
    }

    /// With the CPUs that firmware names.
    pub const fn with_cpus(mut self, cpus: &'a [ApicId]) -> Self {
        self.cpus = cpus;
        self
    }
}

/// What a source of the local vector table is to deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Delivery {
    /// A vector, which has an irq.
    Vector(Vector),
    /// A non-maskable interrupt.
    Nmi,
}

/// What a LINT pin does, as firmware's tables tell (MADT entries 4 and 0AH for NMIs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Pin {
    /// Nothing.
    Masked,
    /// A non-maskable interrupt, on an edge.
    Nmi(Polarity),
    /// What an 8259 says: for embedders that keep one going.
    ExtInt,
    /// A vector, which has an irq.
    Vector {
        /// The vector.
        vector: Vector,
        /// When it asks.
        trigger: Trigger,
        /// What asking is.
        polarity: Polarity,
    },
}

impl Pin {
    /// What the MADT says of a pin: an NMI with these flags, or nothing. So
    /// `madt.nmi_pins(uid)?.map(Pin::nmi)` is what a CPU's pins do.
    pub fn nmi(flags: Option<Inti>) -> Self {
        match flags.map(Inti::polarity) {
            None => Self::Masked,
            Some(acpi::Polarity::Low) => Self::Nmi(Polarity::Low),
            Some(_) => Self::Nmi(Polarity::High),
        }
    }
}

/// The embedder's choices. Every vector is from 32 on, and has one purpose.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The irq of vector 32.
    pub base: Irq,
    /// How many CPUs are possible: an upper bound for [`CpuIndex`]. As many as the description
    /// names if nothing is said, or one if it names none.
    pub cpus: Option<u32>,
    /// The vector for interrupts from CPU to CPU ([`irq_core::Kick`]). None are sent if nothing
    /// is said; all other vectors are the embedder's.
    pub ipi: Option<Vector>,
    /// The vector of the timer.
    pub timer: Vector,
    /// The vector of errors that the local APIC finds.
    pub error: Vector,
    /// The vector of spurious interrupts, which are not ended. Its lower 4 bits are usually
    /// ones.
    pub spurious: Vector,
    /// What an overflow of a performance counter delivers, if anything.
    pub perf: Option<Delivery>,
    /// What the thermal sensor delivers, if anything.
    pub thermal: Option<Delivery>,
    /// The vector of corrected machine checks, if any.
    pub cmci: Option<Vector>,
    /// What LINT0 and LINT1 do on every CPU, until [`Apic::set_lint`] says otherwise for one.
    pub lint: [Pin; 2],
    /// By what the timer's clock is divided.
    pub divide: Divide,
}

impl Default for Config {
    /// No IPIs; the timer on ECH, errors on FEH, spurious ones on FFH; pins masked.
    fn default() -> Self {
        Self {
            base: Irq::new(0),
            cpus: None,
            ipi: None,
            timer: const { Vector::new(0xec).unwrap() },
            error: const { Vector::new(0xfe).unwrap() },
            spurious: Vector::SPURIOUS,
            perf: None,
            thermal: None,
            cmci: None,
            lint: [Pin::Masked, Pin::Masked],
            divide: Divide::By1,
        }
    }
}

/// What we keep of one possible CPU. Written by that CPU alone.
#[derive(Debug)]
struct Slot {
    online: AtomicBool,
    /// What its version register said.
    max_lvt: AtomicU8,
    timer: TimerState,
    /// Its LVT entries as they are to be, in the order of `Lvt::ALL`; the timer's is in `timer`.
    entries: [AtomicU32; 7],
    spurious: AtomicU64,
    unknown: AtomicU64,
    leftovers: AtomicU64,
    /// By bit of the error register.
    errors: [AtomicU64; 8],
}

impl Slot {
    fn new(filler: LvtEntry) -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            online: AtomicBool::new(false),
            max_lvt: AtomicU8::new(0),
            timer: TimerState::new(filler),
            entries: core::array::from_fn(|_| AtomicU32::new(filler.get() as u32)),
            spurious: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            leftovers: AtomicU64::new(0),
            errors: core::array::from_fn(zero),
        }
    }
}

/// What every entry and every send reads, on lines of its own: written when CPUs come and go,
/// if at all.
struct Hot<M> {
    msrs: M,
    order: SendOrder,
    irqs: IrqRange,
    spurious: Vector,
    /// The vector whose entry the hardware masks when it fires, or 0.
    perf: u8,
    ipi: Option<Vector>,
    targets: Targets,
}

/// The local APICs of a machine under our irq numbers.
pub struct Apic<P, M = Msrs> {
    hot: CachePadded<Hot<M>>,
    slots: PerCpu<Slot>,
    platform: P,
    config: Config,
    deadline: Deadline,
    locked: bool,
    /// The LVT lines that are unmasked on every CPU that comes online, by `Lvt::bit`.
    template: AtomicU32,
}

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// All our irq numbers: those of the vectors 32 to 255, from the base.
    pub fn irqs(&self) -> IrqRange {
        self.hot.irqs
    }

    /// The ranges of [`irqs`](Self::irqs) that each CPU has for itself: all.
    pub fn private_irqs(&self) -> [IrqRange; 1] {
        [self.hot.irqs]
    }

    /// The number behind [`Config::ipi`].
    pub fn ipi_irq(&self) -> Option<Irq> {
        self.irq(self.hot.ipi?)
    }

    /// The number behind [`Config::timer`].
    pub fn timer_irq(&self) -> Option<Irq> {
        self.irq(self.config.timer)
    }

    /// The number behind [`Config::error`].
    pub fn error_irq(&self) -> Option<Irq> {
        self.irq(self.config.error)
    }

    /// Our number for `vector`, or nothing if it is an exception of the CPU.
    pub fn irq(&self, vector: Vector) -> Option<Irq> {
        self.hot.irqs.irq(vector.get().checked_sub(FIRST)?.into())
    }

    /// The vector behind our number.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn vector(&self, irq: Irq) -> Result<Vector, Error> {
        let offset = self.hot.irqs.offset(irq);
        let number = offset.and_then(|offset| u8::try_from(offset).ok());
        let vector = number.and_then(|number| Vector::new(FIRST.checked_add(number)?));
        vector.ok_or(Error::NoSuchIrq { irq: irq.get() })
    }

    /// Whether stores to memory need a fence before a send: by vendor, decided once.
    pub fn send_order(&self) -> SendOrder {
        self.hot.order
    }

    /// What TSC-deadline mode is worth here.
    pub const fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Whether firmware, or the hardware, forbids to leave x2APIC mode.
    pub const fn locked(&self) -> bool {
        self.locked
    }

    /// The timer of the CPU that runs. Its entry is masked until [`unmask_private`] or
    /// [`Lines::unmask`].
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU, masked. Touches no hardware.
    ///
    /// [`unmask_private`]: Self::unmask_private
    /// [`Lines::unmask`]: irq_core::Lines::unmask
    #[inline]
    pub fn timer(&self, on: &OnCpu) -> Result<Timer<'_, M>, Error> {
        let slot = self.online_slot(on.cpu())?;
        Ok(Timer::new(&self.hot.msrs, &slot.timer, self.deadline))
    }

    /// The local APIC of the CPU that runs, for what this type does not wrap, and for
    /// [`start::Starter`](crate::start::Starter).
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU. Touches no hardware.
    pub fn local(&self, on: &OnCpu) -> Result<LocalApic<&M>, Error> {
        self.online_slot(on.cpu())?;
        Ok(self.apic())
    }

    fn slot(&self, cpu: CpuIndex) -> Result<&Slot, Error> {
        self.slots.get(cpu).ok_or(Error::NoSuchCpu { cpu })
    }

    /// The slot of the CPU that runs, whose local APIC is up.
    #[inline]
    fn online_slot(&self, cpu: CpuIndex) -> Result<&Slot, Error> {
        let slot = self.slot(cpu)?;
        // Relaxed: the CPU asks for itself.
        match slot.online.load(irq_hal::atomic::Ordering::Relaxed) {
            true => Ok(slot),
            false => Err(Error::CpuOffline { cpu }),
        }
    }

    #[inline(always)]
    fn apic(&self) -> LocalApic<&M> {
        LocalApic::assume_x2(&self.hot.msrs, self.hot.order)
    }

    /// What an entry without a purpose holds: masked, with a legal vector.
    fn filler(&self) -> LvtEntry {
        LvtEntry::fixed(self.config.spurious).masked()
    }
}
