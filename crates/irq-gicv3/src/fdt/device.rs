// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupts of devices.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use irq_core::Trigger;
use irq_hal::Error;

use super::node::{Place, Search, cells, find, is_compatible, open, phandle, u32_property};
use super::{FdtDescription, translate};
use crate::intid::IntId;

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
/// than `gic` (with that one's phandle), or a malformed property.
///
/// # Context
/// Any that may allocate.
pub fn interrupt(
    blob: &[u8],
    gic: &FdtDescription<'_>,
    device: Device<'_>,
    index: usize,
) -> Result<(IntId, Trigger), Error> {
    let fdt = open(blob)?;
    let path = match device {
        Device::Path(path) => fdt.find_node(path),
        Device::Compatible(_) => None,
    };
    let found = find(fdt, &mut |place| {
        let wanted = match device {
            Device::Compatible(name) => is_compatible(place.node, name) && place.is_available(),
            Device::Path(_) => path.is_some_and(|node| same(node, place.node)),
        };
        if wanted {
            Search::Done(resolve(fdt, gic, place, index))
        } else {
            Search::Next
        }
    })?;
    found.unwrap_or(Err(Error::Firmware {
        what: "no such device",
        at: 0,
    }))
}

/// Nodes are places in the blob: two handles are the same node if their names are the same
/// bytes in memory.
fn same(a: dtoolkit::fdt::FdtNode<'_>, b: dtoolkit::fdt::FdtNode<'_>) -> bool {
    core::ptr::eq(a.name(), b.name())
}

fn resolve(
    fdt: Fdt<'_>,
    gic: &FdtDescription<'_>,
    place: &Place<'_, '_>,
    index: usize,
) -> Result<(IntId, Trigger), Error> {
    let missing = Error::Firmware {
        what: "no such interrupt of the device",
        at: index as u64,
    };
    if let Some(property) = place.node.property("interrupts-extended") {
        return extended(
            fdt,
            gic,
            &cells(property.value(), "interrupts-extended")?,
            index,
        );
    }
    let property = place.node.property("interrupts").ok_or(missing)?;
    let parent = interrupt_parent(place)?;
    if parent != gic.phandle {
        let at = u64::from(parent.unwrap_or(0));
        return Err(Error::Firmware {
            what: "interrupt parent is another controller",
            at,
        });
    }
    let all = cells(property.value(), "interrupts")?;
    let entries = all.chunks_exact(gic.interrupt_cells as usize);
    if !entries.remainder().is_empty() {
        return Err(Error::Firmware {
            what: "interrupts",
            at: all.len() as u64,
        });
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
    gic: &FdtDescription<'_>,
    mut list: &[u32],
    index: usize,
) -> Result<(IntId, Trigger), Error> {
    let wrong = Error::Firmware {
        what: "interrupts-extended",
        at: list.len() as u64,
    };
    for entry in 0.. {
        let (&parent, rest) = list.split_first().ok_or(wrong)?;
        let ours = Some(parent) == gic.phandle;
        let count = if ours {
            gic.interrupt_cells
        } else {
            controller_cells(fdt, parent)?
        } as usize;
        let (specifier, rest) = rest.split_at_checked(count).ok_or(wrong)?;
        if entry == index {
            let what = "interrupt parent is another controller";
            return if ours {
                translate(specifier)
            } else {
                Err(Error::Firmware {
                    what,
                    at: parent.into(),
                })
            };
        }
        list = rest;
    }
    Err(wrong)
}

fn controller_cells(fdt: Fdt<'_>, wanted: u32) -> Result<u32, Error> {
    let found = find(fdt, &mut |place| match phandle(place.node) {
        Ok(Some(here)) if here == wanted => {
            Search::Done(u32_property(place.node, "#interrupt-cells"))
        }
        _ => Search::Next,
    })?;
    let cells = found.transpose()?.flatten();
    cells.ok_or(Error::Firmware {
        what: "no such interrupt controller",
        at: wanted.into(),
    })
}
