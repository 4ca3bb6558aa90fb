// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priorities, and the two views of them.
//!
//! 0 is the most urgent. With two security states the distributor shifts what a non-secure
//! kernel writes into the upper half (`0x80 | p >> 1`); the CPU interface does the same only
//! if Group 0 interrupts go to EL3 (`SCR_EL3.FIQ=1`).
//!
//! | `GICD_CTLR.DS` | `SCR_EL3.FIQ` | PMR, RPR | distributor | so the driver writes there |
//! |---|---|---|---|---|
//! | 1 | - | as written | as written | `p` |
//! | 0 | 1 | shifted | shifted | `p` |
//! | 0 | 0 | as written | shifted | `p << 1`, so that the shifted result is `p` |
//!
//! IHI 0069, "Software accesses of interrupt priority".

/// A priority as this kernel's `ICC_PMR_EL1` and `ICC_RPR_EL1` show it. 0 is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Priority(u8);

impl Priority {
    /// What interrupts get when nothing else is said: delivered under
    /// [`UNMASKED`](Self::UNMASKED), with room above for more urgent ones.
    pub const DEFAULT: Self = Self(0xc0);
    /// The priority mask that lets [`DEFAULT`](Self::DEFAULT) and everything more urgent through.
    pub const UNMASKED: Self = Self(0xe0);

    /// The priority with this value. Controllers implement the upper bits only, 4 at the least.
    pub const fn new(value: u8) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// How priorities written to the distributor relate to those of the CPU interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PriorityView {
    /// Both sides show the same: one security state, or both shifted alike.
    Same,
    /// The distributor shifts and the CPU interface does not.
    DistributorShifted,
}

impl PriorityView {
    /// The view for a distributor with one security state (`ds`) or two, and a CPU interface
    /// where Group 0 is ours (`group0`, that is `SCR_EL3.FIQ=0`) or not.
    pub const fn of(ds: bool, group0: bool) -> Self {
        if !ds && group0 {
            Self::DistributorShifted
        } else {
            Self::Same
        }
    }

    /// What to write to `IPRIORITYR` for `priority`.
    ///
    /// With [`DistributorShifted`](Self::DistributorShifted), priorities below 0x80 belong to the
    /// secure side and cannot be had: `None`.
    pub const fn distributor_value(self, priority: Priority) -> Option<u8> {
        match self {
            Self::Same => Some(priority.0),
            Self::DistributorShifted if priority.0 & 0x80 == 0 => None,
            Self::DistributorShifted => Some(priority.0 << 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_of_the_distributor_is_undone_before_it_happens() {
        let view = PriorityView::of(false, true);
        for value in (0x80..=0xfe).step_by(2) {
            let written = view.distributor_value(Priority::new(value)).unwrap();
            assert_eq!(0x80 | written >> 1, value);
        }
        assert_eq!(view.distributor_value(Priority::new(0x40)), None);
    }

    #[test]
    fn views_are_the_same_with_one_state_or_when_both_sides_shift() {
        for (ds, group0) in [(true, true), (true, false), (false, false)] {
            let view = PriorityView::of(ds, group0);
            assert_eq!(view, PriorityView::Same);
            assert_eq!(view.distributor_value(Priority::new(0x40)), Some(0x40));
        }
    }

    #[test]
    fn defaults_survive_the_shift_and_lie_under_the_mask() {
        assert!(Priority::DEFAULT < Priority::UNMASKED);
        let view = PriorityView::DistributorShifted;
        assert_eq!(view.distributor_value(Priority::DEFAULT), Some(0x80));
    }
}
