// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario `icount`: instructions of a self-SGI to its handler's end, and of an SGI there and
//! back between two CPUs: hand-written, through the driver alone, through irq-core.
//!
//! The machine's clock must count instructions: `-icount shift=0,sleep=off`, where the counter
//! runs at 1 GHz. The CPUs then take turns, so that a wait of the same shape costs the same.
//!
//! The hand-written path is the least that a handler called by the C ABI needs: it saves what a
//! call may change, acknowledges, calls, ends, restores. It does not nest, looks at no special
//! INTID, and its handler adds to one counter, found through TPIDR_EL1.
//!
//! ```text
//! self   33   entry to eret 31, SGI1R, isb
//! pair   82   sender 13: dsb, SGI1R, isb; two polls of ldar, cmp, b with yield, subs, b between;
//!             the next count (the loop's own two are taken off)
//!             its handler 31
//!             other CPU 38: handler 31, its answer 4 (ldr, dsb, SGI1R, isb), and 3 of its idle
//!             loop (wfi, ldrb, cbz)
//! ```
//! A pair that waits for a flag without bound, and sleeps without end, takes 79: it saves the
//! compares (2), the count of polls (1), the next count (1), and the look whether the measurement
//! is over (1), and spends 2 on its flag.

mod bare;

use alloc::sync::Arc;
use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use aarch64_cpu::asm::wfi;
use boards_common::bench::Bench as _;
use boards_common::crew::{Crew, online};
use boards_common::protocol::metric;
use boards_common::time::wait_for;
use boards_common::verdict::{OrFail, Stop, Verdict};
use boards_common::{check, check_eq, fail, kinds};
use irq_core::{ActionContext, IpiKind, Irq, Kind};
use irq_gicv3::Sgi;
use irq_gicv3::sgi::SgiCommand;
use irq_hal::CpuIndex;
use irq_hal::percpu::OnCpu;

use crate::bench::Bench;
use crate::cpu;
use crate::interrupts::system;
use crate::platform::MACHINE;
use crate::timer;

use bare::{SGI, Table};

/// The scenario's name: the controller is brought up with EOImode 0 for it.
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
        let _ = system.interrupts.send(&system.gic, on, to, COUNT);
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
            "2: subs {n}, {n}, #1",
            "b.ne 2b",
            n = inout(reg) LOOPS => _,
            options(nomem, nostack),
        );
    }
    let ticks = timer::now().0 - start;
    if (2 * LOOPS..2 * LOOPS + 20).contains(&ticks) {
        return Ok(());
    }
    Err(Stop::Skip(
        "the clock does not count instructions: needs -icount shift=0,sleep=off and a 1 GHz counter",
    ))
}

/// The register value that sends the SGI to `cpu`.
fn command(bench: &Bench, cpu: CpuIndex) -> Result<u64, Stop> {
    let (Some(sgi), target) = (
        Sgi::new(SGI),
        bench.0.gic.sgi_target(cpu).or_fail("target")?,
    ) else {
        fail!("no SGI {SGI}")
    };
    Ok(SgiCommand::one(sgi, target).get())
}

/// The proof of the running CPU.
fn here() -> OnCpu {
    // SAFETY: nothing of the image moves code to another CPU, and what interrupts this one
    // returns before it goes on.
    unsafe { OnCpu::new(cpu::this().index) }
}

/// The irq of the SGI, unmasked on this CPU while the value lives.
struct Unmasked {
    bench: Bench,
    irq: Irq,
}

impl Unmasked {
    fn new(bench: &Bench) -> Result<Self, Stop> {
        let irq = Sgi::new(SGI).and_then(|sgi| bench.0.gic.irq(sgi.intid()));
        let Some(irq) = irq else {
            fail!("SGI {SGI} has no irq")
        };
        bench.control().unmask(irq).or_fail("unmask")?;
        let bench = *bench;
        Ok(Self { bench, irq })
    }
}

impl Drop for Unmasked {
    fn drop(&mut self) {
        // What goes wrong shows in the count of the next test.
        let _ = self.bench.control().mask(self.irq);
    }
}

/// An SGI to oneself, until its handler has ended.
pub fn self_sgi(bench: &Bench) -> Verdict {
    clock_counts_instructions()?;
    let (gic, interrupts) = (&bench.0.gic, &bench.0.interrupts);
    let block = cpu::this();
    let this = block.index;
    block.bare_answer.store(0, Relaxed);
    let command = command(bench, this)?;
    let unmasked = Unmasked::new(bench)?;

    let before = block.bare_count.load(Relaxed);
    let vectors = Table::by_hand().install();
    let handwritten = per_pass(|| {
        // SAFETY: sends SGIs to this CPU, whose vectors keep all registers. Not `nomem`: the
        // handler counts.
        unsafe {
            asm!(
                "2: msr S3_0_C12_C11_5, {sgi}", // ICC_SGI1R_EL1
                "isb",
                "subs {n}, {n}, #1",
                "b.ne 2b",
                sgi = in(reg) command,
                n = inout(reg) PASSES => _,
            );
        }
    });
    drop(vectors);
    check_eq!(
        block.bare_count.load(Relaxed) - before,
        PASSES,
        "SGIs by hand"
    );
    metric("icount_self.handwritten", handwritten, "instructions");

    let Some(sgi) = Sgi::new(SGI) else {
        fail!("no SGI {SGI}")
    };
    let before = block.bare_count.load(Relaxed);
    let vectors = Table::by_driver().install();
    let driver = per_pass(|| {
        for _ in 0..PASSES {
            // What goes wrong shows in the count.
            let _ = gic.send_sgi(sgi, this);
        }
    });
    drop(vectors);
    drop(unmasked);
    check_eq!(
        block.bare_count.load(Relaxed) - before,
        PASSES,
        "SGIs by the driver"
    );
    metric("icount_self.driver", driver, "instructions");

    let on = here();
    let before = block.bare_count.load(Relaxed);
    let irq_core = per_pass(|| {
        for _ in 0..PASSES {
            // Likewise.
            let _ = interrupts.send(gic, &on, this, COUNT);
        }
    });
    check_eq!(
        block.bare_count.load(Relaxed) - before,
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
            "2: ldar {now}, [{counter}]",
            "cmp {now}, {want}",
            "b.hs 3f",
            "yield",
            "subs {left}, {left}, #1",
            "b.pl 2b",
            "3:",
            now = out(reg) _,
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
    /// Vectors of the sender and of the CPU that answers; the image's if there are none.
    tables: Option<(Table, Table)>,
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

/// An SGI to another CPU, whose handler sends one back, until that one's handler has ended.
pub fn there_and_back(bench: &Bench) -> Verdict {
    clock_counts_instructions()?;
    let block = cpu::this();
    let this = block.index;
    let other = online(*bench).into_iter().find(|&cpu| cpu != this);
    let other = other.ok_or(Stop::Skip("there is one CPU"))?;
    block.bare_answer.store(0, Relaxed);
    let there = command(bench, other)?;
    let system = bench.0;
    let Some(sgi) = Sgi::new(SGI) else {
        fail!("no SGI {SGI}")
    };

    let by_hand = Way {
        tables: Some((Table::by_hand(), Table::by_hand_with_answer())),
        answer: command(bench, this)?,
        send: move || {
            // SAFETY: sends an SGI to a CPU whose vectors keep all registers. Not `nomem`: what
            // was stored before is seen there.
            unsafe { asm!("dsb ishst", "msr S3_0_C12_C11_5, {sgi}", "isb", sgi = in(reg) there) };
        },
    };
    let cost = pair(*bench, other, by_hand)?;
    metric("icount_pair.handwritten", cost, "instructions");

    let by_driver = Way {
        tables: Some((Table::by_driver(), Table::by_driver_with_answer())),
        answer: u64::from(this.get()) + 1,
        send: move || {
            // What goes wrong shows as an answer that never comes.
            let _ = system.gic.send_sgi(sgi, other);
        },
    };
    let cost = pair(*bench, other, by_driver)?;
    metric("icount_pair.driver", cost, "instructions");

    let through_irq_core = Way {
        tables: None,
        answer: u64::from(this.get()) + 1,
        send: move || {
            // Likewise.
            let _ = system.interrupts.send(&system.gic, &here(), other, ANSWER);
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
        _ if cpu == this => send_and_count(bench, other, way, &shared),
        _ if cpu == other => answer(bench, way, &shared),
        _ => Ok(()),
    })?;
    Ok(meeting.cost.load(Relaxed))
}

/// The part of the CPU that sends first.
fn send_and_count<F: Fn()>(
    bench: Bench,
    other: CpuIndex,
    way: Way<F>,
    meeting: &Meeting,
) -> Verdict {
    let ready = || meeting.ready.load(Acquire);
    check!(wait_for(&MACHINE, PART_MS, ready), "{other} is not ready");
    let _unmasked = Unmasked::new(&bench)?;
    let vectors = way.tables.map(|(table, _)| table.install());
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
    drop(vectors);
    check!(left >= 0, "an SGI to {other} was not answered");
    Ok(())
}

/// The part of the CPU that answers.
fn answer<F>(bench: Bench, way: Way<F>, meeting: &Meeting) -> Verdict {
    let _unmasked = Unmasked::new(&bench)?;
    cpu::this().bare_answer.store(way.answer, Relaxed);
    let vectors = way.tables.map(|(_, table)| table.install());
    meeting.ready.store(true, Release);
    while !meeting.done.load(Relaxed) {
        wfi();
    }
    drop(vectors);
    meeting.left.store(true, Release);
    Ok(())
}
