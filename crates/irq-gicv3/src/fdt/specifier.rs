// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt specifiers of the devicetree binding `arm,gic-v3`.

use irq_core::Trigger;
use irq_hal::Error;

use crate::intid::IntId;

const EDGE_RISING: u32 = 1;
const EDGE_FALLING: u32 = 2;
const LEVEL_HIGH: u32 = 4;
const LEVEL_LOW: u32 = 8;

/// The interrupt and trigger that three or four specifier cells name.
///
/// | cell | meaning |
/// |---|---|
/// | 0 | 0 SPI, 1 PPI, 2 extended SPI, 3 extended PPI |
/// | 1 | number within its kind, from 0 |
/// | 2 | bits 3:0: 1 rising edge, 4 level high; for PPIs, whose polarity is fixed, also 2 and 8 |
/// | 3 | for PPIs the phandle of a partition, which is not judged here; else 0 |
///
/// # Errors
/// [`Error::Firmware`] with the offending cell.
///
/// # Context
/// Any.
pub const fn translate(cells: &[u32]) -> Result<(IntId, Trigger), Error> {
    let (kind, number, flags, partition) = match *cells {
        [kind, number, flags] => (kind, number, flags, 0),
        [kind, number, flags, partition] => (kind, number, flags, partition),
        _ => return wrong("length of an interrupt specifier", cells.len() as u64),
    };
    let intid = match kind {
        0 => IntId::spi(number),
        1 => IntId::ppi(number),
        2 => IntId::espi(number),
        3 => IntId::eppi(number),
        _ => return wrong("interrupt specifier: kind", kind as u64),
    };
    let Some(intid) = intid else {
        return wrong("interrupt specifier: number", number as u64);
    };
    let private = intid.kind().is_private();
    if partition != 0 && !private {
        return wrong("interrupt specifier: partition", partition as u64);
    }
    let trigger = match flags & 0xf {
        EDGE_RISING => Trigger::Edge,
        LEVEL_HIGH => Trigger::Level,
        EDGE_FALLING if private => Trigger::Edge,
        LEVEL_LOW if private => Trigger::Level,
        _ => return wrong("interrupt specifier: trigger", flags as u64),
    };
    Ok((intid, trigger))
}

const fn wrong(what: &'static str, at: u64) -> Result<(IntId, Trigger), Error> {
    Err(Error::Firmware { what, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_specifier_gets_its_offset() {
        let intid = |cells: &[u32]| translate(cells).map(|(intid, _)| intid.get());
        assert_eq!(intid(&[0, 1, 4]), Ok(33));
        assert_eq!(intid(&[1, 14, 4]), Ok(30));
        assert_eq!(intid(&[2, 0, 1]), Ok(4096));
        assert_eq!(intid(&[3, 63, 1]), Ok(1119));
        assert_eq!(intid(&[0, 987, 1, 0]), Ok(1019));
    }

    #[test]
    fn triggers_are_bits_and_ppis_may_say_the_other_polarity() {
        let trigger = |cells: &[u32]| translate(cells).map(|(_, trigger)| trigger).ok();
        assert_eq!(trigger(&[0, 0, 1]), Some(Trigger::Edge));
        assert_eq!(trigger(&[0, 0, 4]), Some(Trigger::Level));
        assert_eq!(trigger(&[1, 13, 0xf08]), Some(Trigger::Level));
        assert_eq!(trigger(&[1, 13, 2]), Some(Trigger::Edge));
        for flags in [0, 2, 8, 3] {
            assert_eq!(trigger(&[0, 0, flags]), None);
        }
    }

    #[test]
    fn numbers_out_of_range_and_odd_lengths_are_errors_with_the_cell() {
        let error = |cells: &[u32]| match translate(cells) {
            Err(Error::Firmware { at, .. }) => Some(at),
            _ => None,
        };
        assert_eq!(error(&[0, 988, 4]), Some(988));
        assert_eq!(error(&[1, 16, 4]), Some(16));
        assert_eq!(error(&[2, 1024, 4]), Some(1024));
        assert_eq!(error(&[3, 64, 4]), Some(64));
        assert_eq!(error(&[4, 0, 4]), Some(4));
        assert_eq!(error(&[0, 5, 4, 7]), Some(7));
        assert_eq!(error(&[0, 5]), Some(2));
        assert_eq!(error(&[]), Some(0));
        // A partition belongs to a PPI.
        assert!(translate(&[1, 7, 4, 9]).is_ok());
    }
}
