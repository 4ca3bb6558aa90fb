// SPDX-License-Identifier: MIT OR Apache-2.0
//! SRAT and SLIT, with signature, length and checksum set right.
#![no_main]

use fuzz::{inside, seal_table};
use irq_x2apic::ApicId;
use irq_x2apic::acpi::{Domain, Slit, Srat};
use libfuzzer_sys::fuzz_target;

fn read_srat(bytes: &[u8]) {
    let table = match Srat::new(bytes) {
        Ok(table) => table,
        Err(error) => return inside(bytes, error),
    };
    let mut room = [Domain::new(0); 4];
    let domains = table.domains(&mut room);
    for entry in table.entries() {
        match (entry, domains) {
            (Ok(entry), Ok(domains)) => assert!(domains.node(entry.domain()).is_some()),
            (Ok(_), Err(_)) => {}
            (Err(error), _) => inside(bytes, error),
        }
    }
    for range in table.memory().flatten() {
        assert!(range.base.checked_add(range.len - 1).is_some());
    }
    if let Some(id) = ApicId::new(1)
        && let Err(error) = table.domain_of(id)
    {
        inside(bytes, error);
    }
}

fn read_slit(bytes: &[u8]) {
    match Slit::new(bytes) {
        Ok(table) => {
            for index in 0..table.count() as u32 {
                let itself = table.distance(Domain::new(index), Domain::new(index));
                assert_eq!(itself, Some(Slit::LOCAL));
            }
            assert_eq!(table.distance(Domain::new(0), Domain::new(u32::MAX)), None);
        }
        Err(error) => inside(bytes, error),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    for signature in [Srat::SIGNATURE, Slit::SIGNATURE] {
        if let Some(field) = bytes.get_mut(..4) {
            field.copy_from_slice(&signature);
        }
        seal_table(&mut bytes);
        read_srat(&bytes);
        read_slit(&bytes);
    }
    read_srat(data);
    read_slit(data);
});
