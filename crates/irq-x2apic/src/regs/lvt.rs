// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local vector table: what the CPU's own sources deliver (Intel SDM vol. 3, "Local Vector
//! Table").
//!
//! ```text
//! 18:17 timer mode   16 mask   15 level (LINT)   13 active low (LINT)   10:8 delivery   7:0 vector
//! ```

use irq_core::Trigger;

use super::apic::*;
use crate::vector::Vector;

const MASK: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;
const ACTIVE_LOW: u32 = 1 << 13;
const DELIVERY: u32 = 0b111 << 8;
const NMI: u32 = 0b100 << 8;
const EXT_INT: u32 = 0b111 << 8;
const MODE: u32 = 0b11 << 17;

/// An entry of the local vector table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Lvt {
    /// The timer.
    Timer,
    /// The pin LINT0.
    Lint0,
    /// The pin LINT1.
    Lint1,
    /// The local APIC's own errors.
    Error,
    /// Overflow of a performance counter. The hardware masks the entry when it fires.
    Perf,
    /// The thermal sensor.
    Thermal,
    /// Corrected machine checks.
    Cmci,
}

impl Lvt {
    /// All entries that there can be.
    pub const ALL: [Self; 7] = [
        Self::Timer,
        Self::Lint0,
        Self::Lint1,
        Self::Error,
        Self::Perf,
        Self::Thermal,
        Self::Cmci,
    ];

    /// The register.
    #[inline]
    pub const fn msr(self) -> usize {
        match self {
            Self::Timer => IA32_X2APIC_LVT_TIMER,
            Self::Lint0 => IA32_X2APIC_LVT_LINT0,
            Self::Lint1 => IA32_X2APIC_LVT_LINT1,
            Self::Error => IA32_X2APIC_LVT_ERROR,
            Self::Perf => IA32_X2APIC_LVT_PMI,
            Self::Thermal => IA32_X2APIC_LVT_THERMAL,
            Self::Cmci => IA32_X2APIC_LVT_CMCI,
        }
    }

    /// Whether a local APIC with this number of entries less one has it (`MaxLvt` of the
    /// version register). Access to one that it has not is an exception.
    pub const fn exists(self, max_lvt: u8) -> bool {
        max_lvt
            >= match self {
                Self::Timer | Self::Lint0 | Self::Lint1 | Self::Error => 0,
                Self::Perf => 4,
                Self::Thermal => 5,
                Self::Cmci => 6,
            }
    }

    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Lint0 => "LINT0",
            Self::Lint1 => "LINT1",
            Self::Error => "error",
            Self::Perf => "perf",
            Self::Thermal => "thermal",
            Self::Cmci => "CMCI",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its bit in a set of entries.
    #[inline]
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// When a LINT pin asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Polarity {
    /// High, or rising.
    High,
    /// Low, or falling.
    Low,
}

/// How the timer counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TimerMode {
    /// Down to 0, once.
    OneShot,
    /// Down to 0, again and again.
    Periodic,
    /// Until the TSC reaches a value.
    Deadline,
}

impl TimerMode {
    const fn field(self) -> u32 {
        match self {
            Self::OneShot => 0,
            Self::Periodic => 1 << 17,
            Self::Deadline => 2 << 17,
        }
    }
}

/// The value of an LVT entry.
///
/// The vector field of a masked entry holds a legal vector too: an APIC may report an illegal
/// one even there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LvtEntry(u32);

impl LvtEntry {
    /// The vector `vector`, unmasked; at an edge of a pin.
    pub const fn fixed(vector: Vector) -> Self {
        Self(vector.get() as u32)
    }

    /// A non-maskable interrupt, unmasked. Not for timer and errors. `filler` is a vector for
    /// the field that nothing reads.
    pub const fn nmi(filler: Vector) -> Self {
        Self(NMI | filler.get() as u32)
    }

    /// What an 8259 at the pin says, unmasked. For LINT pins. `filler` as for
    /// [`nmi`](Self::nmi).
    pub const fn ext_int(filler: Vector) -> Self {
        Self(EXT_INT | filler.get() as u32)
    }

    /// The same, masked.
    pub const fn masked(self) -> Self {
        Self(self.0 | MASK)
    }

    /// The same, unmasked.
    pub const fn unmasked(self) -> Self {
        Self(self.0 & !MASK)
    }

    /// The same pin with this trigger. Meaningless but for LINT pins with a vector.
    pub const fn with_trigger(self, trigger: Trigger) -> Self {
        match trigger {
            Trigger::Edge => Self(self.0 & !LEVEL),
            Trigger::Level => Self(self.0 | LEVEL),
        }
    }

    /// The same pin with this polarity. For LINT pins.
    pub const fn with_polarity(self, polarity: Polarity) -> Self {
        match polarity {
            Polarity::High => Self(self.0 & !ACTIVE_LOW),
            Polarity::Low => Self(self.0 | ACTIVE_LOW),
        }
    }

    /// The timer's entry in this mode.
    pub const fn with_mode(self, mode: TimerMode) -> Self {
        Self(self.0 & !MODE | mode.field())
    }

    /// The mode of the timer's entry; nothing for the reserved one.
    pub const fn mode(self) -> Option<TimerMode> {
        match (self.0 & MODE) >> 17 {
            0 => Some(TimerMode::OneShot),
            1 => Some(TimerMode::Periodic),
            2 => Some(TimerMode::Deadline),
            _ => None,
        }
    }

    /// The vector that it delivers, masked or not; nothing if it delivers something else.
    pub const fn vector(self) -> Option<Vector> {
        match self.0 & DELIVERY {
            0 => Vector::new(self.0 as u8),
            _ => None,
        }
    }

    /// Whether it delivers nothing.
    pub const fn is_masked(self) -> bool {
        self.0 & MASK != 0
    }

    /// Whether the pin's trigger is the level.
    pub const fn is_level(self) -> bool {
        self.0 & LEVEL != 0
    }

    /// The register's value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0 as u64
    }

    /// What a register reads, without what is read-only there: delivery status (bit 12) and
    /// remote IRR (bit 14).
    pub const fn from_register(value: u64) -> Self {
        Self(value as u32 & !(1 << 12 | 1 << 14))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: Vector = match Vector::new(0x41) {
        Some(vector) => vector,
        None => unreachable!(),
    };

    #[test]
    fn entries_are_those_of_the_manual() {
        assert_eq!(LvtEntry::fixed(V).get(), 0x41);
        assert_eq!(LvtEntry::fixed(V).masked().get(), 0x1_0041);
        assert_eq!(LvtEntry::nmi(Vector::SPURIOUS).get(), 0x4ff);
        assert_eq!(LvtEntry::ext_int(Vector::SPURIOUS).get(), 0x7ff);
        let pin = LvtEntry::fixed(V).with_trigger(Trigger::Level);
        assert_eq!(pin.with_polarity(Polarity::Low).get(), 0xa041);
        let deadline = LvtEntry::fixed(V).with_mode(TimerMode::Deadline);
        assert_eq!(deadline.get(), 0x4_0041);
        assert_eq!(deadline.with_mode(TimerMode::Periodic).get(), 0x2_0041);
    }

    #[test]
    fn a_mode_set_is_the_mode_read_and_the_fourth_is_none() {
        let entry = LvtEntry::fixed(V).masked();
        for mode in [TimerMode::OneShot, TimerMode::Periodic, TimerMode::Deadline] {
            assert_eq!(entry.with_mode(mode).mode(), Some(mode));
        }
        assert_eq!(LvtEntry::from_register(3 << 17).mode(), None);
    }

    #[test]
    fn optional_entries_go_by_the_number_of_entries() {
        let count = |max| Lvt::ALL.iter().filter(|lvt| lvt.exists(max)).count();
        assert_eq!([3, 4, 5, 6].map(count), [4, 5, 6, 7]);
    }

    #[test]
    fn read_only_bits_are_not_written_back() {
        assert_eq!(LvtEntry::from_register(0x5041).get(), 0x41);
    }
}
