// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ipistorm` on the model: who sends to whom, in which order, for any scheme of IPIs.
//!
//! One thread plays all CPUs. Which CPU acts next comes from a seeded generator, so that sends
//! and receives mix, some sends coalesce, and every run is the same.

use std::cell::Cell;

use crate::peer::OneDescriptor;
use crate::system::System;
use irq_core::Sent;
use irq_core::cpu::CpuIndex;

/// Something that sends IPIs and takes them.
pub trait Scheme {
    /// The number of CPUs.
    fn cpus(&self) -> u32;

    /// Sends from one CPU to another; whether that took a ring.
    fn send(&self, from: u32, to: u32) -> bool;

    /// `cpu` takes an interrupt, if there is one; whether there was.
    fn take(&self, cpu: u32) -> bool;
}

/// irq-core's, by kind 0.
impl Scheme for System {
    fn cpus(&self) -> u32 {
        Self::cpus(self)
    }

    fn send(&self, from: u32, to: u32) -> bool {
        let sent = Self::send(self, from, to, 0);
        sent.unwrap_or_else(|error| panic!("cpu{from} to cpu{to}: {error}")) == Sent::Rung
    }

    fn take(&self, cpu: u32) -> bool {
        Self::take(self, cpu).is_some()
    }
}

/// The peer on the hardware of a system, instead of irq-core.
pub struct OnDescriptor<'a> {
    /// The hardware and its driver.
    pub system: &'a System,
    /// The scheme.
    pub peer: &'a OneDescriptor,
}

impl Scheme for OnDescriptor<'_> {
    fn cpus(&self) -> u32 {
        self.system.cpus()
    }

    fn send(&self, from: u32, to: u32) -> bool {
        let gic = &self.system.machine.gic;
        let sent = self
            .system
            .on(from, |_| self.peer.send(gic, CpuIndex::new(to)));
        sent.unwrap_or_else(|error| panic!("cpu{from} to cpu{to}: {error}"))
    }

    fn take(&self, cpu: u32) -> bool {
        let machine = &self.system.machine;
        machine.model.take_irq(cpu, |_| {
            self.system.on(cpu, |on| self.peer.enter(&machine.gic, on));
        })
    }
}

/// A scheme with what it does noted: each step begins with a call of `note`.
pub struct Noted<'a, S> {
    /// The scheme.
    pub scheme: &'a S,
    /// Runs a step.
    pub step: &'a dyn Fn(Step, &mut dyn FnMut()),
}

/// What a step of a storm is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A send, from and to.
    Send(u32, u32),
    /// A CPU looks whether an interrupt is there, and takes it.
    Take(u32),
}

impl<S: Scheme> Scheme for Noted<'_, S> {
    fn cpus(&self) -> u32 {
        self.scheme.cpus()
    }

    fn send(&self, from: u32, to: u32) -> bool {
        let mut rung = false;
        (self.step)(Step::Send(from, to), &mut || {
            rung = self.scheme.send(from, to)
        });
        rung
    }

    fn take(&self, cpu: u32) -> bool {
        let mut taken = false;
        (self.step)(Step::Take(cpu), &mut || taken = self.scheme.take(cpu));
        taken
    }
}

/// What a storm did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Sends with a ring.
    pub rung: u64,
    /// Sends without.
    pub coalesced: u64,
    /// Interrupts taken.
    pub taken: u64,
}

/// A sequence that looks random and is the same in every run (a 64-bit congruential one).
struct Dice(Cell<u64>);

impl Dice {
    const fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn below(&self, n: u32) -> u32 {
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        let next = self.0.get().wrapping_mul(FACTOR).wrapping_add(1);
        self.0.set(next);
        ((next >> 32) % u64::from(n)) as u32
    }
}

/// The CPU that `cpu` sends to: its neighbour in the node `hops` further on.
pub const fn target(cpu: u32, cpus: u32, nodes: u32, hops: u32) -> u32 {
    let per_node = cpus / nodes;
    let node = (cpu / per_node + hops) % nodes;
    node * per_node + (cpu % per_node + 1) % per_node
}

/// Every CPU sends `sends` times to its target in the node `hops` further on, in any order, and
/// takes what comes in between; at the end all is taken.
pub fn storm(scheme: &impl Scheme, nodes: u32, hops: u32, sends: u32) -> Done {
    let cpus = scheme.cpus();
    let dice = Dice::new(u64::from(hops) + 1);
    let mut left = vec![sends; cpus as usize];
    let mut senders: Vec<u32> = (0..cpus).collect();
    let mut done = Done::default();
    while !senders.is_empty() {
        let at = dice.below(senders.len() as u32) as usize;
        let from = senders[at];
        if scheme.send(from, target(from, cpus, nodes, hops)) {
            done.rung += 1;
        } else {
            done.coalesced += 1;
        }
        left[from as usize] -= 1;
        if left[from as usize] == 0 {
            senders.swap_remove(at);
        }
        done.taken += u64::from(scheme.take(dice.below(cpus)));
    }
    done.taken += settle(scheme);
    done
}

/// Every CPU sends `sends` times, the next when the last was taken.
pub fn paced(scheme: &impl Scheme, nodes: u32, sends: u32) -> Done {
    let cpus = scheme.cpus();
    let mut done = Done::default();
    for _ in 0..sends {
        for from in 0..cpus {
            let to = target(from, cpus, nodes, 1);
            if scheme.send(from, to) {
                done.rung += 1;
            } else {
                done.coalesced += 1;
            }
            done.taken += u64::from(scheme.take(to));
        }
    }
    done
}

/// All CPUs take interrupts until there is none.
fn settle(scheme: &impl Scheme) -> u64 {
    let drain = |cpu| std::iter::from_fn(|| scheme.take(cpu).then_some(())).count() as u64;
    let mut all = 0;
    loop {
        let round: u64 = (0..scheme.cpus()).map(drain).sum();
        if round == 0 {
            return all;
        }
        all += round;
    }
}
