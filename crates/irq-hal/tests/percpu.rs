// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-CPU blocks, and the numbers that name them.
#![cfg(not(loom))]

use irq_hal::percpu::{CachePadded, OnCpu, PerCpu};
use irq_hal::{CpuIndex, Error, NodeId, PhysAddr};

#[test]
fn each_cpu_has_a_block_and_no_two_share_a_line() {
    let blocks = PerCpu::new(5, |cpu| cpu.get() * 10).unwrap();
    assert_eq!((blocks.len(), blocks.is_empty()), (5, false));
    let seen: Vec<_> = blocks
        .iter()
        .map(|(cpu, block)| (cpu.get(), *block))
        .collect();
    assert_eq!(seen, [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]);
    assert_eq!(blocks.get(CpuIndex::new(5)), None);
    let mut lines: Vec<_> = blocks
        .iter()
        .map(|(_, block)| std::ptr::from_ref(block).addr() / 128)
        .collect();
    lines.dedup();
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_block_that_cannot_be_made_fails_the_whole() {
    let error = Error::OutOfMemory {
        bytes: 1,
        node: NodeId::FLAT,
    };
    let made = PerCpu::<u8>::try_new(3, |cpu| if cpu.get() < 2 { Ok(0) } else { Err(error) });
    assert_eq!(made.unwrap_err(), error);
}

#[test]
fn blocks_may_be_placed_by_the_embedder() {
    static NEAR: [CachePadded<u32>; 2] = [CachePadded::new(7), CachePadded::new(8)];
    let blocks = PerCpu::from_blocks(NEAR.iter()).unwrap();
    assert!(std::ptr::eq(
        blocks.get(CpuIndex::new(1)).unwrap(),
        &*NEAR[1]
    ));
    assert_eq!((blocks.len(), blocks.get(CpuIndex::new(2))), (2, None));
    assert!(PerCpu::<u32>::from_blocks([].iter()).unwrap().is_empty());
}

#[test]
fn more_cpus_than_there_is_memory_for_is_an_error() {
    let made = PerCpu::<[u8; 1 << 16]>::new(u32::MAX, |_| unreachable!());
    assert!(matches!(made.unwrap_err(), Error::OutOfMemory { .. }));
}

#[test]
fn a_proof_names_its_cpu() {
    // SAFETY: a test plays a CPU of its own.
    let on = unsafe { OnCpu::new(CpuIndex::new(3)) };
    assert_eq!(on.cpu(), CpuIndex::new(3));
}

#[test]
fn numbers_print_as_what_they_number() {
    let cpu = CpuIndex::new(12);
    assert_eq!((format!("{cpu}"), cpu.index()), ("cpu12".into(), 12));
    assert_eq!(format!("{}", NodeId::new(1)), "node1");
    assert_eq!(
        format!("{} {:?}", PhysAddr::new(0x80), PhysAddr::new(0x81)),
        "0x80 0x81"
    );
    assert_eq!(PhysAddr::new(u64::MAX).checked_add(1), None);
    assert_eq!(PhysAddr::new(1).checked_add(1), Some(PhysAddr::new(2)));
}
