// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end: power-off by PSCI, and stopping a CPU.

use aarch64_cpu::asm::wfi;
use boards_common::devicetree::Tree;
use irq_hal::Error;
use smccc::{Hvc, Smc, psci};

/// How PSCI is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conduit {
    /// `hvc`
    Hvc,
    /// `smc`
    Smc,
}

impl Conduit {
    /// The conduit that the tree's `psci` node names.
    ///
    /// # Errors
    /// [`Error::Firmware`] without such a node or with another method.
    pub fn find(tree: &Tree<'_>) -> Result<Self, Error> {
        let node = tree
            .compatible("arm,psci-1.0")
            .chain(tree.compatible("arm,psci-0.2"))
            .next();
        match node.and_then(|node| node.text("method")) {
            Some("hvc") => Ok(Self::Hvc),
            Some("smc") => Ok(Self::Smc),
            _ => Err(Error::Firmware {
                what: "psci node's method",
                at: 0,
            }),
        }
    }
}

/// Powers the machine off; without PSCI, or if that fails, stops this CPU.
pub fn off(conduit: Option<Conduit>) -> ! {
    // An error leaves nothing better to do than to stop.
    let _ = match conduit {
        Some(Conduit::Hvc) => psci::system_off::<Hvc>(),
        Some(Conduit::Smc) => psci::system_off::<Smc>(),
        None => Ok(()),
    };
    halt()
}

/// Stops this CPU for good.
pub fn halt() -> ! {
    crate::cpu::irq_save();
    loop {
        wfi();
    }
}
