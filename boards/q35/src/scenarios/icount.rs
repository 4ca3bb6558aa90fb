// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario `icount`: instructions of an EOI, of a self-IPI to its handler's end, and of an IPI
//! there and back between two CPUs: hand-written, through the driver alone, through irq-core.
//!
//! The machine's clock must count instructions: `-icount shift=0,sleep=off`, where the time stamp
//! counter runs at 1 GHz. The CPUs then take turns, so that a wait of the same shape costs the
//! same.
//!
//! The hand-written path is the least that a handler called by the C ABI needs: it saves what a
//! call may change, calls, ends, restores. It takes one vector, does not nest, and its handler
//! adds to one counter, found through the GS base. The row `least` has no call: its stub saves
//! the three registers that it changes, and is no handler for a kernel.
//!
//! ```text
//! eoi     4   number of the register, two halves of the value, wrmsr
//! self   29   wrmsr, save 9, cld, call, handler 3, end 4, restore 9, iretq
//! pair   77   sender 13: the command 3, wrmsr; two polls of cmp, jae with pause, dec, jns
//!             between; the next count (the loop's own two are taken off)
//!             its handler 28
//!             other CPU 36: handler 28, its answer 5, and 3 of its idle loop (hlt, cmp, je)
//! ```

mod bare;

use alloc::sync::Arc;
use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use boards_common::bench::Bench as _;
use boards_common::crew::{Crew, online};
use boards_common::protocol::metric;
use boards_common::time::wait_for;
use boards_common::verdict::{OrFail, Stop, Verdict};
use boards_common::{check, check_eq, kinds};
use irq_core::{ActionContext, IpiKind, Kind};
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{CpuIndex, Platform};
use irq_x2apic::LocalApic;
use irq_x2apic::ipi::Command;
use irq_x2apic::local_apic::SendOrder;
use irq_x2apic::regs::apic::{IA32_X2APIC_EOI, IA32_X2APIC_ICR, IA32_X2APIC_SELF_IPI};

use crate::bench::Bench;
use crate::cpu;
use crate::interrupts::system;
use crate::platform::MACHINE;
use crate::timer;

use bare::{Path, VECTOR};

/// The scenario's name.
pub const NAME: &str = "icount";

/// Is counted where the hand-written handlers count.
const COUNT: IpiKind = kinds::kind(kinds::OWN);
/// Likewise, and is answered with a [`COUNT`].
const ANSWER: IpiKind = kinds::kind(kinds::OWN + 1);

/// This scenario's kinds of IPIs.
pub fn kinds() -> [Kind; 2] {
    [Kind::new(count, 0), Kind::new(count_and_answer, 0)]
}

fn count(_: usize, _: &ActionContext<'_>) {
    cpu::this().count();
}

fn count_and_answer(_: usize, cx: &ActionContext<'_>) {
    let block = cpu::this();
    block.count();
    if let (Ok(system), Some(to)) = (system(), block.answers_to()) {
        let on = cx.entry().on();
        // What goes wrong shows as an answer that never comes.
        let _ = system.interrupts.send(&system.apic, on, to, COUNT);
    }
}

/// Passes of a measurement.
const PASSES: u64 = 100;
/// Polls after which the waits of a measurement are given up.
const POLLS: i64 = 100_000;
/// Milliseconds that the second CPU's part may take.
const PART_MS: u32 = 20_000;

/// Instructions of each of [`PASSES`] passes of `body`, which ends each with the two of a
/// counted loop.
#[inline(always)]
fn per_pass(body: impl FnOnce()) -> u64 {
    let start = timer::now().0;
    body();
    let all = timer::now().0 - start;
    (all + PASSES / 2) / PASSES - 2
}

/// The clock counts instructions: a loop of known length takes as many ticks.
fn clock_counts_instructions() -> Verdict {
    const LOOPS: u64 = 10_000;
    let start = timer::now().0;
    // SAFETY: counts a register down.
    unsafe {
        asm!(
            "2: dec {n}",
            "jnz 2b",
            n = inout(reg) LOOPS => _,
            options(nomem, nostack),
        );
    }
    let ticks = timer::now().0 - start;
    if (2 * LOOPS..2 * LOOPS + 20).contains(&ticks) {
        return Ok(());
    }
    Err(Stop::Skip(
        "the clock does not count instructions: needs -icount shift=0,sleep=off",
    ))
}

/// The register value that sends the vector to `cpu`.
fn command(bench: &Bench, cpu: CpuIndex) -> Result<u64, Stop> {
    let id = bench.0.apic.id(cpu).or_fail("target")?;
    Ok(Command::one(VECTOR, id).get())
}

/// The proof of the running CPU.
fn here() -> OnCpu {
    // SAFETY: nothing of the image moves code to another CPU, and what interrupts this one
    // returns before it goes on.
    unsafe { OnCpu::new(cpu::this().index) }
}

/// The end of an interrupt. Nothing is in service, so that nothing else happens.
pub fn eoi(bench: &Bench) -> Verdict {
    clock_counts_instructions()?;
    let handwritten = per_pass(|| {
        // SAFETY: ends what is in service on this CPU: nothing.
        unsafe {
            asm!(
                "2: mov ecx, {eoi}",
                "xor eax, eax",
                "xor edx, edx",
                "wrmsr",
                "dec {n}",
                "jnz 2b",
                eoi = const IA32_X2APIC_EOI,
                n = inout(reg) PASSES => _,
                out("rax") _,
                out("rcx") _,
                out("rdx") _,
            );
        }
    });
    metric("icount_eoi.handwritten", handwritten, "instructions");
    let driver = percpu::masked(&MACHINE, |on| {
        let local: LocalApic<_> = bench.0.apic.local(on).or_fail("local APIC")?;
        Ok(per_pass(|| {
            for _ in 0..black_box(PASSES) {
                local.eoi();
                // What a handler that was called before leaves.
                // SAFETY: no instruction.
                unsafe { asm!("", out("rax") _, out("rcx") _, out("rdx") _) };
            }
        }))
    })?;
    metric("icount_eoi.driver", driver, "instructions");
    Ok(())
}

/// Counts what `send` does to this CPU [`PASSES`] times.
fn counted(what: &str, send: impl FnOnce() -> u64) -> Result<u64, Stop> {
    let block = cpu::this();
    let before = block.bare_count.load(Relaxed);
    let cost = send();
    check_eq!(
        block.bare_count.load(Relaxed) - before,
        PASSES,
        "IPIs to oneself {what}"
    );
    Ok(cost)
}

/// An IPI to oneself, until its handler has ended.
pub fn self_ipi(bench: &Bench) -> Verdict {
    clock_counts_instructions()?;
    let (apic, interrupts) = (&bench.0.apic, &bench.0.interrupts);
    let this = MACHINE.this_cpu();
    cpu::this().bare_answer.store(0, Relaxed);
    for (path, name) in [
        (Path::ByHand, "icount_self.handwritten"),
        (Path::Least, "icount_self.least"),
    ] {
        let cost = counted("by hand", || {
            let _table = path.install(false);
            per_pass(|| {
                // SAFETY: sends the vector to this CPU, whose stub keeps all registers. Not
                // `nomem`: the handler counts.
                unsafe {
                    asm!(
                        "2: wrmsr",
                        "dec {n}",
                        "jnz 2b",
                        n = inout(reg) PASSES => _,
                        in("ecx") IA32_X2APIC_SELF_IPI as u32,
                        in("eax") u32::from(VECTOR.get()),
                        in("edx") 0,
                    );
                }
            })
        })?;
        metric(name, cost, "instructions");
    }

    let on = here();
    let driver = counted("by the driver", || {
        let _table = Path::ByDriver.install(false);
        per_pass(|| {
            for _ in 0..PASSES {
                // What goes wrong shows in the count.
                let _ = apic.send_self(&on, VECTOR);
            }
        })
    })?;
    metric("icount_self.driver", driver, "instructions");

    let irq_core = counted("through irq-core", || {
        per_pass(|| {
            for _ in 0..PASSES {
                // Likewise.
                let _ = interrupts.send(apic, &on, this, COUNT);
            }
        })
    })?;
    metric("icount_self.irq_core", irq_core, "instructions");
    Ok(())
}

/// Waits until `counter` is `want`, for one poll and `left` more. Returns how many are left:
/// below 0 if it did not come to that. A wait that begins there polls once.
#[inline(always)]
fn wait_until(counter: &AtomicU64, want: u64, mut left: i64) -> i64 {
    // SAFETY: reads the counter, which lives longer than the loop.
    unsafe {
        asm!(
            "2: cmp [{counter}], {want}",
            "jae 3f",
            "pause",
            "dec {left}",
            "jns 2b",
            "3:",
            counter = in(reg) counter.as_ptr(),
            want = in(reg) want,
            left = inout(reg) left,
        );
    }
    left
}

/// One way to send there and back.
#[derive(Clone, Copy)]
struct Way<F> {
    /// Who takes the vector; irq-core takes its own, if nobody does.
    path: Option<Path>,
    /// What the answering CPU's handler finds in its block.
    answer: u64,
    /// Sends from this CPU to that. Inlined: it is a part of what is counted.
    send: F,
}

/// Both CPUs' meeting points.
#[derive(Default)]
struct Meeting {
    ready: AtomicBool,
    done: AtomicBool,
    left: AtomicBool,
    cost: AtomicU64,
}

/// An IPI to another CPU, whose handler sends one back, until that one's handler has ended.
pub fn there_and_back(bench: &Bench) -> Verdict {
    clock_counts_instructions()?;
    let this = MACHINE.this_cpu();
    let other = online(*bench).into_iter().find(|&cpu| cpu != this);
    let other = other.ok_or(Stop::Skip("there is one CPU"))?;
    if bench.0.apic.send_order() == SendOrder::Fenced {
        return Err(Stop::Skip(
            "the CPU's vendor wants fences, which the hand-written path leaves out",
        ));
    }
    cpu::this().bare_answer.store(0, Relaxed);
    let there = command(bench, other)?;
    let back = command(bench, this)?;
    let system = bench.0;

    for (path, name) in [
        (Path::ByHand, "icount_pair.handwritten"),
        (Path::Least, "icount_pair.least"),
    ] {
        let by_hand = Way {
            path: Some(path),
            answer: back,
            send: move || {
                // SAFETY: sends the vector to a CPU whose stub keeps all registers. Not `nomem`:
                // what was stored before is seen there.
                unsafe {
                    asm!(
                        "wrmsr",
                        in("ecx") IA32_X2APIC_ICR as u32,
                        in("eax") there as u32,
                        in("edx") (there >> 32) as u32,
                    );
                }
            },
        };
        let cost = pair(*bench, other, by_hand)?;
        metric(name, cost, "instructions");
    }

    let by_driver = Way {
        path: Some(Path::ByDriver),
        answer: u64::from(this.get()) + 1,
        send: move || {
            // What goes wrong shows as an answer that never comes.
            let _ = system.apic.send(VECTOR, other);
        },
    };
    let cost = pair(*bench, other, by_driver)?;
    metric("icount_pair.driver", cost, "instructions");

    let through_irq_core = Way {
        path: None,
        answer: u64::from(this.get()) + 1,
        send: move || {
            // Likewise.
            let _ = system.interrupts.send(&system.apic, &here(), other, ANSWER);
        },
    };
    let cost = pair(*bench, other, through_irq_core)?;
    metric("icount_pair.irq_core", cost, "instructions");
    Ok(())
}

/// Instructions of one pass between this CPU and `other`.
fn pair<F>(bench: Bench, other: CpuIndex, way: Way<F>) -> Result<u64, Stop>
where
    F: Fn() + Copy + Send + Sync + 'static,
{
    let this = bench.machine().this_cpu();
    let meeting = Arc::new(Meeting::default());
    let shared = meeting.clone();
    Crew::on_all(bench, PART_MS, move |cpu| match cpu {
        _ if cpu == this => send_and_count(other, way, &shared),
        _ if cpu == other => answer(way, &shared),
        _ => Ok(()),
    })?;
    Ok(meeting.cost.load(Relaxed))
}

/// The part of the CPU that sends first.
fn send_and_count<F: Fn()>(other: CpuIndex, way: Way<F>, meeting: &Meeting) -> Verdict {
    let ready = || meeting.ready.load(Acquire);
    check!(wait_for(&MACHINE, PART_MS, ready), "{other} is not ready");
    let table = way.path.map(|path| path.install(false));
    let counter = &cpu::this().bare_count;
    let first = counter.load(Relaxed) + 1;
    let mut left = POLLS;
    let cost = per_pass(|| {
        for want in first..first + PASSES {
            (way.send)();
            left = wait_until(counter, want, left);
        }
    });
    meeting.cost.store(cost, Relaxed);
    // One pass more ends the other CPU's wait; again, if it came between its look and its sleep.
    meeting.done.store(true, Relaxed);
    for _ in 0..10 {
        (way.send)();
        if wait_for(&MACHINE, 100, || meeting.left.load(Acquire)) {
            break;
        }
    }
    drop(table);
    check!(left >= 0, "an IPI to {other} was not answered");
    Ok(())
}

/// The part of the CPU that answers.
fn answer<F>(way: Way<F>, meeting: &Meeting) -> Verdict {
    cpu::this().bare_answer.store(way.answer, Relaxed);
    let table = way.path.map(|path| path.install(true));
    meeting.ready.store(true, Release);
    while !meeting.done.load(Relaxed) {
        // SAFETY: waits for an interrupt, which is let in. Not `nomem`: its handler counts.
        unsafe { asm!("hlt", options(nostack, preserves_flags)) };
    }
    drop(table);
    meeting.left.store(true, Release);
    Ok(())
}
