// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the boot images share, whatever the machine.
//!
//! An image is start-up code, a [`Machine`](machine::Machine) and its scenarios; the rest is
//! here: the [line protocol](protocol) on serial port 0 and the lock under which its lines are
//! written, panics as text, the [command line](cmdline), the
//! [scenario runner](scenario) and the [harness scenarios](harness), the heap, the
//! `defmt` port, [devicetree queries](devicetree). The tests that every machine has are
//! [`smoke`]'s, over what a board [has brought up](mod@bench).
//!
//! # Order of use
//! ```text
//! image start-up     MMU, vectors
//!   machine::install(&MACHINE)      from here on a panic is seen
//!   heap::init(..)                  from here on `alloc` works
//!   CommandLine::new(bootargs)
//!   harness::silence(..)            before the first line of text
//!   scenario::run(..)               does not return: powers off
//! ```
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod asked;
pub mod bench;
#[cfg(target_os = "none")]
pub mod binlog;
pub mod cmdline;
pub mod console;
pub mod crew;
pub mod devicetree;
pub mod dma;
pub mod harness;
#[cfg(target_os = "none")]
pub mod heap;
pub mod ipistorm;
pub mod kinds;
pub mod live;
pub mod lock;
pub mod lockup;
pub mod machine;
pub mod ns16550;
#[cfg(target_os = "none")]
pub mod panic;
pub mod protocol;
pub mod scenario;
pub mod smoke;
pub mod time;
pub mod verdict;
