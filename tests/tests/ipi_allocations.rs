// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPIs, remote calls and interrupts allocate nothing, counted by the allocator itself.

use std::sync::atomic::Ordering::Relaxed;

use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::topology::Place;
use irq_core::{
    Action, ActionContext, Answer, Detector, Interrupts, IpiSetup, Kind, Sent, Setup, Taken,
};
use irq_gicv3::{Config, Description, Gic, Mpidr};
use irq_hal::Platform;
use irq_sim::SimPlatform;
use irq_tests::gicv3::{IPI, cpu_set};
use irq_tests::heap::{Counting, allocations};
use irq_tests::plain::{Interface, Plain};
use irq_tests::system::{entry, kind};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn nothing(_: usize, _: &ActionContext<'_>) {}

fn answer(word: usize, _: CpuIndex) -> usize {
    word
}

const SPI: u64 = 40;

#[test]
fn sends_receives_calls_and_interrupts_allocate_nothing_and_neither_do_cpus_that_come_and_go() {
    assert_ne!(
        allocations(|| drop(vec![0_u8; 100])),
        0,
        "the allocator counts"
    );
    let sim = SimPlatform::new(1);
    // PIDR2 of both, 64 SPIs, a redistributor that is the last one; its IPI reads as enabled.
    let gicd = Plain::frames(1, &[(0xffe8, 0x3b), (4, 2)]);
    let gicr = Plain::frames(2, &[(0xffe8, 0x3b), (8, 1 << 4)]);
    let interface = Interface::new(0);
    let config = Config {
        ipi: Some(IPI),
        ..Config::default()
    };
    let description = Description::new(gicd, vec![gicr]);
    let gic = Gic::probe(sim.clone(), description, &interface, config).unwrap();
    let private = gic.private_irqs();
    let kinds = [Kind::new(nothing, 0), Kind::last(nothing, 0)];
    let interrupts = Interrupts::new(Setup {
        private: &private,
        ipi: gic.ipi_irq().map(|irq| IpiSetup { irq, kinds: &kinds }),
        detector: Some(Detector::new(|_, _| (), 0)),
        ..Setup::new(1, gic.irqs())
    })
    .unwrap();
    let control = interrupts.control(&sim, &gic);
    let spi = gic.irq(irq_gicv3::IntId::new(SPI as u32).unwrap()).unwrap();
    let mine = |_: usize, _: &ActionContext<'_>| Answer::Handled;
    let _kept = control.register(spi, Action::word(mine, 0)).unwrap();
    let all = cpu_set([0]);
    sim.as_cpu(0, |on| {
        // The simulated platform notes each mask in a list: let it grow once.
        let state = sim.irq_save();
        // SAFETY: `state` came from `irq_save` just above, on this CPU.
        unsafe { sim.irq_restore(state) };
        let place = Place {
            node: NodeId::new(0),
            ..Place::flat(on.cpu())
        };
        let online = || {
            gic.cpu_online(on, Mpidr::new(0)).unwrap();
            interrupts.cpu_online(&sim, on, place).unwrap();
        };
        assert_eq!(allocations(online), 0, "online");

        let take = |intid: u64, expect: Taken| {
            interface.hands_out.store(intid, Relaxed);
            let outcome = interrupts.dispatch(&gic, &entry(on));
            assert_eq!(outcome.taken, expect);
        };
        let me = on.cpu();
        let count = allocations(|| {
            let send = |kind| interrupts.send(&gic, on, me, kind).unwrap();
            assert_eq!(send(kind(0)), Sent::Rung);
            assert_eq!(send(kind(1)), Sent::Coalesced);
            take(IPI.get().into(), Taken::Handled);
            let sent = interrupts.send_mask(&gic, on, &all, kind(1)).unwrap();
            assert_eq!(sent.rung, 1);
            take(IPI.get().into(), Taken::Handled);
            take(IPI.get().into(), Taken::Handled);
            interrupts.broadcast_others(&gic, on, kind(0)).unwrap();
        });
        assert_eq!(count, 0, "IPIs");

        let count = allocations(|| {
            let result = interrupts.call(&sim, &gic, on, me, answer, 7);
            assert_eq!(result, Ok(7));
            let ran = interrupts.call_mask(&sim, &gic, on, &all, answer, 7);
            assert_eq!(ran, Ok(1));
        });
        assert_eq!(count, 0, "remote calls");

        let count = allocations(|| {
            take(SPI, Taken::Handled);
            // Nobody's.
            take(SPI + 1, Taken::Unhandled);
            take(1023, Taken::Nothing);
        });
        assert_eq!(count, 0, "interrupts");

        let count = allocations(|| {
            assert!(interrupts.ipi_counts(NodeId::new(0)).is_some());
            assert!(control.counts(spi).is_some());
        });
        assert_eq!(count, 0, "counts");

        let count = allocations(|| {
            interrupts.cpu_offline(&gic, &entry(on)).unwrap();
            gic.cpu_offline(on).unwrap_err();
        });
        assert_eq!(count, 0, "offline");
    });
}
