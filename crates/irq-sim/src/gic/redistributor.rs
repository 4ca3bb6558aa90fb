// SPDX-License-Identifier: MIT OR Apache-2.0
//! One redistributor: GICR, its RD and SGI frames.

use super::bank::{self, Bank, Group, NORMAL, Rules, Source};
use super::call::{Call, View};
use super::machine::{Countdown, Machine, Power, Rd, Security};

/// The first extended PPI.
pub(super) const EPPI: u32 = 1056;

const SLEEP: u64 = 1 << 1;
const CHILDREN: u64 = 1 << 2;

/// `GICR_PWRR` and what is behind it.
#[derive(Debug)]
struct PowerState {
    config: Power,
    /// `RDPD`.
    off: bool,
    /// `RDGPD`, `RDGPO`: what the group shall be, and is.
    group_target_off: bool,
    group_off: bool,
    moving: Countdown,
}

/// Who reaches a redistributor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// One security state.
    pub ds: bool,
    /// The redistributor is the accessing CPU's own.
    pub own: bool,
    /// A group of the redistributor's CPU interface is enabled.
    pub busy: bool,
}

impl Caller {
    /// Machines are known on which one CPU cannot wake the redistributor of another.
    fn check(self, machine: &Machine, call: &Call) {
        if call.store.is_some() && !self.own && !machine.early_use {
            call.forbid("only a redistributor's own CPU wakes it, or lets it sleep");
        }
    }
}

#[derive(Debug)]
pub(super) struct Redistributor {
    pub number: u32,
    pub spec: Rd,
    last: bool,
    /// Asked to sleep.
    sleep: bool,
    /// Asleep: the interface is quiescent.
    children: bool,
    waking: Countdown,
    power: Option<PowerState>,
    rwp: Countdown,
    dpg: u64,
    /// INTIDs 0 to 31, then the extended PPIs.
    pub sources: Vec<Source>,
}

/// The hardware number of private interrupt `index`.
pub(super) fn private_intid(index: usize) -> u32 {
    let index = index as u32;
    if index < 32 { index } else { EPPI + index - 32 }
}

/// Where private interrupt `intid` is in [`Redistributor::sources`].
pub(super) fn private_index(intid: u32) -> Option<usize> {
    match intid {
        0..32 => Some(intid as usize),
        EPPI..=1119 => Some((intid - EPPI) as usize + 32),
        _ => None,
    }
}

impl Redistributor {
    pub fn new(machine: &Machine, number: u32, spec: Rd, last: bool) -> Self {
        let ds = machine.security == Security::One;
        let fresh = |index: usize| {
            let intid = private_intid(index);
            let sgi = intid < 16;
            Source {
                group: !ds && !machine.secure_sources.contains(&intid),
                enabled: machine.left_over,
                latch: machine.left_over && intid.is_multiple_of(2),
                active: machine.left_over && intid.is_multiple_of(3),
                edge: sgi || machine.left_over && !machine.fixed_ppi_triggers,
                priority: if ds { 0 } else { 0x80 },
                ..Source::default()
            }
        };
        let eppis = spec.eppis.unwrap_or(machine.eppis);
        let power = machine.power.map(|config| PowerState {
            config,
            off: true,
            group_target_off: true,
            group_off: false,
            moving: Countdown::start(config.settle),
        });
        Self {
            number,
            spec,
            last,
            sleep: !machine.awake,
            children: !machine.awake,
            waking: Countdown::IDLE,
            power,
            rwp: Countdown::IDLE,
            dpg: 0,
            sources: (0..32 + eppis as usize).map(fresh).collect(),
        }
    }

    fn eppis(&self) -> u32 {
        self.sources.len() as u32 - 32
    }

    pub fn awake(&self) -> bool {
        !self.children && self.powered()
    }

    fn powered(&self) -> bool {
        self.power.as_ref().is_none_or(|power| !power.off)
    }

    /// Whether 1-of-N interrupts of `group` may come here.
    pub fn takes_any(&self, group: Group) -> bool {
        let bit = match group {
            Group::Zero => 24,
            Group::One => 25,
            Group::OneSecure => 26,
        };
        self.awake() && self.dpg & 1 << bit == 0
    }

    pub fn access(&mut self, machine: &Machine, call: &Call, from: Caller) -> u64 {
        let ds = from.ds;
        let identity = matches!(call.offset, 0x04 | 0x08 | 0x0c | 0x24 | 0xffe8);
        if !identity && !self.powered() {
            call.forbid("the redistributor is powered off: GICR_PWRR first");
        }
        let secure = ds || call.view == View::Secure || machine.quirks.insecure;
        match call.offset {
            0x0000 => self.ctlr(machine, call),
            0x0004 => {
                call.widths(&[4]);
                call.read_only();
                machine.gicr_iidr.into()
            }
            0x0008 | 0x000c => {
                call.widths(if call.offset == 8 { &[4, 8] } else { &[4] });
                call.read_only();
                call.read_part(8, self.typer(machine))
            }
            0x0014 => self.waker(machine, call, secure, from),
            0x0024 if self.power.is_some() => self.pwrr(machine, call, from),
            0xffe8 => {
                call.widths(&[4]);
                call.read_only();
                u64::from(machine.arch) << 4 | 0xb
            }
            0x1_0000..0x2_0000 => self.sgi_frame(machine, call, ds, secure),
            0x2_0000..0x4_0000 => call.forbid("the VLPI frame is not modelled"),
            _ => call.forbid("no register is modelled at this offset"),
        }
    }

    fn typer(&self, machine: &Machine) -> u64 {
        let affinity = self.spec.shown.unwrap_or(self.spec.affinity.0);
        u64::from(self.spec.vlpis) << 1
            | u64::from(self.last) << 4
            | u64::from(machine.dpgs) << 5
            | u64::from(self.number) << 8
            | u64::from(self.eppis() / 32) << 27
            | u64::from(affinity) << 32
    }

    fn ctlr(&mut self, machine: &Machine, call: &Call) -> u64 {
        call.widths(&[4]);
        let dpg_bits = if machine.dpgs { 7 << 24 } else { 0 };
        let Some(value) = call.store else {
            if self.rwp.running() && self.rwp.poll() {
                self.sources
                    .iter_mut()
                    .for_each(|source| source.disabling = false);
            }
            let rwp = u64::from(self.rwp.running()) << 3;
            return self.dpg | rwp | u64::from(machine.uwp) << 31;
        };
        if value & 1 != 0 {
            call.forbid("EnableLPIs: LPIs are not modelled");
        }
        call.reserved(machine.strict, value, 1 << 31 | 1 << 3 | 6 | dpg_bits);
        if value & dpg_bits != self.dpg {
            self.dpg = value & dpg_bits;
            self.rwp = Countdown::start(machine.gicr_rwp);
        }
        0
    }

    fn waker(&mut self, machine: &Machine, call: &Call, secure: bool, from: Caller) -> u64 {
        call.widths(&[4]);
        from.check(machine, call);
        if machine.quirks.waker_hangs {
            call.forbid("this firmware hangs at any access to GICR_WAKER");
        }
        if !secure && !machine.ns_waker {
            return 0;
        }
        let Some(value) = call.store else {
            if self.waking.running() && self.waking.poll() {
                self.children = self.sleep;
                if self.children && machine.quirks.forgets_private_priorities {
                    self.sources
                        .iter_mut()
                        .for_each(|source| source.priority = 0);
                }
            }
            let sleep = if self.sleep { SLEEP } else { 0 };
            return sleep | if self.children { CHILDREN } else { 0 };
        };
        call.reserved(machine.strict, value, SLEEP | CHILDREN);
        let sleep = value & SLEEP != 0 && (self.sleep || machine.sleep_sticks);
        if value & SLEEP != 0 && from.busy {
            call.forbid("UNPREDICTABLE: ProcessorSleep is set while a group of the CPU interface is enabled");
        }
        if sleep != self.sleep {
            if self.waking.running() {
                call.forbid("ProcessorSleep changes before ChildrenAsleep has followed it");
            }
            self.sleep = sleep;
            self.waking = Countdown::start(machine.wake);
        }
        0
    }

    fn pwrr(&mut self, machine: &Machine, call: &Call, from: Caller) -> u64 {
        call.widths(&[4]);
        from.check(machine, call);
        let Some(power) = &mut self.power else {
            return 0;
        };
        let Some(value) = call.store else {
            if power.moving.running() && power.moving.poll() {
                power.group_off = power.group_target_off;
                power.off = power.group_off;
            }
            return u64::from(power.off)
                | u64::from(power.group_target_off) << 2
                | u64::from(power.group_off) << 3;
        };
        call.reserved(machine.strict, value, 0xf);
        if power.group_target_off != power.group_off {
            call.forbid("GICR_PWRR is written while the group changes its state (RDGPD != RDGPO)");
        }
        let off = value & 1 != 0;
        if off != power.group_target_off {
            power.group_target_off = off;
            power.moving = Countdown::start(power.config.up);
        }
        0
    }

    fn sgi_frame(&mut self, machine: &Machine, call: &Call, ds: bool, secure: bool) -> u64 {
        let Some(place) = bank::place(call, call.offset - 0x1_0000, &NORMAL) else {
            call.forbid("no register is modelled at this offset")
        };
        if !machine.early_use && self.children {
            call.forbid("the SGI frame is used before the redistributor woke (GICR_WAKER)");
        }
        if place.first >= self.sources.len() {
            call.forbid(format_args!(
                "the redistributor has {} extended PPIs: they end before this register",
                self.eppis()
            ));
        }
        let end = (place.first + place.count).min(self.sources.len());
        let sources = &mut self.sources[place.first..end];
        let rules = Rules {
            ds,
            secure,
            priority_mask: !(0xff_u32 >> machine.distributor_priority_bits) as u8,
            strict_priority: machine.strict_priority,
            strict: machine.strict,
        };
        let Some(value) = call.store else {
            return bank::read(&rules, place.bank, sources);
        };
        if place.bank == Bank::Config {
            if place.first < 16 {
                call.forbid("SGIs are always edge-triggered: GICR_ICFGR0 is read-only");
            }
            if place.first == 16 && machine.fixed_ppi_triggers {
                return 0;
            }
        }
        bank::write(
            call,
            &rules,
            place.bank,
            private_intid(place.first),
            sources,
            value,
        );
        if place.bank == Bank::ClearEnable {
            self.rwp = Countdown::start(machine.gicr_rwp);
        }
        0
    }
}
