// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels of different shapes need of driver and irq-core together.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::cpu::{CpuIndex, CpuSet};
use irq_core::{
    Action, ActionContext, Control, Flow, Interrupts, Irq, IrqContext, IrqRange, Kick, Kind,
    LineState, Lines, Outcome, Setup, Taken, Trigger,
};
use irq_gicv3::cpu_interface::{Acknowledge, CpuSetup};
use irq_gicv3::distributor::{self, Distributor};
use irq_gicv3::gic::Active;
use irq_gicv3::quirks::{Machine as Facts, Quirks};
use irq_gicv3::sgi::SgiCommand;
use irq_gicv3::{CpuInterface, EoiMode, IntId, Mpidr, Priority, RedistributorMap, Sgi, SgiTarget};
use irq_hal::{Barrier, Bus, Error};
use irq_sim::SimPlatform;
use irq_sim::gic::sysreg::ICC_IGRPEN0_EL1;
use irq_sim::gic::{GicModel, Security};
use irq_tests::gicv3::SimGic;
use irq_tests::system::{Plan, System, entry};

const SPI: u32 = 40;

/// The other controller of a kernel that has two: one line, one CPU.
#[derive(Default)]
struct Doorbell {
    pending: AtomicU32,
    masked: AtomicU32,
}

const DOORBELL: Irq = Irq::new(0);

impl Flow for Doorbell {
    type Active = ();

    fn ack(&self, _: &IrqContext<'_>) -> Option<(Irq, ())> {
        let ready = self.masked.load(Relaxed) == 0 && self.pending.swap(0, Relaxed) != 0;
        ready.then_some((DOORBELL, ()))
    }

    fn end(&self, (): ()) {}

    fn defer(&self, (): ()) -> Result<(), Error> {
        Err(Error::Unsupported { feature: "defer" })
    }

    fn hand_over(&self, (): ()) -> Result<(), Error> {
        Err(Error::Unsupported {
            feature: "hand over",
        })
    }
}

impl Kick for Doorbell {}

impl Lines for Doorbell {
    fn mask(&self, _: Irq) -> Result<(), Error> {
        self.masked.store(1, Relaxed);
        Ok(())
    }

    fn unmask(&self, _: Irq) -> Result<(), Error> {
        self.masked.store(0, Relaxed);
        Ok(())
    }

    fn set_trigger(&self, _: Irq, _: Trigger) -> Result<(), Error> {
        Err(Error::Unsupported { feature: "trigger" })
    }

    fn retrigger(&self, _: Irq) -> Result<(), Error> {
        self.pending.store(1, Relaxed);
        Ok(())
    }

    fn complete(&self, _: Irq) -> Result<(), Error> {
        Err(Error::Unsupported {
            feature: "complete",
        })
    }

    fn state(&self, _: Irq) -> Result<LineState, Error> {
        Err(Error::Unsupported { feature: "state" })
    }
}

/// What such a kernel chooses at run time.
enum Either<'a> {
    Gic(&'a SimGic),
    Doorbell(&'a Doorbell),
}

#[derive(Clone, Copy)]
enum EitherActive {
    Gic(Active),
    Doorbell,
}

impl Flow for Either<'_> {
    type Active = EitherActive;

    fn ack(&self, cx: &IrqContext<'_>) -> Option<(Irq, EitherActive)> {
        match self {
            Self::Gic(gic) => gic
                .ack(cx)
                .map(|(irq, active)| (irq, EitherActive::Gic(active))),
            Self::Doorbell(bell) => bell.ack(cx).map(|(irq, ())| (irq, EitherActive::Doorbell)),
        }
    }

    fn end(&self, active: EitherActive) {
        if let (Self::Gic(gic), EitherActive::Gic(active)) = (self, active) {
            gic.end(active);
        }
    }

    fn defer(&self, active: EitherActive) -> Result<(), Error> {
        match (self, active) {
            (Self::Gic(gic), EitherActive::Gic(active)) => gic.defer(active),
            _ => Err(Error::Unsupported { feature: "defer" }),
        }
    }

    fn hand_over(&self, active: EitherActive) -> Result<(), Error> {
        match (self, active) {
            (Self::Gic(gic), EitherActive::Gic(active)) => gic.hand_over(active),
            _ => Err(Error::Unsupported {
                feature: "hand over",
            }),
        }
    }
}

impl Kick for Either<'_> {
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        match self {
            Self::Gic(gic) => gic.kick(cpu, post),
            Self::Doorbell(bell) => bell.kick(cpu, post),
        }
    }

    fn kick_mask(
        &self,
        cpus: &dyn CpuSet,
        post: impl FnMut(CpuIndex) -> bool,
    ) -> Result<(), Error> {
        match self {
            Self::Gic(gic) => gic.kick_mask(cpus, post),
            Self::Doorbell(bell) => bell.kick_mask(cpus, post),
        }
    }
}

impl<'a> Either<'a> {
    fn lines(&self) -> &'a dyn Lines {
        match self {
            Self::Gic(gic) => *gic,
            Self::Doorbell(bell) => *bell,
        }
    }
}

impl Lines for Either<'_> {
    fn mask(&self, irq: Irq) -> Result<(), Error> {
        self.lines().mask(irq)
    }

    fn unmask(&self, irq: Irq) -> Result<(), Error> {
        self.lines().unmask(irq)
    }

    fn set_trigger(&self, irq: Irq, trigger: Trigger) -> Result<(), Error> {
        self.lines().set_trigger(irq, trigger)
    }

    fn retrigger(&self, irq: Irq) -> Result<(), Error> {
        self.lines().retrigger(irq)
    }

    fn complete(&self, irq: Irq) -> Result<(), Error> {
        self.lines().complete(irq)
    }

    fn state(&self, irq: Irq) -> Result<LineState, Error> {
        self.lines().state(irq)
    }
}

/// A device driver: it names neither platform nor controller.
fn fire_and_count(control: Control<'_>, irq: Irq, fire: impl Fn()) -> u64 {
    control.unmask(irq).unwrap();
    fire();
    control.counts(irq).unwrap().taken
}

#[test]
fn two_controllers_are_chosen_at_run_time_by_an_enum_and_drivers_see_neither() {
    let system = System::new(&Plan::new(2, 1));
    let bell = Doorbell::default();
    let one = IrqRange::new(DOORBELL, 1).unwrap();
    let bells = Interrupts::new(Setup::new(2, one)).unwrap();
    let gic = &system.machine.gic;
    let sim = &system.machine.sim;
    for (controller, interrupts, irq) in [
        (Either::Gic(gic), &system.interrupts, system.irq(SPI)),
        (Either::Doorbell(&bell), &bells, DOORBELL),
    ] {
        let control = interrupts.control(sim, &controller);
        let kept = control.register(irq, Action::new(|_| ())).unwrap();
        if matches!(controller, Either::Gic(_)) {
            control.set_trigger(irq, Trigger::Edge).unwrap();
        }
        let fire = || {
            control.retrigger(irq).unwrap();
            let outcome = system.on(0, |on| interrupts.dispatch(&controller, &entry(on)));
            assert_eq!(outcome.taken, Taken::Handled);
        };
        assert_eq!(fire_and_count(control, irq, fire), 1);
        kept.remove().map_err(|(error, _)| error).unwrap();
    }
    // IPIs go through it as well.
    let either = Either::Gic(gic);
    either.kick(CpuIndex::new(1), || true).unwrap();
    assert!(system.machine.model.signalled(1));
    let none = Either::Doorbell(&bell).kick(CpuIndex::new(1), || panic!("posted"));
    assert!(matches!(none, Err(Error::Unsupported { .. })));
}

#[test]
fn entries_from_the_irq_and_the_fiq_vector_are_one_function() {
    const FIRMWARES: u32 = SPI + 1;
    let system = System::new(&Plan {
        change: |builder| {
            let two = builder.security(Security::Two { fiq: false });
            two.secure_sources(vec![FIRMWARES])
        },
        ..Plan::new(1, 1)
    });
    let control = system.control();
    let model = &system.machine.model;
    let irq = system.irq(SPI);
    let line = model.line(SPI);
    let _kept = control
        .register(irq, Action::new(move |_| line.deassert()))
        .unwrap();
    control.unmask(irq).unwrap();
    let enter = || -> Outcome { system.on(0, |on| system.enter(on)) };
    model.line(SPI).assert();
    assert!(model.signalled(0));
    assert_eq!(enter().taken, Taken::Handled);
    // A second call of the vector that found it.
    assert_eq!(enter().taken, Taken::Nothing);

    // Firmware's interrupt, of Group 0, is signalled as an FIQ: nothing of ours, and it stays
    // pending for firmware, whatever waits behind it.
    let secure = model.gicd().secure();
    Bus::<u8>::store(&secure, 0x400 + FIRMWARES as usize, 0x40); // GICD_IPRIORITYR
    Bus::<u32>::store(&secure, 0x104, 1 << (FIRMWARES - 32)); // GICD_ISENABLER1
    let groups = Bus::<u32>::load(&secure, 0) & 0x77;
    Bus::<u32>::store(&secure, 0, groups | 1); // GICD_CTLR.EnableGrp0
    let icc = model.icc(0).secure();
    icc.store(ICC_IGRPEN0_EL1, 1);
    icc.synchronize();
    for ours_too in [false, true] {
        if ours_too {
            model.line(SPI).assert();
        }
        model.line(FIRMWARES).assert();
        assert_eq!((model.signalled(0), model.signalled_fiq(0)), (false, true));
        assert_eq!(enter().taken, Taken::Nothing);
        assert_eq!(model.handling(0), []);
        assert!(model.source(FIRMWARES).pending && !model.source(FIRMWARES).active);
        model.line(FIRMWARES).deassert();
    }
    // The FIQ is gone when the vector looks: what is left is taken all the same.
    assert_eq!(enter().taken, Taken::Handled);
    assert_eq!(enter().taken, Taken::Nothing);
    assert_eq!(system.interrupts.counts(irq).unwrap().taken, 2);
}

#[test]
fn an_entry_during_a_handler_takes_what_is_more_urgent_and_both_end() {
    struct Nested {
        system: System,
        inner: Mutex<Vec<Taken>>,
    }
    static NESTED: std::sync::OnceLock<Nested> = std::sync::OnceLock::new();
    let nested = NESTED.get_or_init(|| Nested {
        system: System::new(&Plan::new(1, 1)),
        inner: Mutex::new(Vec::new()),
    });
    let Nested { system, inner } = nested;
    let control = system.control();
    let model = &system.machine.model;
    let (irq, urgent) = (system.irq(SPI), system.irq(SPI + 1));
    let slow = Action::new(|cx: &ActionContext<'_>| {
        let Nested { system, inner } = NESTED.get().unwrap();
        let model = &system.machine.model;
        model.line(SPI).deassert();
        model.line(SPI + 1).pulse();
        // An NMI, or an FIQ, on this CPU.
        assert_eq!(cx.cpu(), CpuIndex::new(0));
        for _ in 0..2 {
            let outcome = system.on(0, |on| system.enter(on));
            inner.lock().unwrap().push(outcome.taken);
        }
    });
    let _slow = control.register(irq, slow).unwrap();
    let _urgent = control.register(urgent, Action::new(|_| ())).unwrap();
    let gic = &system.machine.gic;
    gic.set_priority(urgent, Priority::new(0x80)).unwrap();
    control.set_trigger(urgent, Trigger::Edge).unwrap();
    control.unmask(irq).unwrap();
    control.unmask(urgent).unwrap();
    model.line(SPI).assert();
    assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::Handled));
    assert_eq!(*inner.lock().unwrap(), [Taken::Handled, Taken::Nothing]);
    assert_eq!(model.priorities(0).1, None, "all are ended");
    assert_eq!(model.handling(0), []);
}

#[test]
fn a_caller_that_loops_until_nothing_is_pending_takes_each_interrupt_once() {
    fn nothing(_: usize, _: &ActionContext<'_>) {}
    let system = System::new(&Plan {
        kinds: &[Kind::new(nothing, 0)],
        ..Plan::new(2, 1)
    });
    let control = system.control();
    let model = &system.machine.model;
    let mut kept = Vec::new();
    for intid in SPI..SPI + 5 {
        let irq = system.irq(intid);
        let line = model.line(intid);
        let action = Action::new(move |_| line.deassert());
        kept.push(control.register(irq, action).unwrap());
        control.unmask(irq).unwrap();
        model.line(intid).assert();
    }
    system.send(1, 0, 0).unwrap();
    let taken = RefCell::new(Vec::new());
    let entered = model.take_irq(0, |on| {
        loop {
            let outcome = system.enter(on);
            if outcome.taken == Taken::Nothing {
                break;
            }
            taken.borrow_mut().push(outcome.taken);
        }
    });
    assert!(entered);
    assert_eq!(*taken.borrow(), [Taken::Handled; 6]);
    assert!(system.take(0).is_none());
}

#[test]
fn an_interrupt_that_somebody_else_acknowledged_is_dispatched_by_its_number() {
    fn nothing(_: usize, _: &ActionContext<'_>) {}
    let system = System::new(&Plan {
        kinds: &[Kind::new(nothing, 0)],
        ..Plan::new(1, 1)
    });
    let gic = &system.machine.gic;
    let model = &system.machine.model;
    system.send(0, 0, 0).unwrap();
    system.on(0, |on| {
        // A hypervisor's exit path, for one.
        let cx = entry(on);
        let (irq, active) = gic.ack(&cx).unwrap();
        assert_eq!(Some(irq), gic.ipi_irq());
        let outcome = system
            .interrupts
            .dispatch_acknowledged(gic, &cx, irq, active);
        assert_eq!(outcome.taken, Taken::Handled);
    });
    assert_eq!(model.handling(0), []);
    assert_eq!(system.counts(0).taken, 1);
}

#[test]
fn sgis_that_irq_core_does_not_use_arrive_as_ordinary_interrupts_of_each_cpu() {
    let system = System::new(&Plan::new(2, 1));
    let gic = &system.machine.gic;
    let control = system.control();
    let mine = Sgi::new(1).unwrap();
    let irq = gic.irq(mine.intid()).unwrap();
    let _kept = control.register(irq, Action::new(|_| ())).unwrap();
    gic.unmask_private(mine.intid()).unwrap();
    system.on(0, |_| gic.send_sgi(mine, CpuIndex::new(1)).unwrap());
    assert_eq!(system.take(1).map(|one| one.taken), Some(Taken::Handled));
    let on = |cpu| control.counts_on(irq, CpuIndex::new(cpu)).unwrap().taken;
    assert_eq!((on(0), on(1)), (0, 1));
    assert_eq!(system.counts(0).taken, 0);
}

#[test]
fn each_block_of_the_driver_works_alone_with_hardware_numbers() {
    let sim = SimPlatform::new(2);
    let model = GicModel::builder(&sim).build();
    let quirks = Quirks {
        machine: Facts::default(),
        extra: &[],
        veto: &[],
    };
    let mpidrs = [0, 1].map(|cpu| Mpidr::new(model.mpidr(cpu)));
    let (spi, sgi) = (IntId::new(SPI).unwrap(), Sgi::new(3).unwrap());

    let mut gicd = Distributor::new(model.gicd(), &quirks).unwrap();
    let setup = distributor::Setup {
        priority: Priority::DEFAULT,
        group0: true,
        route: mpidrs[1].route(),
    };
    gicd.init(&sim, &setup).unwrap();
    let gicr = RedistributorMap::discover(vec![model.gicr(0)], None, &quirks).unwrap();
    let setup = CpuSetup {
        priority_mask: Priority::UNMASKED,
        eoi_mode: EoiMode::Combined,
    };
    for cpu in [0, 1] {
        sim.as_cpu(cpu, |_| {
            let rd = gicr.find(mpidrs[cpu as usize]).unwrap();
            let rd = rd.wake(&sim).map_err(|(_, error)| error).unwrap();
            rd.reset(&sim, true, Priority::DEFAULT.get()).unwrap();
            rd.unmask(sgi.intid()).unwrap();
            let interface = CpuInterface::new(model.sysregs());
            let on = interface.enable(&setup).map_err(|(_, error)| error);
            let (interface, _) = on.unwrap();
            if cpu == 0 {
                return;
            }
            // CPU 1 sends to itself, and its device fires.
            gicd.unmask(&sim, spi).unwrap();
            model.line(SPI).assert();
            interface.send_sgi(SgiCommand::one(sgi, SgiTarget::new(mpidrs[1])));
            let mut got = Vec::new();
            while let Acknowledge::Interrupt(active) = interface.acknowledge() {
                if active.get() == SPI {
                    model.line(SPI).deassert();
                }
                got.push(active.get());
                interface.end(active);
            }
            assert_eq!(got, [3, SPI]);
        });
    }
    assert!(!model.signalled(0));
}
