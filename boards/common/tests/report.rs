// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run as port 0 shows it, byte by byte.
#![allow(missing_docs)]

use std::alloc::Layout;
use std::ops::Range;
use std::sync::Mutex;

use boards_common::cmdline::CommandLine;
use boards_common::machine::{self, Machine, Port};
use boards_common::protocol::metric;
use boards_common::scenario::{Scenario, report};
use boards_common::verdict::{Stop, Verdict};
use boards_common::{check, check_eq, harness, println, tests};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};

/// A machine that keeps what it prints, and whose clock gains a millisecond with each reading.
struct Recorder {
    text: Mutex<Vec<u8>>,
    clock: Mutex<u64>,
}

static RECORDER: Recorder = Recorder {
    text: Mutex::new(Vec::new()),
    clock: Mutex::new(0),
};

// SAFETY: it hands out neither memory nor windows, and has one CPU that takes no interrupt.
unsafe impl Platform for Recorder {
    fn dma_alloc(&self, _: Layout, node: NodeId, _: DmaLimits) -> Result<DmaRegion, Error> {
        Err(Error::OutOfMemory { bytes: 0, node })
    }
    fn dma_publish(&self, _: &DmaRegion, _: Range<usize>) {}
    fn dma_observe(&self, _: &DmaRegion, _: Range<usize>) {}
    fn map_device(&self, _: PhysAddr, _: usize) -> Result<Mmio, Error> {
        Err(Error::Unsupported { feature: "devices" })
    }
    fn now(&self) -> Ticks {
        let mut clock = self.clock.lock().unwrap();
        *clock += 1_000;
        Ticks(*clock)
    }
    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }
    fn relax(&self) {}
    fn this_cpu(&self) -> CpuIndex {
        CpuIndex::new(0)
    }
    fn irq_save(&self) -> IrqState {
        IrqState(0)
    }
    unsafe fn irq_restore(&self, _: IrqState) {}
}

impl Machine for Recorder {
    fn put(&self, port: Port, byte: u8) {
        assert_eq!(port, Port::Text);
        self.text.lock().unwrap().push(byte);
    }
    fn sleep(&self, _: Option<Ticks>) {}
    fn unmask(&self) {}
    fn power_off(&self) -> ! {
        unreachable!("nothing here powers off")
    }
    fn halt(&self) -> ! {
        unreachable!("nothing here halts")
    }
}

fn passes(_: &()) -> Verdict {
    println!("@start of a text\n@second line");
    metric("answers", 42, "count");
    Ok(())
}

fn fails(_: &()) -> Verdict {
    check!(true, "not this");
    check_eq!(2 + 2, 5, "sum\nof two");
    Ok(())
}

fn skips(_: &()) -> Verdict {
    Err(Stop::Skip("no such device"))
}

#[test]
fn a_run_is_reported_line_by_line_and_an_unknown_scenario_fails_it() {
    machine::install(&RECORDER);
    let smoke = Scenario {
        name: "smoke",
        tests: tests![passes, fails, skips],
    };
    let line = CommandLine::new("root=x scenario=smoke,nosuch,smoke");
    report(&RECORDER, line, &[smoke, harness::die()], &());
    let text = String::from_utf8(RECORDER.text.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let place = concat!(file!(), ":");
    assert_eq!(
        lines[..6],
        [
            "@plan 4",
            "@start smoke.passes",
            " @start of a text",
            " @second line",
            "@metric answers 42 count",
            "@ok smoke.passes 1",
        ]
    );
    assert_eq!(lines[6], "@start smoke.fails");
    let failed = lines[7].strip_prefix("@fail smoke.fails ").unwrap();
    assert!(failed.starts_with(place), "{failed}");
    assert!(
        failed.ends_with(" sum\\nof two: 4 instead of 5"),
        "{failed}"
    );
    assert_eq!(
        lines[8..13],
        [
            "@start smoke.skips",
            "@skip smoke.skips no such device",
            "this image has scenario smoke",
            "this image has scenario die",
            "@start nosuch.is_a_scenario",
        ]
    );
    assert!(
        lines[13].starts_with("@fail nosuch.is_a_scenario "),
        "{}",
        lines[13]
    );
    assert_eq!(lines[14..], ["@end"]);
}
