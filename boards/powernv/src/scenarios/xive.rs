// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only a XIVE has: sources on chips, event queues, CPPR; and what only a POWER CPU has: its
//! vectors, the decrementer, the red zone.

mod cpu;

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use boards_common::bench::Bench as _;
use boards_common::crew::{Crew, online};
use boards_common::kinds::{PROBE, probes};
use boards_common::live::Live;
use boards_common::protocol::metric;
use boards_common::smoke::{PATIENCE_MS, QUIET_MS, counting, exactly};
use boards_common::time::{Progress, pass, wait_for};
use boards_common::verdict::{OrFail, Verdict};
use boards_common::{check, check_eq, fail};
use irq_core::cpu::CpuIndex;
use irq_core::{Irq, Lines};
use irq_hal::{Bus, Mmio, PhysAddr, Platform};

use crate::bench::Bench;
use crate::platform::MACHINE;

pub use cpu::*;

/// Offsets in the hypervisor's page of the TIMA, in the ring PHYS.
mod tima {
    /// NSR, CPPR, IPB, LSMFB and four more bytes, read as one word of 8.
    pub const WORD01: usize = 0x30;
    /// CPPR, one byte, for stores.
    pub const CPPR: usize = 0x31;
    /// Lets everything in.
    pub const OPEN: u8 = 0xff;
}

/// NSR, CPPR and IPB of the running CPU.
fn rings(page: &Mmio) -> [u8; 3] {
    // The bus reads little-endian words: byte 0 comes first.
    let word: u64 = page.load(tima::WORD01);
    let [nsr, cppr, ipb, ..] = word.to_le_bytes();
    [nsr, cppr, ipb]
}

fn tima_page(bench: &Bench) -> Result<Mmio, boards_common::verdict::Stop> {
    let at = PhysAddr::new(bench.0.tima);
    MACHINE.map_device(at, 0x1_0000).or_fail("TIMA")
}

/// Firmware knows each CPU that the devicetree names.
pub fn firmware_knows_every_cpu_of_the_devicetree(bench: &Bench) -> Verdict {
    match bench.0.unknown.first() {
        Some(pir) => fail!("firmware does not know the CPU with {pir}"),
        None => Ok(()),
    }
}

/// Each CPU's IPIs come from a source on that CPU's own chip.
pub fn each_cpu_has_its_ipi_source_on_its_own_chip(bench: &Bench) -> Verdict {
    let xive = &bench.0.xive;
    let mut chips = Vec::new();
    for (block, thread) in bench.0.blocks.iter().zip(xive.threads()) {
        let source = xive.ipi_source(block.index).or_fail("source")?;
        let info = xive.opal().source_info(&MACHINE, source).or_fail("info")?;
        check_eq!(info.chip, thread.chip, "chip of {}'s source", block.index);
        if !chips.contains(&info.chip) {
            chips.push(info.chip);
        }
    }
    metric("chips", chips.len() as u64, "count");
    Ok(())
}

/// The first online CPU of each node.
fn one_of_each_node(bench: &Bench) -> Vec<CpuIndex> {
    let mut nodes = Vec::new();
    let mut first = |&cpu: &CpuIndex| {
        let node = bench
            .0
            .blocks
            .get(cpu.index())
            .map(|block| block.place.node);
        let new = !nodes.contains(&node);
        nodes.push(node);
        new
    };
    online(*bench)
        .into_iter()
        .filter(|cpu| first(cpu))
        .collect()
}

/// A source of each chip fires on a CPU of each chip, as often as it is raised.
pub fn a_source_of_each_chip_reaches_a_cpu_of_each_chip(bench: &Bench) -> Verdict {
    const EACH: u32 = 3;
    let (xive, cpus) = (&bench.0.xive, one_of_each_node(bench));
    for &near in &cpus {
        let irq = xive.alloc_source(near).or_fail("source")?;
        let number = xive.source(irq).or_fail("source")?;
        let info = xive.opal().source_info(&MACHINE, number).or_fail("info")?;
        let place = bench.0.block(near).or_fail("block")?.place;
        check_eq!(
            info.chip.get(),
            place.package,
            "chip of the source near {near}"
        );
        let (action, count) = counting(bench, |_| ());
        let live = Live::new(bench, irq, action)?;
        let mut expected = 0;
        for &to in &cpus {
            bench.route(irq, to).or_fail("route")?;
            check_eq!(xive.target(irq), Ok(to), "target");
            for _ in 0..EACH {
                bench.control().retrigger(irq).or_fail("retrigger")?;
                expected += 1;
                exactly(bench, "edge", &count, expected)?;
            }
        }
        drop(live);
        xive.free(irq).or_fail("free")?;
    }
    metric("chips", cpus.len() as u64, "count");
    Ok(())
}

/// A source that is freed and had again brings nothing of its time before.
pub fn a_source_that_is_had_again_is_silent(bench: &Bench) -> Verdict {
    let (xive, this) = (&bench.0.xive, MACHINE.this_cpu());
    let irq = xive.alloc_source(this).or_fail("source")?;
    // Kept while masked, and given away with the source.
    xive.retrigger(irq).or_fail("retrigger")?;
    xive.free(irq).or_fail("free")?;
    let again = xive.alloc_source(this).or_fail("source")?;
    let (action, count) = counting(bench, |_| ());
    let live = Live::new(bench, again, action)?;
    pass(&MACHINE, QUIET_MS);
    check_eq!(count.load(Relaxed), 0, "interrupts of a new source");
    bench.control().retrigger(again).or_fail("retrigger")?;
    exactly(bench, "edge", &count, 1)?;
    drop(live);
    xive.free(again).or_fail("free")
}

/// Several sources that fire while the CPU is masked are all taken, each once, although their
/// events are one pending priority.
pub fn sources_that_fire_together_are_each_taken_once(bench: &Bench) -> Verdict {
    const SOURCES: usize = 12;
    let (xive, this) = (&bench.0.xive, MACHINE.this_cpu());
    let mut lines: Vec<(Live, Irq, _)> = Vec::new();
    for _ in 0..SOURCES {
        let irq = xive.alloc_source(this).or_fail("source")?;
        let (action, count) = counting(bench, |_| ());
        lines.push((Live::new(bench, irq, action)?, irq, count));
    }
    let sent = irq_hal::percpu::masked(&MACHINE, |_| {
        let mut all = lines.iter();
        all.try_for_each(|(_, irq, _)| bench.control().retrigger(*irq))
    });
    sent.or_fail("retrigger")?;
    for (_, _, count) in &lines {
        exactly(bench, "source among others", count, 1)?;
    }
    for (live, irq, _) in lines {
        drop(live);
        xive.free(irq).or_fail("free")?;
    }
    Ok(())
}

/// The queue of devices and that of IPIs are gone around more than once, and no entry is lost
/// or taken twice where they wrap.
pub fn queues_wrap_and_lose_nothing(bench: &Bench) -> Verdict {
    /// One lap of the largest queue that a CPU has (64 KiB of entries of 4 bytes), and some.
    const EVENTS: u32 = 16 * 1024 + 100;
    let (irq, this) = (bench.0.spare, MACHINE.this_cpu());
    // Not `counting`: that takes so many for a storm.
    let count = alloc::sync::Arc::new(core::sync::atomic::AtomicU32::new(0));
    let counted = count.clone();
    let action = irq_core::Action::new(move |_| {
        counted.fetch_add(1, Relaxed);
    });
    let live = Live::new(bench, irq, action)?;
    let mut progress = Progress::new(&MACHINE);
    let before = probes(this);
    for event in 1..=EVENTS {
        bench.control().retrigger(irq).or_fail("retrigger")?;
        let taken = || count.load(Relaxed) >= event;
        check!(
            wait_for(&MACHINE, PATIENCE_MS, taken),
            "edge {event} never came"
        );
        bench.send(this, PROBE).or_fail("send")?;
        let taken = || probes(this) - before >= u64::from(event);
        check!(
            wait_for(&MACHINE, PATIENCE_MS, taken),
            "IPI {event} never came"
        );
        progress.say(&MACHINE, "events", event.into(), EVENTS.into());
    }
    check_eq!(count.load(Relaxed), EVENTS, "edges");
    check_eq!(probes(this) - before, u64::from(EVENTS), "IPIs");
    drop(live);
    metric("events", u64::from(2 * EVENTS), "count");
    Ok(())
}

/// What is not more favoured than CPPR waits: at CPPR 0 nothing comes, at the priority of devices
/// IPIs do and devices do not; once it opens, what waited comes.
pub fn a_closed_cppr_keeps_interrupts_until_it_opens(bench: &Bench) -> Verdict {
    let (irq, this) = (bench.0.spare, MACHINE.this_cpu());
    let page = tima_page(bench)?;
    let set = |cppr: u8| page.store(tima::CPPR, cppr);
    let (action, count) = counting(bench, |_| ());
    let _live = Live::new(bench, irq, action)?;
    let devices = bench.0.device_priority;
    let before = probes(this);
    let verdict = (|| {
        set(devices);
        bench.control().retrigger(irq).or_fail("retrigger")?;
        bench.send(this, PROBE).or_fail("send")?;
        let taken = || probes(this) > before;
        check!(
            wait_for(&MACHINE, PATIENCE_MS, taken),
            "no IPI although it is more favoured"
        );
        // The driver opens CPPR at the end of an interrupt, so it is closed again at once.
        set(0);
        Ok(())
    })();
    set(tima::OPEN);
    verdict?;
    exactly(bench, "edge", &count, 1)?;

    set(0);
    let sent = bench.control().retrigger(irq);
    let rung = bench.send(this, PROBE);
    pass(&MACHINE, QUIET_MS);
    let early = (count.load(Relaxed), probes(this) - before);
    let [nsr, cppr, ipb] = rings(&page);
    set(tima::OPEN);
    sent.or_fail("retrigger")?;
    rung.or_fail("send")?;
    check_eq!(early, (1, 1), "edges and IPIs through a closed CPPR");
    check_eq!((nsr, cppr), (0, 0), "NSR and CPPR while closed");
    check_eq!(ipb.count_ones(), 2, "priorities that wait");
    exactly(bench, "edge kept by CPPR", &count, 2)?;
    check_eq!(probes(this) - before, 2, "IPIs kept by CPPR");
    Ok(())
}

/// After all that, no source is pending, under way or unmasked, no CPU has anything waiting or a
/// closed CPPR, and no event came that is no source's.
pub fn nothing_is_left_behind(bench: &Bench) -> Verdict {
    let xive = &bench.0.xive;
    for irq in xive.irqs().iter().skip(1) {
        // The others are nobody's.
        let Ok(state) = xive.state(irq) else { continue };
        check!(!state.active, "{irq} is active: {state:?}");
        check!(!state.pending, "{irq} is pending: {state:?}");
        check!(state.masked, "{irq} is not masked: {state:?}");
    }
    let (bench, page) = (*bench, tima_page(bench)?);
    Crew::on_all(bench, PATIENCE_MS, move |cpu| {
        let left = irq_hal::percpu::masked(&MACHINE, |_| rings(&page));
        check_eq!(left, [0, tima::OPEN, 0], "NSR, CPPR and IPB of {cpu}");
        Ok(())
    })?;
    for cpu in online(bench) {
        let counts = bench.0.xive.counts(cpu).or_fail("counts")?;
        check_eq!(counts.unknown, 0, "events of no source on {cpu}");
        check_eq!(counts.dead, 0, "calls that did not answer on {cpu}");
    }
    Ok(())
}
