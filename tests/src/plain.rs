// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers that are plain memory: for tests that count allocations, since the model keeps a
//! log and so allocates.
//!
//! They answer no handshake, and need none: the redistributor is awake.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use irq_gicv3::regs::icc::*;
use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus};

/// Registers that keep what is written; write-one registers are words like others.
pub struct Plain(Vec<AtomicU32>);

impl Plain {
    /// `count` frames of 64 KiB with these words, by offset, and zeros.
    pub fn frames(count: usize, words: &[(usize, u32)]) -> Self {
        let plain = Self((0..count * 0x4000).map(|_| AtomicU32::new(0)).collect());
        for &(offset, value) in words {
            plain.store(offset, value);
        }
        plain
    }
}

impl Bus<u32> for Plain {
    fn load(&self, offset: usize) -> u32 {
        self.0[offset / 4].load(Relaxed)
    }
    fn store(&self, offset: usize, value: u32) {
        self.0[offset / 4].store(value, Relaxed);
    }
}

impl Bus<u8> for Plain {
    fn load(&self, offset: usize) -> u8 {
        (self.0[offset / 4].load(Relaxed) >> (offset % 4 * 8)) as u8
    }
    fn store(&self, offset: usize, value: u8) {
        let at = offset % 4 * 8;
        let word = self.0[offset / 4].load(Relaxed);
        self.0[offset / 4].store(word & !(0xff << at) | u32::from(value) << at, Relaxed);
    }
}

impl Bus<u64> for Plain {
    fn load(&self, offset: usize) -> u64 {
        let half = |at: usize| u64::from(self.0[at / 4].load(Relaxed));
        half(offset + 4) << 32 | half(offset)
    }
    fn store(&self, offset: usize, value: u64) {
        self.0[offset / 4].store(value as u32, Relaxed);
        self.0[offset / 4 + 1].store((value >> 32) as u32, Relaxed);
    }
}

impl Extent for Plain {
    fn extent(&self) -> usize {
        self.0.len() * 4
    }
}

/// A CPU interface that hands out one number.
pub struct Interface {
    /// The number.
    pub hands_out: AtomicU64,
    ctlr: AtomicU64,
    pmr: AtomicU64,
}

impl Interface {
    /// Hands out `intid`; five priority bits.
    pub const fn new(intid: u64) -> Self {
        Self {
            hands_out: AtomicU64::new(intid),
            ctlr: AtomicU64::new(0x400),
            pmr: AtomicU64::new(0),
        }
    }
}

impl Bus<u64> for Interface {
    fn load(&self, offset: usize) -> u64 {
        match offset {
            ICC_IAR1_EL1 => self.hands_out.load(Relaxed),
            ICC_CTLR_EL1 => self.ctlr.load(Relaxed),
            ICC_PMR_EL1 => self.pmr.load(Relaxed),
            ICC_SRE_EL1 => 7,
            _ => 0,
        }
    }
    fn store(&self, offset: usize, value: u64) {
        match offset {
            ICC_CTLR_EL1 => self.ctlr.store(value, Relaxed),
            ICC_PMR_EL1 => self.pmr.store(value, Relaxed),
            _ => {}
        }
    }
}

macro_rules! no_barriers {
    ($($t:ty),*) => { $(
        impl Barrier for $t {
            fn publish(&self) {}
            fn complete(&self) {}
            fn synchronize(&self) {}
        }
    )* };
}

no_barriers!(Plain, Interface);
