// SPDX-License-Identifier: MIT OR Apache-2.0
//! One access on its way through the model, and how the model objects to it.

use std::fmt;

use irq_hal::CpuIndex;

use crate::log::Unit;

/// An access under judgement, in the controller's byte order. `store` holds the value of a
/// write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub cpu: CpuIndex,
    pub unit: Unit,
    pub offset: usize,
    pub width: u8,
    pub store: Option<u64>,
}

impl Call {
    /// Stops the test: the access breaks `rule`.
    #[track_caller]
    pub fn forbid(&self, rule: impl fmt::Display) -> ! {
        panic!("{self}: {rule}")
    }

    /// Only this width, in bytes.
    #[track_caller]
    pub fn width(&self, allowed: u8) {
        if self.width != allowed {
            self.forbid(format_args!(
                "wrong width, only {allowed} bytes are allowed"
            ));
        }
    }

    pub fn cpu(&self) -> usize {
        self.cpu.index()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpu,
            unit,
            offset,
            width,
            store,
        } = self;
        match store {
            Some(value) => write!(f, "{cpu} stores {value:#x} to ")?,
            None => write!(f, "{cpu} loads from ")?,
        }
        write!(f, "{unit}+{offset:#x} ({width} bytes)")
    }
}
