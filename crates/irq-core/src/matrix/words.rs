// SPDX-License-Identifier: MIT OR Apache-2.0
//! Masks as words of banks.

use core::ops::ControlFlow::{self, Break, Continue};

use irq_hal::{CpuIndex, Error};

use crate::cpu::{CpuSet, WORD, cpus_of};

/// The possible CPUs of a bank, of `cpus` in all.
pub(super) const fn possible(cpus: u32, bank: u32) -> u64 {
    match cpus.saturating_sub(bank * WORD) {
        rest if rest < WORD => (1 << rest) - 1,
        _ => u64::MAX,
    }
}

/// Calls `f` for each bank that has CPUs of `mask`, in rising order, until it breaks.
pub(super) fn each_bank<B>(
    mask: &dyn CpuSet,
    mut f: impl FnMut(u32, u64) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if let Some(words) = mask.words() {
        let mut banks = (0..).zip(words).filter(|(_, bits)| **bits != 0);
        return banks.try_for_each(|(bank, bits)| f(bank, *bits));
    }
    let mut flow = Continue(());
    mask.each_word(&mut |first, bits| {
        if flow.is_continue() {
            flow = f(first.get() / WORD, bits);
        }
    });
    flow
}

/// All members of `mask` are below `cpus`.
///
/// # Errors
/// [`Error::NoSuchCpu`] with the first that is not.
pub(super) fn expect_possible(mask: &dyn CpuSet, cpus: u32) -> Result<(), Error> {
    let beyond = each_bank(mask, |bank, bits| match bits & !possible(cpus, bank) {
        0 => Continue(()),
        beyond => Break(cpus_of(CpuIndex::new(bank * WORD), beyond).next()),
    });
    match beyond {
        Break(Some(cpu)) => Err(Error::NoSuchCpu { cpu }),
        _ => Ok(()),
    }
}
