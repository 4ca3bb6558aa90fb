// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and ranges.
#![cfg(not(loom))]

use irq_core::{Irq, IrqRange};
use irq_hal::Error;
use proptest::prelude::*;

#[test]
fn a_number_that_does_not_fit_a_narrower_type_is_an_error_with_the_number() {
    assert_eq!(u8::try_from(Irq::new(255)), Ok(255));
    let error = |value| Error::Invalid {
        what: "irq number",
        value,
    };
    assert_eq!(u8::try_from(Irq::new(256)), Err(error(256)));
    assert_eq!(u16::try_from(Irq::new(65535)), Ok(65535));
    assert_eq!(u16::try_from(Irq::new(65536)), Err(error(65536)));
    assert_eq!(
        (u32::from(Irq::new(70000)), Irq::new(70000).index()),
        (70000, 70000)
    );
}

#[test]
fn a_number_prints_with_its_kind() {
    assert_eq!(format!("{}", Irq::new(12)), "irq12");
}

#[test]
fn a_range_may_end_at_the_last_number_and_not_beyond() {
    let last = IrqRange::new(Irq::new(u32::MAX), 1).unwrap();
    assert_eq!(last.irq(0), Some(Irq::new(u32::MAX)));
    assert!(IrqRange::new(Irq::new(u32::MAX), 2).is_err());
    assert!(IrqRange::new(Irq::new(0), u32::MAX).is_ok());
    assert_eq!(Irq::new(u32::MAX).checked_add(1), None);
}

#[test]
fn an_empty_range_has_no_number() {
    let empty = IrqRange::new(Irq::new(7), 0).unwrap();
    assert_eq!(
        (empty.irq(0), empty.offset(Irq::new(7)), empty.iter().next()),
        (None, None, None)
    );
}

proptest! {
    #[test]
    fn offset_and_irq_are_inverse_inside_and_nothing_outside(
        first: u32,
        count: u32,
        number: u32,
        offset: u32,
    ) {
        let Ok(range) = IrqRange::new(Irq::new(first), count) else {
            prop_assert!(u64::from(first) + u64::from(count) > 1 << 32);
            return Ok(());
        };
        let inside = number >= first && u64::from(number) < u64::from(first) + u64::from(count);
        prop_assert_eq!(range.contains(Irq::new(number)), inside);
        match range.offset(Irq::new(number)) {
            Some(at) => {
                prop_assert!(inside && at < count);
                prop_assert_eq!(range.irq(at), Some(Irq::new(number)));
            }
            None => prop_assert!(!inside),
        }
        match range.irq(offset) {
            Some(irq) => prop_assert_eq!(range.offset(irq), Some(offset)),
            None => prop_assert!(offset >= count),
        }
    }

    #[test]
    fn a_range_lists_each_of_its_numbers_once_in_order(first in 0_u32..1000, count in 0_u32..50) {
        let range = IrqRange::new(Irq::new(first), count).unwrap();
        let listed: Vec<_> = range.iter().map(Irq::get).collect();
        prop_assert_eq!(listed, (first..first + count).collect::<Vec<_>>());
    }
}
