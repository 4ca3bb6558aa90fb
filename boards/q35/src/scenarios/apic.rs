// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only a local APIC has: modes, ids, vectors, non-maskable and spurious interrupts, errors.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use boards_common::bench::Bench as _;
use boards_common::crew::{Crew, online};
use boards_common::live::Live;
use boards_common::protocol::metric;
use boards_common::smoke::{PATIENCE_MS, counting, exactly};
use boards_common::time::wait_for;
use boards_common::verdict::{OrFail, Stop, Verdict};
use boards_common::{check, check_eq};
use irq_core::{Irq, Kick, Lines};
use irq_hal::{Bus, Error, Platform, percpu};
use irq_x2apic::mode::Mode;
use irq_x2apic::regs::apic::{IA32_APIC_BASE, IA32_X2APIC_APICID};
use irq_x2apic::{ApicId, LocalApic, Msrs, Vector};

use crate::bench::Bench;
use crate::cpu;
use crate::platform::MACHINE;
use crate::sleep::WAKE;

/// Spurious interrupts that this scenario's other tests make on the boot CPU.
const SPURIOUS: u64 = 3;

/// The running CPU's registers.
fn msrs() -> Msrs {
    // SAFETY: ring 0; the registers are only read.
    unsafe { Msrs::new() }
}

/// Each CPU is in x2APIC mode, whichever mode it was handed over in, and has the id that firmware
/// names.
pub fn every_cpu_has_its_id_in_x2apic_mode(bench: &Bench) -> Verdict {
    Crew::on_all(*bench, PATIENCE_MS, |_| {
        let block = cpu::this();
        let mode = Mode::of(msrs().load(IA32_APIC_BASE));
        check_eq!(mode, Some(Mode::X2apic), "mode");
        let id: u64 = msrs().load(IA32_X2APIC_APICID);
        check_eq!(id, u64::from(block.id), "the id register");
        check_eq!(cpu::id().map(ApicId::get), Some(block.id), "the CPU's id");
        Ok(())
    })?;
    let mut handed_over = [0; 3];
    let (mut highest, mut clusters) = (0, Vec::new());
    for cpu in online(*bench) {
        let block = bench.0.block(cpu).or_fail("block")?;
        let base = block.handed_over.load(Relaxed);
        handed_over[match Mode::of(base) {
            Some(Mode::X2apic) => 0,
            Some(Mode::Xapic) => 1,
            _ => 2,
        }] += 1;
        highest = highest.max(block.id);
        if !clusters.contains(&(block.id >> 4)) {
            clusters.push(block.id >> 4);
        }
    }
    let [x2apic, xapic, disabled] = handed_over;
    metric("handed_over.x2apic", x2apic, "count");
    metric("handed_over.xapic", xapic, "count");
    metric("handed_over.disabled", disabled, "count");
    metric("highest_id", highest.into(), "id");
    metric("clusters", clusters.len() as u64, "count");
    Ok(())
}

/// Vectors below 16 are none, those of exceptions have no number of ours, and nothing is sent to
/// them; nor is there a number beyond the last one.
pub fn a_vector_of_an_exception_is_refused(bench: &Bench) -> Verdict {
    let apic = &bench.0.apic;
    for number in 0..16 {
        check_eq!(Vector::new(number), None, "vector {number}");
    }
    for number in 16..32 {
        let vector = Vector::new(number);
        let irq = vector.and_then(|vector| apic.irq(vector));
        check_eq!(irq, None, "irq of vector {number}");
    }
    let last = apic.irqs().first().get() + apic.irqs().count();
    let beyond = Err(Error::NoSuchIrq { irq: last });
    check_eq!(
        apic.unmask(Irq::new(last)),
        beyond,
        "unmask beyond the last"
    );
    check_eq!(apic.retrigger(Irq::new(last)), beyond, "retrigger likewise");
    Ok(())
}

/// Each vector without a purpose, sent to oneself, is one interrupt of its number.
pub fn each_free_vector_reaches_its_sender_once(bench: &Bench) -> Verdict {
    let apic = &bench.0.apic;
    let taken = [apic.ipi_irq(), apic.timer_irq(), apic.error_irq()];
    let (mut lives, mut counts) = (Vec::new(), Vec::new());
    for vector in (32..Vector::SPURIOUS.get()).filter_map(Vector::new) {
        let Some(irq) = apic.irq(vector) else {
            continue;
        };
        if taken.contains(&Some(irq)) || vector == WAKE {
            continue;
        }
        let (action, count) = counting(bench, |_| ());
        lives.push(Live::new(bench, irq, action)?);
        let sent = percpu::masked(&MACHINE, |on| apic.send_self(on, vector));
        sent.or_fail("send")?;
        let came = wait_for(&MACHINE, PATIENCE_MS, || count.load(Relaxed) != 0);
        check!(came, "vector {:#x} never came", vector.get());
        counts.push((vector, count));
    }
    for (vector, count) in &counts {
        let what = alloc::format!("vector {:#x}", vector.get());
        check_eq!(count.load(Relaxed), 1, "interrupts of {what}");
    }
    metric("vectors", counts.len() as u64, "count");
    Ok(())
}

/// A non-maskable interrupt reaches each other CPU, once, with its interrupts masked too.
pub fn an_nmi_reaches_another_cpu(bench: &Bench) -> Verdict {
    let (bench, this) = (*bench, MACHINE.this_cpu());
    let others = online(bench).into_iter().filter(|&cpu| cpu != this);
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return Err(Stop::Skip("there is one CPU"));
    }
    for &cpu in &others {
        let block = bench.0.block(cpu).or_fail("block")?;
        let before = block.nmis.load(Relaxed);
        block.nmis_due.store(1, Relaxed);
        bench.0.apic.kick_urgent(cpu).or_fail("kick")?;
        let came = || block.nmis.load(Relaxed) != before;
        check!(wait_for(&MACHINE, PATIENCE_MS, came), "no NMI on {cpu}");
        check_eq!(block.nmis.load(Relaxed), before + 1, "NMIs of {cpu}");
    }
    metric("nmis", others.len() as u64, "count");
    Ok(())
}

/// The spurious vector within another interrupt is counted, and ends nothing: that one is in
/// service until its own end.
pub fn a_spurious_interrupt_is_counted_and_not_ended(bench: &Bench) -> Verdict {
    let (apic, irq) = (&bench.0.apic, bench.0.spare);
    let this = MACHINE.this_cpu();
    let spurious = || apic.counts(this).map(|counts| counts.spurious);
    let before = spurious().or_fail("counts")?;
    let active = Arc::new([const { AtomicBool::new(false) }; 2]);
    let seen = active.clone();
    let (action, count) = counting(bench, move |_| {
        let is_active = || apic.state(irq).is_ok_and(|state| state.active);
        seen[0].store(is_active(), Relaxed);
        // SAFETY: the vector's stub keeps all registers. Not `nomem`: its handler counts.
        unsafe { asm!("int 0xff") };
        seen[1].store(is_active(), Relaxed);
    });
    let live = Live::new(bench, irq, action)?;
    bench.control().retrigger(irq).or_fail("retrigger")?;
    exactly(bench, "spare vector", &count, 1)?;
    drop(live);
    let [before_it, after_it] = active.each_ref().map(|active| active.load(Relaxed));
    check!(before_it, "the vector was not in service in its action");
    check!(after_it, "the spurious interrupt ended the one in service");
    check!(
        !apic.state(irq).or_fail("state")?.active,
        "the vector is in service after its end"
    );
    let counted = spurious().or_fail("counts")? - before;
    check_eq!(counted, 1, "spurious interrupts");
    Ok(())
}

/// After all that, no CPU has an interrupt that waits or is in service, its local sources are
/// masked, and its local APIC found no errors.
pub fn nothing_is_left_behind(bench: &Bench) -> Verdict {
    let bench = *bench;
    let leftovers = Arc::new(AtomicU32::new(0));
    let found = leftovers.clone();
    Crew::on_all(bench, PATIENCE_MS, move |cpu| {
        let apic = &bench.0.apic;
        percpu::masked(&MACHINE, |on| {
            let local: LocalApic<_> = apic.local(on).or_fail("local APIC")?;
            for vector in (16..=255).filter_map(Vector::new) {
                check!(!local.waits(vector), "vector {:#x} waits", vector.get());
                check!(
                    !local.in_service(vector),
                    "vector {:#x} is in service",
                    vector.get()
                );
            }
            let timer = apic.state(bench.0.timer.irq).or_fail("state")?;
            check!(timer.masked, "the timer is not masked: {timer:?}");
            let errors = apic.take_errors(on).or_fail("errors")?;
            check!(errors.is_empty(), "errors {:#x}", errors.bits());
            Ok(())
        })?;
        let counts = apic.counts(cpu).or_fail("counts")?;
        check_eq!(counts.errors, [0; 8], "errors that were taken");
        check_eq!(counts.unknown, 0, "vectors without a number of ours");
        found.fetch_add(counts.leftovers as u32, Relaxed);
        Ok(())
    })?;
    metric("leftovers", leftovers.load(Relaxed).into(), "count");
    let mut spurious = 0;
    for cpu in online(bench) {
        spurious += bench.0.apic.counts(cpu).or_fail("counts")?.spurious;
    }
    // Entries by hand, and one within another interrupt; hardware may give some of its own.
    check!(spurious > SPURIOUS, "{spurious} spurious interrupts");
    metric("spurious", spurious, "count");
    Ok(())
}
