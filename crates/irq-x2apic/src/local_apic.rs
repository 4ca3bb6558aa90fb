// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local APIC of the CPU that runs: mode, bring-up, ends, sends, errors.
//!
//! ```text
//! LocalApic<M, AsFound>   enter ──▶   LocalApic<M, X2>   bring_up ──▶ eoi, send, .. ──▶ shut_down
//! ```
//! The registers of `X2` fault in any other mode, so there is no way to them but through
//! [`enter`](LocalApic::enter), or by a promise ([`assume_x2`](LocalApic::assume_x2)).

use core::marker::PhantomData;

use irq_hal::Error;
use tock_registers::interfaces::{Readable, Writeable};

use crate::cpuid::{Cpu, Vendor};
use crate::id::ApicId;
use crate::ipi::Command;
use crate::mode::{self, Mode};
use crate::regs::apic::{ApicBus, ApicRegs, SIVR, VERSION, WORDS};
use crate::regs::lvt::{Lvt, LvtEntry};
use crate::vector::Vector;

/// Whether a store to memory may be overtaken by the write that sends an interrupt (Intel SDM
/// vol. 3, "MSR Access in x2APIC Mode": not serializing).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SendOrder {
    /// It may: every send to another CPU is behind a `publish`, `mfence; lfence`.
    Fenced,
    /// It may not: AMD and Hygon order these writes as others.
    Plain,
}

impl SendOrder {
    /// What the CPU needs.
    pub const fn of(cpu: &Cpu) -> Self {
        match cpu.vendor {
            Vendor::Amd => Self::Plain,
            Vendor::Intel | Vendor::Other => Self::Fenced,
        }
    }
}

/// The state of a local APIC that is in whichever mode it was found.
#[derive(Debug)]
pub enum AsFound {}

/// The state of a local APIC in x2APIC mode.
#[derive(Debug)]
pub enum X2 {}

/// The local APIC of the CPU that runs, over its MSRs. It cannot be carried to another one:
///
/// ```compile_fail,E0277
/// fn carried<T: Send>() {}
/// carried::<irq_x2apic::LocalApic<irq_x2apic::Msrs>>();
/// ```
#[derive(Debug)]
pub struct LocalApic<M, S = X2> {
    msrs: M,
    order: SendOrder,
    state: PhantomData<(S, *const ())>,
}

/// Errors that a local APIC reports (Intel SDM vol. 3, "Error Handling").
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Errors(u32);

impl Errors {
    /// An IPI of lowest priority was refused (redirectable IPI).
    pub const REDIRECTABLE: Self = Self(1 << 4);
    /// A vector below 16 was to be sent.
    pub const SEND_ILLEGAL_VECTOR: Self = Self(1 << 5);
    /// A vector below 16 came in, or is in an LVT entry.
    pub const RECEIVE_ILLEGAL_VECTOR: Self = Self(1 << 6);
    /// A register that is not there was touched.
    pub const ILLEGAL_REGISTER: Self = Self(1 << 7);

    /// The bits of the register.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether `self` has all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How a local APIC comes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Setup {
    /// The spurious vector.
    pub spurious: Vector,
    /// What each entry holds, in the order of [`Lvt::ALL`]. Those that the hardware does not
    /// have are passed over.
    pub entries: [LvtEntry; 7],
}

/// What a bring-up found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Found {
    /// Its id.
    pub id: ApicId,
    /// The number of LVT entries less one.
    pub max_lvt: u8,
    /// Interrupts that whoever was here before had not ended. They are ended now.
    pub leftovers: u32,
}

impl<M: ApicBus> LocalApic<M, AsFound> {
    /// The local APIC of whichever CPU runs, in whichever mode it is. Touches nothing.
    pub const fn new(msrs: M, order: SendOrder) -> Self {
        Self {
            msrs,
            order,
            state: PhantomData,
        }
    }

    /// Its mode now. Nothing for one that cannot be.
    ///
    /// # Context
    /// On that CPU. Writes nothing.
    pub fn mode(&self) -> Option<Mode> {
        Mode::of(ApicRegs(&self.msrs).base().get())
    }

    /// Brings it into x2APIC mode by legal transitions alone; no write where it is in that mode.
    ///
    /// # Errors
    /// [`Error::Refused`], with the local APIC as it is.
    ///
    /// # Context
    /// On that CPU, masked. The CPU has x2APIC mode.
    pub fn enter(self) -> Result<LocalApic<M, X2>, (Self, Error)> {
        match mode::enter_x2apic(&self.msrs) {
            Ok(_) => Ok(LocalApic::assume_x2(self.msrs, self.order)),
            Err(error) => Err((self, error)),
        }
    }
}

impl<M: ApicBus> LocalApic<M, X2> {
    /// The local APIC of a CPU whose APIC is known to be in x2APIC mode. If it is not, every
    /// access faults.
    #[inline(always)]
    pub const fn assume_x2(msrs: M, order: SendOrder) -> Self {
        Self {
            msrs,
            order,
            state: PhantomData,
        }
    }

    #[inline(always)]
    const fn regs(&self) -> ApicRegs<'_, M> {
        ApicRegs(&self.msrs)
    }

    /// The bus, for parts of this crate that work alone.
    pub const fn msrs(&self) -> &M {
        &self.msrs
    }

    /// The id.
    ///
    /// # Errors
    /// [`Error::Refused`] for the id that means every CPU.
    ///
    /// # Context
    /// On that CPU.
    pub fn id(&self) -> Result<ApicId, Error> {
        let id = self.regs().id().get();
        let legal = u32::try_from(id).ok().and_then(ApicId::new);
        legal.ok_or(Error::Refused {
            register: "IA32_X2APIC_APICID",
            value: id,
        })
    }

    /// The logical destination that it answers to.
    ///
    /// # Context
    /// On that CPU.
    pub fn ldr(&self) -> u32 {
        self.regs().ldr().get() as u32
    }

    /// The number of its LVT entries less one.
    ///
    /// # Context
    /// On that CPU.
    pub fn max_lvt(&self) -> u8 {
        self.regs().version().read(VERSION::MaxLvt) as u8
    }

    /// Brings it up, whatever firmware, or the kernel before, left behind: every LVT entry that
    /// there is is masked, interrupts that were not ended are, errors are forgotten; then it is
    /// enabled by software, and only then are entries unmasked, since until then the hardware
    /// keeps them masked.
    ///
    /// Interrupts that wait at this time are not lost, and come once the CPU takes interrupts:
    /// also those of a kernel before, with vectors that mean nothing any more.
    ///
    /// # Errors
    /// [`Error::Refused`] if interrupts stay in service whatever is ended, if the id is none,
    /// or if it cannot be enabled. It is left disabled by software then, all masked.
    ///
    /// # Context
    /// On that CPU, masked, with its interrupt vectors in place and both 8259s
    /// [silent](crate::pic).
    pub fn bring_up(&self, setup: &Setup) -> Result<Found, Error> {
        let regs = self.regs();
        let id = self.id()?;
        let max_lvt = self.max_lvt();
        let filler = LvtEntry::fixed(setup.spurious).masked();
        let present = || Lvt::ALL.into_iter().filter(|lvt| lvt.exists(max_lvt));
        // No priority of a kernel before stays: all classes can be ended, and come later.
        regs.tpr().set(0);
        for lvt in present() {
            regs.lvt(lvt).set(filler.get());
        }
        let leftovers = self.end_leftovers()?;
        let _ = self.take_errors();
        let enabled = SIVR::Vector.val(setup.spurious.get().into()) + SIVR::Enable::SET;
        regs.sivr().write(enabled);
        if !regs.sivr().is_set(SIVR::Enable) {
            return Err(Error::Refused {
                register: "IA32_X2APIC_SIVR",
                value: regs.sivr().get(),
            });
        }
        // Errors first, so that a mistake in the others is seen.
        let error = [Lvt::Error].into_iter();
        for lvt in error.chain(present().filter(|lvt| *lvt != Lvt::Error)) {
            let entry = setup.entries[lvt.index()];
            if entry != filler {
                regs.lvt(lvt).set(entry.get());
            }
        }
        Ok(Found {
            id,
            max_lvt,
            leftovers,
        })
    }

    /// Ends whatever is in service, and says how many that were.
    fn end_leftovers(&self) -> Result<u32, Error> {
        let in_service = || (0..WORDS).map(|n| self.regs().isr(n).get() as u32);
        let mut ended = 0;
        loop {
            let left: u32 = in_service().map(u32::count_ones).sum();
            if left == 0 {
                return Ok(ended);
            }
            // One vector each: more than there are is a register that does not answer.
            if ended + left > 256 {
                return Err(Error::Refused {
                    register: "IA32_X2APIC_ISR",
                    value: left.into(),
                });
            }
            for _ in 0..left {
                self.eoi();
            }
            ended += left;
        }
    }

    /// Takes it down: every LVT entry is masked, and it is disabled by software: no interrupt is
    /// accepted any more but NMI, INIT and start. What waits is kept. The timer is to be
    /// [stopped](crate::timer::Timer::stop) before.
    ///
    /// # Context
    /// On that CPU, masked.
    pub fn shut_down(&self, spurious: Vector) {
        let filler = LvtEntry::fixed(spurious).masked();
        let max_lvt = self.max_lvt();
        for lvt in Lvt::ALL.into_iter().filter(|lvt| lvt.exists(max_lvt)) {
            self.regs().lvt(lvt).set(filler.get());
        }
        let disabled = SIVR::Vector.val(spurious.get().into()) + SIVR::Enable::CLEAR;
        self.regs().sivr().write(disabled);
    }

    /// Ends the interrupt in service with the highest vector, which is the one that was taken
    /// last. Never after a spurious one.
    ///
    /// # Context
    /// On that CPU, masked: once for each interrupt taken, in the reverse order.
    #[inline(always)]
    pub fn eoi(&self) {
        self.regs().eoi().send(0);
    }

    /// Sends `command`: one register write. Every store before is visible to whoever takes the
    /// interrupt.
    ///
    /// # Context
    /// Any, on a CPU whose local APIC is up.
    #[inline(always)]
    pub fn send(&self, command: Command) {
        if self.order == SendOrder::Fenced {
            self.msrs.publish();
        }
        self.regs().icr().send(command.get());
    }

    /// Sends all of `commands`: one register write each, behind one fence. Every store before the
    /// call is visible to whoever takes one of the interrupts.
    ///
    /// # Context
    /// As for [`send`](Self::send).
    pub fn send_all(&self, commands: impl Iterator<Item = Command>) {
        let mut commands = commands.peekable();
        if self.order == SendOrder::Fenced && commands.peek().is_some() {
            self.msrs.publish();
        }
        commands.for_each(|command| self.regs().icr().send(command.get()));
    }

    /// Sends `vector` to this CPU: one register write.
    ///
    /// # Context
    /// As for [`send`](Self::send).
    #[inline(always)]
    pub fn send_self(&self, vector: Vector) {
        self.regs().self_ipi().send(vector.get().into());
    }

    /// Takes the errors that came since the last call: a write latches them for the read, a read
    /// alone would show those of the last time.
    ///
    /// # Context
    /// On that CPU; from the action of the error vector, for one.
    pub fn take_errors(&self) -> Errors {
        self.regs().esr().set(0);
        Errors(self.regs().esr().get() as u32)
    }

    /// An LVT entry. Nothing for one that this hardware does not have.
    ///
    /// # Context
    /// On that CPU.
    pub fn entry(&self, lvt: Lvt) -> Option<LvtEntry> {
        let there = lvt.exists(self.max_lvt());
        there.then(|| LvtEntry::from_register(self.regs().lvt(lvt).get()))
    }

    /// Writes an LVT entry that the hardware has ([`Lvt::exists`]).
    ///
    /// # Context
    /// On that CPU, enabled by software, or the entry stays masked.
    #[inline]
    pub fn set_entry(&self, lvt: Lvt, entry: LvtEntry) {
        self.regs().lvt(lvt).set(entry.get());
    }

    /// Whether `vector` waits to be delivered to this CPU.
    ///
    /// # Context
    /// On that CPU.
    pub fn waits(&self, vector: Vector) -> bool {
        let (word, bit) = place(vector.get());
        self.regs().irr(word).get() & bit != 0
    }

    /// Whether this CPU took `vector` and did not end it.
    ///
    /// # Context
    /// On that CPU.
    pub fn in_service(&self, vector: Vector) -> bool {
        let (word, bit) = place(vector.get());
        self.regs().isr(word).get() & bit != 0
    }
}

const fn place(vector: u8) -> (usize, u64) {
    ((vector / 32) as usize, 1 << (vector % 32))
}
