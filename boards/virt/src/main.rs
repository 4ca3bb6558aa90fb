// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot image for QEMU's arm64 `virt` machine with a GICv3.
//!
//! ```text
//! start.rs       _start: exception level, BSS, boot page tables, MMU, stack
//!   main.rs      devicetree, ports, memory, heap
//!     interrupts.rs   the GIC
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
mod mmu;
mod platform;
mod power;
mod scenarios;
mod secondary;
mod start;
mod timer;
mod uart;
mod vectors;

use core::ptr::NonNull;

use boards_common::asked::Asked;
use boards_common::cmdline::CommandLine;
use boards_common::devicetree::{Device, Tree};
use boards_common::{harness, heap, machine, println, scenario};
use irq_hal::{Error, PhysAddr, Platform};
use platform::MACHINE;
use power::Conduit;
use uart::Pl011;

unsafe extern "C" {
    static __ram_start: u8;
    static __text_start: u8;
    static __image_end: u8;
}

/// Comes from `_start` on the boot stack, MMU and caches on, all interrupts masked.
extern "C" fn main(tree: usize) -> ! {
    cpu::install_boot();
    machine::install(&MACHINE);
    vectors::install();
    let tree = match find_tree(tree) {
        Ok(tree) => tree,
        Err(error) => panic!("no devicetree: {error}"),
    };
    // Without PSCI the image cannot power off, and says so at the end of its output.
    let conduit = Conduit::find(&tree);
    if let Ok(conduit) = conduit {
        MACHINE.set_conduit(conduit);
    }
    let line = CommandLine::new(tree.bootargs());
    Asked::of(line).install();
    harness::silence(&MACHINE, line);
    if let Err(error) = conduit {
        println!("no way to power off: {error}");
    }
    if let Err(error) = find_ports(&tree) {
        println!("serial ports: {error}");
    }
    match give_heap(&tree) {
        Ok(bytes) => println!("virt: {} MiB of heap, {}", bytes >> 20, tree.bootargs()),
        Err(error) => panic!("no heap: {error}"),
    }
    match interrupts::bring_up(&tree, line) {
        Ok(bench) => scenario::run(&MACHINE, line, scenarios::ALL, &bench),
        Err(error) => panic!("no interrupts: {error}"),
    }
}

/// The devicetree at `address`, or where the machine puts it when that is zero.
///
/// It must lie in the room that the linker script leaves below the image: what is above the
/// image becomes heap.
fn find_tree(address: usize) -> Result<Tree<'static>, Error> {
    let room = (&raw const __ram_start).addr()..(&raw const __text_start).addr();
    let start = if address == 0 { room.start } else { address };
    if !room.contains(&start) {
        return Err(Error::Invalid {
            what: "address of the devicetree, which must lie below the image,",
            value: start as u64,
        });
    }
    let len = room.end - start;
    mmu::map(start as u64, len as u64, mmu::READ_ONLY)?;
    // SAFETY: the blocks from `start` to the image are mapped, hold the machine's devicetree, and
    // are in nobody's use: the image begins where the slice ends, the heap behind the image.
    let memory = unsafe { core::slice::from_raw_parts(start as *const u8, len) };
    Tree::new(memory)
}

/// Port 0 is the tree's standard output, port 1 another PL011 if there is one.
fn find_ports(tree: &Tree<'_>) -> Result<(), Error> {
    let none = Error::Firmware {
        what: "standard output",
        at: 0,
    };
    let text = tree.stdout().and_then(|device| device.reg(0)).ok_or(none)?;
    MACHINE.set_text(port(text)?);
    let others = tree
        .compatible("arm,pl011")
        .filter_map(|device: Device<'_>| device.reg(0));
    if let Some(frames) = others.into_iter().find(|other| other.0 != text.0) {
        MACHINE.set_frames(port(frames)?);
    }
    Ok(())
}

fn port((base, len): (u64, u64)) -> Result<Pl011, Error> {
    let len = len.min(uart::FRAME as u64) as usize;
    Pl011::new(MACHINE.map_device(PhysAddr::new(base), len)?)
}

/// Maps all memory, and gives what lies behind the image in its bank to the heap.
fn give_heap(tree: &Tree<'_>) -> Result<u64, Error> {
    let start = &raw const __image_end as u64;
    let mut given = Err(Error::Firmware {
        what: "bank of memory that holds the image",
        at: start,
    });
    for bank in tree.memory() {
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
    // SAFETY: mapped above as Normal memory; it begins behind the image, ends with the bank, and
    // the devicetree lies below the image, as `find_tree` saw to. This is the only call.
    unsafe { heap::init(first, bytes as usize)? };
    Ok(bytes)
}
