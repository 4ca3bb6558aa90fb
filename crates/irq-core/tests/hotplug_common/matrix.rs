// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vector matrix behind the simulated controller; checked after each call.

use irq_core::Irq;
use irq_core::cpu::CpuIndex;
use irq_core::hotplug::{Affinity, Wanted};
use irq_core::matrix::{Counts, Entry, Matrix, Setup, Slot as Vector, Wanted as WantedVector};
use irq_core::placement::Class;
use irq_core::topology::Place;
use irq_hal::Error;

use super::Slot;
use super::platform::Player;

pub struct RealMatrix {
    matrix: Matrix,
    platform: Player,
}

const FIRST: u8 = 0x40;

fn vector(slot: Slot) -> Vector {
    Vector {
        cpu: CpuIndex::new(slot.cpu),
        vector: slot.vector as u8,
    }
}

impl RealMatrix {
    pub fn new(cpus: u32, vectors: u32) -> Self {
        let setup = Setup {
            first: FIRST,
            end: u16::from(FIRST) + vectors as u16,
            system: &[],
            ..Setup::new(cpus)
        };
        Self {
            matrix: Matrix::new(&setup).unwrap(),
            platform: Player::new(0),
        }
    }

    fn checked<R>(&self, f: impl FnOnce(&Matrix, &Player) -> R) -> R {
        let result = f(&self.matrix, &self.platform);
        if let Err(violation) = self.matrix.check(&self.platform) {
            panic!("{violation}");
        }
        result
    }

    pub fn take(&self, wanted: &Wanted<'_>) -> Result<Slot, Error> {
        let vector = WantedVector {
            irq: wanted.irq,
            among: wanted.among,
            near: wanted.near,
        };
        let slot = self.checked(|matrix, platform| match wanted.class {
            Class::Managed => matrix.alloc_managed(platform, &vector),
            Class::Regular => matrix.alloc(platform, &vector, wanted.reserved),
        })?;
        Ok(Slot {
            cpu: slot.cpu.get(),
            vector: u32::from(slot.vector),
        })
    }

    pub fn give_back(&self, irq: Irq, slot: Slot) {
        self.checked(|matrix, platform| matrix.free(platform, vector(slot), irq))
            .unwrap();
    }

    pub fn open(&self, cpu: CpuIndex) {
        self.checked(|matrix, platform| matrix.online(platform, cpu, Place::flat(cpu)))
            .unwrap();
    }

    pub fn close(&self, cpu: CpuIndex) {
        self.checked(|matrix, platform| matrix.offline(platform, cpu))
            .unwrap();
    }

    pub fn room_without(&self, cpu: CpuIndex) -> u32 {
        self.matrix.available_without(cpu)
    }

    pub fn reserve(&self) {
        self.checked(|matrix, _| matrix.reserve()).unwrap();
    }

    pub fn unreserve(&self) {
        self.checked(|matrix, _| matrix.remove_reserved()).unwrap();
    }

    pub fn reserved(&self) -> u32 {
        self.matrix.reserved()
    }

    /// Places for a managed interrupt on all CPUs of its mask.
    pub fn reserve_managed(&self, affinity: &Affinity) -> Result<(), Error> {
        let Affinity::Of(mask) = affinity else {
            panic!()
        };
        self.checked(|matrix, platform| matrix.reserve_managed(platform, mask))
    }

    pub fn remove_managed(&self, affinity: &Affinity) -> Result<(), Error> {
        let Affinity::Of(mask) = affinity else {
            panic!()
        };
        self.checked(|matrix, platform| matrix.remove_managed(platform, mask))
    }

    pub fn counts(&self, cpu: u32) -> Counts {
        self.checked(|matrix, platform| matrix.counts(platform, CpuIndex::new(cpu)))
            .unwrap()
    }

    pub fn expect_owner(&self, slot: Slot, irq: u32) {
        let vector = vector(slot);
        let entry = self.matrix.entry(vector.cpu, vector.vector);
        assert_eq!(entry, Entry::Irq(Irq::new(irq)), "{slot:?}");
    }
}
