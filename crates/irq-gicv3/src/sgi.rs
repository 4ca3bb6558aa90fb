// SPDX-License-Identifier: MIT OR Apache-2.0
//! Software-generated interrupts: who gets one, and the fewest register writes for many.
//!
//! ```text
//! ICC_SGI1R_EL1   55:48 Aff3   47:44 RS   40 IRM   39:32 Aff2   27:24 INTID   23:16 Aff1   15:0 TargetList
//! ```
//! `TargetList` bit `i` is the CPU with `Aff0 = RS * 16 + i`, so one write reaches up to 16 CPUs
//! that agree in Aff3, Aff2, Aff1 and RS (IHI 0069, "ICC_SGI1R_EL1").

use crate::affinity::Mpidr;
use crate::intid::IntId;

const TARGET_LIST: u64 = 0xffff;
const RS: u64 = 0xf << 44;
const IRM: u64 = 1 << 40;
const INTID: u64 = 0xf << 24;

/// The number of an SGI, 0 to 15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sgi(u8);

impl Sgi {
    /// SGI `n`, 0 to 15. A larger number would spill into Aff2 of the register.
    pub const fn new(n: u8) -> Option<Self> {
        if n < 16 { Some(Self(n)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The interrupt that the receiver takes.
    pub const fn intid(self) -> IntId {
        IntId::from_sgi(self)
    }

    #[inline]
    const fn field(self) -> u64 {
        (self.0 as u64) << 24
    }
}

/// One CPU as a target of SGIs: the fields of `ICC_SGI1R_EL1` that name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SgiTarget(u64);

impl SgiTarget {
    /// The CPU with the affinity `mpidr`.
    #[inline]
    pub const fn new(mpidr: Mpidr) -> Self {
        let aff0 = mpidr.aff0() as u64;
        Self(
            (mpidr.aff3() as u64) << 48
                | (aff0 >> 4) << 44
                | (mpidr.aff2() as u64) << 32
                | (mpidr.aff1() as u64) << 16
                | 1 << (aff0 & 0xf),
        )
    }

    /// Whether reaching it takes the range selector (Aff0 above 15), which the distributor and
    /// the CPU interfaces of sender and target must all support.
    #[inline]
    pub const fn needs_range_selector(self) -> bool {
        self.0 & RS != 0
    }

    /// What the targets of one write share: Aff3, Aff2, Aff1 and the range.
    #[inline]
    pub const fn cluster(self) -> u64 {
        self.0 & !TARGET_LIST
    }

    /// The target as one word, and back with [`from_word`](Self::from_word).
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// One write to `ICC_SGI1R_EL1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SgiCommand(u64);

impl SgiCommand {
    /// `sgi` to one CPU, which may be the sender.
    #[inline]
    pub const fn one(sgi: Sgi, target: SgiTarget) -> Self {
        Self(target.0 | sgi.field())
    }

    /// `sgi` to every CPU but the sender.
    #[inline]
    pub const fn others(sgi: Sgi) -> Self {
        Self(IRM | sgi.field())
    }

    /// The same to one CPU more, if it is of the same cluster: the register takes no other.
    #[inline]
    pub const fn and(self, target: SgiTarget) -> Option<Self> {
        if self.0 & !(TARGET_LIST | INTID) == target.cluster() {
            Some(Self(self.0 | target.0))
        } else {
            None
        }
    }

    /// The register's value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The writes that bring `sgi` to all of `targets`: one for each distinct cluster, whatever
/// the order of the targets. Sorts `targets` in place; allocates nothing.
pub fn multicast(sgi: Sgi, targets: &mut [SgiTarget]) -> impl Iterator<Item = SgiCommand> {
    targets.sort_unstable_by_key(|target| target.cluster());
    targets
        .chunk_by(|a, b| a.cluster() == b.cluster())
        .map(move |cluster| {
            SgiCommand(
                cluster
                    .iter()
                    .fold(sgi.field(), |command, target| command | target.0),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    fn cpu(aff3: u8, aff2: u8, aff1: u8, aff0: u8) -> SgiTarget {
        SgiTarget::new(Mpidr::from_affinity(aff3, aff2, aff1, aff0))
    }

    #[test]
    fn the_target_bit_is_aff0_within_its_range_of_16() {
        let sgi = Sgi::new(5).unwrap();
        // Literal values from the field layout.
        assert_eq!(SgiCommand::one(sgi, cpu(0, 0, 0, 3)).get(), 0x0500_0008);
        assert_eq!(SgiCommand::one(sgi, cpu(0, 0, 12, 8)).get(), 0x050c_0100);
        assert_eq!(
            SgiCommand::one(sgi, cpu(9, 7, 1, 0x21)).get(),
            0x0009_2007_0501_0002
        );
        assert_eq!(SgiCommand::others(sgi).get(), 0x0000_0100_0500_0000);
    }

    #[test]
    fn only_aff0_above_15_needs_the_range_selector() {
        assert!(!cpu(1, 2, 3, 15).needs_range_selector());
        assert!(cpu(0, 0, 0, 16).needs_range_selector());
    }

    #[test]
    fn a_command_takes_more_cpus_of_its_own_cluster_only() {
        let sgi = Sgi::new(15).unwrap();
        let one = SgiCommand::one(sgi, cpu(1, 2, 3, 0x10));
        let two = one.and(cpu(1, 2, 3, 0x1f)).unwrap();
        assert_eq!(two.get(), one.get() | 0x8000);
        for other in [
            cpu(0, 2, 3, 0x10),
            cpu(1, 0, 3, 0x10),
            cpu(1, 2, 0, 0x10),
            cpu(1, 2, 3, 0),
        ] {
            assert_eq!(two.and(other), None);
        }
        assert_eq!(SgiCommand::others(sgi).and(cpu(0, 0, 0, 0)), None);
    }

    #[test]
    fn an_sgi_number_never_spills_into_aff2() {
        assert_eq!(Sgi::new(16), None);
        let all_ones = SgiCommand::one(Sgi::new(15).unwrap(), cpu(0, 0, 0, 0)).get();
        assert_eq!(all_ones & 0xff << 32, 0);
    }

    #[test]
    fn interleaved_clusters_take_one_write_each() {
        let mut targets: Vec<_> = (0..32).map(|i| cpu(0, 0, i % 2, i / 2)).collect();
        let writes: Vec<_> = multicast(Sgi::new(1).unwrap(), &mut targets).collect();
        assert_eq!(
            writes.iter().map(|write| write.get()).collect::<Vec<_>>(),
            [0x0100_ffff, 0x0101_ffff]
        );
    }

    #[test]
    fn no_target_means_no_write() {
        assert_eq!(multicast(Sgi::new(1).unwrap(), &mut []).count(), 0);
    }

    proptest! {
        #[test]
        fn every_target_is_reached_once_and_by_the_fewest_writes(
            raw in proptest::collection::vec((0u8..3, 0u8..3, 0u8..3, any::<u8>()), 0..80),
            number in 0u8..16,
        ) {
            let sgi = Sgi::new(number).unwrap();
            let mut targets: Vec<_> = raw.iter().map(|&(a, b, c, d)| cpu(a, b, c, d)).collect();
            let mut expect: BTreeMap<(u8, u8, u8, u8), u16> = BTreeMap::new();
            for &(a3, a2, a1, a0) in &raw {
                *expect.entry((a3, a2, a1, a0 >> 4)).or_default() |= 1 << (a0 & 15);
            }
            let mut got = BTreeMap::new();
            for write in multicast(sgi, &mut targets) {
                let value = write.get();
                prop_assert_eq!(value >> 24 & 0xf, u64::from(number));
                prop_assert_eq!(value & IRM, 0);
                let key = (
                    (value >> 48) as u8,
                    (value >> 32) as u8,
                    (value >> 16) as u8,
                    (value >> 44) as u8 & 0xf,
                );
                prop_assert!(got.insert(key, value as u16).is_none(), "cluster written twice");
            }
            prop_assert_eq!(got, expect);
        }
    }
}
