// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a flattened devicetree says of a GICv3.
#![no_main]

use irq_gicv3::fdt::{self, Device};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(description) = fdt::describe(data) {
        assert!(!description.redistributors.is_empty());
        for device in [Device::Compatible("arm,pl011"), Device::Path("/timer")] {
            let _ = fdt::interrupt(data, &description, device, 0);
        }
    }
});
