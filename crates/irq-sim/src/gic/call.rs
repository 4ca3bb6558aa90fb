// SPDX-License-Identifier: MIT OR Apache-2.0
//! One access on its way through the model, and how the model objects to it.

use std::fmt;

use irq_hal::CpuIndex;

use super::sysreg;
use crate::log::Unit;

/// Which security state an access is made in. Without two states, or with `DS=1`, both are
/// the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// A non-secure kernel's.
    NonSecure,
    /// Firmware's.
    Secure,
}

/// An access under judgement. `store` holds the value of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub cpu: CpuIndex,
    pub unit: Unit,
    pub offset: usize,
    pub width: u8,
    pub view: View,
    pub store: Option<u64>,
}

impl Call {
    /// Stops the test: the access breaks `rule`.
    #[track_caller]
    pub fn forbid(&self, rule: impl fmt::Display) -> ! {
        panic!("{self}: {rule}")
    }

    /// Only these widths, in bytes.
    #[track_caller]
    pub fn widths(&self, allowed: &[u8]) {
        if !allowed.contains(&self.width) {
            self.forbid(format_args!(
                "wrong width, only {allowed:?} bytes are allowed"
            ));
        }
    }

    /// A write to a register that cannot be written.
    #[track_caller]
    pub fn read_only(&self) {
        if self.store.is_some() {
            self.forbid("the register is read-only");
        }
    }

    /// A read of a register that cannot be read.
    #[track_caller]
    pub fn write_only(&self) -> u64 {
        self.store
            .unwrap_or_else(|| self.forbid("the register is write-only"))
    }

    /// Writing ones to reserved bits.
    #[track_caller]
    pub fn reserved(&self, strict: bool, value: u64, allowed: u64) {
        if strict && value & !allowed != 0 {
            self.forbid(format_args!(
                "reserved bits {:#x} written as ones",
                value & !allowed
            ));
        }
    }

    /// The part of a 64-bit register's `value` that this read sees.
    pub fn read_part(&self, base: usize, value: u64) -> u64 {
        match (self.width, self.offset - base) {
            (8, _) => value,
            (_, 0) => value & 0xffff_ffff,
            _ => value >> 32,
        }
    }

    /// A 64-bit register's value after this write of `part` over `old`.
    pub fn write_part(&self, base: usize, old: u64, part: u64) -> u64 {
        match (self.width, self.offset - base) {
            (8, _) => part,
            (_, 0) => old & !0xffff_ffff | part,
            _ => old & 0xffff_ffff | part << 32,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpu,
            unit,
            offset,
            width,
            view,
            store,
        } = self;
        match store {
            Some(value) => write!(f, "{cpu} stores {value:#x} to ")?,
            None => write!(f, "{cpu} loads from ")?,
        }
        match unit {
            Unit::Gicd => write!(
                f,
                "{} (GICD+{offset:#x}, {width} bytes)",
                gicd_name(*offset)
            )?,
            Unit::Gicr(rd) => {
                write!(
                    f,
                    "{} (GICR{rd}+{offset:#x}, {width} bytes)",
                    gicr_name(*offset)
                )?;
            }
            Unit::Icc(_) => write!(f, "{}", sysreg::name(*offset))?,
            _ => write!(f, "{offset:#x}")?,
        }
        if *view == View::Secure {
            write!(f, " in the Secure view")
        } else {
            Ok(())
        }
    }
}

/// The banks that the distributor and the SGI frame share: base, length, name, bytes each.
const BANKS: [(usize, usize, &str, usize); 10] = [
    (0x080, 0x80, "IGROUPR", 4),
    (0x100, 0x80, "ISENABLER", 4),
    (0x180, 0x80, "ICENABLER", 4),
    (0x200, 0x80, "ISPENDR", 4),
    (0x280, 0x80, "ICPENDR", 4),
    (0x300, 0x80, "ISACTIVER", 4),
    (0x380, 0x80, "ICACTIVER", 4),
    (0x400, 0x400, "IPRIORITYR", 4),
    (0xc00, 0x100, "ICFGR", 4),
    (0xd00, 0x80, "IGRPMODR", 4),
];

/// The distributor's banks for extended SPIs and for routes.
const WIDE_BANKS: [(usize, usize, &str, usize); 12] = [
    (0x1000, 0x80, "IGROUPR", 4),
    (0x1200, 0x80, "ISENABLER", 4),
    (0x1400, 0x80, "ICENABLER", 4),
    (0x1600, 0x80, "ISPENDR", 4),
    (0x1800, 0x80, "ICPENDR", 4),
    (0x1a00, 0x80, "ISACTIVER", 4),
    (0x1c00, 0x80, "ICACTIVER", 4),
    (0x2000, 0x400, "IPRIORITYR", 4),
    (0x3000, 0x100, "ICFGR", 4),
    (0x3400, 0x80, "IGRPMODR", 4),
    (0x6000, 0x2000, "IROUTER", 8),
    (0x8000, 0x2000, "IROUTER", 8),
];

fn in_bank(offset: usize, banks: &[(usize, usize, &str, usize)]) -> Option<String> {
    let (base, _, name, each) = banks
        .iter()
        .find(|(base, len, ..)| (*base..base + len).contains(&offset))?;
    Some(format!("{name}{}", (offset - base) / each))
}

fn gicd_name(offset: usize) -> String {
    let name = match offset {
        0x0000 => "CTLR",
        0x0004 => "TYPER",
        0x0008 => "IIDR",
        0x000c => "TYPER2",
        0x0010 => "STATUSR",
        0x0040 => "SETSPI_NSR",
        0x0048 => "CLRSPI_NSR",
        0x0800..0x0c00 => "ITARGETSR",
        0x0f00 => "SGIR",
        0xffe8 => "PIDR2",
        _ => {
            let (banks, tail) = if offset < 0x1000 {
                (&BANKS[..], "")
            } else {
                (&WIDE_BANKS[..], "E")
            };
            let tail = if (0x6000..0x8000).contains(&offset) {
                ""
            } else {
                tail
            };
            return match in_bank(offset, banks) {
                Some(name) => format!("GICD_{name}{tail}"),
                None => "GICD_?".into(),
            };
        }
    };
    format!("GICD_{name}")
}

fn gicr_name(offset: usize) -> String {
    let name = match offset {
        0x0000 => "CTLR",
        0x0004 => "IIDR",
        0x0008 | 0x000c => "TYPER",
        0x0010 => "STATUSR",
        0x0014 => "WAKER",
        0x0024 => "PWRR",
        0x0070 => "PROPBASER",
        0x0078 => "PENDBASER",
        0xffe8 => "PIDR2",
        0x1_0000..0x2_0000 => {
            return match in_bank(offset - 0x1_0000, &BANKS) {
                Some(name) => format!("GICR_{name}"),
                None => "GICR_? in the SGI frame".into(),
            };
        }
        _ => "?",
    };
    format!("GICR_{name}")
}
