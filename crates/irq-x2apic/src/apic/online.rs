// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go.

use irq_core::Trigger;
use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::percpu::OnCpu;
use irq_hal::{Error, Platform, irq_debug, irq_warn};

use super::flow::add;
use super::targets::Target;
use super::{Apic, Delivery, Pin, Slot};
use crate::id::ApicId;
use crate::local_apic::{LocalApic, Setup};
use crate::regs::apic::ApicBus;
use crate::regs::lvt::{Lvt, LvtEntry};
use crate::timer::Timer;

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// Brings the running CPU's local APIC up and binds its index to its hardware id: x2APIC mode
    /// from whichever mode it is in, every LVT entry masked, interrupts of whoever was here
    /// before ended, enabled; then errors are unmasked, the pins do what [`Config::lint`] says,
    /// and of the other entries those are unmasked that
    /// [`unmask_private`](Self::unmask_private) named. The timer is disarmed.
    ///
    /// [`Config::lint`]: super::Config::lint
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] for an index that is not possible; [`Error::CpuIsOnline`];
    /// [`Error::Exists`] if another index is online with this id; [`Error::Refused`] if the
    /// local APIC does not come into x2APIC mode, has another id, cannot be enabled, or keeps
    /// interrupts in service; [`Error::Full`] if the id is of a cluster more than the
    /// description and the number of CPUs foresee. The CPU is then offline and the call can be
    /// repeated.
    ///
    /// # Context
    /// On that CPU, masked; on several CPUs at once. Needs no clock, allocates nothing, calls no
    /// `this_cpu`.
    pub fn cpu_online(&self, on: &OnCpu, id: ApicId) -> Result<(), Error> {
        let slot = self.slot(on.cpu())?;
        if slot.online.load(Relaxed) {
            return Err(Error::CpuIsOnline { cpu: on.cpu() });
        }
        let apic = LocalApic::new(&self.hot.msrs, self.hot.order);
        let apic = apic.enter().map_err(|(_, error)| error)?;
        let own = apic.id()?;
        if own != id {
            return Err(Error::Refused {
                register: "IA32_X2APIC_APICID",
                value: own.get().into(),
            });
        }
        let target = Target::new(id, apic.ldr());
        let max_lvt = apic.max_lvt();
        slot.max_lvt.store(max_lvt, Relaxed);
        let setup = self.setup(slot);
        // Whatever firmware armed fires no more: its entry is masked next, or is already.
        slot.timer.set(setup.entries[Lvt::Timer.index()]);
        let timer = Timer::new(&self.hot.msrs, &slot.timer, self.deadline);
        timer.stop();
        timer.set_divide(self.config.divide);
        let found = apic.bring_up(&setup)?;
        if let Err(error) = self.hot.targets.online(on.cpu(), target) {
            apic.shut_down(self.config.spurious);
            return Err(error);
        }
        add(&slot.leftovers, found.leftovers.into());
        slot.online.store(true, Relaxed);
        if found.leftovers != 0 {
            irq_warn!(
                "x2apic: {} ended {} interrupts of whoever was here before",
                on.cpu(),
                found.leftovers
            );
        }
        if !target.is_logical() {
            irq_warn!("x2apic: {} is reached by its id alone", on.cpu());
        }
        irq_debug!("x2apic: {} online, id {:#x}", on.cpu(), id.get());
        Ok(())
    }

    /// Takes the running CPU's local APIC down: the timer is disarmed, every LVT entry masked,
    /// the local APIC disabled by software. Interrupts of devices that go to it are the
    /// caller's to move before.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU, masked, with nothing taken that is not ended. Allocates nothing.
    pub fn cpu_offline(&self, on: &OnCpu) -> Result<(), Error> {
        let cpu = on.cpu();
        let slot = self.online_slot(cpu)?;
        self.hot.targets.offline(cpu);
        Timer::new(&self.hot.msrs, &slot.timer, self.deadline).stop();
        self.apic().shut_down(self.config.spurious);
        slot.online.store(false, Relaxed);
        irq_debug!("x2apic: {} offline", cpu);
        Ok(())
    }

    /// The entries of a CPU that comes online, which are noted in its slot.
    fn setup(&self, slot: &Slot) -> Setup {
        let open = self.template.load(Relaxed);
        let entries = Lvt::ALL.map(|lvt| {
            let entry = self.entry(lvt);
            let entry = match open & lvt.bit() != 0 {
                true => entry.unmasked(),
                false => entry,
            };
            slot.set_entry(lvt, entry);
            entry
        });
        Setup {
            spurious: self.config.spurious,
            entries,
        }
    }

    /// What an entry is to deliver. One that has a line, a vector, is masked.
    fn entry(&self, lvt: Lvt) -> LvtEntry {
        let config = &self.config;
        let of = |delivery| match delivery {
            None => self.filler(),
            Some(Delivery::Nmi) => LvtEntry::nmi(config.spurious),
            Some(Delivery::Vector(vector)) => LvtEntry::fixed(vector).masked(),
        };
        match lvt {
            Lvt::Timer => of(Some(Delivery::Vector(config.timer))),
            Lvt::Error => of(Some(Delivery::Vector(config.error))),
            Lvt::Lint0 => self.pin(config.lint[0]),
            Lvt::Lint1 => self.pin(config.lint[1]),
            Lvt::Perf => of(config.perf),
            Lvt::Thermal => of(config.thermal),
            Lvt::Cmci => of(config.cmci.map(Delivery::Vector)),
        }
    }

    /// The entry of a pin. One with a vector is masked: it has a line.
    pub(super) fn pin(&self, pin: Pin) -> LvtEntry {
        match pin {
            Pin::Masked => self.filler(),
            Pin::Nmi(polarity) => LvtEntry::nmi(self.config.spurious)
                .with_trigger(Trigger::Edge)
                .with_polarity(polarity),
            Pin::ExtInt => LvtEntry::ext_int(self.config.spurious),
            Pin::Vector {
                vector,
                trigger,
                polarity,
            } => LvtEntry::fixed(vector)
                .with_trigger(trigger)
                .with_polarity(polarity)
                .masked(),
        }
    }
}
