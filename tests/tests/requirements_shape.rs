// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the types promise: sizes, moves, and who may share them.

use std::fmt::Debug;
use std::sync::OnceLock;

use irq_core::topology::Topology;
use irq_core::{Bits, Control, Interrupts, IrqContext, Outcome, Registration, Setup, Taken};
use irq_gicv3::{Config, Gic, IntId, ProbeError};
use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error, ErrorKind, Mmio, Platform};
use irq_sim::SimPlatform;
use irq_sim::gic::GicModel;
use irq_tests::gicv3::{SimGic, probe};
use irq_tests::hermit::platform::Hermit;

const fn shared<T: Send + Sync + 'static>() {}
const fn small_copy<T: Copy + Debug + Send + Sync + 'static>(bytes: usize) {
    assert!(size_of::<T>() <= bytes);
}

/// The kernel's static.
struct Static {
    gic: SimGic,
    interrupts: Interrupts,
}

#[test]
fn the_top_objects_are_values_that_move_into_a_static_and_work_by_shared_reference() {
    const {
        shared::<Interrupts>();
        shared::<Topology>();
        shared::<Gic<&'static Hermit, Mmio>>();
        shared::<SimGic>();
    };
    static KERNEL: OnceLock<Static> = OnceLock::new();
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).build();
    let gic = probe(&model, Config::default()).unwrap();
    let own = gic.redistributors().affinities().next().unwrap();
    sim.as_cpu(0, |on| gic.cpu_online(on, own)).unwrap();
    let interrupts = Interrupts::new(Setup::new(1, gic.irqs())).unwrap();
    // Both in use before they move, and through the heap on the way.
    let irq = gic.irq(IntId::spi(2).unwrap()).unwrap();
    let boxed = Box::new(Static { gic, interrupts });
    let place = std::ptr::from_ref(&*boxed).addr();
    let kernel = KERNEL.get_or_init(|| *boxed);
    assert_ne!(std::ptr::from_ref(kernel).addr(), place);
    let control: Control<'static> = kernel.interrupts.control(sim_static(&sim), &kernel.gic);
    let action = irq_core::Action::new(|cx| cx.request(Bits::RESCHEDULE));
    let kept: Registration<'static> = control.register(irq, action).unwrap();
    control.unmask(irq).unwrap();
    control.retrigger(irq).unwrap();
    assert!(model.take_irq(0, |_| {
        // SAFETY: the model runs this as CPU 0, masked.
        let on = unsafe { OnCpu::new(CpuIndex::new(0)) };
        let cx = IrqContext::new(on, None, None);
        let outcome = kernel.interrupts.dispatch(&kernel.gic, &cx);
        assert_eq!(outcome.taken, Taken::Handled);
        assert_eq!(outcome.bits, Bits::RESCHEDULE);
    }));
    kept.remove().unwrap();
}

fn sim_static(sim: &SimPlatform) -> &'static dyn Platform {
    Box::leak(Box::new(sim.clone()))
}

#[test]
fn what_crosses_the_seams_is_small_and_copied() {
    const {
        small_copy::<Outcome>(8);
        small_copy::<Error>(40);
        small_copy::<ErrorKind>(1);
        small_copy::<ProbeError>(48);
        small_copy::<<SimGic as irq_core::Flow>::Active>(8);
        small_copy::<Option<(irq_core::Irq, <SimGic as irq_core::Flow>::Active)>>(16);
    };
    let kind = Error::CpuOffline {
        cpu: CpuIndex::new(3),
    }
    .kind();
    let text: &'static str = kind.as_str();
    assert_eq!(text, "offline");
}
