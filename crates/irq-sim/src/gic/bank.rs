// SPDX-License-Identifier: MIT OR Apache-2.0
//! The register banks that hold a bit, two bits, or a byte for each interrupt: the same in
//! the distributor and in a redistributor's SGI frame.

use super::call::Call;

/// The group that an interrupt belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Group 0: an FIQ, firmware's where there are two security states.
    Zero,
    /// Group 1 of the Secure state.
    OneSecure,
    /// Group 1 Non-secure: the only one that a non-secure kernel may own; with one security
    /// state simply Group 1.
    One,
}

/// What the hardware knows of one interrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub enabled: bool,
    /// Disabled by a write whose effect the unit has not finished: it may still be signalled.
    pub disabling: bool,
    /// Pending by an edge, or by software.
    pub latch: bool,
    /// The wire is high.
    pub line: bool,
    pub active: bool,
    pub group: bool,
    pub modifier: bool,
    /// As the hardware compares it, not as a non-secure kernel sees it.
    pub priority: u8,
    pub edge: bool,
    pub route: u64,
}

impl Source {
    pub fn pending(&self) -> bool {
        self.latch || self.line && !self.edge
    }

    /// Whether it may be signalled.
    pub fn live(&self) -> bool {
        self.enabled || self.disabling
    }

    pub fn group(&self, ds: bool) -> Group {
        match (self.group, self.modifier && !ds) {
            (true, _) => Group::One,
            (false, true) => Group::OneSecure,
            (false, false) => Group::Zero,
        }
    }

    pub fn raise(&mut self, high: bool) {
        if high && !self.line && self.edge {
            self.latch = true;
        }
        self.line = high;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bank {
    Group,
    Modifier,
    SetEnable,
    ClearEnable,
    SetPending,
    ClearPending,
    SetActive,
    ClearActive,
    Priority,
    Config,
}

/// Which bank a register belongs to, and the first of the interrupts in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub bank: Bank,
    pub first: usize,
    pub count: usize,
}

/// Where each bank begins and how many bytes it has.
pub(super) type Table = [(usize, usize, Bank); 10];

/// The banks of interrupts 0 to 1019, and of the SGI frame.
pub(super) const NORMAL: Table = [
    (0x080, 0x80, Bank::Group),
    (0x100, 0x80, Bank::SetEnable),
    (0x180, 0x80, Bank::ClearEnable),
    (0x200, 0x80, Bank::SetPending),
    (0x280, 0x80, Bank::ClearPending),
    (0x300, 0x80, Bank::SetActive),
    (0x380, 0x80, Bank::ClearActive),
    (0x400, 0x400, Bank::Priority),
    (0xc00, 0x100, Bank::Config),
    (0xd00, 0x80, Bank::Modifier),
];

/// The distributor's banks of extended SPIs.
pub(super) const EXTENDED: Table = [
    (0x1000, 0x80, Bank::Group),
    (0x1200, 0x80, Bank::SetEnable),
    (0x1400, 0x80, Bank::ClearEnable),
    (0x1600, 0x80, Bank::SetPending),
    (0x1800, 0x80, Bank::ClearPending),
    (0x1a00, 0x80, Bank::SetActive),
    (0x1c00, 0x80, Bank::ClearActive),
    (0x2000, 0x400, Bank::Priority),
    (0x3000, 0x100, Bank::Config),
    (0x3400, 0x80, Bank::Modifier),
];

/// The place of the access in `table`, with its width checked.
pub(super) fn place(call: &Call, offset: usize, table: &Table) -> Option<Place> {
    let inside = |(base, len, _): &&(usize, usize, Bank)| (*base..base + len).contains(&offset);
    let (base, _, bank) = table.iter().find(inside)?;
    let at = offset - base;
    let (first, count) = match bank {
        Bank::Priority => {
            call.widths(&[1, 4]);
            (at, call.width as usize)
        }
        Bank::Config => {
            call.widths(&[4]);
            (at * 4, 16)
        }
        _ => {
            call.widths(&[4]);
            (at * 8, 32)
        }
    };
    Some(Place {
        bank: *bank,
        first,
        count,
    })
}

/// How the unit that holds a bank judges accesses to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// One security state.
    pub ds: bool,
    /// The access is Secure, or there is one security state.
    pub secure: bool,
    /// The priority bits that exist.
    pub priority_mask: u8,
    /// Priority may change only while the interrupt is disabled.
    pub strict_priority: bool,
    /// Reserved bits must be written as zero.
    pub strict: bool,
}

impl Rules {
    /// Whether the access reaches the interrupt's fields; else they are RAZ/WI.
    fn sees(&self, source: &Source) -> bool {
        self.secure || source.group(self.ds) == Group::One
    }

    /// A priority as the kernel reads it.
    fn shown(&self, raw: u8) -> u8 {
        match (self.secure, raw & 0x80) {
            (true, _) => raw,
            (false, 0) => 0,
            (false, _) => raw << 1,
        }
    }

    /// A priority as the hardware keeps it.
    fn kept(&self, written: u8) -> u8 {
        let raw = if self.secure {
            written
        } else {
            0x80 | written >> 1
        };
        raw & self.priority_mask
    }
}

/// Reads the fields of `place`; interrupts that do not exist read as zero.
pub(super) fn read(rules: &Rules, bank: Bank, sources: &[Source]) -> u64 {
    let mut value = 0;
    for (index, source) in sources.iter().enumerate() {
        let (field, at) = match bank {
            Bank::Group => (u64::from(source.group && rules.secure), index),
            Bank::Modifier => (
                u64::from(source.modifier && rules.secure && !rules.ds),
                index,
            ),
            Bank::SetEnable | Bank::ClearEnable => (u64::from(source.enabled), index),
            Bank::SetPending | Bank::ClearPending => (u64::from(source.pending()), index),
            Bank::SetActive | Bank::ClearActive => (u64::from(source.active), index),
            Bank::Priority => (u64::from(rules.shown(source.priority)), index * 8),
            Bank::Config => (u64::from(source.edge) << 1, index * 2),
        };
        if rules.sees(source) {
            value |= field << at;
        }
    }
    value
}

/// Writes the fields of a register whose first interrupt is `first` (a hardware number, for
/// messages); returns whether an interrupt was disabled by it.
pub(super) fn write(
    call: &Call,
    rules: &Rules,
    bank: Bank,
    first: u32,
    sources: &mut [Source],
    value: u64,
) -> bool {
    let mut disabled = false;
    for (index, source) in sources.iter_mut().enumerate() {
        let intid = first + index as u32;
        if !rules.sees(source) {
            continue;
        }
        let bit = value >> index & 1 != 0;
        match bank {
            Bank::Group if rules.secure => {
                if source.group != bit && source.live() {
                    call.forbid(format_args!(
                        "the group of interrupt {intid} changes while it is enabled"
                    ));
                }
                source.group = bit;
            }
            Bank::Modifier if rules.secure && !rules.ds => source.modifier = bit,
            Bank::Group | Bank::Modifier => {}
            Bank::SetEnable => source.enabled |= bit,
            Bank::ClearEnable => {
                if bit && source.enabled {
                    source.enabled = false;
                    source.disabling = true;
                    disabled = true;
                }
            }
            Bank::SetPending => source.latch |= bit,
            Bank::ClearPending => source.latch &= !bit,
            Bank::SetActive => source.active |= bit,
            Bank::ClearActive => source.active &= !bit,
            Bank::Priority => {
                let kept = rules.kept((value >> (index * 8)) as u8);
                if kept != source.priority && source.live() && rules.strict_priority {
                    call.forbid(format_args!(
                        "the priority of interrupt {intid} changes while it is enabled, or its \
                         disable is not complete (RWP)"
                    ));
                }
                source.priority = kept;
            }
            Bank::Config => {
                let field = value >> (index * 2) & 3;
                call.reserved(rules.strict, field, 2);
                let edge = field & 2 != 0;
                if edge != source.edge && source.live() {
                    call.forbid(format_args!(
                        "UNPREDICTABLE: the trigger of interrupt {intid} changes while it is \
                         enabled, or its disable is not complete (RWP)"
                    ));
                }
                source.edge = edge;
            }
        }
    }
    disabled
}
