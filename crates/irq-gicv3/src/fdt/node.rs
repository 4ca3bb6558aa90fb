// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walking the tree, and the properties that every node may have.

use alloc::vec::Vec;

use dtoolkit::error::{FdtErrorKind, FdtParseError};
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use irq_hal::Error;
use irq_hal::heap::try_push;

use super::Window;

/// Deeper nodes are not looked at: no controller or device sits there, and the walk uses the
/// stack.
const DEPTH_MAX: usize = 16;

/// The tree in `blob`, which may be longer.
pub(super) fn open(blob: &[u8]) -> Result<Fdt<'_>, Error> {
    let short = Error::Firmware {
        what: "devicetree is truncated",
        at: blob.len() as u64,
    };
    let size = blob
        .get(4..8)
        .and_then(|size| <[u8; 4]>::try_from(size).ok())
        .ok_or(short)?;
    let size = usize::try_from(u32::from_be_bytes(size)).map_err(|_| short)?;
    let blob = blob.get(..size).ok_or(short)?;
    Fdt::new(blob).map_err(|error| invalid(&error))
}

fn invalid(error: &FdtParseError) -> Error {
    let (what, at) = match error.kind {
        FdtErrorKind::InvalidMagic => ("devicetree magic", 0),
        FdtErrorKind::UnsupportedVersion(version) => ("devicetree version", version),
        FdtErrorKind::InvalidLength | FdtErrorKind::InvalidOffset => ("devicetree length", 0),
        FdtErrorKind::InvalidHeader(_) => ("devicetree header", 0),
        FdtErrorKind::BadToken(token) => ("devicetree token", token),
        FdtErrorKind::InvalidNodeName => ("devicetree node name", 0),
        FdtErrorKind::InvalidPropertyName => ("devicetree property name", 0),
        _ => ("devicetree contents", 0),
    };
    Error::Firmware {
        what,
        at: at.into(),
    }
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
    Ok(walk(
        &Place {
            node: fdt.root(),
            parent: None,
        },
        0,
        visit,
    ))
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
        walk(
            &Place {
                node,
                parent: Some(place),
            },
            depth + 1,
            visit,
        )
    })
}

/// The big-endian words of a property.
pub(super) fn cells(value: &[u8], what: &'static str) -> Result<Vec<u32>, Error> {
    let (words, rest) = value.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Error::Firmware {
            what,
            at: value.len() as u64,
        });
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
        Err(_) => Err(Error::Firmware {
            what: name,
            at: property.value().len() as u64,
        }),
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

/// Cells of an address or a length below `node`: 1 or 2.
fn width(node: FdtNode<'_>, name: &'static str, otherwise: u32) -> Result<usize, Error> {
    match u32_property(node, name)?.unwrap_or(otherwise) {
        count @ (1 | 2) => Ok(count as usize),
        count => Err(Error::Firmware {
            what: name,
            at: count.into(),
        }),
    }
}

fn address_cells(node: FdtNode<'_>) -> Result<usize, Error> {
    width(node, "#address-cells", 2)
}

fn size_cells(node: FdtNode<'_>) -> Result<usize, Error> {
    width(node, "#size-cells", 1)
}

fn number(cells: &[u32]) -> u64 {
    cells
        .iter()
        .fold(0, |number, &cell| number << 32 | u64::from(cell))
}

impl<'a> Place<'a, '_> {
    /// Whether firmware lets the node be used.
    pub(super) fn is_available(&self) -> bool {
        self.node
            .property("status")
            .is_none_or(|status| matches!(status.value(), b"okay\0" | b"ok\0" | b"okay" | b"ok"))
    }

    /// The windows of `reg`, in CPU addresses.
    pub(super) fn windows(&self) -> Result<Vec<Window>, Error> {
        let missing = Error::Firmware { what: "reg", at: 0 };
        let (property, parent) = self.node.property("reg").zip(self.parent).ok_or(missing)?;
        let (address, size) = (address_cells(parent.node)?, size_cells(parent.node)?);
        let all = cells(property.value(), "reg")?;
        let entries = all.chunks_exact(address + size);
        if all.is_empty() || !entries.remainder().is_empty() {
            return Err(Error::Firmware {
                what: "reg",
                at: all.len() as u64,
            });
        }
        let mut windows = Vec::new();
        for entry in entries {
            let (base, len) = entry.split_at(address);
            let window = Window::new(number(base), number(len))?;
            try_push(&mut windows, parent.cpu_window(window)?)?;
        }
        Ok(windows)
    }

    /// Translates a window of the bus that this node is into CPU addresses.
    fn cpu_window(&self, window: Window) -> Result<Window, Error> {
        let Some(parent) = self.parent else {
            return Ok(window);
        };
        let at = window.base.get();
        let Some(ranges) = self.node.property("ranges") else {
            return Err(Error::Firmware {
                what: "a bus without ranges",
                at,
            });
        };
        if ranges.value().is_empty() {
            return parent.cpu_window(window);
        }
        let (child, up) = (address_cells(self.node)?, address_cells(parent.node)?);
        let size = size_cells(self.node)?;
        let all = cells(ranges.value(), "ranges")?;
        for entry in all.chunks_exact(child + up + size) {
            let from = number(&entry[..child]);
            let to = number(&entry[child..child + up]);
            let len = number(&entry[child + up..]);
            let Some(offset) = at.checked_sub(from) else {
                continue;
            };
            if offset.checked_add(window.len).is_some_and(|end| end <= len) {
                let base = to.checked_add(offset);
                let base = base.ok_or(Error::Firmware {
                    what: "ranges",
                    at: to,
                })?;
                return parent.cpu_window(Window::new(base, window.len)?);
            }
        }
        Err(Error::Firmware {
            what: "an address outside of ranges",
            at,
        })
    }
}
