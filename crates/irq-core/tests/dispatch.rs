// SPDX-License-Identifier: MIT OR Apache-2.0
//! From acknowledge to end: order, answers, counts.
#![cfg(not(loom))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use common::{Cpu, Recorder, Step, control, entry, machine, on, range};
use irq_core::cpu::CpuIndex;
use irq_core::{
    Action, ActionContext, Answer, Bits, Counts, CpuCounts, Interrupts, Irq, IrqContext, Outcome,
    Setup, Taken,
};

static CPU: Cpu = Cpu::new(0);

fn interrupts() -> Interrupts {
    machine(2, range(32, 4), &[])
}

fn outcome(taken: Taken) -> Outcome {
    Outcome {
        taken,
        bits: Bits::NONE,
    }
}

/// An action that writes itself down in `flow` and answers `answer`.
fn noting(flow: &Arc<Recorder>, name: u32, answer: Answer) -> Action {
    let flow = flow.clone();
    Action::new(move |_| {
        flow.step(Step::Action(name));
        answer
    })
}

#[test]
fn an_interrupt_is_acknowledged_served_and_ended_in_that_order() {
    let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[33])));
    let _uart = control(&interrupts, &CPU)
        .register(Irq::new(33), noting(&flow, 1, Answer::Handled))
        .unwrap();
    assert_eq!(
        interrupts.dispatch(&*flow, &entry(0)),
        outcome(Taken::Handled)
    );
    assert_eq!(
        flow.steps(),
        [Step::Ack(33), Step::Action(1), Step::End(33)]
    );
}

#[test]
fn nothing_pending_runs_and_ends_nothing_and_is_counted_for_its_cpu() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    assert_eq!(
        interrupts.dispatch(&flow, &entry(1)),
        outcome(Taken::Nothing)
    );
    assert_eq!(flow.steps(), []);
    let counts = |cpu| interrupts.cpu_counts(CpuIndex::new(cpu));
    assert_eq!(counts(0), Some(CpuCounts::default()));
    assert_eq!(
        counts(1),
        Some(CpuCounts {
            nothing: 1,
            stray: 0
        })
    );
    assert_eq!(counts(2), None);
}

#[test]
fn an_entry_takes_one_interrupt_and_a_caller_that_loops_takes_all() {
    let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[32, 35, 32])));
    let _a = control(&interrupts, &CPU)
        .register(Irq::new(32), noting(&flow, 1, Answer::Handled))
        .unwrap();
    let _b = control(&interrupts, &CPU)
        .register(Irq::new(35), noting(&flow, 2, Answer::Handled))
        .unwrap();
    let mut entries = 0;
    while interrupts.dispatch(&*flow, &entry(0)).taken != Taken::Nothing {
        entries += 1;
        assert_eq!(flow.steps().len(), 3 * entries);
    }
    assert_eq!(entries, 3);
    assert_eq!(
        interrupts.counts(Irq::new(32)),
        Some(Counts {
            taken: 2,
            unhandled: 0
        })
    );
    assert_eq!(
        interrupts.counts(Irq::new(35)),
        Some(Counts {
            taken: 1,
            unhandled: 0
        })
    );
}

#[test]
fn an_interrupt_without_an_action_is_ended_and_counted_as_unhandled() {
    let (interrupts, flow) = (interrupts(), Recorder::pending(&[33]));
    assert_eq!(
        interrupts.dispatch(&flow, &entry(0)),
        outcome(Taken::Unhandled)
    );
    assert_eq!(flow.steps(), [Step::Ack(33), Step::End(33)]);
    assert_eq!(
        interrupts.counts(Irq::new(33)),
        Some(Counts {
            taken: 1,
            unhandled: 1
        })
    );
}

#[test]
fn an_interrupt_whose_only_action_answers_not_mine_is_ended_and_unhandled() {
    let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[33])));
    let _uart = control(&interrupts, &CPU)
        .register(Irq::new(33), noting(&flow, 1, Answer::NotMine))
        .unwrap();
    assert_eq!(
        interrupts.dispatch(&*flow, &entry(0)),
        outcome(Taken::Unhandled)
    );
    assert_eq!(
        flow.steps(),
        [Step::Ack(33), Step::Action(1), Step::End(33)]
    );
    assert_eq!(
        interrupts.counts(Irq::new(33)),
        Some(Counts {
            taken: 1,
            unhandled: 1
        })
    );
}

#[test]
fn a_number_outside_of_the_range_is_ended_and_counted_as_a_stray() {
    for stray in [31, 36] {
        let (interrupts, flow) = (interrupts(), Recorder::pending(&[stray]));
        assert_eq!(
            interrupts.dispatch(&flow, &entry(0)),
            outcome(Taken::Unhandled)
        );
        assert_eq!(flow.steps(), [Step::Ack(stray), Step::End(stray)]);
        let counts = interrupts.cpu_counts(CpuIndex::new(0));
        assert_eq!(
            counts,
            Some(CpuCounts {
                nothing: 0,
                stray: 1
            })
        );
        assert_eq!(interrupts.counts(Irq::new(stray)), None);
    }
}

#[test]
fn all_shared_actions_run_in_the_order_of_registration_and_the_strongest_answer_counts() {
    use Answer::{Deferred, Handled, NotMine};
    for (answers, taken) in [
        ([NotMine, Handled, NotMine], Taken::Handled),
        ([Handled, NotMine, NotMine], Taken::Handled),
        ([NotMine, NotMine, NotMine], Taken::Unhandled),
        ([Deferred, Handled, NotMine], Taken::Deferred),
        ([Handled, NotMine, Deferred], Taken::Deferred),
    ] {
        let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[33])));
        let _registrations = [0, 1, 2].map(|name| {
            let action = noting(&flow, name, answers[name as usize]).shared();
            control(&interrupts, &CPU)
                .register(Irq::new(33), action)
                .unwrap()
        });
        assert_eq!(interrupts.dispatch(&*flow, &entry(0)), outcome(taken));
        let last = if taken == Taken::Deferred {
            Step::Defer(33)
        } else {
            Step::End(33)
        };
        let actions = [0, 1, 2].map(Step::Action);
        assert_eq!(
            flow.steps(),
            [&[Step::Ack(33)], &actions[..], &[last]].concat()
        );
    }
}

#[test]
fn a_deferred_interrupt_is_deferred_instead_of_ended() {
    let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[33])));
    let _user = control(&interrupts, &CPU)
        .register(Irq::new(33), noting(&flow, 1, Answer::Deferred))
        .unwrap();
    assert_eq!(
        interrupts.dispatch(&*flow, &entry(0)),
        outcome(Taken::Deferred)
    );
    assert_eq!(
        flow.steps(),
        [Step::Ack(33), Step::Action(1), Step::Defer(33)]
    );
}

#[test]
fn where_the_controller_cannot_defer_the_interrupt_is_ended_and_handled() {
    let mut flow = Recorder::pending(&[33]);
    flow.cannot_defer = true;
    let (interrupts, flow) = (interrupts(), Arc::new(flow));
    let _user = control(&interrupts, &CPU)
        .register(Irq::new(33), noting(&flow, 1, Answer::Deferred))
        .unwrap();
    assert_eq!(
        interrupts.dispatch(&*flow, &entry(0)),
        outcome(Taken::Handled)
    );
    assert_eq!(
        flow.steps(),
        [Step::Ack(33), Step::Action(1), Step::End(33)]
    );
}

#[test]
fn an_end_first_action_runs_after_the_end_with_nothing_of_ours_held() {
    static FLOW: OnceLock<Recorder> = OnceLock::new();
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    FLOW.set(Recorder::pending(&[33, 34])).ok().unwrap();
    INTERRUPTS.set(interrupts()).ok().unwrap();
    fn tick(word: usize, cx: &ActionContext<'_>) -> Answer {
        let (interrupts, flow) = (INTERRUPTS.get().unwrap(), FLOW.get().unwrap());
        assert_eq!(
            (word, cx.irq(), cx.cpu()),
            (7, Irq::new(33), CpuIndex::new(0))
        );
        flow.step(Step::Action(1));
        // As after a switch to another task: what is refused inside a handler is not here, and
        // the next interrupt is taken.
        let other = control(interrupts, &CPU)
            .register(Irq::new(34), Action::new(|_| ()))
            .unwrap();
        assert_eq!(interrupts.dispatch(flow, &entry(0)).taken, Taken::Handled);
        other.remove().unwrap();
        cx.request(Bits::RESCHEDULE);
        Answer::Handled
    }
    let (interrupts, flow) = (INTERRUPTS.get().unwrap(), FLOW.get().unwrap());
    let _timer = control(interrupts, &CPU)
        .register(Irq::new(33), Action::end_first(tick, 7))
        .unwrap();
    let outcome = interrupts.dispatch(flow, &entry(0));
    assert_eq!(
        outcome,
        Outcome {
            taken: Taken::Handled,
            bits: Bits::RESCHEDULE
        }
    );
    assert_eq!(
        flow.steps(),
        [
            Step::Ack(33),
            Step::End(33),
            Step::Action(1),
            Step::Ack(34),
            Step::End(34)
        ]
    );
}

#[test]
fn what_an_end_first_action_answers_cannot_defer_its_interrupt() {
    const ANSWERS: [Answer; 3] = [Answer::Handled, Answer::Deferred, Answer::NotMine];
    fn say(word: usize, _: &ActionContext<'_>) -> Answer {
        ANSWERS[word]
    }
    for (word, taken) in [Taken::Handled, Taken::Handled, Taken::Unhandled]
        .into_iter()
        .enumerate()
    {
        let (interrupts, flow) = (interrupts(), Recorder::pending(&[33]));
        let _timer = control(&interrupts, &CPU)
            .register(Irq::new(33), Action::end_first(say, word))
            .unwrap();
        assert_eq!(interrupts.dispatch(&flow, &entry(0)), outcome(taken));
        assert_eq!(flow.steps(), [Step::Ack(33), Step::End(33)]);
    }
}

#[test]
fn an_action_that_unwinds_leaves_its_interrupt_ended_and_can_be_removed() {
    fn fails(_: usize, _: &ActionContext<'_>) -> Answer {
        panic!("inside an end-first action")
    }
    for action in [
        Action::new(|_| -> Answer { panic!("inside an action") }),
        Action::end_first(fails, 0),
    ] {
        let (interrupts, flow) = (interrupts(), Recorder::pending(&[33, 33]));
        let failing = control(&interrupts, &CPU)
            .register(Irq::new(33), action)
            .unwrap();
        let unwound =
            catch_unwind(AssertUnwindSafe(|| interrupts.dispatch(&flow, &entry(0)))).is_err();
        assert!(unwound);
        assert_eq!(flow.steps(), [Step::Ack(33), Step::End(33)]);
        failing.remove().unwrap();
        assert_eq!(
            interrupts.dispatch(&flow, &entry(0)),
            outcome(Taken::Unhandled)
        );
    }
}

#[test]
fn an_entry_nests_in_an_action_to_any_depth() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    static FLOW: OnceLock<Recorder> = OnceLock::new();
    INTERRUPTS.set(interrupts()).ok().unwrap();
    FLOW.set(Recorder::pending(&[33; 10])).ok().unwrap();
    let (interrupts, flow) = (INTERRUPTS.get().unwrap(), FLOW.get().unwrap());
    let action = Action::new(|_| {
        let _ = INTERRUPTS
            .get()
            .unwrap()
            .dispatch(FLOW.get().unwrap(), &entry(0));
    });
    let nesting = control(interrupts, &CPU)
        .register(Irq::new(33), action)
        .unwrap();
    assert_eq!(interrupts.dispatch(flow, &entry(0)).taken, Taken::Handled);
    let steps = flow.steps();
    assert_eq!(
        (&steps[..10], &steps[10..]),
        (&[Step::Ack(33); 10][..], &[Step::End(33); 10][..])
    );
    nesting.remove().unwrap();
}

#[test]
fn frame_vector_and_word_reach_the_action_and_its_bits_come_back() {
    struct Frame {
        pc: usize,
    }
    fn look(word: usize, cx: &ActionContext<'_>) -> Answer {
        assert_eq!((word, cx.entry().vector()), (7, Some(0x41)));
        assert_eq!(cx.frame::<Frame>().unwrap().pc, 0x8000);
        assert!(cx.frame::<u32>().is_none());
        cx.request(Bits::embedder(3).unwrap());
        Answer::Handled
    }
    let (interrupts, flow) = (interrupts(), Recorder::pending(&[33]));
    let word = Action::word(look, 7).shared();
    let closure = Action::new(|cx| cx.request(Bits::RESCHEDULE)).shared();
    let _word = control(&interrupts, &CPU)
        .register(Irq::new(33), word)
        .unwrap();
    let _closure = control(&interrupts, &CPU)
        .register(Irq::new(33), closure)
        .unwrap();
    let frame = Frame { pc: 0x8000 };
    let cx = IrqContext::new(on(1), Some(&frame), Some(0x41));
    let outcome = interrupts.dispatch(&flow, &cx);
    assert!(outcome.bits.contains(Bits::RESCHEDULE));
    assert_eq!(
        outcome.bits,
        Bits::RESCHEDULE.union(Bits::embedder(3).unwrap())
    );
    assert!(!outcome.bits.is_empty());
}

#[test]
fn private_interrupts_count_per_cpu_and_device_interrupts_on_one_line() {
    let private = [range(0, 2), range(5, 1)];
    let interrupts = machine(3, range(0, 8), &private);
    let flow = Recorder::default();
    for (cpu, irq) in [(0, 1), (1, 1), (1, 1), (0, 5), (2, 7), (0, 7), (1, 2)] {
        flow.raise(irq);
        let _ = interrupts.dispatch(&flow, &entry(cpu));
    }
    let on = |irq, cpu| {
        interrupts
            .counts_on(Irq::new(irq), CpuIndex::new(cpu))
            .map(|counts| counts.taken)
    };
    assert_eq!(
        [on(1, 0), on(1, 1), on(1, 2), on(1, 3)],
        [Some(1), Some(2), Some(0), None]
    );
    assert_eq!([on(5, 0), on(5, 1), on(0, 0)], [Some(1), Some(0), Some(0)]);
    assert_eq!([on(7, 0), on(7, 2)], [None, None]);
    let totals: Vec<_> = (0..8)
        .map(|irq| interrupts.counts(Irq::new(irq)).unwrap().taken)
        .collect();
    assert_eq!(totals, [0, 3, 1, 0, 0, 1, 0, 2]);
    let unhandled: Vec<_> = (0..8)
        .map(|irq| interrupts.counts(Irq::new(irq)).unwrap().unhandled)
        .collect();
    assert_eq!(unhandled, totals);
}

#[test]
fn a_cpu_beyond_the_possible_ones_runs_no_action_and_still_ends() {
    let (interrupts, flow) = (interrupts(), Arc::new(Recorder::pending(&[33])));
    let _uart = control(&interrupts, &CPU)
        .register(Irq::new(33), noting(&flow, 1, Answer::Handled))
        .unwrap();
    assert_eq!(
        interrupts.dispatch(&*flow, &entry(2)),
        outcome(Taken::Unhandled)
    );
    assert_eq!(flow.steps(), [Step::Ack(33), Step::End(33)]);
}

#[test]
fn a_snapshot_lists_what_was_taken_or_has_an_action() {
    let (interrupts, flow) = (interrupts(), Recorder::pending(&[33, 35, 35]));
    let named = |name| Action::new(|_| ()).shared().named(name);
    let _uart = control(&interrupts, &CPU)
        .register(Irq::new(33), named("uart"))
        .unwrap();
    let _disk = control(&interrupts, &CPU)
        .register(Irq::new(33), named("disk"))
        .unwrap();
    for _ in 0..3 {
        let _ = interrupts.dispatch(&flow, &entry(0));
    }
    let mut text = String::new();
    interrupts.snapshot(&on(0), &mut text).unwrap();
    assert_eq!(
        text,
        "irq33 taken=1 unhandled=0 uart disk\nirq35 taken=2 unhandled=2\n"
    );
}

#[test]
fn no_cpu_is_an_error() {
    assert!(Interrupts::new(Setup::new(0, range(0, 1))).is_err());
}
