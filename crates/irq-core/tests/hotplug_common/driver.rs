// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as the driver's side of hotplug: it expects each call to be one that may be made.

use irq_core::Irq;
use irq_core::cpu::CpuIndex;
use irq_core::hotplug::{Leaves, Mover, Wanted};
use irq_core::placement::Class;
use irq_hal::Error;

use super::{Call, Sim, Slot};

impl Mover for Sim {
    type Place = Slot;

    fn take(&self, wanted: &Wanted<'_>) -> Result<Slot, Error> {
        let irq = wanted.irq.get();
        self.called(Call::Take(irq))?;
        let taken = match &self.vectors_of {
            None => self.lock().take(wanted, self.vectors).map_err(Error::from),
            Some(matrix) => matrix
                .take(wanted)
                .inspect(|slot| self.lock().taken(*slot, wanted)),
        };
        let _ = self.called(match taken {
            Ok(slot) => Call::Taken(irq, slot.cpu),
            Err(_) => Call::Refused(irq),
        });
        taken
    }

    fn cpu_of(&self, place: Slot) -> CpuIndex {
        CpuIndex::new(place.cpu)
    }

    fn give_back(&self, irq: Irq, _: Class, place: Slot) {
        let _ = self.called(Call::GiveBack(irq.get(), place.cpu));
        if let Some(matrix) = &self.vectors_of {
            matrix.give_back(irq, place);
        }
        let inner = &mut *self.lock();
        assert_eq!(inner.slots.remove(&place), Some(irq.get()), "{place:?}");
        inner.used.remove(&place);
        inner.strand(irq.get(), Some(place));
        let irr = &inner.cpus[place.cpu as usize].irr;
        assert!(!irr.contains_key(&place.vector), "{place:?} is pending");
        if let Some(source) = inner.sources.get_mut(&irq.get()) {
            if source.at == Some(place) {
                assert!(source.held, "the source points at {place:?}");
                source.at = None;
            }
            let mut targets = source.under_way.iter().map(|(slot, _)| *slot);
            assert!(targets.all(|slot| slot != place), "late for {place:?}");
        }
    }

    fn point(&self, irq: Irq, from: Option<Slot>, to: Slot) -> Result<Leaves, Error> {
        self.called(Call::Point(irq.get(), to.cpu))?;
        {
            let inner = &mut *self.lock();
            assert_eq!(inner.slots.get(&to), Some(&irq.get()));
            let source = inner.source(irq);
            // One that was stopped points at nothing that it knows.
            assert!(source.at == from || source.held && from.is_none());
            source.at = Some(to);
            inner.used.insert(to);
            if self.leaves != Leaves::Late {
                inner.flush(irq);
            }
            if let (Leaves::Nothing, Some(from)) = (self.leaves, from) {
                let old = inner.cpus[from.cpu as usize].irr.remove(&from.vector);
                if let Some((_, events)) = old {
                    inner.arrive(irq.get(), to, events);
                }
            }
        }
        // It may fire, and arrive, before the caller knows.
        let _ = self.called(Call::Pointed(irq.get(), to.cpu));
        Ok(self.leaves)
    }

    fn pending(&self, irq: Irq, place: Slot) -> bool {
        let _ = self.called(Call::Pending(irq.get()));
        let inner = &mut *self.lock();
        let cpu = &mut inner.cpus[place.cpu as usize];
        let pending = cpu.irr.get(&place.vector);
        let pending = pending.is_some_and(|(owner, _)| *owner == irq.get());
        if pending && !cpu.open {
            // If it goes, nobody takes it there any more.
            inner.asked.insert(place);
        }
        pending
    }

    fn replay(&self, irq: Irq, to: Slot) {
        let _ = self.called(Call::Replay(irq.get(), to.cpu));
        let inner = &mut *self.lock();
        inner.strand(irq.get(), None);
        let source = inner.source(irq);
        assert_eq!(source.at, Some(to));
        if let Some(events) = source.replay() {
            inner.arrive(irq.get(), to, events);
        }
    }

    fn hold(&self, irq: Irq) -> Result<(), Error> {
        self.called(Call::Hold(irq.get()))?;
        let inner = &mut *self.lock();
        inner.source(irq).held = true;
        inner.flush(irq);
        Ok(())
    }

    fn release(&self, irq: Irq) {
        let _ = self.called(Call::Release(irq.get()));
        let inner = &mut *self.lock();
        assert!(inner.source(irq).held);
        inner.source(irq).release();
    }

    fn room_without(&self, cpu: CpuIndex) -> u32 {
        if let Some(matrix) = &self.vectors_of {
            return matrix.room_without(cpu);
        }
        let inner = self.lock();
        let others = (0..inner.cpus.len() as u32)
            .filter(|other| *other != cpu.get() && inner.cpus[*other as usize].open);
        others
            .map(|other| inner.free_vectors(other, self.vectors).len() as u32)
            .sum()
    }

    fn open(&self, cpu: CpuIndex) -> Result<(), Error> {
        self.called(Call::Open(cpu.get()))?;
        {
            let known = &mut self.lock().cpus[cpu.index()];
            assert!(known.up && !known.open);
            known.open = true;
        }
        self.lock().asked.retain(|slot| slot.cpu != cpu.get());
        if let Some(matrix) = &self.vectors_of {
            matrix.open(cpu);
        }
        Ok(())
    }

    fn close(&self, cpu: CpuIndex) -> Result<(), Error> {
        self.called(Call::Close(cpu.get()))?;
        let known = &mut self.lock().cpus[cpu.index()];
        assert!(known.up && known.open);
        known.open = false;
        if let Some(matrix) = &self.vectors_of {
            matrix.close(cpu);
        }
        Ok(())
    }

    fn settle(&self, cpu: CpuIndex) -> Result<(), Error> {
        self.called(Call::Settle(cpu.get()))?;
        let inner = &mut *self.lock();
        let late = inner.sources.iter().filter(|(_, source)| {
            let mut targets = source.under_way.iter();
            targets.any(|(slot, _)| slot.cpu == cpu.get())
        });
        let late: Vec<u32> = late.map(|(irq, _)| *irq).collect();
        late.into_iter().for_each(|irq| inner.flush(Irq::new(irq)));
        Ok(())
    }

    fn wake(&self, cpu: CpuIndex) {
        let _ = self.called(Call::Wake(cpu.get()));
    }

    fn affinity_broken(&self, irq: Irq, cpu: CpuIndex) {
        let _ = self.called(Call::Broken(irq.get(), cpu.get()));
    }

    fn reserve(&self, irq: Irq) -> Result<(), Error> {
        self.called(Call::Reserve(irq.get()))?;
        if let Some(matrix) = &self.vectors_of {
            matrix.reserve();
        }
        self.lock().reservations += 1;
        Ok(())
    }

    fn unreserve(&self, irq: Irq) {
        let _ = self.called(Call::Unreserve(irq.get()));
        if let Some(matrix) = &self.vectors_of {
            matrix.unreserve();
        }
        self.lock().reservations -= 1;
    }
}
