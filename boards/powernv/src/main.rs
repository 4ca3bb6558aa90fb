// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot image for QEMU's POWER9 and POWER10 machines with a XIVE, under skiboot (OPAL).
//!
//! ```text
//! start.rs       _start: byte order, BSS, TOC, stack
//!   main.rs      devicetree, ports, heap
//!     interrupts.rs   the XIVE
//!     secondary.rs    the other CPUs
//!     scenarios/      what the command line asks for; then power-off
//! ```
#![no_std]
#![no_main]

extern crate alloc;

mod bench;
mod context;
mod cpu;
mod interrupts;
mod platform;
mod power;
mod scenarios;
mod secondary;
mod start;
mod timer;
mod tree;
mod vectors;

use core::ptr::NonNull;

use boards_common::asked::Asked;
use boards_common::cmdline::CommandLine;
use boards_common::devicetree::Tree;
use boards_common::{harness, heap, machine, ns16550, println, scenario};
use irq_hal::{Error, PhysAddr};
use irq_xive::fdt;
use platform::{MACHINE, Uart};

unsafe extern "C" {
    static __image_end: u8;
}

/// Longest devicetree that is believed, in bytes.
const LONGEST_TREE: usize = 16 << 20;

/// Comes from `_start` on the boot stack, little-endian, all interrupts masked.
extern "C" fn main(tree: usize, opal_base: u64, opal_entry: u64) -> ! {
    power::found(opal_base, opal_entry);
    machine::install(&MACHINE);
    vectors::install();
    // Before any other CPU is started, and before the first exception.
    if let Err(error) = power::enter_little_endian() {
        panic!("exceptions cannot be little-endian: {error}");
    }
    cpu::set_up();
    let tree = match find_tree(tree) {
        Ok(tree) => tree,
        Err(error) => panic!("no devicetree: {error}"),
    };
    let line = CommandLine::new(tree.bootargs());
    Asked::of(line).install();
    harness::silence(&MACHINE, line);
    match give_heap(&tree) {
        Ok(bytes) => println!("powernv: {} MiB of heap, {}", bytes >> 20, tree.bootargs()),
        Err(error) => panic!("no heap: {error}"),
    }
    if let Some(per_second) = tree::timebase(&tree) {
        timer::set_frequency(per_second);
    }
    match interrupts::bring_up(&tree, line) {
        Ok(bench) => scenario::run(&MACHINE, line, scenarios::ALL, &bench),
        Err(error) => panic!("no interrupts: {error}"),
    }
}

/// The devicetree that skiboot left at `address`, in memory that stays its own.
fn find_tree(address: usize) -> Result<Tree<'static>, Error> {
    if address == 0 {
        return Err(Error::Firmware {
            what: "address of the devicetree",
            at: 0,
        });
    }
    // SAFETY: real memory at least so far as skiboot, whose memory the tree is in, has it; in
    // nobody's use: the heap leaves out what the tree says is reserved.
    let memory = unsafe { core::slice::from_raw_parts(address as *const u8, LONGEST_TREE) };
    Ok(Tree::from_checked(fdt::checked(memory)?))
}

/// The console is the port with the highest address (0x3f8, the first), frames go to the next
/// one (0x2f8). Firmware takes the one with the lowest for itself, which is left alone if there
/// are more than two.
pub fn find_ports(lpc: &tree::Lpc) -> Result<(), Error> {
    let port = |at: u64| {
        let at = PhysAddr::new(lpc.io.get() + at);
        let bus = MACHINE.registers(at, ns16550::LEN)?;
        Ok::<_, Error>(Uart::new(bus, 0))
    };
    let mut ports = lpc.ports.iter().rev().map(|&(at, _)| at);
    if let Some(text) = ports.next() {
        MACHINE.set_text(port(text)?);
    }
    if let Some(frames) = ports.next() {
        MACHINE.set_frames(port(frames)?);
    }
    Ok(())
}

/// Gives what lies behind the image in its bank, up to the first memory that is somebody's, to
/// the heap.
fn give_heap(tree: &Tree<'_>) -> Result<u64, Error> {
    let start = &raw const __image_end as u64;
    let bank = tree.memory().find(|bank| {
        let end = bank.base.saturating_add(bank.len);
        (bank.base..end).contains(&start)
    });
    let bank = bank.ok_or(Error::Firmware {
        what: "bank of memory that holds the image",
        at: start,
    })?;
    let mut end = bank.base + bank.len;
    tree::reserved(tree, |base, len| {
        if base.saturating_add(len) > start {
            end = end.min(base.max(start));
        }
    });
    let tree_at = tree.blob().as_ptr().addr() as u64;
    if tree_at > start {
        end = end.min(tree_at);
    }
    let first = NonNull::new(start as *mut u8).ok_or(Error::Invalid {
        what: "heap",
        value: 0,
    })?;
    // SAFETY: memory in nobody's use: it begins behind the image, and ends with the bank or
    // where it is somebody's. This is the only call.
    unsafe { heap::init(first, (end - start) as usize)? };
    Ok(end - start)
}
