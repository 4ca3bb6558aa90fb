// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each path costs with driver and irq-core together, exactly, in accesses to the device.

use irq_core::cpu::{CpuIndex, CpuSet, NodeId};
use irq_core::{Action, ActionContext, Kind, Sent, Taken};
use irq_gicv3::EoiMode;
use irq_gicv3::regs::icc::{ICC_DIR_EL1, ICC_EOIR1_EL1, ICC_IAR1_EL1, ICC_SGI1R_EL1};
use irq_hal::Platform;
use irq_sim::log::{Event, Fence, Trace};
use irq_tests::gicv3::cpu_set;
use irq_tests::system::{Plan, System, kind};

fn nothing(_: usize, _: &ActionContext<'_>) {}

const KINDS: [Kind; 1] = [Kind::new(nothing, 0)];

fn system(cpus: u32, nodes: u32) -> System {
    System::new(&Plan {
        kinds: &KINDS,
        ..Plan::new(cpus, nodes)
    })
}

/// System registers in order, each as (number, whether it was written). Nothing else was
/// touched.
fn registers(trace: &Trace) -> Vec<(usize, bool)> {
    assert_eq!(trace.mmio(), 0, "{trace}");
    let register = |event: &Event| match event {
        Event::Load(access) => Some((access.offset, false)),
        Event::Store(access) => Some((access.offset, true)),
        _ => None,
    };
    trace.events().iter().filter_map(register).collect()
}

const SEND: (usize, bool) = (ICC_SGI1R_EL1, true);
const RECEIVE: [(usize, bool); 2] = [(ICC_IAR1_EL1, false), (ICC_EOIR1_EL1, true)];
const RECEIVE_SPLIT: [(usize, bool); 3] = [
    (ICC_IAR1_EL1, false),
    (ICC_EOIR1_EL1, true),
    (ICC_DIR_EL1, true),
];

/// What `f` does to the controller; it takes no lock, masks nothing and asks for no CPU number.
fn cost(system: &System, f: impl FnOnce()) -> Trace {
    let sim = &system.machine.sim;
    let asked = || -> Vec<_> {
        (0..sim.cpus())
            .map(|cpu| (sim.irq_saves(cpu), sim.this_cpu_calls(cpu)))
            .collect()
    };
    let before = asked();
    let trace = system.machine.trace(f);
    assert_eq!(
        asked(),
        before,
        "a lock, or a question for the CPU's number"
    );
    trace
}

#[test]
fn an_ipi_costs_one_register_write_to_send_and_nothing_at_all_when_it_coalesces() {
    let system = system(4, 2);
    for to in 0..4 {
        let first = cost(&system, || {
            assert_eq!(system.send(0, to, 0), Ok(Sent::Rung));
        });
        assert_eq!(registers(&first), [SEND], "to cpu{to}");
        for from in 0..4 {
            let second = cost(&system, || {
                assert_eq!(system.send(from, to, 0), Ok(Sent::Coalesced));
            });
            assert_eq!(second.events(), [], "from cpu{from} to cpu{to}");
        }
    }
    assert_eq!(system.settle(), 4);
}

#[test]
fn an_ipi_to_many_costs_one_register_write_per_cluster_that_has_a_cpu_to_ring() {
    // Nodes of 20: clusters of 16 and 4.
    let system = system(40, 2);
    let send = |set: &dyn CpuSet| {
        let mut sent = None;
        let trace = cost(&system, || {
            sent = Some(system.on(0, |on| {
                system
                    .interrupts
                    .send_mask(&system.machine.gic, on, set, kind(0))
                    .unwrap()
            }));
        });
        (trace, sent.unwrap())
    };
    let foretold = system.machine.gic.kick_writes(&cpu_set(0..40));
    assert_eq!(foretold, Some(4));
    let (trace, sent) = send(&cpu_set(0..40));
    assert_eq!(registers(&trace), [SEND; 4]);
    assert_eq!((sent.rung, sent.coalesced, sent.offline), (40, 0, 0));
    let (trace, sent) = send(&cpu_set(0..40));
    assert_eq!(trace.events(), [], "all of them coalesce");
    assert_eq!((sent.rung, sent.coalesced), (0, 40));
    // Only CPU 17 is free: in the second cluster of node 0.
    system.drain(17);
    let (trace, sent) = send(&cpu_set(0..40));
    assert_eq!(registers(&trace), [SEND]);
    assert_eq!((sent.rung, sent.coalesced), (1, 39));
    assert_eq!(system.settle(), 40);
    let (trace, _) = send(&cpu_set([1, 3, 25]));
    assert_eq!(registers(&trace), [SEND; 2]);
}

#[test]
fn an_ipi_to_a_node_goes_by_its_live_mask_and_costs_one_register_write_per_cluster() {
    let system = system(40, 2);
    system.offline(27).unwrap();
    let node = system.interrupts.topology().node(NodeId::new(1)).unwrap();
    let trace = cost(&system, || {
        let sent = system.on(9, |on| {
            let gic = &system.machine.gic;
            system.interrupts.send_mask(gic, on, &node, kind(0))
        });
        assert_eq!(sent.unwrap().rung, 19);
    });
    assert_eq!(registers(&trace), [SEND; 2]);
    let got: Vec<_> = (0..40).filter(|&cpu| system.drain(cpu) == 1).collect();
    let expect: Vec<_> = (20..40).filter(|&cpu| cpu != 27).collect();
    assert_eq!(got, expect);
}

#[test]
fn an_ipi_to_all_others_costs_one_register_write_per_cluster() {
    let system = system(40, 2);
    let trace = cost(&system, || {
        let sent = system.on(9, |on| {
            system
                .interrupts
                .broadcast_others(&system.machine.gic, on, kind(0))
        });
        assert_eq!(sent.unwrap().rung, 39);
    });
    assert_eq!(registers(&trace), [SEND; 4]);
    assert_eq!(system.drain(9), 0);
    assert_eq!(system.settle(), 39);
}

#[test]
fn an_ipi_costs_iar_and_eoir_to_receive_and_dir_when_split_and_no_mmio() {
    for (eoi_mode, expect) in [
        (EoiMode::Combined, &RECEIVE[..]),
        (EoiMode::Split, &RECEIVE_SPLIT[..]),
    ] {
        let system = System::new(&Plan {
            kinds: &KINDS,
            eoi_mode,
            ..Plan::new(2, 1)
        });
        for from in [0, 1] {
            system.send(from, 1, 0).unwrap();
            let trace = entry(&system, 1, Taken::Handled);
            assert_eq!(registers(&trace), expect);
        }
    }
}

/// One entry of `cpu`, beside what the vector costs: no lock, no question.
fn entry(system: &System, cpu: u32, taken: Taken) -> Trace {
    cost(system, || {
        system.on(cpu, |on| assert_eq!(system.enter(on).taken, taken));
    })
}

#[test]
fn a_ppi_and_an_spi_cost_the_same_as_an_ipi_to_receive() {
    for (eoi_mode, expect) in [
        (EoiMode::Combined, &RECEIVE[..]),
        (EoiMode::Split, &RECEIVE_SPLIT[..]),
    ] {
        let system = System::new(&Plan {
            eoi_mode,
            ..Plan::new(1, 1)
        });
        let control = system.control();
        let model = &system.machine.model;
        for (intid, line) in [(27, model.private_line(0, 27)), (40, model.line(40))] {
            let irq = system.irq(intid);
            let lower = line.clone();
            let action = Action::new(move |_| lower.deassert());
            let _kept = control.register(irq, action).unwrap();
            control.unmask(irq).unwrap();
            line.assert();
            let trace = entry(&system, 0, Taken::Handled);
            assert_eq!(registers(&trace), expect, "INTID {intid}");
        }
    }
}

#[test]
fn an_entry_with_nothing_pending_costs_one_iar() {
    let system = system(1, 1);
    let trace = entry(&system, 0, Taken::Nothing);
    assert_eq!(registers(&trace), [(ICC_IAR1_EL1, false)]);
}

#[test]
fn a_remote_call_costs_its_caller_one_register_write_and_its_target_one_receive() {
    fn twice(word: usize, cpu: CpuIndex) -> usize {
        word * 2 + cpu.index()
    }
    let system = system(2, 2);
    let Called { sent, got, result } = call(&system, twice, 21);
    assert_eq!(result, Ok(43));
    assert_eq!(registers(&sent), [SEND]);
    assert_eq!(sent.barriers(Fence::Publish), 1);
    assert_eq!(registers(&got), RECEIVE);
}

/// What a remote call did to the controller, and what came of it.
struct Called {
    /// By the caller.
    sent: Trace,
    /// By the target.
    got: Trace,
    result: Result<usize, irq_hal::Error>,
}

/// CPU 0 calls CPU 1, which has a thread of its own.
fn call(system: &System, function: irq_core::Callback, word: usize) -> Called {
    let machine = &system.machine;
    let start = machine.sim.log().mark();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while system.take(1).is_none() {
                std::thread::yield_now();
            }
        });
        system.on(0, |on| {
            let to = CpuIndex::new(1);
            system
                .interrupts
                .call(&machine.sim, &machine.gic, on, to, function, word)
        })
    });
    let trace = machine.sim.log().since(start);
    Called {
        sent: trace.by(CpuIndex::new(0)),
        got: trace.by(CpuIndex::new(1)),
        result,
    }
}

#[test]
fn the_checks_of_locks_and_questions_would_see_one() {
    let system = system(1, 1);
    let sim = &system.machine.sim;
    let (saves, calls) = (sim.irq_saves(0), sim.this_cpu_calls(0));
    irq_hal::percpu::masked(sim, |_| ());
    assert_ne!(sim.irq_saves(0), saves);
    sim.this_cpu();
    assert_ne!(sim.this_cpu_calls(0), calls);
}
