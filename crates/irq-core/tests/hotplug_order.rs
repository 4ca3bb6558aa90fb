// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU goes and comes in the order that `irq_core::hotplug` gives: with its interrupts, its
//! IPIs, and its driver.
#![cfg(not(loom))]

mod common;
mod hotplug_common;

use std::sync::{Arc, Mutex};

use hotplug_common::rig::{FIRST, Rig, cpu, on};
use hotplug_common::{Call, mask};
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::hotplug::{Leaves, NewIrq};
use irq_core::topology::{Level, Place};
use irq_core::{
    ActionContext, Flow, Interrupts, IpiKind, IpiSetup, Irq, IrqContext, IrqRange, Kick,
};
use irq_core::{Kind, Setup};
use irq_hal::Error;

/// A controller that reaches each CPU, online or not, and writes down whom it was let kick.
#[derive(Default)]
struct Kicks {
    asked: Mutex<Vec<u32>>,
    kicked: Mutex<Vec<u32>>,
}

impl Kick for Kicks {
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        self.asked.lock().unwrap().push(cpu.get());
        if post() {
            self.kicked.lock().unwrap().push(cpu.get());
        }
        Ok(())
    }

    fn kick_mask(
        &self,
        cpus: &dyn CpuSet,
        mut post: impl FnMut(CpuIndex) -> bool,
    ) -> Result<(), Error> {
        cpus.each(&mut |cpu| self.kick(cpu, || post(cpu)).unwrap());
        Ok(())
    }
}

const KIND: IpiKind = IpiKind::new(0).unwrap();
const IPI: Irq = Irq::new(0);

fn nothing(_: usize, _: &ActionContext<'_>) {}

static KINDS: [Kind; 1] = [Kind::new(nothing, 0)];

struct Machine {
    rig: Arc<Rig>,
    interrupts: Interrupts,
    kicks: Kicks,
}

impl Machine {
    fn online(&self, index: u32) {
        self.rig.sim.up(index);
        let place = Place {
            node: NodeId::new(index / 2),
            ..Place::flat(cpu(index))
        };
        let platform = &self.rig.platform;
        self.interrupts
            .cpu_online(platform, &on(index), place)
            .unwrap();
        self.rig.changes().online(cpu(index)).unwrap();
    }

    fn offline(&self, index: u32) {
        self.rig.changes().offline(&on(index)).unwrap();
        let entry = IrqContext::new(on(index), None, None);
        let _ = self.interrupts.cpu_offline(&self.kicks, &entry).unwrap();
        self.rig.sim.down(index);
    }

    /// Whom an IPI to all others from CPU 0 asked for, and whom it reached.
    fn broadcast(&self) -> [Vec<u32>; 2] {
        let all = self.interrupts.broadcast_others(&self.kicks, &on(0), KIND);
        all.unwrap();
        self.taken()
    }

    fn taken(&self) -> [Vec<u32>; 2] {
        [&self.kicks.asked, &self.kicks.kicked]
            .map(|list| std::mem::take(&mut *list.lock().unwrap()))
    }

    /// The mailboxes are empty again.
    fn receive(&self) {
        for index in self.rig.sim.cpus_up() {
            let entry = IrqContext::new(on(index), None, None);
            let _ = self.interrupts.dispatch(&self.kicks, &entry);
        }
        self.taken();
    }
}

/// Each CPU has an IPI to take.
impl Flow for Kicks {
    type Active = ();

    fn ack(&self, _: &IrqContext<'_>) -> Option<(Irq, ())> {
        Some((IPI, ()))
    }

    fn end(&self, (): ()) {}

    fn defer(&self, (): ()) -> Result<(), Error> {
        panic!("an IPI is never deferred");
    }

    fn hand_over(&self, (): ()) -> Result<(), Error> {
        panic!("an IPI is never handed over");
    }
}

common::idle_lines!(Kicks);

fn machine() -> Machine {
    let rig = Rig::new(4, 8, Leaves::Drains);
    (0..4).for_each(|cpu| _ = rig.offline(cpu).unwrap());
    let irqs = IrqRange::new(IPI, 1).unwrap();
    let setup = Setup {
        nodes: 2,
        private: &[irqs],
        ipi: Some(IpiSetup {
            irq: IPI,
            kinds: &KINDS,
        }),
        ..Setup::new(4, irqs)
    };
    let machine = Machine {
        rig,
        interrupts: Interrupts::new(setup).unwrap(),
        kicks: Kicks::default(),
    };
    (0..4).for_each(|index| machine.online(index));
    machine
}

/// Fix A14: the bit of a CPU that went stayed in the masks that IPIs were sent by.
#[test]
fn a14_a_cpu_that_went_is_in_no_mask_that_ipis_are_sent_by() {
    let machine = machine();
    assert_eq!(machine.broadcast(), [vec![1, 2, 3], vec![1, 2, 3]]);
    machine.receive();
    let topology = machine.interrupts.topology();
    let mut before = CpuMask::try_new(4).unwrap();
    before.copy_from(topology.online_cpus()).unwrap();
    machine.offline(1);
    assert_eq!(machine.broadcast(), [vec![2, 3], vec![2, 3]]);
    for level in Level::ALL {
        let domain = topology.domain(cpu(0), level).unwrap();
        assert!(!domain.contains(cpu(1)), "{level}");
    }
    assert_eq!(topology.node(NodeId::new(0)).unwrap().count(), 1);
    // A mask from before reaches it no more.
    machine.receive();
    let sent = machine
        .interrupts
        .send_mask(&machine.kicks, &on(0), &before, KIND);
    assert!(
        sent.is_ok() || sent == Err(Error::CpuOffline { cpu: cpu(1) }),
        "{sent:?}"
    );
    assert!(!machine.taken()[1].contains(&1));
    let sent = machine
        .interrupts
        .send(&machine.kicks, &on(0), cpu(1), KIND);
    assert_eq!(sent, Err(Error::CpuOffline { cpu: cpu(1) }));
    assert_eq!(machine.taken()[1], []);
    // And it is back in all of them.
    machine.receive();
    machine.online(1);
    assert_eq!(machine.broadcast(), [vec![1, 2, 3], vec![1, 2, 3]]);
}

#[test]
fn a_cpu_is_reached_by_ipis_until_its_interrupts_have_left_it() {
    let machine = Arc::new(machine());
    machine.rig.start(
        FIRST,
        NewIrq {
            affinity: mask(&[1]),
            ..NewIrq::regular()
        },
    );
    let same = Arc::downgrade(&machine);
    machine.rig.sim.set_hook(move |_, call| {
        if call == Call::Settle(1) {
            let machine = same.upgrade().unwrap();
            assert_eq!(machine.broadcast()[1], [1, 2, 3]);
            machine.receive();
        }
    });
    machine.offline(1);
    assert_eq!(machine.rig.served_by(FIRST), Some(0));
    machine.rig.quiet();
}
