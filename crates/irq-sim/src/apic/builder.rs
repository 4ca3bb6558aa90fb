// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the machine before it is made.

use super::ApicModel;
use super::machine::{Aps, CpuSpec, Lock, Machine, Mode, Vendor};
use crate::platform::SimPlatform;

/// Local APICs to be made. [`ApicModel::builder`] starts with a plain machine: ids as CPU
/// indices, CPU 0 is the boot CPU, all CPUs run the test's kernel, their APICs as after a reset
/// (xAPIC mode, disabled by software); Intel, seven LVT entries, TSC deadline, 8259s without
/// IMCR, topology leaves 0BH and 1FH.
#[derive(Clone, Debug)]
pub struct ApicBuilder {
    sim: SimPlatform,
    machine: Machine,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($field:ident: $t:ty);)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, $field: $t) -> Self {
            self.machine.$field = $field;
            self
        }
    )* };
}

impl ApicBuilder {
    pub(super) fn new(sim: &SimPlatform) -> Self {
        let spec = |id| CpuSpec {
            id,
            mode: Mode::Xapic,
            stale_irr: Vec::new(),
            stale_isr: Vec::new(),
            stuck_isr: Vec::new(),
            left: Vec::new(),
            ignores: Vec::new(),
            shows: Vec::new(),
            never_starts: false,
            second_sipi: false,
        };
        let machine = Machine {
            cpus: (0..sim.cpus()).map(spec).collect(),
            boot_cpu: 0,
            aps: Aps::Running,
            vendor: Vendor::Intel,
            max_lvt: 6,
            directed_eoi: false,
            deadline: true,
            dead_deadline: false,
            keeps_registers: false,
            arat: true,
            signature: 0x000b_06f2,
            microcode: 1,
            x2apic: true,
            lock: Lock::Absent,
            hypervisor: false,
            lowest_priority: false,
            phys_bits: 46,
            max_leaf: 0x1f,
            topology: true,
            smt_shift: 1,
            core_shift: 4,
            init_ticks: 0,
            pic: true,
            imcr: false,
            firmware: false,
        };
        Self {
            sim: sim.clone(),
            machine,
        }
    }

    setters! {
        /// Who made the CPUs.
        vendor(vendor: Vendor);
        /// The number of LVT entries less one: 3 to 6.
        max_lvt(max_lvt: u8);
        /// `SVR[12]` can be set (version bit 24).
        directed_eoi(directed_eoi: bool);
        /// The timer has the TSC-deadline mode.
        deadline(deadline: bool);
        /// Deadlines pass without an interrupt: microcode of before 2018 on some parts.
        dead_deadline(dead_deadline: bool);
        /// Registers keep their contents while the APIC is disabled globally, as on KVM.
        keeps_registers(keeps_registers: bool);
        /// The timer runs on in deep idle states.
        arat(arat: bool);
        /// Family, model and stepping: EAX of CPUID leaf 1.
        signature(signature: u32);
        /// The microcode's revision.
        microcode(microcode: u32);
        /// The CPUs have x2APIC mode.
        x2apic(x2apic: bool);
        /// Whether x2APIC mode can be left.
        lock(lock: Lock);
        /// CPUID says that a hypervisor is there.
        hypervisor(hypervisor: bool);
        /// Lowest-priority IPIs are delivered; else they are refused with `ESR[4]`.
        lowest_priority(lowest_priority: bool);
        /// Bits of physical addresses.
        phys_bits(phys_bits: u8);
        /// The highest basic leaf of CPUID.
        max_leaf(max_leaf: u32);
        /// Leaves 0BH and 1FH are there.
        topology(topology: bool);
        /// Bits of the APIC id below those of the core, and below those of the package.
        smt_shift(smt_shift: u8);
        /// Bits of the APIC id below those of the package.
        core_shift(core_shift: u8);
        /// For so long after an INIT a CPU ignores start-up IPIs, in ticks of the platform.
        init_ticks(init_ticks: u64);
        /// What the CPUs other than the boot CPU do at first.
        aps(aps: Aps);
        /// There are 8259s.
        pic(pic: bool);
        /// There is an IMCR, and it is set to the 8259s.
        imcr(imcr: bool);
    }

    /// The APIC ids, by CPU index.
    pub fn ids(mut self, ids: impl IntoIterator<Item = u32>) -> Self {
        let ids: Vec<u32> = ids.into_iter().collect();
        assert_eq!(ids.len(), self.machine.cpus.len(), "one id for each CPU");
        for (cpu, id) in self.machine.cpus.iter_mut().zip(ids) {
            cpu.id = id;
        }
        self
    }

    /// The CPU with the BSP bit.
    pub fn boot_cpu(mut self, cpu: u32) -> Self {
        self.machine.boot_cpu = cpu as usize;
        self
    }

    /// The mode in which all APICs are handed over.
    pub fn mode(mut self, mode: Mode) -> Self {
        for cpu in &mut self.machine.cpus {
            cpu.mode = mode;
        }
        self
    }

    /// The mode in which that of `cpu` is handed over.
    pub fn handed_over(mut self, cpu: u32, mode: Mode) -> Self {
        self.machine.cpus[cpu as usize].mode = mode;
        self
    }

    /// The boot CPU is as a PC's firmware leaves it: enabled by software (`SVR` 1FFH), LINT0
    /// takes the 8259s, LINT1 is NMI; other CPUs are parked.
    pub fn firmware(mut self) -> Self {
        self.machine.firmware = true;
        self.machine.aps = Aps::Parked;
        self
    }

    /// On `cpu` these vectors are requested at hand-over, and after each INIT.
    pub fn stale_irr(mut self, cpu: u32, vectors: &[u8]) -> Self {
        self.machine.cpus[cpu as usize].stale_irr = vectors.to_vec();
        self
    }

    /// On `cpu` these vectors are in service at hand-over, and after each INIT.
    pub fn stale_isr(mut self, cpu: u32, vectors: &[u8]) -> Self {
        self.machine.cpus[cpu as usize].stale_isr = vectors.to_vec();
        self
    }

    /// On `cpu` these vectors are in service at hand-over, and no EOI changes that.
    pub fn stuck_isr(mut self, cpu: u32, vectors: &[u8]) -> Self {
        self.machine.cpus[cpu as usize].stuck_isr = vectors.to_vec();
        self.stale_isr(cpu, vectors)
    }

    /// Earlier software left `value` in a register of `cpu`: `TPR`, `SVR`, an LVT entry,
    /// timer registers, or errors in `ESR` that were not cleared.
    pub fn left(mut self, cpu: u32, register: usize, value: u64) -> Self {
        self.machine.cpus[cpu as usize].left.push((register, value));
        self
    }

    /// Writes of a register of `cpu` do nothing, and are not judged.
    pub fn ignores(mut self, cpu: u32, register: usize) -> Self {
        self.machine.cpus[cpu as usize].ignores.push(register);
        self
    }

    /// A register of `cpu` reads `value`, whatever it holds.
    pub fn shows(mut self, cpu: u32, register: usize, value: u64) -> Self {
        self.machine.cpus[cpu as usize]
            .shows
            .push((register, value));
        self
    }

    /// `cpu` ignores INIT and start-up IPIs.
    pub fn never_starts(mut self, cpu: u32) -> Self {
        self.machine.cpus[cpu as usize].never_starts = true;
        self
    }

    /// `cpu` ignores the first start-up IPI after an INIT.
    pub fn second_sipi(mut self, cpu: u32) -> Self {
        self.machine.cpus[cpu as usize].second_sipi = true;
        self
    }

    /// The machine.
    ///
    /// # Panics
    /// If the description contradicts itself.
    pub fn build(self) -> ApicModel {
        let machine = &self.machine;
        assert!(
            (3..=6).contains(&machine.max_lvt),
            "max-LVT {}",
            machine.max_lvt
        );
        let mut ids: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), machine.cpus.len(), "two CPUs have one id");
        for cpu in &machine.cpus {
            let x2apic = cpu.mode == Mode::X2apic;
            assert!(machine.x2apic || !x2apic, "x2APIC mode without x2APIC");
            assert!(
                machine.lock != Lock::Locked || x2apic,
                "locked, and not in x2APIC mode"
            );
            let stale = cpu.stale_irr.iter().chain(&cpu.stale_isr);
            assert!(stale.min().is_none_or(|low| *low >= 16), "no such bits");
            assert!(cpu.id < 255 || x2apic, "id {} in xAPIC mode", cpu.id);
        }
        ApicModel::new(&self.sim, self.machine)
    }
}
