// SPDX-License-Identifier: MIT OR Apache-2.0
//! What skiboot's devicetree says beyond the controller and the CPUs, which
//! [`irq_xive::fdt`] reads: cores, the LPC bus with its serial ports, clock, memory in use.

use alloc::vec::Vec;

use boards_common::devicetree::Tree;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use irq_core::topology::Place;
use irq_hal::{CpuIndex, Error, PhysAddr};
use irq_xive::{SourceNumber, Thread};

/// The place of `thread`, which is CPU `index`: a core is a node of the tree, a chip a package.
pub fn place(tree: &Tree<'_>, index: CpuIndex, thread: &Thread) -> Place {
    let cpus = root(tree).child("cpus");
    let core = cpus.iter().flat_map(|cpus| cpus.children()).find(|core| {
        let servers = cells(core, "ibm,ppc-interrupt-server#s");
        servers.contains(&thread.pir.get())
    });
    let cell = |name| {
        let core = core.as_ref()?;
        cells(core, name).first().copied()
    };
    let core = cell("reg").unwrap_or(Place::flat(index).core);
    let chip = thread.chip.get();
    Place {
        core,
        l2: cell("l2-cache").unwrap_or(core),
        group: chip,
        package: chip,
        node: thread.node,
    }
}

/// Ticks of the time base in a second.
pub fn timebase(tree: &Tree<'_>) -> Option<u32> {
    let cpus = root(tree).child("cpus")?;
    cpus.children().find_map(|core| {
        let cells = cells(&core, "timebase-frequency");
        cells.first().copied()
    })
}

/// The LPC bus: where the serial ports are.
pub struct Lpc {
    /// Where its I/O space is for the CPUs.
    pub io: PhysAddr,
    /// Its host controller's registers.
    pub controller: PhysAddr,
    /// The serial ports: offset in the I/O space, and the interrupt of the bus, in the order of
    /// the offsets.
    pub ports: Vec<(u64, u32)>,
    /// The lines by which its interrupts reach the interrupt controller.
    pub lines: [Option<SourceNumber>; 4],
}

/// The bus whose addresses name its I/O space (Open Firmware's ISA binding).
const IO_SPACE: u32 = 1;

/// Number of the PSI bridge's first interrupt for LPC devices.
const FIRST_LINE: u32 = 7;

/// The LPC bus that has serial ports.
///
/// # Errors
/// [`Error::Firmware`] if there is none, or a property has another shape than skiboot gives it.
pub fn lpc(tree: &Tree<'_>) -> Result<Lpc, Error> {
    let wrong = |what| Error::Firmware { what, at: 0 };
    let buses = root(tree).children().flat_map(|bridge| {
        let buses = bridge.children();
        buses.map(move |bus| (bridge, bus))
    });
    let found = buses
        .filter(|(_, bus)| compatible(bus, "ibm,lpc"))
        .find(|(_, bus)| bus.children().any(|device| compatible(&device, "ns16550")));
    let (bridge, bus) = found.ok_or(wrong("no LPC bus with a serial port"))?;
    let [high, low, ..] = cells(&bridge, "reg")[..] else {
        return Err(wrong("reg of an LPC bridge"));
    };
    let base = u64::from(high) << 32 | u64::from(low);
    let spaces = cells(&bus, "ranges");
    let io = spaces
        .as_chunks()
        .0
        .iter()
        .find_map(|&[space, first, at, _]| {
            (space == IO_SPACE && first == 0).then_some(u64::from(at))
        });
    let io = io.ok_or(wrong("ranges of an LPC bus"))?;
    let controller = bridge.children().find_map(|device| {
        let is = |name| compatible(&device, name);
        let is = is("ibm,power9-lpc-controller") || is("ibm,power10-lpc-controller");
        let reg = is.then(|| cells(&device, "reg"))?;
        reg.first().copied()
    });
    let controller = controller.ok_or(wrong("no LPC controller"))?;
    let mut ports: Vec<_> = bus
        .children()
        .filter(|device| compatible(device, "ns16550"))
        .filter_map(|port| {
            let [IO_SPACE, at, _] = cells(&port, "reg")[..] else {
                return None;
            };
            Some((u64::from(at), cells(&port, "interrupts").first().copied()?))
        })
        .collect();
    ports.sort_unstable();
    Ok(Lpc {
        io: PhysAddr::new(base + io),
        controller: PhysAddr::new(base + u64::from(controller)),
        ports,
        lines: lines(tree, &bridge),
    })
}

/// The lines of the PSI bridge on the chip of `bridge`: an entry of its `interrupt-map` is a
/// number of its own, the controller, the source and the sense.
fn lines(tree: &Tree<'_>, bridge: &FdtNode<'_>) -> [Option<SourceNumber>; 4] {
    let chip = cells(bridge, "ibm,chip-id");
    let mut psi = root(tree)
        .children()
        .filter(|node| compatible(node, "ibm,psi"));
    let map = psi
        .find(|psi| cells(psi, "ibm,chip-id") == chip)
        .map(|psi| cells(&psi, "interrupt-map"))
        .unwrap_or_default();
    core::array::from_fn(|line| {
        let number = FIRST_LINE + line as u32;
        let mut entries = map.as_chunks().0.iter();
        let entry = entries.find(|&&[own, _, _, _]| own == number);
        entry.map(|&[_, _, girq, _]| SourceNumber::new(girq))
    })
}

/// Gives `each` the base and the length of each part of memory that is somebody's. There need be no
/// heap yet.
pub fn reserved(tree: &Tree<'_>, mut each: impl FnMut(u64, u64)) {
    let Some(node) = root(tree).child("reserved-memory") else {
        return;
    };
    for part in node.children() {
        let Some(reg) = part.property("reg") else {
            continue;
        };
        let words = reg.value().as_chunks::<8>().0;
        for pair in words.as_chunks::<2>().0 {
            let [base, len] = pair.map(u64::from_be_bytes);
            each(base, len);
        }
    }
}

fn root<'a>(tree: &Tree<'a>) -> FdtNode<'a> {
    Fdt::new_unchecked(tree.blob()).root()
}

/// The property `name` as cells; none where it is missing.
fn cells(node: &FdtNode<'_>, name: &str) -> Vec<u32> {
    let property = node.property(name);
    let words = property.iter().flat_map(|it| it.value().as_chunks().0);
    words.map(|&word| u32::from_be_bytes(word)).collect()
}

fn compatible(node: &FdtNode<'_>, name: &str) -> bool {
    node.property("compatible").is_some_and(|list| {
        let mut names = list.value().split(|&byte| byte == 0);
        names.any(|one| one == name.as_bytes())
    })
}
