// SPDX-License-Identifier: MIT OR Apache-2.0
//! Masks kept pairwise, which the bench of the topology compares it to, are those of the topology.

use irq_core::cpu::{CpuIndex, CpuSet, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_tests::bare::Bare;
use irq_tests::pairwise::Pairwise;
use proptest::prelude::*;

fn words(set: &dyn CpuSet) -> Vec<(u32, u64)> {
    let mut words = Vec::new();
    set.each_word(&mut |first, bits| words.push((first.get(), bits)));
    words
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    // Few ids, so that CPUs share; levels that do not nest.
    let place = (0..40_u32, 0..20_u32, 0..6_u32, 0..3_u32, 0..4_u32).prop_map(
        |(core, l2, group, package, node)| Place {
            core,
            l2,
            group,
            package,
            node: NodeId::new(node),
        },
    );
    proptest::collection::vec(place, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn masks_kept_pairwise_are_those_of_the_topology(
        places in places(),
        changes in proptest::collection::vec(any::<prop::sample::Index>(), 0..300),
    ) {
        let topology = Topology::new(places.len() as u32, 4).unwrap();
        let mut pairwise = Pairwise::new(&places);
        // All come, then each change takes one away or brings it back.
        let all = 0..places.len();
        for at in all.clone().chain(changes.iter().map(|change| change.index(places.len()))) {
            let cpu = CpuIndex::new(at as u32);
            if topology.is_online(cpu) {
                topology.offline(cpu).unwrap();
                pairwise.offline(cpu);
            } else {
                topology.online(&Bare, cpu, places[at]).unwrap();
                pairwise.online(cpu);
            }
        }
        for cpu in all.map(|at| CpuIndex::new(at as u32)) {
            for level in Level::ALL {
                let mask = pairwise.mask(cpu, level);
                if topology.is_online(cpu) {
                    let domain = topology.domain(cpu, level).unwrap();
                    prop_assert_eq!(words(&mask), words(&domain));
                } else {
                    prop_assert!(mask.is_empty());
                }
            }
        }
    }
}
