// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario `icount`: instructions of a self-IPI to its handler's end, and of an IPI there and
//! back between two CPUs: hand-written, through the driver alone, through irq-core.
//!
//! The machine's clock must count instructions: `-icount shift=0,sleep=off`, an instruction a
//! nanosecond; the time base has 512 ticks for 1000 of them. The CPUs then take turns, so that a
//! wait of the same shape costs the same.
//!
//! The hand-written path is the least that a handler called by the C ABI needs: it saves what a
//! call may change, acknowledges, reads its queue until that is empty, calls and ends for each
//! entry, opens CPPR, restores. It does not nest, does not look whether the acknowledge took
//! anything, and its handler adds to one counter, found through r13.
//!
//! ```text
//!        POWER9  POWER10
//! self   79      77    trigger 1, the vector's branch 1, save 20, acknowledge 4, queue 8, entry 3,
//!                      call 1, handler 4, end 4 (2 where it is a store), back 1, queue again 8,
//!                      CPPR 3, restore 20, hrfid 1
//! pair   180     176   sender 15: sync, trigger; two polls of ld, cmpld, b with yield, subtraction,
//!                      b between; isync, the next count, and what the compiler leaves (the loop's
//!                      own two are taken off)
//!                      its handler 81: it looks for an answer, and has none (3)
//!                      other CPU 84: handler 78, its answer 5 (ld, cmpdi, b, sync, trigger), and
//!                      its idle loop
//! ```
//! All CPUs have one vector, so the handlers of both sides of `pair` are the same code.

mod bare;

use alloc::sync::Arc;
use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use boards_common::crew::{Crew, online};
use boards_common::protocol::metric;
use boards_common::time::wait_for;
use boards_common::verdict::{Stop, Verdict};
use boards_common::{check, check_eq, kinds};
use irq_core::{ActionContext, IpiKind, Kick, Kind};
use irq_hal::CpuIndex;
use irq_hal::percpu::OnCpu;

use crate::bench::Bench;
use crate::cpu;
use crate::interrupts::system;
use crate::platform::MACHINE;
use crate::timer;

use bare::Entry;

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
        let _ = system.interrupts.send(&system.xive, on, to, COUNT);
    }
}

/// Passes of a measurement.
const PASSES: u64 = 100;
/// Polls after which the waits of a measurement are given up.
const POLLS: i64 = 100_000;
/// Milliseconds that the second CPU's part may take.
const PART_MS: u32 = 20_000;

/// Instructions in `ticks` of the time base, where a nanosecond is one.
const fn instructions(ticks: u64) -> u64 {
    ticks * 1_000 / 512
}

/// Instructions of each of [`PASSES`] passes of `body`, which ends each with the two of a
/// counted loop.
#[inline(always)]
fn per_pass(body: impl FnOnce()) -> u64 {
    let start = timer::now().0;
    body();
    let all = instructions(timer::now().0 - start);
    (all + PASSES / 2) / PASSES - 2
}

/// The clock counts instructions: a loop of known length takes as many ticks.
fn clock_counts_instructions() -> Verdict {
    const LOOPS: u64 = 10_000;
    let start = timer::now().0;
    // SAFETY: counts a register down.
    unsafe {
        asm!(
            "2: addic. {n}, {n}, -1",
            "bne 2b",
            n = inout(reg_nonzero) LOOPS => _,
            out("cr0") _,
            out("xer") _,
            options(nomem, nostack),
        );
    }
    let all = instructions(timer::now().0 - start);
    if timer::frequency() == 512_000_000 && (2 * LOOPS - 20..2 * LOOPS + 40).contains(&all) {
        return Ok(());
    }
    Err(Stop::Skip(
        "the clock does not count instructions: needs -icount shift=0,sleep=off and a time base of 512 MHz",
    ))
}

/// The proof of the running CPU.
fn here() -> OnCpu {
    // SAFETY: nothing of the image moves code to another CPU, and what interrupts this one
    // returns before it goes on.
    unsafe { OnCpu::new(cpu::this().index) }
}

/// An IPI to oneself, until its handler has ended.
pub fn self_ipi(bench: &Bench) -> Verdict {
    clock_counts_instructions()?;
    let (xive, interrupts) = (&bench.0.xive, &bench.0.interrupts);
    let block = cpu::this();
    let (this, bare) = (block.index, &block.bare);
    bare.answer.store(0, Relaxed);
    let store_eoi = bare::prepare(bench, this)?;

    let before = bare.count.load(Relaxed);
    let entry = Entry::by_hand(store_eoi).install();
    let handwritten = per_pass(|| {
        // SAFETY: triggers this CPU's source, whose entry keeps all registers. Not `nomem`: the
        // handler counts.
        unsafe {
            asm!(
                "2: stdcix {n}, 0, {trigger}",
                "addic. {n}, {n}, -1",
                "bne 2b",
                trigger = in(reg) bare.trigger.load(Relaxed),
                n = inout(reg_nonzero) PASSES => _,
                out("cr0") _,
                out("xer") _,
            );
        }
    });
    drop(entry);
    check_eq!(bare.count.load(Relaxed) - before, PASSES, "IPIs by hand");
    metric("icount_self.handwritten", handwritten, "instructions");

    let before = bare.count.load(Relaxed);
    let entry = Entry::by_driver().install();
    let on = here();
    let driver = per_pass(|| {
        for _ in 0..PASSES {
            // What goes wrong shows in the count.
            let _ = xive.kick(this, || true);
        }
    });
    drop(entry);
    check_eq!(
        bare.count.load(Relaxed) - before,
        PASSES,
        "IPIs by the driver"
    );
    metric("icount_self.driver", driver, "instructions");

    let before = bare.count.load(Relaxed);
    let irq_core = per_pass(|| {
        for _ in 0..PASSES {
            // Likewise.
            let _ = interrupts.send(xive, &on, this, COUNT);
        }
    });
    check_eq!(
        bare.count.load(Relaxed) - before,
        PASSES,
        "IPIs through irq-core"
    );
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
            "2: ld {now}, 0({counter})",
            "cmpld {now}, {want}",
            "bge 3f",
            "or 31, 31, 31",
            "addic. {left}, {left}, -1",
            "bge 2b",
            "3: isync",
            now = out(reg) _,
            counter = in(reg_nonzero) counter.as_ptr(),
            want = in(reg) want,
            left = inout(reg_nonzero) left,
            out("cr0") _,
            out("xer") _,
        );
    }
    left
}

/// One way to send there and back.
#[derive(Clone, Copy)]
struct Way<F> {
    /// The entry of both CPUs; the image's if there is none.
    entry: Option<Entry>,
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
    let block = cpu::this();
    let this = block.index;
    let other = online(*bench).into_iter().find(|&cpu| cpu != this);
    let other = other.ok_or(Stop::Skip("there is one CPU"))?;
    block.bare.answer.store(0, Relaxed);
    let store_eoi = bare::prepare(bench, this)?;
    bare::prepare(bench, other)?;
    let system = bench.0;
    let trigger = |cpu: CpuIndex| system.blocks[cpu.index()].bare.trigger.load(Relaxed);
    let there = trigger(other);

    let by_hand = Way {
        entry: Some(Entry::by_hand_with_answer(store_eoi)),
        answer: trigger(this),
        send: move || {
            // SAFETY: triggers the source of a CPU whose entry keeps all registers. Not `nomem`:
            // what was stored before is seen there.
            unsafe { asm!("sync", "stdcix {there}, 0, {there}", there = in(reg) there) };
        },
    };
    let cost = pair(*bench, other, by_hand)?;
    metric("icount_pair.handwritten", cost, "instructions");

    let by_driver = Way {
        entry: Some(Entry::by_driver_with_answer()),
        answer: u64::from(this.get()) + 1,
        send: move || {
            // What goes wrong shows as an answer that never comes.
            let _ = system.xive.kick(other, || true);
        },
    };
    let cost = pair(*bench, other, by_driver)?;
    metric("icount_pair.driver", cost, "instructions");

    let through_irq_core = Way {
        entry: None,
        answer: u64::from(this.get()) + 1,
        send: move || {
            // Likewise.
            let _ = system.interrupts.send(&system.xive, &here(), other, ANSWER);
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
    let this = cpu::this().index;
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
    let entry = way.entry.map(Entry::install);
    let counter = &cpu::this().bare.count;
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
    drop(entry);
    check!(left >= 0, "an IPI to {other} was not answered");
    Ok(())
}

/// The part of the CPU that answers.
fn answer<F>(way: Way<F>, meeting: &Meeting) -> Verdict {
    cpu::this().bare.answer.store(way.answer, Relaxed);
    meeting.ready.store(true, Release);
    while !meeting.done.load(Relaxed) {
        cpu::stop();
    }
    cpu::this().bare.answer.store(0, Relaxed);
    meeting.left.store(true, Release);
    Ok(())
}
