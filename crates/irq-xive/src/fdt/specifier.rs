// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt specifiers of firmware's trees.

use irq_core::Trigger;
use irq_hal::Error;

use super::wrong;
use crate::ids::SourceNumber;

/// Cells of a specifier.
pub(super) const CELLS: usize = 2;

/// The source and the trigger that two specifier cells name: its number; 0 for messages, 1 for a
/// line.
///
/// # Errors
/// [`Error::Firmware`] with the offending cell.
///
/// # Context
/// Any.
pub const fn translate(cells: &[u32]) -> Result<(SourceNumber, Trigger), Error> {
    match *cells {
        [number, 0] => Ok((SourceNumber::new(number), Trigger::Edge)),
        [number, 1] => Ok((SourceNumber::new(number), Trigger::Level)),
        [_, sense] => Err(wrong("interrupt specifier: sense", sense as u64)),
        _ => Err(wrong(
            "length of an interrupt specifier",
            cells.len() as u64,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specifier_is_a_number_and_a_sense() {
        assert_eq!(
            translate(&[0xffff8, 1]),
            Ok((SourceNumber::new(0xffff8), Trigger::Level))
        );
        assert_eq!(
            translate(&[0xfe020, 0]),
            Ok((SourceNumber::new(0xfe020), Trigger::Edge))
        );
        for (cells, at) in [(&[1, 2][..], 2), (&[1], 1), (&[], 0), (&[1, 0, 0], 3)] {
            assert!(
                matches!(translate(cells), Err(Error::Firmware { at: found, .. }) if found == at)
            );
        }
    }
}
