// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot image for QEMU's arm64 `virt` machine with a GICv3.
//!
//! ```text
//! start.rs       _start: exception level, BSS, boot page tables, MMU, stack
//!   main.rs      devicetree, ports, memory, heap
//!     interrupts.rs   the GIC
//!     scenarios/      what the command line asks for; then power-off
//! ```
#![no_std]
#![no_main]

extern crate alloc;

mod cpu;
mod interrupts;
mod mmu;
mod platform;
mod power;
mod scenarios;
mod start;
mod timer;
mod uart;
mod vectors;

use core::ptr::NonNull;

use boards_common::cmdline::CommandLine;
use boards_common::devicetree::{Device, Tree};
use boards_common::{harness, heap, machine, println, scenario};
use irq_hal::{Error, PhysAddr, Platform};
use platform::MACHINE;
use power::Conduit;
use uart::Pl011;

unsafe extern "C" {
    static __ram_start: u8;
    static __image_end: u8;
}

/// Bytes that a devicetree may have: the room below the image, as the linker script leaves it.
const TREE_MAX: usize = 4 * mmu::BLOCK as usize;

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
fn find_tree(address: usize) -> Result<Tree<'static>, Error> {
    let start = match address {
        0 => &raw const __ram_start,
        given => given as *const u8,
    };
    mmu::map(start as u64, TREE_MAX as u64, mmu::READ_ONLY)?;
    // SAFETY: the blocks are mapped, hold the machine's devicetree, and are in nobody's use: the
    // image and its heap stand above it.
    let memory = unsafe { core::slice::from_raw_parts(start, TREE_MAX) };
    Tree::new(memory)
}

/// Port 0 is the tree's standard output, port 1 another PL011 if there is one.
fn find_ports(tree: &Tree<'_>) -> Result<(), Error> {
    let none = Error::Firmware {
        what: "standard output",
        at: 0,
    };
    let (text, _) = tree.stdout().and_then(|device| device.reg(0)).ok_or(none)?;
    MACHINE.set_text(port(text)?);
    let others = tree
        .compatible("arm,pl011")
        .filter_map(|device: Device<'_>| device.reg(0));
    if let Some((frames, _)) = others.into_iter().find(|&(base, _)| base != text) {
        MACHINE.set_frames(port(frames)?);
    }
    Ok(())
}

fn port(base: u64) -> Result<Pl011, Error> {
    Pl011::new(MACHINE.map_device(PhysAddr::new(base), 0x1000)?)
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
    // the devicetree lies below. This is the only call.
    unsafe { heap::init(first, bytes as usize) };
    Ok(bytes)
}
