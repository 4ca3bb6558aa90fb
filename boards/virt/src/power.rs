// SPDX-License-Identifier: MIT OR Apache-2.0
//! PSCI: starting and stopping CPUs, power-off.

use aarch64_cpu::asm::wfi;
use boards_common::devicetree::Tree;
use irq_gicv3::Mpidr;
use irq_hal::Error;
use smccc::psci::{self, AffinityState, LowestAffinityLevel};
use smccc::{Hvc, Smc};

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

impl Conduit {
    /// Starts `cpu` at `entry`, physical, MMU off, with `word` in its first register.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a CPU that the machine does not have; [`Error::Refused`] with
    /// PSCI's answer.
    ///
    /// # Safety
    /// - `entry` is code that a CPU can begin with in that state, and `word` is what it expects.
    /// - No other CPU runs with `word`.
    pub unsafe fn cpu_on(self, cpu: Mpidr, entry: usize, word: usize) -> Result<(), Error> {
        let (entry, word) = (entry as u64, word as u64);
        let started = match self {
            Self::Hvc => psci::cpu_on::<Hvc>(cpu.get(), entry, word),
            Self::Smc => psci::cpu_on::<Smc>(cpu.get(), entry, word),
        };
        started.map_err(|error| match error {
            psci::Error::InvalidParameters => Error::Invalid {
                what: "MPIDR of a CPU to start",
                value: cpu.get(),
            },
            error => refused("PSCI CPU_ON", error),
        })
    }

    /// Whether `cpu` is off.
    ///
    /// # Errors
    /// [`Error::Refused`] with PSCI's answer.
    pub fn is_off(self, cpu: Mpidr) -> Result<bool, Error> {
        let level = LowestAffinityLevel::All;
        let state = match self {
            Self::Hvc => psci::affinity_info::<Hvc>(cpu.get(), level),
            Self::Smc => psci::affinity_info::<Smc>(cpu.get(), level),
        };
        state
            .map(|state| state == AffinityState::Off)
            .map_err(|error| refused("PSCI AFFINITY_INFO", error))
    }
}

fn refused(register: &'static str, error: psci::Error) -> Error {
    Error::Refused {
        register,
        value: i64::from(error) as u64,
    }
}

/// Turns this CPU off; stops it where that cannot be.
///
/// # Context
/// Interrupts masked; nothing of the CPU's is in use any more but its stack.
pub fn cpu_off(conduit: Option<Conduit>) -> ! {
    // Returns only if it failed, and stopping is the next best thing.
    let _ = match conduit {
        Some(Conduit::Hvc) => psci::cpu_off::<Hvc>(),
        Some(Conduit::Smc) => psci::cpu_off::<Smc>(),
        None => Ok(()),
    };
    halt()
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
