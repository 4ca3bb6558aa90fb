// SPDX-License-Identifier: MIT OR Apache-2.0
//! A controller whose acknowledge stands for a priority: what stands behind it is taken in the
//! same entry, or raised again.
#![cfg(not(loom))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{Cpu, Recorder, Step, control, entry, machine, on, range};
use irq_core::cpu::CpuIndex;
use irq_core::topology::Place;
use irq_core::{
    Action, ActionContext, Answer, Bits, Interrupts, IpiSetup, Irq, Kind, Outcome, Setup, Taken,
};

/// A name, an action, and what becomes of its interrupt.
type Case = (&'static str, fn(&Arc<Recorder>) -> Action, Taken);

static CPU: Cpu = Cpu::new(0);

fn draining(irqs: &[u32]) -> Arc<Recorder> {
    let mut recorder = Recorder::pending(irqs);
    recorder.drains = true;
    Arc::new(recorder)
}

fn interrupts() -> Interrupts {
    machine(1, range(32, 4), &[])
}

fn noting(flow: &Arc<Recorder>, name: u32, answer: Answer) -> Action {
    let flow = flow.clone();
    Action::new(move |cx| {
        flow.step(Step::Action(name));
        if let Some(bit) = Bits::embedder(name) {
            cx.request(bit);
        }
        answer
    })
}

#[test]
fn all_that_an_acknowledge_stands_for_is_taken_in_one_entry() {
    let (interrupts, flow) = (interrupts(), draining(&[33, 34, 33]));
    let control = control(&interrupts, &CPU);
    let _one = control.register(Irq::new(33), noting(&flow, 1, Answer::Handled));
    let _two = control.register(Irq::new(34), noting(&flow, 2, Answer::Handled));
    let bits = Bits::embedder(1).unwrap().union(Bits::embedder(2).unwrap());
    let outcome = interrupts.dispatch(&*flow, &entry(0));
    assert_eq!(
        outcome,
        Outcome {
            taken: Taken::Handled,
            bits
        }
    );
    assert_eq!(
        flow.steps(),
        [
            Step::Ack(33),
            Step::Action(1),
            Step::End(33),
            Step::Next(34),
            Step::Action(2),
            Step::End(34),
            Step::Next(33),
            Step::Action(1),
            Step::End(33),
        ]
    );
    assert_eq!(interrupts.counts(Irq::new(33)).unwrap().taken, 2);
}

#[test]
fn a_controller_without_a_queue_hands_out_one_for_each_entry() {
    let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[33, 34])));
    let control = control(&interrupts, &CPU);
    let _one = control.register(Irq::new(33), noting(&flow, 1, Answer::Handled));
    assert_eq!(interrupts.dispatch(&*flow, &entry(0)).taken, Taken::Handled);
    assert_eq!(
        flow.steps(),
        [Step::Ack(33), Step::Action(1), Step::End(33)]
    );
}

#[test]
fn what_an_end_first_or_deferred_or_unclaimed_interrupt_leaves_behind_is_raised_again() {
    fn first(_: usize, _: &ActionContext<'_>) -> Answer {
        Answer::Handled
    }
    let actions: [Case; 3] = [
        ("end first", |_| Action::end_first(first, 0), Taken::Handled),
        (
            "deferred",
            |flow| noting(flow, 1, Answer::Deferred),
            Taken::Deferred,
        ),
        (
            "not mine",
            |flow| noting(flow, 1, Answer::NotMine),
            Taken::Unhandled,
        ),
    ];
    for (name, action, taken) in actions {
        let (interrupts, flow) = (interrupts(), draining(&[33, 34]));
        let control = control(&interrupts, &CPU);
        let _one = control.register(Irq::new(33), action(&flow));
        let outcome = interrupts.dispatch(&*flow, &entry(0));
        assert_eq!(outcome.taken, taken, "{name}");
        let steps = flow.take();
        assert!(steps.contains(&Step::Again), "{name}: {steps:?}");
        assert!(!steps.contains(&Step::Next(34)), "{name}: {steps:?}");
        // And comes with the next acknowledge.
        assert_eq!(
            interrupts.dispatch(&*flow, &entry(0)).taken,
            Taken::Unhandled
        );
        assert_eq!(flow.take(), [Step::Ack(34), Step::End(34)], "{name}");
    }
}

#[test]
fn an_action_that_unwinds_leaves_what_stood_behind_it_raised_again() {
    let (interrupts, flow) = (interrupts(), draining(&[33, 34]));
    let control = control(&interrupts, &CPU);
    let failing = Action::new(|_| -> Answer { panic!("inside an action") });
    let _one = control.register(Irq::new(33), failing);
    let unwound =
        catch_unwind(AssertUnwindSafe(|| interrupts.dispatch(&*flow, &entry(0)))).is_err();
    assert!(unwound);
    assert_eq!(flow.steps(), [Step::Ack(33), Step::End(33), Step::Again]);
}

#[test]
fn an_ipi_behind_a_device_interrupt_is_taken_in_the_same_entry() {
    fn nothing(_: usize, _: &ActionContext<'_>) {}
    let kinds = [Kind::new(nothing, 0)];
    let setup = Setup {
        ipi: Some(IpiSetup {
            irq: Irq::new(32),
            kinds: &kinds,
        }),
        ..Setup::new(1, range(32, 4))
    };
    let (interrupts, flow) = (Interrupts::new(setup).unwrap(), draining(&[33, 32, 34]));
    let cpu = CpuIndex::new(0);
    interrupts
        .cpu_online(&CPU, &on(0), Place::flat(cpu))
        .unwrap();
    let control = control(&interrupts, &CPU);
    let _one = control.register(Irq::new(33), noting(&flow, 1, Answer::Handled));
    let outcome = interrupts.dispatch(&*flow, &entry(0));
    assert_eq!(outcome.taken, Taken::Handled);
    assert_eq!(Some(outcome.bits), Bits::embedder(1));
    // Its end comes first, so that what is left is raised again.
    assert_eq!(
        flow.steps(),
        [
            Step::Ack(33),
            Step::Action(1),
            Step::End(33),
            Step::Next(32),
            Step::End(32),
            Step::Again,
        ]
    );
}
