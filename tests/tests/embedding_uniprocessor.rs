// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine with one core: the same glue, and the least that a kernel without a second core
//! writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::{Action, Interrupts, IrqContext, Lines, Setup, Taken};
use irq_gicv3::{Config, Description, Gic, IntId};
use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, ErrorKind};
use irq_sim::SimPlatform;
use irq_sim::gic::GicModel;
use irq_tests::hermit::kernel;
use irq_tests::hermit::with_core as glue;

#[test]
fn the_glue_for_many_cores_runs_on_one() {
    let boot = || {
        kernel::boot(
            1,
            glue::do_irq,
            glue::init,
            glue::init_cpu,
            glue::start_timer,
        )
    };
    let (_alone, machine) = boot();
    machine.expire_timer(0);
    machine.run(0);
    assert_eq!((machine.timer_ticks(0), machine.switches(0)), (1, 1));
    machine.sim.set_masked(0, true);
    machine.on(0, glue::reschedule).unwrap();
    assert_eq!(machine.switches(0), 2);
}

#[test]
fn a_uniprocessor_names_no_ipi_no_topology_and_no_hardware_id() {
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).build();
    let description = Description::new(model.gicd(), vec![model.gicr(0)]);
    let gic = Gic::probe(sim.clone(), description, model.sysregs(), Config::default()).unwrap();
    // The one redistributor says whose it is.
    let own = gic.redistributors().affinities().next().unwrap();
    sim.as_cpu(0, |on| gic.cpu_online(on, own)).unwrap();
    let interrupts = Interrupts::new(Setup::new(1, gic.irqs())).unwrap();

    let taken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&taken);
    let irq = gic.irq(IntId::spi(1).unwrap()).unwrap();
    let action = Action::new(move |_| {
        count.fetch_add(1, Relaxed);
    });
    let control = interrupts.control(&sim, &gic);
    let registration = control.register(irq, action).unwrap();
    gic.unmask(irq).unwrap();
    gic.retrigger(irq).unwrap();
    let entered = model.take_irq(0, |_| {
        // SAFETY: the model runs this as CPU 0, masked.
        let on = unsafe { OnCpu::new(CpuIndex::new(0)) };
        let outcome = interrupts.dispatch(&gic, &IrqContext::new(on, None, None));
        assert_eq!(outcome.taken, Taken::Handled);
    });
    assert!(entered);
    assert_eq!(taken.load(Relaxed), 1);
    // What was not asked for says so.
    let kind = irq_core::IpiKind::new(0).unwrap();
    let send = |on: &OnCpu| interrupts.send(&gic, on, CpuIndex::new(0), kind);
    let refused = sim.as_cpu(0, send).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    registration.remove().unwrap();
}
