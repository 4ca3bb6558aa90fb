// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot image for QEMU's x86-64 `q35` machine, with local APICs in x2APIC mode.
//!
//! ```text
//! start.rs       _start: BSS, boot page tables, long mode, stack
//!   main.rs      start info, memory, heap
//!     interrupts.rs   ACPI tables, clocks, the local APIC
//!     secondary.rs    the other CPUs
//!     scenarios/      what the command line asks for; then power-off
//! ```
#![no_std]
#![no_main]

extern crate alloc;

mod bench;
mod context;
mod cpu;
mod firmware;
mod interrupts;
mod mmu;
mod platform;
mod power;
mod pvh;
mod scenarios;
mod secondary;
mod segments;
mod sleep;
mod start;
mod timer;
mod uart;
mod vectors;

use core::ptr::NonNull;

use boards_common::asked::Asked;
use boards_common::cmdline::CommandLine;
use boards_common::{harness, heap, machine, println, scenario};
use irq_hal::Error;
use platform::MACHINE;
use pvh::StartInfo;

unsafe extern "C" {
    static __image_end: u8;
}

/// Comes from `_start` on the boot stack, in long mode, interrupts masked.
extern "C" fn main(start_info: usize) -> ! {
    cpu::install_boot();
    machine::install(&MACHINE);
    segments::install_boot();
    vectors::install_table();
    let info = match StartInfo::read(start_info) {
        Ok(info) => info,
        Err(error) => panic!("no start info: {error}"),
    };
    let line = CommandLine::new(info.command_line());
    Asked::of(line).install();
    harness::silence(&MACHINE, line);
    match give_heap(&info) {
        Ok(bytes) => println!("q35: {} MiB of heap, {}", bytes >> 20, info.command_line()),
        Err(error) => panic!("no heap: {error}"),
    }
    match interrupts::bring_up(&info, line) {
        Ok(bench) => scenario::run(&MACHINE, line, scenarios::ALL, &bench),
        Err(error) => panic!("no interrupts: {error}"),
    }
}

/// Maps all memory, and gives what lies behind the image in its bank to the heap.
fn give_heap(info: &StartInfo) -> Result<u64, Error> {
    let start = &raw const __image_end as u64;
    let mut given = Err(Error::Firmware {
        what: "bank of memory that holds the image",
        at: start,
    });
    for bank in info.memory() {
        let Some(end) = bank.base.checked_add(bank.len) else {
            continue;
        };
        if (bank.base..end).contains(&start) {
            mmu::map(start, end - start, mmu::READ_WRITE)?;
            given = Ok(end - start);
        } else {
            mmu::map(bank.base, bank.len, mmu::READ_WRITE)?;
        }
    }
    let bytes = given?;
    let first = NonNull::new(start as *mut u8).ok_or(Error::Invalid {
        what: "heap",
        value: 0,
    })?;
    // SAFETY: mapped above; it begins behind the image, ends with the bank, and the start info
    // lies below the image, as `StartInfo::read` saw to. This is the only call.
    unsafe { heap::init(first, bytes as usize)? };
    Ok(bytes)
}
