// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the walk over redistributor regions refuses, and where it ends.

use irq_gicv3::quirks::{Machine as Facts, Quirks};
use irq_gicv3::{Config, Gic, IntId, Mpidr, ProbeError, RedistributorMap};
use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus, Error};
use irq_sim::SimPlatform;
use irq_sim::gic::{Affinity, GicBuilder, GicBus, GicModel, Region};
use irq_tests::gicv3::{Machine, describe, mpidrs, probe};

fn build(cpus: u32, change: impl FnOnce(GicBuilder) -> GicBuilder) -> (SimPlatform, GicModel) {
    let sim = SimPlatform::new(cpus);
    let model = change(GicModel::builder(&sim)).build();
    (sim, model)
}

const A: Affinity = Affinity::new(0, 0, 3, 0);
const B: Affinity = Affinity::new(0, 0, 3, 1);

#[test]
fn two_redistributors_with_one_affinity_are_refused() {
    let (_, model) = build(1, |builder| {
        builder
            .affinities([A])
            .regions([Region::new().rd(A).rd(B), Region::new().rd(A)])
    });
    assert_eq!(
        probe(&model, Config::default()).err(),
        Some(ProbeError::SameAffinity { affinity: 0x300 })
    );
}

#[test]
fn a_region_that_is_described_twice_is_refused() {
    let (sim, model) = build(2, |builder| builder);
    let cpus = mpidrs(&model);
    let mut description = describe(&model, &cpus);
    description.redistributors.push(model.gicr(0));
    let error = Gic::probe(sim, description, model.sysregs(), Config::default()).err();
    assert_eq!(error, Some(ProbeError::SameAffinity { affinity: 0 }));
}

#[test]
fn where_aff0_alone_counts_redistributors_differ_in_it() {
    let walk = |all: [Affinity; 2], midr| {
        let (_, model) = build(2, |builder| {
            builder
                .affinities(all)
                .regions([Region::new().rds([all[1], all[0]])])
        });
        let quirks = Quirks {
            machine: Facts {
                midr,
                ..Facts::default()
            },
            ..Quirks::default()
        };
        RedistributorMap::discover(vec![model.gicr(0)], None, &quirks)
    };
    let r52 = Some(0x411f_d130);
    let other = Affinity::new(0, 0, 4, 0);
    let map = walk([A, B], r52).unwrap();
    assert!(map.contains(Mpidr::new(0x1_0901)) && !map.contains(Mpidr::new(2)));
    assert!(walk([A, other], None).is_ok());
    assert!(matches!(
        walk([A, other], r52).err(),
        Some(ProbeError::SameAffinity { .. })
    ));
}

#[test]
fn there_are_as_many_extended_ppis_as_every_cpu_has() {
    for counts in [[64, 32], [32, 64]] {
        let config = Config::default();
        let region = Region::new()
            .rd_with_eppis(A, counts[0])
            .rd_with_eppis(B, counts[1]);
        let machine = Machine::with(
            2,
            |builder| builder.affinities([A, B]).regions([region]),
            config,
        );
        let eppi = |n| IntId::eppi(n).unwrap();
        assert_eq!(machine.gic.private_irqs()[1].count(), 32);
        assert_eq!(machine.gic.irq(eppi(32)), None);
        let error = machine.gic.unmask_private(eppi(32));
        assert!(
            matches!(error, Err(Error::HwirqOutOfRange { .. })),
            "{error:?}"
        );
        machine.gic.unmask_private(eppi(31)).unwrap();
        for cpu in [0, 1] {
            machine.model.private_line(cpu, 1056 + 31).assert();
            assert_eq!(machine.take(cpu), Some(1056 + 31));
        }
    }
}

#[test]
fn a_stride_below_a_redistributors_own_frames_is_refused() {
    let (sim, model) = build(2, |builder| {
        builder
            .affinities([A, B])
            .regions([Region::new().vlpi_rd(A).vlpi_rd(B)])
    });
    let try_with = |stride| {
        let cpus = mpidrs(&model);
        let mut description = describe(&model, &cpus);
        description.stride = Some(stride);
        let found = Gic::probe(sim.clone(), description, model.sysregs(), Config::default());
        found.map(|gic| gic.redistributors().len())
    };
    let stride = 0x2_0000;
    assert_eq!(try_with(stride), Err(ProbeError::Stride { stride }));
    assert_eq!(try_with(0x4_0000), Ok(2));
}

/// One redistributor, and behind it space that reads as zero.
struct Tail(GicBus);

impl<T: Default> Bus<T> for Tail
where
    GicBus: Bus<T>,
{
    fn load(&self, offset: usize) -> T {
        if offset < self.0.extent() {
            self.0.load(offset)
        } else {
            T::default()
        }
    }

    fn store(&self, offset: usize, value: T) {
        self.0.store(offset, value);
    }
}

impl Barrier for Tail {
    fn publish(&self) {}
    fn complete(&self) {}
    fn synchronize(&self) {}
}

impl Extent for Tail {
    fn extent(&self) -> usize {
        0x10_0000
    }
}

#[test]
fn a_region_without_a_last_redistributor_ends_where_nothing_answers() {
    let (_, model) = build(1, |builder| {
        builder
            .affinities([A])
            .regions([Region::new().rd(A).no_rd_is_last()])
    });
    let regions = vec![Tail(model.gicr(0))];
    let map = RedistributorMap::discover(regions, None, &Quirks::default()).unwrap();
    assert_eq!(map.affinities().collect::<Vec<_>>(), [Mpidr::new(0x300)]);
}
