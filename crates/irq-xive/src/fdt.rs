// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a flattened devicetree says about the controller: pure helpers beside the probe.
//!
//! ```text
//! checked        the tree's structure
//! describe       the ibm,opal-xive-pe node: TIMA, sizes of queues, priorities; the CPUs with
//!                their chips and nodes
//! translate      interrupt specifier cells -> source and trigger
//! interrupt      one interrupt of a device's node, if its parent is this controller
//! opal_interrupt an interrupt that firmware wants to be told of, by name
//! ```
//! The blob comes from firmware and may be truncated or wrong: every answer is a value or
//! [`Error::Firmware`], in time bounded by the blob's length, and no address is followed.

mod cpus;
mod device;
mod node;
mod specifier;
mod structure;

use alloc::vec::Vec;

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use irq_hal::heap::try_push;
use irq_hal::{Error, PhysAddr};

use crate::ids::{ChipId, PRIORITIES};
use crate::xive::{Description, Provision, Thread};

pub use device::{Device, interrupt, opal_interrupt};
pub use specifier::translate;
pub use structure::checked;

use node::{Search, cells, find, is_available, is_compatible, open, phandle, u32_property};

/// Which of the node's pages is the hypervisor's.
const HYPERVISOR_PAGE: usize = 1;
/// The bytes of such a page.
const PAGE: u64 = 0x1_0000;

/// What the devicetree says about the controller and the CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FdtDescription {
    /// The hypervisor page of the TIMA.
    pub tima: PhysAddr,
    /// The base-2 logarithms of the bytes that an event queue may have.
    pub queue_sizes: Vec<u32>,
    /// How many priorities there are.
    pub priorities: u8,
    /// The bytes of a page that firmware may ask for; 0 if it never does.
    pub provision_page: u32,
    /// The chips that take one each.
    pub provision_chips: Vec<ChipId>,
    /// How others refer to the sources: on POWER9 a node of its own.
    pub phandle: Option<u32>,
    /// The CPUs, each thread by itself, in the order of their nodes; those that failed or are
    /// disabled are left out.
    pub threads: Vec<Thread>,
    /// The nodes as firmware numbers them, in rising order: [`NodeId`](irq_hal::NodeId) `i` is
    /// the `i`th. Some may have memory and no CPU, or CPUs and no memory.
    pub nodes: Vec<u32>,
}

impl FdtDescription {
    /// What a probe takes.
    pub fn description(&self) -> Description<'_> {
        Description {
            tima: self.tima,
            queue_sizes: &self.queue_sizes,
            priorities: self.priorities,
            threads: &self.threads,
            provision: Provision {
                page: self.provision_page,
                chips: &self.provision_chips,
            },
        }
    }
}

/// Reads the description of the first usable `ibm,opal-xive-pe` node of `blob`, which may be
/// followed by other bytes.
///
/// # Errors
/// [`Error::Firmware`] with what is wrong: no such node, a CPU without a chip, a property of the
/// wrong shape; [`Error::Unsupported`] for a machine whose controller is another one;
/// [`Error::OutOfMemory`].
///
/// # Context
/// Any that may allocate.
pub fn describe(blob: &[u8]) -> Result<FdtDescription, Error> {
    let fdt = open(blob)?;
    let found = find(
        fdt,
        &mut |place| match is_compatible(place.node, "ibm,opal-xive-pe") && is_available(place.node)
        {
            true => Search::Done(controller(fdt, place)),
            false => Search::Next,
        },
    )?;
    if let Some(description) = found {
        return description;
    }
    let other = find(fdt, &mut |place| {
        let is = |name| is_compatible(place.node, name);
        if is("ibm,power-ivpe") {
            Search::Done("XIVE of a hypervisor's guest")
        } else if is("ibm,ppc-xicp") || is("IBM,ppc-xicp") || is("ibm,opal-xive-vc") {
            Search::Done("XICS")
        } else {
            Search::Next
        }
    })?;
    match other {
        Some(feature) => Err(Error::Unsupported { feature }),
        None => Err(wrong("no ibm,opal-xive-pe node", 0)),
    }
}

const fn wrong(what: &'static str, at: u64) -> Error {
    Error::Firmware { what, at }
}

fn controller(fdt: Fdt<'_>, place: &node::Place<'_, '_>) -> Result<FdtDescription, Error> {
    let node = place.node;
    let pages = place.windows()?;
    let &(tima, len) = pages
        .get(HYPERVISOR_PAGE)
        .ok_or(wrong("reg of ibm,opal-xive-pe", pages.len() as u64))?;
    if len < PAGE || !tima.is_multiple_of(PAGE) || tima.checked_add(len).is_none() {
        return Err(wrong("reg of ibm,opal-xive-pe", tima));
    }
    let sizes = list(node, "ibm,xive-eq-sizes")?;
    let mut queue_sizes = sizes.ok_or(wrong("ibm,xive-eq-sizes", 0))?;
    queue_sizes.retain(|size| matches!(size, 12 | 16 | 21 | 24));
    if queue_sizes.is_empty() {
        return Err(wrong("ibm,xive-eq-sizes", 0));
    }
    let priorities = match u32_property(node, "ibm,xive-#priorities")? {
        None => PRIORITIES,
        Some(count @ 1..) if count <= u32::from(PRIORITIES) => count as u8,
        Some(count) => return Err(wrong("ibm,xive-#priorities", count.into())),
    };
    let provision_page = u32_property(node, "ibm,xive-provision-page-size")?.unwrap_or(0);
    if provision_page != 0 && !provision_page.is_power_of_two() {
        return Err(wrong("ibm,xive-provision-page-size", provision_page.into()));
    }
    let mut provision_chips = Vec::new();
    for chip in list(node, "ibm,xive-provision-chips")?.unwrap_or_default() {
        try_push(&mut provision_chips, ChipId::new(chip))?;
    }
    let cpus::Cpus { threads, nodes } = cpus::cpus(fdt)?;
    Ok(FdtDescription {
        tima: PhysAddr::new(tima),
        queue_sizes,
        priorities,
        provision_page,
        provision_chips,
        phandle: sources(fdt)?,
        threads,
        nodes,
    })
}

/// How others refer to the node that interrupts are numbered by.
fn sources(fdt: Fdt<'_>) -> Result<Option<u32>, Error> {
    let found = find(
        fdt,
        &mut |place| match is_compatible(place.node, "ibm,opal-xive-vc") {
            true => Search::Done(phandle(place.node)),
            false => Search::Next,
        },
    )?;
    found.unwrap_or(Ok(None))
}

/// The cells of a property, if the node has it.
fn list(node: dtoolkit::fdt::FdtNode<'_>, name: &'static str) -> Result<Option<Vec<u32>>, Error> {
    node.property(name)
        .map(|property| cells(property.value(), name))
        .transpose()
}

#[cfg(test)]
mod tests;
