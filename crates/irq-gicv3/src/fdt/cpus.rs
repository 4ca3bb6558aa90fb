// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that the tree names.

use alloc::vec::Vec;

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use irq_hal::Error;
use irq_hal::heap::try_push;

use super::integer;
use super::node::u32_property;
use crate::affinity::Mpidr;

/// The affinities of all CPU nodes, in order. Node names are not looked at: they need not
/// agree with `reg`.
pub(super) fn cpus(fdt: Fdt<'_>) -> Result<Vec<Mpidr>, Error> {
    let mut found = Vec::new();
    let Some(parent) = fdt.root().child("cpus") else {
        return Ok(found);
    };
    let width = match u32_property(parent, "#address-cells")? {
        None => 2,
        Some(count @ (1 | 2)) => count as usize,
        Some(count) => {
            return Err(Error::Firmware {
                what: "#address-cells",
                at: count.into(),
            });
        }
    };
    for node in parent.children() {
        let is = |name, value: &[u8]| {
            node.property(name)
                .is_some_and(|property| property.value() == value)
        };
        if !is("device_type", b"cpu\0") || is("status", b"fail\0") {
            continue;
        }
        let reg = node.property("reg").ok_or(Error::Firmware {
            what: "reg of a CPU",
            at: 0,
        })?;
        if reg.value().len() != width * 4 {
            let at = reg.value().len() as u64;
            return Err(Error::Firmware {
                what: "reg of a CPU",
                at,
            });
        }
        try_push(
            &mut found,
            Mpidr::new(integer(reg.value(), "reg of a CPU")?),
        )?;
    }
    Ok(found)
}
