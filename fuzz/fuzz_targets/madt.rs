// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MADT, with its signature, length and checksum set right.
#![no_main]

use fuzz::{inside, seal_table};
use irq_x2apic::ApicId;
use irq_x2apic::acpi::Madt;
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) {
    let table = match Madt::new(bytes) {
        Ok(table) => table,
        Err(error) => return inside(bytes, error),
    };
    let mut ids = Vec::new();
    for cpu in table.cpus().chain(table.addable_cpus()) {
        match cpu {
            Ok(cpu) => ids.push(cpu.id),
            Err(error) => inside(bytes, error),
        }
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id comes twice");
    if let Some(&first) = ids.first() {
        let _ = table.check(first);
    }
    if let Some(id) = ApicId::new(0xfffe)
        && let Err(error) = table.check(id)
    {
        inside(bytes, error);
    }
    if let Err(error) = table.nmi_pins(1) {
        inside(bytes, error);
    }
    let _ = (table.local_apic_addr(), table.has_8259());
}

fuzz_target!(|data: &[u8]| {
    read(data);
    let mut bytes = data.to_vec();
    if let Some(signature) = bytes.get_mut(..4) {
        signature.copy_from_slice(&Madt::SIGNATURE);
    }
    seal_table(&mut bytes);
    read(&bytes);
});
