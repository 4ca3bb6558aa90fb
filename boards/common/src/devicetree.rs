// SPDX-License-Identifier: MIT OR Apache-2.0
//! What boards ask a flattened devicetree: memory, boot arguments, devices, CPUs.
//!
//! The tree is read in place. Devices are looked for below the root and one level further
//! (`simple-bus`), without address translation: machines that need `ranges` are not here yet.

mod cpus;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use irq_hal::Error;

pub use cpus::{Cpu, Cpus};

/// Bytes of the header that say how long the tree is.
const SIZE_AT: usize = 4;

/// A devicetree whose structure has been checked.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    fdt: Fdt<'a>,
    blob: &'a [u8],
}

/// A bank of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bank {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A device node.
#[derive(Clone, Copy)]
pub struct Device<'a>(FdtNode<'a>);

impl<'a> Tree<'a> {
    /// The tree at the beginning of `memory`, which may go on behind it.
    ///
    /// # Errors
    /// [`Error::Firmware`] if there is no tree, if it says that it is longer than `memory`, or
    /// if its structure is broken.
    pub fn new(memory: &'a [u8]) -> Result<Self, Error> {
        let size = memory
            .get(SIZE_AT..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let blob = memory.get(..size as usize).ok_or(Error::Firmware {
            what: "devicetree's total size",
            at: u64::from(size),
        })?;
        let fdt = Fdt::new(blob).map_err(|_| Error::Firmware {
            what: "devicetree's structure",
            at: u64::from(size),
        })?;
        Ok(Self { fdt, blob })
    }

    /// The tree in `blob`, whose structure somebody else has checked: for trees that [`new`](Self::new)
    /// refuses because they have longer names than the specification allows.
    pub fn from_checked(blob: &'a [u8]) -> Self {
        let fdt = Fdt::new_unchecked(blob);
        Self { fdt, blob }
    }

    /// The tree's bytes, for other readers.
    pub const fn blob(&self) -> &'a [u8] {
        self.blob
    }

    /// `/chosen/bootargs`, empty where there is none.
    pub fn bootargs(&self) -> &'a str {
        let chosen = self.fdt.find_node("/chosen").map(Device);
        chosen.and_then(|node| node.text("bootargs")).unwrap_or("")
    }

    /// The banks of memory, in the tree's order.
    pub fn memory(&self) -> impl Iterator<Item = Bank> + use<'a> {
        let nodes = self.fdt.root().children().map(Device);
        nodes
            .filter(|node| node.text("device_type") == Some("memory"))
            .flat_map(|device| (0..).map_while(move |at| device.reg(at)))
            .map(|(base, len)| Bank { base, len })
    }

    /// The usable devices that are compatible with `name`.
    pub fn compatible(&self, name: &'static str) -> impl Iterator<Item = Device<'a>> + use<'a> {
        let first = self.fdt.root().children();
        first
            .flat_map(|node| core::iter::once(node).chain(node.children()))
            .filter(move |node| node.is_compatible(name))
            .map(Device)
            .filter(Device::usable)
    }

    /// The path in `/chosen/stdout-path`, without the options behind `:`.
    pub fn stdout_path(&self) -> Option<&'a str> {
        let text = Device(self.fdt.find_node("/chosen")?).text("stdout-path")?;
        text.split(':').next()
    }

    /// The device of [`stdout_path`](Self::stdout_path). Aliases are not followed.
    pub fn stdout(&self) -> Option<Device<'a>> {
        self.fdt.find_node(self.stdout_path()?).map(Device)
    }
}

impl<'a> Device<'a> {
    /// The property `name` as bytes.
    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.0.property(name)?.value_as::<&'a [u8]>().ok()
    }

    /// The property `name` as its first string.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let bytes = self.bytes(name)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        core::str::from_utf8(&bytes[..end]).ok()
    }

    /// The property `name` as one cell.
    pub fn cell(&self, name: &str) -> Option<u32> {
        let bytes = self.bytes(name)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }

    /// Base and length of window `at` of `reg`.
    pub fn reg(&self, at: usize) -> Option<(u64, u64)> {
        let reg = self.0.reg().ok()??.nth(at)?;
        Some((reg.address().ok()?, reg.size().ok()?))
    }

    /// `status` is absent or says okay.
    pub fn usable(&self) -> bool {
        matches!(self.text("status"), None | Some("okay" | "ok"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_is_not_there_or_longer_than_its_memory_is_refused() {
        assert!(matches!(Tree::new(&[]), Err(Error::Firmware { .. })));
        assert!(matches!(Tree::new(&[0; 64]), Err(Error::Firmware { .. })));
        let mut header = [0; 64];
        header[..8].copy_from_slice(&[0xd0, 0x0d, 0xfe, 0xed, 0, 0, 0, 65]);
        assert!(matches!(
            Tree::new(&header),
            Err(Error::Firmware { at: 65, .. })
        ));
    }
}
