// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupts of devices, and those of firmware.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use irq_core::Trigger;
use irq_hal::Error;

use super::node::{
    Place, Search, cells, find, is_available, is_compatible, open, phandle, u32_property,
};
use super::specifier::CELLS;
use super::{FdtDescription, translate, wrong};
use crate::ids::SourceNumber;

/// Which device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device<'n> {
    /// The first usable node that is compatible with this.
    Compatible(&'n str),
    /// The node with this path from the root, with or without unit addresses.
    Path(&'n str),
}

/// Interrupt number `index` of `device`, by its `interrupts-extended` or `interrupts`.
///
/// # Errors
/// [`Error::Firmware`]: no such node, no such interrupt, an interrupt of another controller
/// than `xive` (with that one's phandle), or a malformed property.
///
/// # Context
/// Any that may allocate.
pub fn interrupt(
    blob: &[u8],
    xive: &FdtDescription,
    device: Device<'_>,
    index: usize,
) -> Result<(SourceNumber, Trigger), Error> {
    let fdt = open(blob)?;
    let path = match device {
        Device::Path(path) => fdt.find_node(path),
        Device::Compatible(_) => None,
    };
    let found = find(fdt, &mut |place| {
        let wanted = match device {
            Device::Compatible(name) => is_compatible(place.node, name) && is_available(place.node),
            Device::Path(_) => path.is_some_and(|node| same(node, place.node)),
        };
        if wanted {
            Search::Done(resolve(fdt, xive, place, index))
        } else {
            Search::Next
        }
    })?;
    found.unwrap_or(Err(wrong("no such device", 0)))
}

/// The interrupt that firmware wants to be told of under a name which ends in `name`: it is a line,
/// and its handler calls `OPAL_HANDLE_INTERRUPT`.
///
/// # Errors
/// [`Error::Firmware`]: no `/ibm,opal` node, no such name, or a malformed property.
///
/// # Context
/// Any that may allocate.
pub fn opal_interrupt(blob: &[u8], name: &str) -> Result<SourceNumber, Error> {
    const NUMBERS: &str = "opal-interrupts";
    const NAMES: &str = "opal-interrupts-names";
    let fdt = open(blob)?;
    let node = fdt.root().child("ibm,opal");
    let node = node.ok_or(wrong("no ibm,opal node", 0))?;
    let property = |what| node.property(what).ok_or(wrong(what, 0));
    let numbers = cells(property(NUMBERS)?.value(), NUMBERS)?;
    let names = property(NAMES)?;
    let mut names = names.value().split(|&byte| byte == 0);
    let found = names.position(|one| !one.is_empty() && one.ends_with(name.as_bytes()));
    let number = found.and_then(|at| numbers.get(at));
    number
        .map(|&number| SourceNumber::new(number))
        .ok_or(wrong("no such interrupt of firmware", numbers.len() as u64))
}

/// Nodes are places in the blob: two handles are the same node if their names are the same
/// bytes in memory.
fn same(a: FdtNode<'_>, b: FdtNode<'_>) -> bool {
    core::ptr::eq(a.name(), b.name())
}

fn resolve(
    fdt: Fdt<'_>,
    xive: &FdtDescription,
    place: &Place<'_, '_>,
    index: usize,
) -> Result<(SourceNumber, Trigger), Error> {
    let missing = wrong("no such interrupt of the device", index as u64);
    if let Some(property) = place.node.property("interrupts-extended") {
        let list = cells(property.value(), "interrupts-extended")?;
        return extended(fdt, xive, &list, index);
    }
    let property = place.node.property("interrupts").ok_or(missing)?;
    let parent = interrupt_parent(place)?;
    if parent != xive.phandle {
        let at = u64::from(parent.unwrap_or(0));
        return Err(wrong("interrupt parent is another controller", at));
    }
    let all = cells(property.value(), "interrupts")?;
    let entries = all.chunks_exact(CELLS);
    if !entries.remainder().is_empty() {
        return Err(wrong("interrupts", all.len() as u64));
    }
    translate(entries.into_iter().nth(index).ok_or(missing)?)
}

/// The `interrupt-parent` of the node, or of the nearest node above that has one.
fn interrupt_parent(place: &Place<'_, '_>) -> Result<Option<u32>, Error> {
    let mut at = Some(place);
    while let Some(place) = at {
        if let Some(parent) = u32_property(place.node, "interrupt-parent")? {
            return Ok(Some(parent));
        }
        at = place.parent;
    }
    Ok(None)
}

/// Entry `index` of an `interrupts-extended` list: phandle, then as many cells as that
/// controller has.
fn extended(
    fdt: Fdt<'_>,
    xive: &FdtDescription,
    mut list: &[u32],
    index: usize,
) -> Result<(SourceNumber, Trigger), Error> {
    let malformed = wrong("interrupts-extended", list.len() as u64);
    for entry in 0.. {
        let (&parent, rest) = list.split_first().ok_or(malformed)?;
        let ours = Some(parent) == xive.phandle;
        let count = if ours {
            CELLS
        } else {
            controller_cells(fdt, parent)? as usize
        };
        let (specifier, rest) = rest.split_at_checked(count).ok_or(malformed)?;
        if entry == index {
            let what = "interrupt parent is another controller";
            return if ours {
                translate(specifier)
            } else {
                Err(wrong(what, parent.into()))
            };
        }
        list = rest;
    }
    Err(malformed)
}

fn controller_cells(fdt: Fdt<'_>, wanted: u32) -> Result<u32, Error> {
    let found = find(fdt, &mut |place| match phandle(place.node) {
        Ok(Some(here)) if here == wanted => {
            Search::Done(u32_property(place.node, "#interrupt-cells"))
        }
        _ => Search::Next,
    })?;
    let cells = found.transpose()?.flatten();
    cells.ok_or(wrong("no such interrupt controller", wanted.into()))
}
