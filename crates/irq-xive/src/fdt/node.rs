// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walking the tree, and the properties that every node may have.

use alloc::vec::Vec;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use irq_hal::Error;
use irq_hal::heap::try_push;

use super::structure::checked;
use super::wrong;

/// Deeper nodes are not looked at: no controller or device sits there, and the walk uses the
/// stack.
const DEPTH_MAX: usize = 16;

/// The tree in `blob`, which may be longer.
pub(super) fn open(blob: &[u8]) -> Result<Fdt<'_>, Error> {
    Ok(Fdt::new_unchecked(checked(blob)?))
}

/// A node and the way to it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a, 'p> {
    pub node: FdtNode<'a>,
    pub parent: Option<&'p Place<'a, 'p>>,
}

/// Whether a search goes on.
pub(super) enum Search<T> {
    Next,
    Done(T),
}

/// Visits nodes, parents first, until `visit` is done.
pub(super) fn find<'a, T>(
    fdt: Fdt<'a>,
    visit: &mut impl FnMut(&Place<'a, '_>) -> Search<T>,
) -> Result<Option<T>, Error> {
    let root = Place {
        node: fdt.root(),
        parent: None,
    };
    Ok(walk(&root, 0, visit))
}

fn walk<'a, T>(
    place: &Place<'a, '_>,
    depth: usize,
    visit: &mut impl FnMut(&Place<'a, '_>) -> Search<T>,
) -> Option<T> {
    if let Search::Done(found) = visit(place) {
        return Some(found);
    }
    if depth == DEPTH_MAX {
        return None;
    }
    place.node.children().find_map(|node| {
        let child = Place {
            node,
            parent: Some(place),
        };
        walk(&child, depth + 1, visit)
    })
}

/// The big-endian words of a property.
pub(super) fn cells(value: &[u8], what: &'static str) -> Result<Vec<u32>, Error> {
    let (words, rest) = value.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(wrong(what, value.len() as u64));
    }
    let mut cells = Vec::new();
    for &word in words {
        try_push(&mut cells, u32::from_be_bytes(word))?;
    }
    Ok(cells)
}

/// A property of one cell, if the node has it.
pub(super) fn u32_property(node: FdtNode<'_>, name: &'static str) -> Result<Option<u32>, Error> {
    let Some(property) = node.property(name) else {
        return Ok(None);
    };
    match <[u8; 4]>::try_from(property.value()) {
        Ok(word) => Ok(Some(u32::from_be_bytes(word))),
        Err(_) => Err(wrong(name, property.value().len() as u64)),
    }
}

/// How others refer to the node.
pub(super) fn phandle(node: FdtNode<'_>) -> Result<Option<u32>, Error> {
    match u32_property(node, "phandle")? {
        Some(phandle) => Ok(Some(phandle)),
        None => u32_property(node, "linux,phandle"),
    }
}

pub(super) fn is_compatible(node: FdtNode<'_>, name: &str) -> bool {
    node.compatible()
        .into_iter()
        .flatten()
        .any(|other| other == name)
}

/// Whether firmware lets the node be used.
pub(super) fn is_available(node: FdtNode<'_>) -> bool {
    node.property("status")
        .is_none_or(|status| matches!(status.value(), b"okay\0" | b"ok\0" | b"okay" | b"ok"))
}

/// Whether the node is one of this kind.
pub(super) fn is_a(node: FdtNode<'_>, kind: &[u8]) -> bool {
    let property = node.property("device_type");
    property.is_some_and(|property| property.value().strip_suffix(b"\0") == Some(kind))
}

fn number(cells: &[u32]) -> u64 {
    cells
        .iter()
        .fold(0, |number, &cell| number << 32 | u64::from(cell))
}

impl Place<'_, '_> {
    /// The windows of `reg`, each as address and length. The node is below the root, where bus
    /// and CPU addresses are the same.
    pub(super) fn windows(&self) -> Result<Vec<(u64, u64)>, Error> {
        let missing = wrong("reg", 0);
        let (property, parent) = self.node.property("reg").zip(self.parent).ok_or(missing)?;
        if parent.parent.is_some() {
            return Err(wrong("a controller behind a bus", 0));
        }
        let width = |name, otherwise| match u32_property(parent.node, name)?.unwrap_or(otherwise) {
            count @ (1 | 2) => Ok(count as usize),
            count => Err(wrong(name, count.into())),
        };
        let (address, size) = (width("#address-cells", 2)?, width("#size-cells", 1)?);
        let all = cells(property.value(), "reg")?;
        let entries = all.chunks_exact(address + size);
        if all.is_empty() || !entries.remainder().is_empty() {
            return Err(wrong("reg", all.len() as u64));
        }
        let mut windows = Vec::new();
        for entry in entries {
            let (base, len) = entry.split_at(address);
            try_push(&mut windows, (number(base), number(len)))?;
        }
        Ok(windows)
    }
}
