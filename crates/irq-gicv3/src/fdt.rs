// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a flattened devicetree says about the controller: pure helpers beside the probe.
//!
//! ```text
//! describe     the arm,gic-v3 node: windows, stride, phandle, cells, and the CPUs
//! translate    interrupt specifier cells -> INTID and trigger
//! interrupt    one interrupt of a device's node, if its parent is this controller
//! ```
//! The blob comes from firmware and may be truncated or wrong: every answer is a value or
//! [`Error::Firmware`], in time bounded by the blob's length, and no address is followed. Names
//! longer than the specification's 31 characters make a blob invalid.

mod cpus;
mod device;
mod node;
mod specifier;

use alloc::vec::Vec;

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use irq_core::Trigger;
use irq_hal::heap::try_push;
use irq_hal::{Error, PhysAddr};

use crate::affinity::Mpidr;
use crate::gic::Description;
use crate::intid::IntId;
use crate::quirks::{Machine, TABLE, When};
use crate::regs::FRAME;

pub use device::{Device, interrupt};
pub use specifier::translate;

use node::{Place, Search, cells, find, is_compatible, open, u32_property};

/// More regions than any machine has.
const REGIONS_MAX: usize = 1024;

/// A piece of physical address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Window {
    /// Its first address.
    pub base: PhysAddr,
    /// Its length in bytes.
    pub len: u64,
}

impl Window {
    fn new(base: u64, len: u64) -> Result<Self, Error> {
        if len == 0 || base.checked_add(len - 1).is_none() {
            return Err(Error::Firmware {
                what: "reg of a length that cannot be",
                at: base,
            });
        }
        Ok(Self {
            base: PhysAddr::new(base),
            len,
        })
    }

    /// The last address.
    const fn last(self) -> u64 {
        self.base.get() + (self.len - 1)
    }

    const fn overlaps(self, other: Self) -> bool {
        self.base.get() <= other.last() && other.base.get() <= self.last()
    }
}

/// What the devicetree says about the controller and the CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FdtDescription<'a> {
    /// The distributor.
    pub distributor: Window,
    /// The redistributor regions, at least one.
    pub redistributors: Vec<Window>,
    /// `redistributor-stride`, if given.
    pub stride: Option<u64>,
    /// How others refer to the controller.
    pub phandle: Option<u32>,
    /// Cells of an interrupt specifier: 3 or 4.
    pub interrupt_cells: u32,
    /// The maintenance interrupt of the virtual CPU interface, if there is one.
    pub maintenance: Option<(IntId, Trigger)>,
    /// The CPUs, in the order of their nodes; those that failed are left out.
    pub cpus: Vec<Mpidr>,
    /// `compatible` strings of the root and of the controller's node, for quirks.
    pub compatible: Vec<&'a str>,
    /// Those properties of the controller's node that [`TABLE`] asks for.
    pub properties: Vec<&'static str>,
}

impl FdtDescription<'_> {
    /// What the predicates of quirks can know from here. SoC id, number of chips and MIDR are
    /// not in a devicetree: the embedder fills them in, from SMCCC and from the CPU. Without
    /// them the quirks that go by them do not fire ([`Effects::STALE_IAR`],
    /// [`Effects::AFF0_ONLY`], [`Effects::STATE_ALIASED`]).
    ///
    /// [`Effects::STALE_IAR`]: crate::quirks::Effects::STALE_IAR
    /// [`Effects::AFF0_ONLY`]: crate::quirks::Effects::AFF0_ONLY
    /// [`Effects::STATE_ALIASED`]: crate::quirks::Effects::STATE_ALIASED
    pub fn machine(&self) -> Machine<'_> {
        Machine {
            compatible: &self.compatible,
            properties: &self.properties,
            soc_id: None,
            chips: None,
            midr: None,
        }
    }

    /// What a probe takes, with each window mapped by `map`.
    ///
    /// # Errors
    /// Those of `map`; [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate, and where `map` may be called.
    pub fn mapped<B>(
        &self,
        mut map: impl FnMut(Window) -> Result<B, Error>,
    ) -> Result<Description<'_, B>, Error> {
        let mut regions = Vec::new();
        for &region in &self.redistributors {
            try_push(&mut regions, map(region)?)?;
        }
        let mut description = Description::new(map(self.distributor)?, regions);
        description.stride = self.stride;
        description.cpus = &self.cpus;
        description.machine = self.machine();
        Ok(description)
    }
}

/// Reads the description of the first usable `arm,gic-v3` node of `blob`, which may be followed
/// by other bytes.
///
/// # Errors
/// [`Error::Firmware`] with what is wrong; [`Error::Unsupported`] for a machine with a GICv2
/// only; [`Error::TooSmall`] for windows shorter than their frames; [`Error::OutOfMemory`].
///
/// # Context
/// Any that may allocate.
pub fn describe(blob: &[u8]) -> Result<FdtDescription<'_>, Error> {
    let fdt = open(blob)?;
    let found = find(
        fdt,
        &mut |place| match is_compatible(place.node, "arm,gic-v3") {
            true if place.is_available() => Search::Done(controller(fdt, place)),
            _ => Search::Next,
        },
    )?;
    if let Some(description) = found {
        return description;
    }
    let old = find(fdt, &mut |place| {
        let is = |name| is_compatible(place.node, name);
        let old = is("arm,gic-400") || is("arm,cortex-a15-gic") || is("arm,cortex-a9-gic");
        if old { Search::Done(()) } else { Search::Next }
    })?;
    match old {
        Some(()) => Err(Error::Unsupported { feature: "GICv2" }),
        None => Err(Error::Firmware {
            what: "no arm,gic-v3 node",
            at: 0,
        }),
    }
}

fn controller<'a>(fdt: Fdt<'a>, place: &Place<'a, '_>) -> Result<FdtDescription<'a>, Error> {
    let node = place.node;
    let mut windows = place.windows()?;
    let regions = match u32_property(node, "#redistributor-regions")? {
        Some(regions) => regions as usize,
        None => 1,
    };
    if regions == 0 || regions > REGIONS_MAX || windows.len() < 1 + regions {
        return Err(Error::Firmware {
            what: "#redistributor-regions",
            at: regions as u64,
        });
    }
    windows.truncate(1 + regions);
    let distributor = windows.remove(0);
    check(distributor, &windows)?;
    let stride = match node.property("redistributor-stride") {
        Some(property) => Some(integer(property.value(), "redistributor-stride")?),
        None => None,
    };
    let interrupt_cells = match u32_property(node, "#interrupt-cells")? {
        Some(count @ (3 | 4)) => count,
        other => {
            let at = u64::from(other.unwrap_or(0));
            return Err(Error::Firmware {
                what: "#interrupt-cells",
                at,
            });
        }
    };
    let maintenance = match node.property("interrupts") {
        Some(property) => {
            let all = cells(property.value(), "interrupts")?;
            let one = all.get(..interrupt_cells as usize);
            let at = all.len() as u64;
            Some(translate(one.ok_or(Error::Firmware {
                what: "interrupts",
                at,
            })?)?)
        }
        None => None,
    };
    let mut compatible = Vec::new();
    for node in [fdt.root(), node] {
        for name in node.compatible().into_iter().flatten() {
            try_push(&mut compatible, name)?;
        }
    }
    let mut properties = Vec::new();
    for quirk in TABLE {
        if let When::Property(name) = quirk.when
            && node.property(name).is_some()
        {
            try_push(&mut properties, name)?;
        }
    }
    Ok(FdtDescription {
        distributor,
        redistributors: windows,
        stride,
        phandle: node::phandle(node)?,
        interrupt_cells,
        maintenance,
        cpus: cpus::cpus(fdt)?,
        compatible,
        properties,
    })
}

/// Refuses windows that are too short for their frames, or that lie on each other.
fn check(distributor: Window, regions: &[Window]) -> Result<(), Error> {
    let short = |what, window: Window, need: usize| match window.len < need as u64 {
        true => Err(Error::TooSmall {
            what,
            len: window.len as usize,
            need,
        }),
        false => Ok(()),
    };
    short("reg of GICD", distributor, FRAME)?;
    for (i, &region) in regions.iter().enumerate() {
        short("reg of GICR", region, 2 * FRAME)?;
        let others = regions[..i].iter().copied().chain([distributor]);
        if others.into_iter().any(|other| other.overlaps(region)) {
            return Err(Error::Firmware {
                what: "reg windows overlap",
                at: region.base.get(),
            });
        }
    }
    Ok(())
}

/// A big-endian number of one or two cells.
fn integer(value: &[u8], what: &'static str) -> Result<u64, Error> {
    match cells(value, what)?.as_slice() {
        &[low] => Ok(low.into()),
        &[high, low] => Ok(u64::from(high) << 32 | u64::from(low)),
        other => Err(Error::Firmware {
            what,
            at: other.len() as u64,
        }),
    }
}

#[cfg(test)]
mod tests;
