// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU: who gets one, and the fewest register writes for many.
//!
//! ```text
//! IA32_X2APIC_ICR   63:32 destination   19:18 shorthand   14 level   11 logical   10:8 delivery   7:0 vector
//! ```
//! A logical destination is a cluster's number above one bit for each of its 16 CPUs, so one
//! write reaches up to 16 CPUs (Intel SDM vol. 3, "Interrupt Command Register (ICR)" and
//! "Logical Destination Mode in x2APIC Mode"). Bits 31:20, 17:16, 13 and 12 are 0 in every
//! command that can be made here. There is no shorthand for an interrupt to all: it would reach
//! CPUs that are offline.

use crate::id::ApicId;
use crate::start::Page;
use crate::vector::Vector;

const NMI: u64 = 0b100 << 8;
const INIT: u64 = 0b101 << 8;
const STARTUP: u64 = 0b110 << 8;
const LOGICAL: u64 = 1 << 11;
const ASSERT: u64 = 1 << 14;
const ALL_BUT_SELF: u64 = 0b11 << 18;
const CLUSTER_SHIFT: u32 = 32 + 16;
const MEMBERS: u64 = 0xffff << 32;

/// One write to `IA32_X2APIC_ICR`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Command(u64);

impl Command {
    const fn physical(id: ApicId, what: u64) -> Self {
        Self((id.get() as u64) << 32 | ASSERT | what)
    }

    /// `vector` to one CPU, which may be the sender, by its id.
    #[inline]
    pub const fn one(vector: Vector, id: ApicId) -> Self {
        Self::physical(id, vector.get() as u64)
    }

    /// `vector` to one CPU by its logical destination, to be [extended](Self::and). Nothing for
    /// an id that has none.
    #[inline]
    pub const fn logical(vector: Vector, id: ApicId) -> Option<Self> {
        match id.logical() {
            Some(logical) => {
                let to = (logical as u64) << 32;
                Some(Self(to | ASSERT | LOGICAL | vector.get() as u64))
            }
            None => None,
        }
    }

    /// The same logical command to one CPU more, if it is of the same cluster: the register
    /// takes no other.
    #[inline]
    pub const fn and(self, id: ApicId) -> Option<Self> {
        match id.logical() {
            Some(logical)
                if self.0 & LOGICAL != 0 && self.0 >> CLUSTER_SHIFT == (logical >> 16) as u64 =>
            {
                Some(Self(self.0 | (logical as u64) << 32 & MEMBERS))
            }
            _ => None,
        }
    }

    /// A non-maskable interrupt to one CPU.
    pub const fn nmi(id: ApicId) -> Self {
        Self::physical(id, NMI)
    }

    /// INIT to one CPU: it is reset, but for its mode and id, and waits for a start.
    pub const fn init(id: ApicId) -> Self {
        Self::physical(id, INIT)
    }

    /// A start (SIPI) to one CPU that waits for it, at `page`.
    pub const fn startup(id: ApicId, page: Page) -> Self {
        Self::physical(id, STARTUP | page.get() as u64)
    }

    /// INIT to every CPU but the sender, also to those that firmware does not name.
    pub const fn init_all_others() -> Self {
        Self(ALL_BUT_SELF | ASSERT | INIT)
    }

    /// A start to every CPU but the sender that waits for one.
    pub const fn startup_all_others(page: Page) -> Self {
        Self(ALL_BUT_SELF | ASSERT | STARTUP | page.get() as u64)
    }

    /// The register's value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The commands that bring `vector` to all of `ids`: one for each distinct cluster, whatever
/// the order, and one for each CPU without a logical destination. Sorts `ids` in place;
/// allocates nothing.
pub fn multicast(vector: Vector, ids: &mut [ApicId]) -> impl Iterator<Item = Command> {
    ids.sort_unstable();
    let same = |a: &ApicId, b: &ApicId| a.cluster() == b.cluster() && b.logical().is_some();
    ids.chunk_by(same).filter_map(move |cluster| {
        let (first, rest) = cluster.split_first()?;
        let one = Command::logical(vector, *first).unwrap_or(Command::one(vector, *first));
        let all = rest.iter().try_fold(one, |command, id| command.and(*id));
        Some(all.unwrap_or(one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    const V: Vector = match Vector::new(0xfd) {
        Some(vector) => vector,
        None => unreachable!(),
    };

    fn id(id: u32) -> ApicId {
        ApicId::new(id).unwrap()
    }

    #[test]
    fn commands_are_those_of_the_manual() {
        let page = Page::new(0x8000).unwrap();
        assert_eq!(Command::one(V, id(0x123)).get(), 0x123_0000_40fd);
        assert_eq!(
            Command::logical(V, id(0x13)).map(Command::get),
            Some(0x0001_0008_0000_48fd)
        );
        assert_eq!(Command::nmi(id(3)).get(), 0x3_0000_4400);
        assert_eq!(Command::init(id(3)).get(), 0x3_0000_4500);
        assert_eq!(Command::startup(id(3), page).get(), 0x3_0000_4608);
        assert_eq!(Command::init_all_others().get(), 0xc_4500);
        assert_eq!(Command::startup_all_others(page).get(), 0xc_4608);
    }

    #[test]
    fn a_cluster_takes_its_own_members_only() {
        let command = Command::logical(V, id(0x10)).unwrap();
        assert_eq!(
            command.and(id(0x1f)).map(Command::get),
            Some(0x0001_8001_0000_48fd)
        );
        assert_eq!(command.and(id(0x20)), None);
        assert_eq!(command.and(id(0x10_0010)), None);
        assert_eq!(Command::one(V, id(0x10)).and(id(0x11)), None);
    }

    /// Whom a command reaches, by the manual's rule and not by the code above.
    fn receivers(command: Command) -> Vec<u32> {
        let to = (command.get() >> 32) as u32;
        if command.get() & 1 << 11 == 0 {
            return [to].into();
        }
        (0..16)
            .filter(|bit| to & 1 << bit != 0)
            .map(|bit| to >> 16 << 4 | bit)
            .collect()
    }

    proptest! {
        #[test]
        fn a_multicast_reaches_each_target_once_with_one_write_per_cluster(
            ids in prop::collection::btree_set(prop_oneof![0_u32..64, 0xf_fff0_u32..0x10_0020], 0..40)
                .prop_flat_map(|set| Just(set.into_iter().collect::<Vec<_>>()).prop_shuffle()),
        ) {
            let mut targets: Vec<_> = ids.iter().map(|n| id(*n)).collect();
            let commands: Vec<_> = multicast(V, &mut targets).collect();
            let mut reached: Vec<_> = commands.iter().flat_map(|c| receivers(*c)).collect();
            reached.sort_unstable();
            let wanted: Vec<_> = ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert_eq!(reached, wanted);
            let logical = ids.iter().filter(|n| **n < 1 << 20);
            let clusters: BTreeSet<_> = logical.map(|n| n >> 4).collect();
            let others = ids.iter().filter(|n| **n >= 1 << 20).count();
            prop_assert_eq!(commands.len(), clusters.len() + others);
        }
    }
}
