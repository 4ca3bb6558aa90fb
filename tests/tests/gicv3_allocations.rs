// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths that must not allocate, counted by the allocator itself.
//!
//! The model keeps a log and so allocates; here plain memory that does not stands for the
//! registers.

use std::sync::atomic::Ordering::Relaxed;

use irq_core::{Flow, IrqContext, Lines, Trigger};
use irq_gicv3::{Config, Description, EoiMode, Gic, IntId, Mpidr, Priority, Sgi};
use irq_hal::percpu::OnCpu;
use irq_hal::{Bus, CpuIndex, Platform};
use irq_sim::SimPlatform;
use irq_tests::heap::{Counting, allocations};
use irq_tests::plain::{Interface, Plain};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn entry_end_send_mask_and_cpus_that_come_and_go_allocate_nothing() {
    let sim = SimPlatform::new(1);
    // PIDR2 of both, 64 SPIs, a redistributor that is the last one.
    let gicd = Plain::frames(1, &[(0xffe8, 0x3b), (4, 2)]);
    let gicr = Plain::frames(2, &[(0xffe8, 0x3b), (8, 1 << 4)]);
    let interface = Interface::new(40);
    let config = Config {
        eoi_mode: EoiMode::Split,
        ..Config::default()
    };
    let description = Description::new(gicd, vec![gicr]);
    assert_ne!(
        allocations(|| drop(vec![0_u8; 100])),
        0,
        "the allocator counts"
    );
    let gic = Gic::probe(sim.clone(), description, &interface, config).unwrap();
    sim.as_cpu(0, |on| {
        // The simulated platform notes each mask in a list: let it grow once.
        let state = sim.irq_save();
        // SAFETY: `state` came from `irq_save` just above, on this CPU.
        unsafe { sim.irq_restore(state) };
        let online = || gic.cpu_online(on, Mpidr::new(0)).unwrap();
        assert_eq!(allocations(online), 0, "cpu_online");

        // SAFETY: `as_cpu` promises the same for `on`, which lives as long.
        let here = unsafe { OnCpu::new(on.cpu()) };
        let cx = IrqContext::new(here, None, None);
        for (intid, ours) in [
            (3, true),
            (27, true),
            (40, true),
            (1023, false),
            (9000, false),
        ] {
            interface.hands_out.store(intid, Relaxed);
            let count = allocations(|| {
                let taken = gic.ack(&cx);
                assert_eq!(taken.is_some(), ours);
                if let Some((_, active)) = taken {
                    gic.end(active);
                }
            });
            assert_eq!(count, 0, "INTID {intid}");
        }

        let sgi = Sgi::new(1).unwrap();
        let target = gic.sgi_target(CpuIndex::new(0)).unwrap();
        let mut targets = [target; 64];
        let count = allocations(|| {
            gic.send_sgi(sgi, CpuIndex::new(0)).unwrap();
            gic.send_sgi_others(sgi);
            gic.send_sgi_many(sgi, &mut targets).unwrap();
        });
        assert_eq!(count, 0, "sending");

        let shared = gic.irq(IntId::spi(8).unwrap()).unwrap();
        let private = gic.irq(IntId::ppi(11).unwrap()).unwrap();
        let count = allocations(|| {
            for irq in [shared, private] {
                gic.unmask(irq).unwrap();
                gic.mask(irq).unwrap();
                gic.set_trigger(irq, Trigger::Edge).unwrap();
                gic.retrigger(irq).unwrap();
                gic.state(irq).unwrap();
            }
            gic.set_route(shared, Mpidr::new(0)).unwrap();
            gic.set_priority(shared, Priority::new(0xa0)).unwrap();
            let ppi = IntId::ppi(11).unwrap();
            gic.configure_private(ppi, Trigger::Level, Priority::DEFAULT)
                .unwrap();
            gic.unmask_private(ppi).unwrap();
        });
        assert_eq!(count, 0, "control");

        struct Sink(usize);
        impl std::fmt::Write for Sink {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.0 += text.len();
                Ok(())
            }
        }
        let mut sink = Sink(0);
        let count = allocations(|| {
            std::fmt::Write::write_fmt(&mut sink, format_args!("{}", gic.snapshot())).unwrap();
        });
        assert_eq!(count, 0, "snapshot");
        assert!(sink.0 > 100);
        let word: u32 = gic.distributor().with(&sim, |gicd| gicd.bus.load(0x204));
        assert_eq!(word, 1 << 8);
    });
}
