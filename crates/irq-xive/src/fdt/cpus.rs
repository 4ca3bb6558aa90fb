// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that the tree names: threads, their chips and their nodes.
//!
//! A thread's name is in `ibm,ppc-interrupt-server#s`, one cell for each thread of the core that
//! the node is. Its chip is `ibm,chip-id`. Its node is in `ibm,associativity`, a list of domains
//! from the outside in, behind its length: which element of it, counted from 1, is said by the
//! first cell of `ibm,associativity-reference-points`.

use alloc::vec::Vec;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use irq_hal::heap::try_push;
use irq_hal::{Error, NodeId};

use super::node::{Search, cells, find, is_a, is_available, u32_property};
use super::wrong;
use crate::ids::{ChipId, Pir};
use crate::xive::Thread;

pub(super) struct Cpus {
    pub threads: Vec<Thread>,
    pub nodes: Vec<u32>,
}

const SERVERS: &str = "ibm,ppc-interrupt-server#s";
const ASSOCIATIVITY: &str = "ibm,associativity";
const REFERENCE_POINTS: &str = "ibm,associativity-reference-points";

/// A core, with its threads' names and its node as firmware numbers it.
struct Core {
    servers: Vec<u32>,
    chip: ChipId,
    node: u32,
}

pub(super) fn cpus(fdt: Fdt<'_>) -> Result<Cpus, Error> {
    let reference = reference_point(fdt)?;
    let mut cores = Vec::new();
    let parent = fdt.root().child("cpus");
    for node in parent.iter().flat_map(|parent| parent.children()) {
        if is_a(node, b"cpu") && is_available(node) {
            try_push(&mut cores, core(node, reference)?)?;
        }
    }
    let mut nodes = Vec::new();
    for core in &cores {
        note(&mut nodes, core.node)?;
    }
    for memory in fdt.root().children().filter(|&node| is_a(node, b"memory")) {
        if is_available(memory) && memory.property(ASSOCIATIVITY).is_some() {
            note(&mut nodes, domain(memory, reference)?)?;
        }
    }
    let mut threads: Vec<Thread> = Vec::new();
    for core in &cores {
        let node = nodes.binary_search(&core.node).unwrap_or_default() as u32;
        for &server in &core.servers {
            let thread = Thread {
                pir: Pir::new(server),
                chip: core.chip,
                node: NodeId::new(node),
            };
            try_push(&mut threads, thread)?;
        }
    }
    let mut names = Vec::new();
    for thread in &threads {
        try_push(&mut names, thread.pir)?;
    }
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [one, other] = pair
            && one == other
        {
            let at = u64::from(one.get());
            return Err(wrong("two threads with one server number", at));
        }
    }
    Ok(Cpus { threads, nodes })
}

/// Puts `node` into the list, in order, if it is not there.
fn note(nodes: &mut Vec<u32>, node: u32) -> Result<(), Error> {
    if let Err(at) = nodes.binary_search(&node) {
        try_push(nodes, node)?;
        if let Some(rest) = nodes.get_mut(at..) {
            rest.rotate_right(1);
        }
    }
    Ok(())
}

fn core(node: FdtNode<'_>, reference: Option<u32>) -> Result<Core, Error> {
    let at = u64::from(u32_property(node, "reg")?.unwrap_or(0));
    let chip = u32_property(node, "ibm,chip-id")?;
    let chip = chip.ok_or(wrong("a CPU without ibm,chip-id", at))?;
    let servers = node.property(SERVERS).ok_or(wrong(SERVERS, at))?;
    let servers = cells(servers.value(), SERVERS)?;
    if servers.is_empty() {
        return Err(wrong(SERVERS, at));
    }
    Ok(Core {
        servers,
        chip: ChipId::new(chip),
        node: domain(node, reference)?,
    })
}

/// The node of a CPU or a memory; all are on one where firmware knows none.
fn domain(node: FdtNode<'_>, reference: Option<u32>) -> Result<u32, Error> {
    let Some(reference) = reference else {
        return Ok(0);
    };
    let list = node.property(ASSOCIATIVITY);
    let list = list.ok_or(wrong(ASSOCIATIVITY, 0))?;
    let list = cells(list.value(), ASSOCIATIVITY)?;
    let (&count, domains) = list.split_first().ok_or(wrong(ASSOCIATIVITY, 0))?;
    if count as usize != domains.len() {
        return Err(wrong(ASSOCIATIVITY, count.into()));
    }
    let index = (reference as usize).checked_sub(1);
    let domain = index.and_then(|index| domains.get(index)).copied();
    domain.ok_or(wrong(REFERENCE_POINTS, reference.into()))
}

/// Which element of a list of domains is the node.
fn reference_point(fdt: Fdt<'_>) -> Result<Option<u32>, Error> {
    let found = find(
        fdt,
        &mut |place| match place.node.property(REFERENCE_POINTS) {
            Some(property) => Search::Done(cells(property.value(), REFERENCE_POINTS)),
            None => Search::Next,
        },
    )?;
    let points = found.transpose()?.unwrap_or_default();
    Ok(points.first().copied())
}
