// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a modelled machine consists of: the description that the builder leaves.

/// Modes of a local APIC: `EN` and `EXTD` of `IA32_APIC_BASE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Globally disabled.
    Disabled,
    /// Registers on a memory page.
    Xapic,
    /// Registers as MSRs.
    X2apic,
}

/// Who made the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vendor {
    /// Writes of x2APIC registers are not serialising: a store may be seen after the IPI.
    Intel,
    /// Such writes are ordered.
    Amd,
    /// As AMD's.
    Hygon,
}

impl Vendor {
    /// Whether memory must be published before an IPI.
    pub(super) const fn reorders(self) -> bool {
        matches!(self, Self::Intel)
    }
}

/// Whether a CPU can leave x2APIC mode, and how it says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// There is no `IA32_ARCH_CAPABILITIES`.
    Absent,
    /// `IA32_ARCH_CAPABILITIES[21]` is 0.
    Unsupported,
    /// There is a lock, and it is open.
    Open,
    /// `IA32_XAPIC_DISABLE_STATUS[0]` is 1: only x2APIC mode is left.
    Locked,
}

/// What the CPUs other than the boot CPU do when the machine is handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aps {
    /// They run the test's kernel.
    Running,
    /// Firmware started them and left them halted with its own interrupt table.
    Parked,
    /// They wait for a start-up IPI.
    Waiting,
}

/// One CPU of the machine.
#[derive(Clone, Debug)]
pub(super) struct CpuSpec {
    pub id: u32,
    pub mode: Mode,
    /// Vectors that are requested at hand-over and, again, after each INIT.
    pub stale_irr: Vec<u8>,
    /// Vectors that are in service at hand-over and, again, after each INIT.
    pub stale_isr: Vec<u8>,
    /// Vectors that an EOI does not take out of service.
    pub stuck_isr: Vec<u8>,
    /// Registers as firmware left them.
    pub left: Vec<(usize, u64)>,
    /// Registers whose writes do nothing.
    pub ignores: Vec<usize>,
    /// Registers that read this, whatever they hold.
    pub shows: Vec<(usize, u64)>,
    /// INIT and SIPI do nothing.
    pub never_starts: bool,
    /// It takes the second SIPI, not the first.
    pub second_sipi: bool,
}

/// The whole description.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub cpus: Vec<CpuSpec>,
    pub boot_cpu: usize,
    pub aps: Aps,
    pub vendor: Vendor,
    pub max_lvt: u8,
    pub directed_eoi: bool,
    pub deadline: bool,
    pub dead_deadline: bool,
    pub keeps_registers: bool,
    pub arat: bool,
    pub signature: u32,
    pub microcode: u32,
    pub x2apic: bool,
    pub lock: Lock,
    pub hypervisor: bool,
    pub lowest_priority: bool,
    pub phys_bits: u8,
    pub max_leaf: u32,
    pub topology: bool,
    pub smt_shift: u8,
    pub core_shift: u8,
    pub init_ticks: u64,
    pub pic: bool,
    pub imcr: bool,
    pub firmware: bool,
}
