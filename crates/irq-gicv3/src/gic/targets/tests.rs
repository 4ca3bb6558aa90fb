// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::affinity::Mpidr;
use irq_core::cpu::CpuMask;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

const SGI: u8 = 5;

fn sgi() -> Sgi {
    Sgi::new(SGI).unwrap()
}

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn mask(cpus: u32, members: impl IntoIterator<Item = u32>) -> CpuMask {
    let mut mask = CpuMask::try_new(cpus).unwrap();
    for member in members {
        mask.insert(cpu(member)).unwrap();
    }
    mask
}

/// What `ICC_SGI1R_EL1` holds beside the list and the INTID, straight from the manual's layout.
fn upper(mpidr: Mpidr) -> u64 {
    u64::from(mpidr.aff3()) << 48
        | u64::from(mpidr.aff0() >> 4) << 44
        | u64::from(mpidr.aff2()) << 32
        | u64::from(mpidr.aff1()) << 16
}

/// A machine whose redistributors have these affinities, in any order.
struct Machine {
    targets: Targets,
    clusters: BTreeMap<u64, u32>,
}

impl Machine {
    fn new(cpus: u32, affinities: &[Mpidr]) -> Self {
        let keys: BTreeSet<_> = affinities.iter().map(|mpidr| mpidr.get() & !0xf).collect();
        let clusters: BTreeMap<_, _> = keys.into_iter().zip(0..).collect();
        Self {
            targets: Targets::new(cpus, clusters.len()).unwrap(),
            clusters,
        }
    }

    fn online(&self, index: u32, mpidr: Mpidr) {
        let cluster = self.clusters[&(mpidr.get() & !0xf)];
        let place = Place::new(cluster, mpidr.aff0().into());
        self.targets
            .online(cpu(index), place, SgiTarget::new(mpidr))
            .unwrap();
    }

    /// The CPUs posted to, the register writes, and the result of a kick.
    fn kick(
        &self,
        cpus: &dyn CpuSet,
        check: impl Fn(SgiTarget) -> Result<(), Error>,
        says: impl Fn(u32) -> bool,
    ) -> (Vec<u32>, Vec<u64>, Result<(), Error>) {
        let (mut posted, mut writes) = (Vec::new(), Vec::new());
        let post = |cpu: CpuIndex| {
            posted.push(cpu.get());
            says(cpu.get())
        };
        let result = self.targets.kick(cpus, sgi(), check, post, |command| {
            writes.push(command.get());
        });
        (posted, writes, result)
    }

    fn kick_all(&self, cpus: &dyn CpuSet) -> (Vec<u32>, Vec<u64>, Result<(), Error>) {
        self.kick(cpus, |_| Ok(()), |_| true)
    }
}

const REFUSED: Error = Error::Unsupported { feature: "ranges" };

fn no_ranges(target: SgiTarget) -> Result<(), Error> {
    match target.needs_range_selector() {
        true => Err(REFUSED),
        false => Ok(()),
    }
}

proptest! {
    #[test]
    fn a_kick_of_a_set_is_the_naive_one_with_one_write_for_each_cluster_to_ring(
        affinities in proptest::sample::subsequence(
            (0_u64..3 * 2 * 40).collect::<Vec<_>>(), 1..70).prop_shuffle(),
        online in any::<[u64; 2]>(),
        gone in any::<[u64; 2]>(),
        members in any::<[u64; 2]>(),
        says in any::<[u64; 2]>(),
        ranges in any::<bool>(),
    ) {
        // Aff3 and Aff1 of few values, Aff0 over three ranges, the last of them not full.
        let mpidr = |n: u64| {
            Mpidr::from_affinity((n / 80) as u8 * 7, 0, (n / 40 % 2) as u8, (n % 40) as u8)
        };
        let affinities: Vec<_> = affinities.into_iter().map(mpidr).collect();
        let cpus = affinities.len() as u32;
        let has = |bits: [u64; 2], n: u32| bits[n as usize / 64] >> (n % 64) & 1 != 0;
        let machine = Machine::new(cpus, &affinities);
        for (index, &mpidr) in (0..).zip(&affinities) {
            // Offline ones never were online, or went.
            if has(online, index) || has(gone, index) {
                machine.online(index, mpidr);
            }
            if !has(online, index) {
                machine.targets.offline(cpu(index));
            }
        }
        // The set may name CPUs beyond the possible ones.
        let set = mask(128, (0..128).filter(|&n| has(members, n)));

        let (mut reached, mut lists) = (Vec::new(), BTreeMap::<u64, u64>::new());
        let mut errors = Vec::new();
        for index in (0..128).filter(|&n| has(members, n)) {
            let cpu = cpu(index);
            let Some(&mpidr) = affinities.get(index as usize) else {
                errors.push(Error::NoSuchCpu { cpu });
                continue;
            };
            if !has(online, index) {
                errors.push(Error::CpuOffline { cpu });
            } else if !ranges && mpidr.aff0() > 15 {
                errors.push(REFUSED);
            } else {
                reached.push(index);
                if has(says, index) {
                    *lists.entry(upper(mpidr)).or_default() |= 1 << (mpidr.aff0() & 15);
                }
            }
        }

        let check = |target| if ranges { Ok(()) } else { no_ranges(target) };
        let (mut posted, mut writes, result) = machine.kick(&set, check, |n| has(says, n));
        posted.sort_unstable();
        prop_assert_eq!(posted, reached);
        writes.sort_unstable();
        let mut expect: Vec<_> = lists
            .into_iter()
            .map(|(upper, list)| upper | u64::from(SGI) << 24 | list)
            .collect();
        expect.sort_unstable();
        prop_assert_eq!(writes, expect);
        match result {
            Ok(()) => prop_assert_eq!(errors, []),
            Err(error) => prop_assert!(errors.contains(&error), "{error} of {errors:?}"),
        }
    }
}

#[test]
fn a_cpu_that_does_not_exist_is_no_other_cpu() {
    let mpidrs: Vec<_> = (0..5).map(Mpidr::new).collect();
    let machine = Machine::new(3, &mpidrs);
    (0..3).for_each(|n| machine.online(n, mpidrs[n as usize]));
    for index in [3, 7, 8, 64, u32::MAX] {
        let error = Err(Error::NoSuchCpu { cpu: cpu(index) });
        assert_eq!(machine.targets.get(cpu(index)), error);
    }
}

#[test]
fn more_clusters_than_one_walk_keeps_apart_take_one_write_each_too() {
    let count = 2 * CLUSTERS_AT_ONCE as u32 + 3;
    let mpidr = |n: u32| Mpidr::from_affinity(0, (n >> 8) as u8, n as u8, (n % 16) as u8);
    let mpidrs: Vec<_> = (0..count).map(mpidr).collect();
    let machine = Machine::new(count + 1, &mpidrs);
    (0..count).for_each(|n| machine.online(n, mpidrs[n as usize]));
    let all = mask(count + 1, 0..=count);
    let (mut posted, writes, result) = machine.kick_all(&all);
    posted.sort_unstable();
    assert!(posted.into_iter().eq(0..count));
    assert_eq!(writes.len(), count as usize);
    assert_eq!(result, Err(Error::CpuOffline { cpu: cpu(count) }));
}

/// A set that a CPU joins while it is read: `contains` knows it, the words did not.
struct Joined {
    before: CpuMask,
    after: CpuMask,
}

impl CpuSet for Joined {
    fn contains(&self, cpu: CpuIndex) -> bool {
        self.after.contains(cpu)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        self.before.each_word(f);
    }
}

#[test]
fn a_cpu_that_joins_a_live_set_meanwhile_takes_the_ring_of_no_other() {
    let mpidrs: Vec<_> = (0..8).map(Mpidr::new).collect();
    let machine = Machine::new(8, &mpidrs);
    (0..8).for_each(|n| machine.online(n, mpidrs[n as usize]));
    // Before and behind the one that stays, by index and by Aff0.
    for other in [0, 7] {
        let set = Joined {
            before: mask(8, [4]),
            after: mask(8, [4, other]),
        };
        let (posted, writes, result) = machine.kick_all(&set);
        assert_eq!(posted.iter().filter(|&&n| n == 4).count(), 1);
        assert_eq!(writes.len(), 1);
        assert_ne!(writes[0] & 1 << 4, 0);
        assert_eq!(result, Ok(()));
    }
}

#[test]
fn an_index_that_takes_over_a_place_is_reached_there_and_the_old_one_is_offline() {
    let [here, beside, there] = [3, 4, 0x105].map(Mpidr::new);
    let machine = Machine::new(4, &[here, beside, there]);
    machine.online(1, beside);
    machine.online(0, here);
    machine.targets.offline(cpu(0));
    machine.online(2, here);
    let all = mask(4, [0, 1, 2]);
    let (posted, writes, result) = machine.kick_all(&all);
    assert_eq!(posted, [2, 1]);
    assert_eq!(writes, [0x0500_0018]);
    assert_eq!(result, Err(Error::CpuOffline { cpu: cpu(0) }));
    // It moves on, and is not rung at the place it left.
    machine.targets.offline(cpu(2));
    machine.online(2, there);
    let (posted, writes, _) = machine.kick_all(&all);
    assert_eq!(posted, [1, 2]);
    assert_eq!(writes, [0x0500_0010, 0x0501_0020]);
}

#[test]
fn cpus_whose_redistributors_show_aff0_alone_are_rung_each_in_its_own_cluster() {
    // One cluster as far as the redistributors tell, two for the register.
    let targets = Targets::new(3, 1).unwrap();
    for (index, mpidr) in [(0, 0x0_0000), (1, 0x1_0001), (2, 0x0_0002)] {
        let place = Place::new(0, mpidr & 0xf);
        let target = SgiTarget::new(Mpidr::new(mpidr.into()));
        targets.online(cpu(index), place, target).unwrap();
    }
    let mut rung = vec![];
    let kicked = targets.kick(
        &mask(3, 0..3),
        sgi(),
        |_| Ok(()),
        |_| true,
        |command| rung.push(command.get()),
    );
    assert_eq!(kicked, Ok(()));
    rung.sort_unstable();
    assert_eq!(rung, [0x0500_0001, 0x0500_0004, 0x1_0500_0002]);
}
