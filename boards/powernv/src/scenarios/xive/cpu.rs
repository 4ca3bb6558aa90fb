// SPDX-License-Identifier: MIT OR Apache-2.0
//! What start-up and vectors of a POWER CPU can get wrong.

use alloc::sync::Arc;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use boards_common::bench::Bench as _;
use boards_common::crew::Crew;
use boards_common::live::Live;
use boards_common::protocol::metric;
use boards_common::smoke::{PATIENCE_MS, QUIET_MS, counting, exactly};
use boards_common::time::pass;
use boards_common::verdict::{OrFail, Verdict};
use boards_common::{check, check_eq};
use irq_core::Action;
use irq_hal::percpu;

use crate::bench::Bench;
use crate::cpu::{self, Spr};
use crate::platform::MACHINE;
use crate::vectors::Frame;

/// Each CPU runs with the block of its own hardware thread, whichever of them booted.
pub fn each_cpu_runs_with_the_block_of_its_pir(bench: &Bench) -> Verdict {
    let boot = cpu::this();
    check_eq!(boot.pir(), cpu::pir(), "PIR of the boot CPU");
    metric("boot_pir", boot.pir, "pir");
    Crew::on_all(*bench, PATIENCE_MS, |index| {
        let block = cpu::this();
        check_eq!(block.index, index, "block behind r13");
        check_eq!(block.pir(), cpu::pir(), "PIR");
        let other = Spr::<304>::get();
        let own = core::ptr::from_ref(block).addr() as u64;
        check_eq!(other, own, "block behind HSPRG0");
        Ok(())
    })
}

/// Bits of MSR.
mod msr {
    pub const HV: u64 = 1 << 60;
    pub const EE: u64 = 1 << 15;
    pub const ME: u64 = 1 << 12;
    pub const RI: u64 = 1 << 1;
    pub const LE: u64 = 1;
}

/// On each CPU an interrupt comes little-endian, by the hypervisor's vector: what it saved is the
/// state of code that runs little-endian with interrupts in.
pub fn interrupts_enter_little_endian_by_their_vector(bench: &Bench) -> Verdict {
    /// `HID0.HILE`.
    const HILE: u64 = 1 << 59;
    let (bench, irq) = (*bench, bench.0.spare);
    let saved = Arc::new(AtomicU64::new(0));
    let seen = saved.clone();
    let action = Action::new(move |cx| {
        let frame = cx.entry().frame::<Frame>();
        seen.store(frame.map_or(0, |frame| frame.state), Relaxed);
    });
    let _live = Live::new(&bench, irq, action)?;
    let this = cpu::this().index;
    let verdict = Crew::on_all(bench, PATIENCE_MS, |_| {
        check!(Spr::<1008>::get() & HILE != 0, "HID0.HILE is clear");
        check!(
            cpu::takes_virtualization_interrupts(),
            "LPCR.HVICE is clear"
        );
        Ok(())
    })
    .and_then(|()| {
        for cpu in boards_common::crew::online(bench) {
            bench.route(irq, cpu).or_fail("route")?;
            saved.store(0, Relaxed);
            bench.control().retrigger(irq).or_fail("retrigger")?;
            let came = || saved.load(Relaxed) != 0;
            let came = boards_common::time::wait_for(&MACHINE, PATIENCE_MS, came);
            check!(came, "no interrupt on {cpu}");
            let state = saved.load(Relaxed);
            let expected = msr::HV | msr::EE | msr::ME | msr::RI | msr::LE;
            check_eq!(
                state & expected,
                expected,
                "MSR that was interrupted on {cpu}"
            );
        }
        Ok(())
    });
    bench.route(irq, this).or_fail("route")?;
    verdict
}

/// While LPCR.HVICE is clear an interrupt waits, whatever the mask is; it comes when the bit is
/// set.
pub fn an_interrupt_waits_while_hvice_is_clear(bench: &Bench) -> Verdict {
    let irq = bench.0.spare;
    let (action, count) = counting(bench, |_| ());
    let _live = Live::new(bench, irq, action)?;
    cpu::take_virtualization_interrupts(false);
    let sent = bench.control().retrigger(irq);
    pass_awake();
    let early = count.load(Relaxed);
    cpu::take_virtualization_interrupts(true);
    sent.or_fail("retrigger")?;
    check_eq!(early, 0, "interrupts while HVICE is clear");
    exactly(bench, "edge kept by HVICE", &count, 1)
}

/// Lets a little time pass without sleeping: an interrupt that is pending ends a sleep.
fn pass_awake() {
    for _ in 0..1_000 {
        cpu::relax();
    }
}

/// The decrementer of a CPU that has no timer armed is far away, on each CPU.
pub fn the_decrementer_is_far_away_while_no_timer_is_armed(bench: &Bench) -> Verdict {
    /// Weeks.
    const FAR: u64 = 1 << 54;
    Crew::on_all(*bench, PATIENCE_MS, |cpu| {
        let left = percpu::masked(&MACHINE, |_| Spr::<22>::get());
        check!(
            left > FAR && left >> 55 == 0,
            "decrementer of {cpu}: {left:#x}"
        );
        Ok(())
    })?;
    pass(&MACHINE, QUIET_MS);
    Ok(())
}

/// An interrupt keeps all registers that code may have live, and the red zone below its stack
/// pointer.
pub fn registers_and_the_red_zone_are_kept_over_an_interrupt(bench: &Bench) -> Verdict {
    let irq = bench.0.spare;
    let (action, count) = counting(bench, |_| ());
    let _live = Live::new(bench, irq, action)?;
    for round in 1..=3 {
        let wrong = percpu::masked(&MACHINE, |_| {
            bench
                .control()
                .retrigger(irq)
                .map(|()| take_one_with_everything_live())
        });
        let wrong = wrong.or_fail("retrigger")?;
        exactly(bench, "edge", &count, round)?;
        check_eq!(wrong, 0, "registers or words of the red zone that changed");
    }
    Ok(())
}

/// Unmasks for a moment, with values in r0, r3 to r12, LR, CTR, XER, CR and the 288 bytes below
/// r1. Returns how many of them changed.
fn take_one_with_everything_live() -> u64 {
    let wrong;
    // SAFETY: an interrupt is pending, and is taken where interrupts are let in; they are masked
    // again behind that. The words below r1 are the red zone, which belongs to this code: the
    // function calls nothing in between. All that changes is named, but for r1, r2 and r13, which
    // stay.
    unsafe {
        asm!(
            // The red zone: word n, counted down from r1, holds 0x5a00 + n.
            "li      10, 36",
            "mtctr   10",
            "li      11, 0x5a00",
            "mr      12, 1",
            "2:",
            "stdu    11, -8(12)",
            "addi    11, 11, 1",
            "bdnz    2b",
            // The registers.
            "li      0, 0x100",
            "mtlr    0",
            "li      0, 0x101",
            "mtctr   0",
            "lis     0, 0x2000",            // XER.CA
            "mtxer   0",
            "lis     0, 0x1248",
            "ori     0, 0, 0x1248",
            "mtcr    0",
            "li      0, 0x200",
            "li      3, 0x203",
            "li      4, 0x204",
            "li      5, 0x205",
            "li      6, 0x206",
            "li      7, 0x207",
            "li      8, 0x208",
            "li      9, 0x209",
            "li      10, 0x20a",
            "li      11, 0x20b",
            "li      12, 0x20c",
            "mtmsrd  {open}, 1",
            "or      31, 31, 31",
            "nop",
            "mtmsrd  {closed}, 1",
            // `addi` and `xori` leave CR and XER alone.
            "xori    0, 0, 0x200",
            "xori    3, 3, 0x203",
            "xori    4, 4, 0x204",
            "xori    5, 5, 0x205",
            "xori    6, 6, 0x206",
            "xori    7, 7, 0x207",
            "xori    8, 8, 0x208",
            "xori    9, 9, 0x209",
            "xori    10, 10, 0x20a",
            "xori    11, 11, 0x20b",
            "xori    12, 12, 0x20c",
            "or      0, 0, 3",
            "or      4, 4, 5",
            "or      6, 6, 7",
            "or      8, 8, 9",
            "or      10, 10, 11",
            "or      0, 0, 4",
            "or      6, 6, 8",
            "or      10, 10, 12",
            "or      0, 0, 6",
            "or      0, 0, 10",
            "mflr    3",
            "xori    3, 3, 0x100",
            "or      0, 0, 3",
            "mfctr   3",
            "xori    3, 3, 0x101",
            "or      0, 0, 3",
            "mfxer   3",
            "xoris   3, 3, 0x2000",
            "or      0, 0, 3",
            "mfcr    3",
            "xoris   3, 3, 0x1248",
            "xori    3, 3, 0x1248",
            "or      0, 0, 3",
            // The red zone again.
            "li      10, 36",
            "mtctr   10",
            "li      11, 0x5a00",
            "mr      12, 1",
            "3:",
            "ldu     3, -8(12)",
            "xor     3, 3, 11",
            "or      0, 0, 3",
            "addi    11, 11, 1",
            "bdnz    3b",
            "mr      {wrong}, 0",
            open = in(reg) 0x8002_u64,
            closed = in(reg) 2_u64,
            wrong = lateout(reg) wrong,
            out("r0") _, out("r3") _, out("r4") _, out("r5") _, out("r6") _, out("r7") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
            out("ctr") _, out("lr") _, out("xer") _,
            out("cr0") _, out("cr1") _, out("cr2") _, out("cr3") _, out("cr4") _,
            out("cr5") _, out("cr6") _, out("cr7") _,
        );
    }
    wrong
}
