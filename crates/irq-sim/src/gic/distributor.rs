// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distributor: GICD.

use super::bank::{self, Bank, EXTENDED, Group, NORMAL, Rules, Source};
use super::call::{Call, View};
use super::machine::{Affinity, Are, Countdown, Machine, Security};

/// `GICD_CTLR.RWP`.
const RWP: u64 = 1 << 31;
/// The first extended SPI.
pub(super) const ESPI: u32 = 4096;

#[derive(Debug)]
pub(super) struct Distributor {
    /// Group enables as written: Group 0, Group 1 Non-secure, Group 1 Secure.
    enables: [bool; 3],
    /// Group enables that a write cleared and the hardware has not finished with.
    closing: [bool; 3],
    are_s: bool,
    are_ns: bool,
    /// ARE or DS changed, and RWP was not read as zero since.
    settling: bool,
    pub ds: bool,
    e1nwf: bool,
    nassgireq: bool,
    rwp: Countdown,
    /// SPIs from INTID 32 on.
    pub spis: Vec<Source>,
    pub espis: Vec<Source>,
}

const G0: usize = 0;
const G1NS: usize = 1;
const G1S: usize = 2;

impl Distributor {
    pub fn new(machine: &Machine) -> Self {
        let ds = machine.security == Security::One;
        let fresh = |intid: u32| Source {
            group: !ds && !machine.secure_sources.contains(&intid),
            enabled: machine.left_over,
            latch: machine.left_over && intid.is_multiple_of(2),
            active: machine.left_over && intid.is_multiple_of(3),
            edge: machine.left_over,
            priority: if ds { 0 } else { 0x80 },
            route: if machine.left_over { 0x00fe_fefe } else { 0 },
            ..Source::default()
        };
        Self {
            enables: [false, machine.left_over, false],
            closing: [false; 3],
            are_s: machine.are != Are::Off || !ds,
            are_ns: machine.are != Are::Off,
            settling: false,
            ds,
            e1nwf: false,
            nassgireq: false,
            rwp: Countdown::IDLE,
            spis: (32..32 + machine.spis).map(fresh).collect(),
            espis: (ESPI..ESPI + machine.espis).map(fresh).collect(),
        }
    }

    /// Whether interrupts of `group` pass, disables under way included.
    pub fn passes(&self, group: Group) -> bool {
        let index = match group {
            Group::Zero => G0,
            Group::One => G1NS,
            Group::OneSecure => G1S,
        };
        self.routes(group) && (self.enables[index] || self.closing[index])
    }

    /// Whether affinity routing is on for `group`.
    fn routes(&self, group: Group) -> bool {
        if self.ds || group != Group::One {
            self.are_s
        } else {
            self.are_ns
        }
    }

    pub fn source(&self, intid: u32) -> Option<&Source> {
        match intid {
            32..1020 => self.spis.get(intid as usize - 32),
            ESPI..=5119 => self.espis.get((intid - ESPI) as usize),
            _ => None,
        }
    }

    pub fn source_mut(&mut self, intid: u32) -> Option<&mut Source> {
        match intid {
            32..1020 => self.spis.get_mut(intid as usize - 32),
            ESPI..=5119 => self.espis.get_mut((intid - ESPI) as usize),
            _ => None,
        }
    }

    /// All shared interrupts with their numbers.
    pub fn sources(&self) -> impl Iterator<Item = (u32, &Source)> {
        (32..).zip(&self.spis).chain((ESPI..).zip(&self.espis))
    }

    fn secure(&self, machine: &Machine, call: &Call) -> bool {
        self.ds || call.view == View::Secure || machine.quirks.insecure
    }

    pub fn access(&mut self, machine: &Machine, call: &Call) -> u64 {
        let secure = self.secure(machine, call);
        match call.offset {
            0x0000 => self.ctlr(machine, call, secure),
            0x0004 => {
                call.widths(&[4]);
                call.read_only();
                self.typer(machine)
            }
            0x0008 => {
                call.widths(&[4]);
                call.read_only();
                machine.gicd_iidr.into()
            }
            0x000c => {
                call.widths(&[4]);
                call.read_only();
                if machine.quirks.typer2_aborts {
                    call.forbid("synchronous abort: this identity has no GICD_TYPER2");
                }
                if machine.arch >= 4 {
                    machine.typer2.into()
                } else {
                    0
                }
            }
            0x0040 | 0x0048 => self.message(machine, call),
            0x0800..0x0c00 | 0x0f00..0x0f30 => {
                call.forbid("reserved with ARE=1, and the model has no legacy operation")
            }
            0x6000..0x8000 => self.route(machine, call, 0x6000, false),
            0x8000..0xa000 => self.route(machine, call, 0x8000, true),
            0xffe8 => {
                call.widths(&[4]);
                call.read_only();
                u64::from(machine.arch) << 4 | 0xb
            }
            _ => self.banked(machine, call, secure),
        }
    }

    fn typer(&self, machine: &Machine) -> u64 {
        let lines = machine.spis.div_ceil(32);
        let espi_range = (machine.espis / 32).saturating_sub(1);
        let mut typer = lines
            | u32::from(machine.espis > 0) << 8
            | u32::from(machine.security != Security::One && !self.ds) << 10
            | u32::from(machine.mbis) << 16
            | u32::from(machine.id_bits - 1) << 19
            | u32::from(machine.a3v) << 24
            | u32::from(machine.no1n) << 25
            | u32::from(machine.gicd_rss) << 26
            | espi_range << 27;
        if machine.quirks.bogus_espi {
            typer |= 1 << 8;
        }
        typer.into()
    }

    /// `GICD_CTLR` as it reads, without `RWP`.
    fn ctlr_value(&self, secure: bool) -> u64 {
        let bit = |on: bool, at: u32| u64::from(on) << at;
        if self.ds {
            bit(self.enables[G0], 0)
                | bit(self.enables[G1NS], 1)
                | bit(self.are_s, 4)
                | 1 << 6
                | bit(self.e1nwf, 7)
                | bit(self.nassgireq, 8)
        } else if secure {
            bit(self.enables[G0], 0)
                | bit(self.enables[G1NS], 1)
                | bit(self.enables[G1S], 2)
                | bit(self.are_s, 4)
                | bit(self.are_ns, 5)
                | bit(self.e1nwf, 7)
        } else {
            let at = if self.are_ns { 1 } else { 0 };
            bit(self.enables[G1NS], at) | bit(self.are_ns, 4)
        }
    }

    fn ctlr(&mut self, machine: &Machine, call: &Call, secure: bool) -> u64 {
        call.widths(&[4]);
        let Some(value) = call.store else {
            if self.rwp.running() && self.rwp.poll() {
                self.finish();
            }
            let rwp = if self.rwp.running() { RWP } else { 0 };
            return self.ctlr_value(secure) | rwp;
        };
        let bit = |at: u32| value >> at & 1 != 0;
        let mut enables = self.enables;
        let (mut are_s, mut ds) = (self.are_s, self.ds);
        let mut are_ns;
        let mut tracked = false;
        if self.ds {
            let nassgi = if machine.typer2 & 1 << 8 != 0 {
                1 << 8
            } else {
                0
            };
            call.reserved(machine.strict, value, RWP | 0xd3 | nassgi);
            enables = [bit(0), bit(1), false];
            are_s = bit(4);
            are_ns = are_s;
            tracked |= bit(7) != self.e1nwf;
            self.e1nwf = bit(7);
            if nassgi != 0 && bit(8) != self.nassgireq {
                if self.open() {
                    call.forbid("nASSGIreq changes while a group is enabled");
                }
                self.nassgireq = bit(8);
            }
        } else if secure {
            call.reserved(machine.strict, value, RWP | 0xf7);
            enables = [bit(0), bit(1), bit(2)];
            (are_s, are_ns, ds) = (bit(4), bit(5), bit(6));
            tracked |= bit(7) != self.e1nwf;
            self.e1nwf = bit(7);
        } else {
            call.reserved(machine.strict, value, RWP | 0x13);
            are_ns = bit(4);
            enables[G1NS] = if are_ns { bit(1) } else { bit(0) };
        }
        if machine.are == Are::Fixed {
            // Fixed to one: writes of zero are ignored.
            are_s = self.are_s;
            are_ns = self.are_ns;
        }
        self.change_are(call, [are_s, are_ns], enables);
        if ds != self.ds {
            if self.open() {
                call.forbid("UNPREDICTABLE: DS changes while a group is enabled");
            }
            self.ds = true;
            self.settling = true;
            tracked = true;
        }
        for (index, enable) in enables.into_iter().enumerate() {
            if self.enables[index] && !enable {
                self.closing[index] = true;
                tracked = true;
            }
        }
        if self.settling && enables.into_iter().any(|on| on) {
            call.forbid("a group is enabled before RWP is 0 after the change of ARE or DS");
        }
        if are_s != self.are_s || are_ns != self.are_ns {
            self.settling = true;
            tracked = true;
        }
        (self.are_s, self.are_ns, self.enables) = (are_s, are_ns, enables);
        if tracked {
            self.rwp = Countdown::start(machine.gicd_rwp);
        }
        0
    }

    fn open(&self) -> bool {
        self.enables.into_iter().chain(self.closing).any(|on| on)
    }

    fn change_are(&self, call: &Call, [are_s, are_ns]: [bool; 2], enables: [bool; 3]) {
        if are_s == self.are_s && are_ns == self.are_ns {
            return;
        }
        if self.are_s && !are_s || self.are_ns && !are_ns {
            call.forbid("UNPREDICTABLE: ARE goes from 1 to 0");
        }
        if self.open() {
            call.forbid("UNPREDICTABLE: ARE changes while a group is enabled, or RWP is still 1");
        }
        if enables.into_iter().any(|on| on) {
            call.forbid("ARE changes in the write that enables a group: write ARE alone first");
        }
    }

    /// What `RWP` covers is done.
    fn finish(&mut self) {
        self.closing = [false; 3];
        self.settling = false;
        for source in self.spis.iter_mut().chain(&mut self.espis) {
            source.disabling = false;
        }
    }

    fn message(&mut self, machine: &Machine, call: &Call) -> u64 {
        call.widths(&[4]);
        let value = call.write_only();
        if !machine.mbis {
            call.forbid("GICD_TYPER.MBIS is 0: no message-based SPIs");
        }
        call.reserved(machine.strict, value, 0x1fff);
        let set = call.offset == 0x0040;
        match self.source_mut(value as u32) {
            Some(source) if source.edge => source.latch |= set,
            Some(source) => source.raise(set),
            None => call.forbid("a message for an interrupt that is no SPI of this machine"),
        }
        0
    }

    fn route(&mut self, machine: &Machine, call: &Call, base: usize, extended: bool) -> u64 {
        call.widths(&[4, 8]);
        let index = (call.offset - base) as u32 / 8;
        let register = base + index as usize * 8;
        let intid = if extended { ESPI + index } else { index };
        if intid < 32 {
            call.forbid("IROUTER is indexed by INTID: the first one, of INTID 32, is at 0x6100");
        }
        let group_routes = self
            .source(intid)
            .map(|source| self.routes(source.group(self.ds)));
        let secure = self.secure(machine, call);
        let ds = self.ds;
        if self.settling {
            call.forbid("IROUTER is used before RWP is 0 after the change of ARE or DS");
        }
        let Some(source) = self.source_mut(intid) else {
            call.forbid(format_args!("there is no SPI {intid} on this machine"))
        };
        if group_routes == Some(false) {
            call.forbid("IROUTER is reserved while ARE is 0");
        }
        if !secure && source.group(ds) != Group::One {
            return 0;
        }
        let Some(value) = call.store else {
            return call.read_part(register, source.route);
        };
        let route = call.write_part(register, source.route, value);
        let aff3 = if machine.a3v { 0xff << 32 } else { 0 };
        call.reserved(machine.strict, route, aff3 | 1 << 31 | 0x00ff_ffff);
        if route & 1 << 31 != 0 && machine.no1n {
            call.forbid("IRM is set, and GICD_TYPER.No1N says that 1-of-N is not supported");
        }
        source.route = route;
        0
    }

    fn banked(&mut self, machine: &Machine, call: &Call, secure: bool) -> u64 {
        let (place, extended) = match bank::place(call, call.offset, &NORMAL) {
            Some(place) => (place, false),
            None => match bank::place(call, call.offset, &EXTENDED) {
                Some(place) => (place, true),
                None => call.forbid("no register is modelled at this offset"),
            },
        };
        if !extended && place.first < 32 {
            call.forbid("reserved with ARE=1: SGIs and PPIs are in the redistributor's SGI frame");
        }
        let (sources, first, base) = if extended {
            (&mut self.espis, place.first, ESPI)
        } else {
            (&mut self.spis, place.first - 32, 32)
        };
        if first >= sources.len() && !(base == 32 && (1020..1024).contains(&place.first)) {
            call.forbid(format_args!(
                "the machine's {} {} end before this register",
                sources.len(),
                if extended { "extended SPIs" } else { "SPIs" }
            ));
        }
        let end = (first + place.count).min(sources.len());
        let sources = &mut sources[first.min(end)..end];
        let rules = Rules {
            ds: self.ds,
            secure,
            priority_mask: !(0xff_u32 >> machine.distributor_priority_bits) as u8,
            strict_priority: machine.strict_priority,
            strict: machine.strict,
        };
        let Some(value) = call.store else {
            return bank::read(&rules, place.bank, sources);
        };
        // INTIDs 1020 to 1023 have fields, which are reserved.
        let bits = sources.len() * usize::from(call.width) * 8 / place.count;
        call.reserved(machine.strict, value, (1 << bits) - 1);
        let intid = base + first as u32;
        bank::write(call, &rules, place.bank, intid, sources, value);
        if place.bank == Bank::ClearEnable {
            self.rwp = Countdown::start(machine.gicd_rwp);
        }
        0
    }

    /// Whether `source` may go to the CPU with `affinity`.
    pub fn targets(source: &Source, affinity: Affinity) -> bool {
        source.route & 1 << 31 != 0 || Affinity::from_route(source.route) == affinity
    }
}
