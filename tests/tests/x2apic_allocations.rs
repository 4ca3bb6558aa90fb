// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths that must not allocate, counted by the allocator itself.
//!
//! The model keeps a log and so allocates; here plain memory that does not stands for the
//! registers.

use irq_core::{Flow, Kick, Lines};
use irq_hal::{CpuIndex, Platform};
use irq_sim::SimPlatform;
use irq_tests::gicv3::cpu_set;
use irq_tests::heap::{Counting, allocations};
use irq_tests::msrs::{PlainCpuId, PlainMsrs};
use irq_tests::x2apic::{entry, id, vector, with_ipi};
use irq_x2apic::{Apic, Config, Description, Pics};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn entry_end_send_mask_timer_and_cpus_that_come_and_go_allocate_nothing() {
    let sim = SimPlatform::new(1);
    let msrs = PlainMsrs::new(0x23);
    let cpuid = PlainCpuId(0x23);
    let description = Description::new(Pics::absent());
    let config = Config {
        cpus: Some(64),
        ..with_ipi()
    };
    assert_ne!(
        allocations(|| drop(vec![0_u8; 100])),
        0,
        "the allocator counts"
    );
    let apic = Apic::probe(sim.clone(), &msrs, &cpuid, description, config).unwrap();
    sim.as_cpu(0, |on| {
        // The simulated platform notes each mask in a list: let it grow once.
        let state = sim.irq_save();
        // SAFETY: `state` came from `irq_save` just above, on this CPU.
        unsafe { sim.irq_restore(state) };
        let online = || apic.cpu_online(on, id(0x23)).unwrap();
        assert_eq!(allocations(online), 0, "cpu_online");

        for (vector, ours) in [(0x40, true), (0xec, true), (0xff, false), (0x12, false)] {
            let cx = entry(on, vector);
            let count = allocations(|| {
                let taken = apic.ack(&cx);
                assert_eq!(taken.is_some(), ours);
                if let Some((_, active)) = taken {
                    apic.end(active);
                }
            });
            assert_eq!(count, 0, "vector {vector:#x}");
        }

        let here = CpuIndex::new(0);
        let set = cpu_set([0]);
        let mut ids = [apic.id(here).unwrap(); 64];
        let count = allocations(|| {
            apic.kick(here, || true).unwrap();
            apic.kick_mask(&set, |_| true).unwrap();
            apic.kick_urgent(here).unwrap();
            apic.send(vector(0x40), here).unwrap();
            apic.send_self(on, vector(0x40)).unwrap();
            apic.send_many(vector(0x40), &mut ids);
        });
        assert_eq!(count, 0, "sending");

        let timer = apic.timer_irq().unwrap();
        let count = allocations(|| {
            apic.mask(timer).unwrap();
            apic.unmask(timer).unwrap();
            apic.retrigger(timer).unwrap();
            apic.state(timer).unwrap();
            apic.unmask_private(timer).unwrap();
            let timer = apic.timer(on).unwrap();
            timer.one_shot(100);
            timer.deadline(100).unwrap();
            timer.stop();
            apic.take_errors(on).unwrap();
        });
        assert_eq!(count, 0, "lines and timer");
        let offline = || apic.cpu_offline(on).unwrap();
        assert_eq!(allocations(offline), 0, "cpu_offline");
    });
}
