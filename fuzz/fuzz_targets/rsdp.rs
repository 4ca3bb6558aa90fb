// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the RSDP to a table: the input is all the memory there is, with the RSDP at its
//! beginning. Checksums on the way are set right where they are.
#![no_main]

use fuzz::seal;
use irq_hal::acpi::{Rsdp, Sdt, TABLE_MAX, Tables};
use irq_hal::{Error, PhysAddr};
use libfuzzer_sys::fuzz_target;

/// The physical address of the input's first byte.
const BASE: u64 = 0x1000;

fn offset(at: PhysAddr) -> Option<usize> {
    usize::try_from(at.get().checked_sub(BASE)?).ok()
}

fn word<const N: usize>(memory: &[u8], at: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..N].copy_from_slice(memory.get(at..)?.get(..N)?);
    Some(u64::from_le_bytes(word))
}

/// Sets the checksum of the table at `at`; gives its bytes' place.
fn seal_at(memory: &mut [u8], at: PhysAddr) -> Option<(usize, usize)> {
    let start = offset(at)?;
    let len = word::<4>(memory, start.checked_add(4)?)? as usize;
    seal(memory.get_mut(start..)?.get_mut(..len)?, 9);
    Some((start, len))
}

fn seal_all(memory: &mut [u8]) -> Option<()> {
    memory.get_mut(..8)?.copy_from_slice(&Rsdp::SIGNATURE);
    seal(memory.get_mut(..20)?, 8);
    if let Some(whole) = memory.get_mut(..36) {
        seal(whole, 32);
    }
    let root = Rsdp::new(memory).ok()?.root();
    let (start, len) = seal_at(memory, root.addr())?;
    for at in (start + 36..start.checked_add(len)?).step_by(4) {
        let table = word::<4>(memory, at)?;
        seal_at(memory, PhysAddr::new(table));
    }
    // What was sealed may lie on the root table.
    seal_at(memory, root.addr())?;
    Some(())
}

fuzz_target!(|data: &[u8]| {
    let mut memory = data.to_vec();
    let _ = seal_all(&mut memory);
    let show = |at: PhysAddr, len: usize| {
        assert!(len <= TABLE_MAX);
        offset(at)
            .and_then(|start| memory.get(start..)?.get(..len))
            .ok_or(Error::Unsupported { feature: "memory" })
    };
    let Ok(tables) = Tables::new(PhysAddr::new(BASE), show) else {
        return;
    };
    for signature in [*b"APIC", *b"SRAT", *b"DMAR"] {
        if let Ok(Some(table)) = tables.find(signature) {
            assert_eq!(table.signature(), signature);
            assert!(Sdt::new(table.bytes()).is_ok());
        }
    }
});
