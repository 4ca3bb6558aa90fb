// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only a GIC has: SGIs, special INTIDs, redistributors.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use boards_common::bench::Bench as _;
use boards_common::crew::{Crew, online};
use boards_common::live::Live;
use boards_common::protocol::metric;
use boards_common::smoke::{PATIENCE_MS, counting, exactly};
use boards_common::verdict::{OrFail, Stop, Verdict};
use boards_common::{check, check_eq, fail};
use irq_core::{Answer, Irq, Lines};
use irq_gicv3::{IntId, Sgi};
use irq_hal::{Error, Platform};

use crate::bench::Bench;
use crate::platform::MACHINE;

/// Each CPU that the devicetree names has a redistributor.
pub fn every_cpu_has_a_redistributor(bench: &Bench) -> Verdict {
    let gic = &bench.0.gic;
    for block in bench.0.blocks {
        gic.redistributors()
            .find(block.mpidr)
            .map(drop)
            .or_fail("devicetree")?;
    }
    metric("redistributors", gic.redistributors().len() as u64, "count");
    Ok(())
}

/// QEMU acknowledges with 1023 alone, so the other special numbers are tried on the driver:
/// it makes no interrupt of them, nor of reserved ones and of those that the hardware lacks.
pub fn special_and_reserved_numbers_are_refused(bench: &Bench) -> Verdict {
    for number in [1020, 1021, 1022, 1023, 1024, 1055, 1120, 4095, 5120, 8191] {
        let refused = IntId::new(number);
        check_eq!(
            refused,
            Err(Error::HwirqReserved { hwirq: number }),
            "INTID {number}"
        );
    }
    check_eq!(IntId::spi(988), None, "an SPI with a special number");
    let gic = &bench.0.gic;
    let beyond = gic.distributor().features().spis;
    if let Some(lacking) = IntId::spi(beyond) {
        check_eq!(
            gic.irq(lacking),
            None,
            "irq of an SPI that the hardware lacks"
        );
        let refused = gic.distributor().mask(&MACHINE, lacking);
        let expected = Error::HwirqOutOfRange {
            hwirq: lacking.get(),
            last: 31 + beyond,
        };
        check_eq!(
            refused,
            Err(expected),
            "mask of an SPI that the hardware lacks"
        );
    }
    let last = gic.irqs().first().get() + gic.irqs().count();
    let refused = gic.unmask(Irq::new(last));
    check_eq!(
        refused,
        Err(Error::NoSuchIrq { irq: last }),
        "unmask of an irq beyond the last"
    );
    Ok(())
}

/// Each SGI number but that of the IPIs, sent to oneself, is one interrupt of that number.
pub fn each_free_sgi_reaches_its_sender_once(bench: &Bench) -> Verdict {
    const EACH: u32 = 3;
    let gic = &bench.0.gic;
    // With two security states the upper half belongs to the secure side.
    let free: u8 = if gic.distributor().features().one_security_state {
        16
    } else {
        8
    };
    let this = MACHINE.this_cpu();
    let mut counts = Vec::new();
    let mut lives = Vec::new();
    let mut numbers = Vec::new();
    for number in 0..free {
        let irq = IntId::sgi(number.into()).and_then(|intid| gic.irq(intid));
        let Some(irq) = irq else {
            fail!("SGI {number} has no irq")
        };
        if gic.ipi_irq() == Some(irq) {
            continue;
        }
        numbers.push(number);
        let (action, count) = counting(bench, |_| ());
        lives.push(Live::new(bench, irq, action)?);
        counts.push(count);
    }
    for round in 1..=EACH {
        for (&number, count) in numbers.iter().zip(&counts) {
            let Some(sgi) = Sgi::new(number) else {
                fail!("no SGI {number}")
            };
            gic.send_sgi(sgi, this).or_fail("send")?;
            exactly(bench, "SGI to oneself", count, round)?;
        }
    }
    for (number, count) in numbers.iter().zip(&counts) {
        check_eq!(count.load(Relaxed), EACH, "interrupts of SGI {number}");
    }
    metric("sgis", numbers.len() as u64 * u64::from(EACH), "count");
    Ok(())
}

/// With EOImode 0 an interrupt that its action defers is ended all the same, and counts as
/// handled.
pub fn a_line_that_cannot_be_deferred_is_ended(bench: &Bench) -> Verdict {
    let irq = bench.spare_edge().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, |_| Answer::Deferred);
    let _live = Live::new(bench, irq, action)?;
    for edge in 1..=2 {
        bench.control().retrigger(irq).or_fail("retrigger")?;
        exactly(bench, "edge", &count, edge)?;
        check!(
            !bench.control().state(irq).or_fail("state")?.active,
            "the source is still active"
        );
    }
    Ok(())
}

/// After all that, no interrupt is active or pending, on any CPU, and the controller handed out
/// none that has no number of ours.
pub fn nothing_is_left_behind(bench: &Bench) -> Verdict {
    let bench = *bench;
    let gic = &bench.0.gic;
    let idle = move |irq: Irq| {
        let state = gic.state(irq).or_fail("state")?;
        check!(!state.active, "{irq} is active: {state:?}");
        // The line that ends a sleep is masked nowhere and taken nowhere.
        let wake = irq == bench.0.wake;
        check!(wake || !state.pending, "{irq} is pending: {state:?}");
        let ours = wake || gic.ipi_irq() == Some(irq);
        check!(ours || state.masked, "{irq} is not masked: {state:?}");
        Ok(())
    };
    for irq in gic.irqs().iter() {
        idle(irq)?;
    }
    // Of the private ones these were this CPU's.
    Crew::on_all(bench, PATIENCE_MS, move |_| {
        let private = gic.private_irqs();
        private
            .iter()
            .flat_map(|range| range.iter())
            .try_for_each(idle)
    })?;
    for cpu in online(bench) {
        let counts = gic.counts(cpu).or_fail("counts")?;
        check_eq!(counts.special, 0, "acknowledges of 1020 to 1022 by {cpu}");
        check_eq!(counts.unknown, 0, "interrupts without a number of ours");
    }
    Ok(())
}
