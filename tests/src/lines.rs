// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cache lines a storm of IPIs writes: what the tracer saw, by path. It sees atomics and
//! locks; plain memory is written before the storm, and only read in it.
//!
//! Only under `--cfg irq_trace`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use irq_hal::atomic::trace::{Event, Kind, LINE, SharedLine, record, shared_lines};

use crate::storm::{Noted, Scheme, Step, storm};

/// What the tracer saw of a storm.
pub struct Seen {
    /// Each step that did anything, with what it did.
    steps: Vec<(Step, Vec<Event>)>,
    /// The lines that one CPU wrote and another one touched.
    pub shared: Vec<SharedLine>,
    /// The lines that senders to a CPU write, by CPU.
    mailboxes: BTreeMap<u32, BTreeSet<usize>>,
}

/// What one step of a path does on average, in lines and accesses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Path {
    /// How many steps there were.
    pub steps: usize,
    /// Lines read or written.
    pub touched: f64,
    /// Lines written.
    pub written: f64,
    /// Writes.
    pub writes: f64,
    /// Lines written that another CPU reads or writes.
    pub shared: f64,
    /// Of these, those that are not the mailbox of the CPU that the IPI is for.
    pub others: f64,
    /// Locks taken, over all steps.
    pub locks: usize,
}

impl Seen {
    /// Two rounds of `sends` from each CPU, within its node and into the next.
    pub fn storm(scheme: &impl Scheme, nodes: u32, sends: u32) -> Self {
        let steps = RefCell::new(Vec::new());
        let step = |step: Step, run: &mut dyn FnMut()| {
            let events = record(run);
            if !events.is_empty() {
                steps.borrow_mut().push((step, events));
            }
        };
        let noted = Noted {
            scheme,
            step: &step,
        };
        for hops in [0, 1] {
            storm(&noted, nodes, hops, sends);
        }
        let steps = steps.into_inner();
        let all: Vec<Event> = steps
            .iter()
            .flat_map(|(_, events)| events)
            .copied()
            .collect();
        let mut mailboxes = BTreeMap::<u32, BTreeSet<usize>>::new();
        for (step, events) in &steps {
            if let Step::Send(_, to) = step {
                mailboxes.entry(*to).or_default().extend(written(events));
            }
        }
        let shared = shared_lines(&all);
        let is_shared = |line: &usize| shared.iter().any(|one| one.line == *line);
        for lines in mailboxes.values_mut() {
            lines.retain(is_shared);
        }
        Self {
            steps,
            shared,
            mailboxes,
        }
    }

    /// All sends, those that coalesced among them.
    pub fn sends(&self) -> Path {
        self.path(|step| matches!(step, Step::Send(..)))
    }

    /// All receives.
    pub fn receives(&self) -> Path {
        self.path(|step| matches!(step, Step::Take(_)))
    }

    /// The lines that receives of `cpu` write and other CPUs touch.
    pub fn shared_by_receives_of(&self, cpu: u32) -> BTreeSet<usize> {
        let shared: BTreeSet<_> = self.shared.iter().map(|line| line.line).collect();
        let own = self
            .steps
            .iter()
            .filter(|(step, _)| *step == Step::Take(cpu));
        let lines = own.flat_map(|(_, events)| written(events));
        lines.filter(|line| shared.contains(line)).collect()
    }

    /// The lines that sends to `cpu` write and other CPUs touch.
    pub fn shared_by_sends_to(&self, cpu: u32) -> BTreeSet<usize> {
        self.mailboxes.get(&cpu).cloned().unwrap_or_default()
    }

    fn path(&self, of: impl Fn(Step) -> bool) -> Path {
        let shared: BTreeSet<_> = self.shared.iter().map(|line| line.line).collect();
        let none = BTreeSet::new();
        let mut sum = [0_usize; 5];
        let (mut steps, mut locks) = (0, 0);
        for (step, events) in self.steps.iter().filter(|(step, _)| of(*step)) {
            let (Step::Send(_, target) | Step::Take(target)) = step;
            let mailbox = self.mailboxes.get(target).unwrap_or(&none);
            let touched: BTreeSet<_> = events.iter().map(|event| event.line).collect();
            let written: BTreeSet<_> = written(events).collect();
            let writes = events.iter().filter(|event| event.kind.writes()).count();
            let met: BTreeSet<_> = written.intersection(&shared).copied().collect();
            let others = met.difference(mailbox).count();
            let one = [touched.len(), written.len(), writes, met.len(), others];
            sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
            locks += events
                .iter()
                .filter(|event| event.kind == Kind::Lock)
                .count();
            steps += 1;
        }
        let [touched, written, writes, shared, others] =
            sum.map(|sum| sum as f64 / (steps as f64).max(1.0));
        Path {
            steps,
            touched,
            written,
            writes,
            shared,
            others,
            locks,
        }
    }
}

/// The lines that are written, perhaps several times.
fn written(events: &[Event]) -> impl Iterator<Item = usize> {
    let writes = |event: &&Event| event.kind.writes();
    events.iter().filter(writes).map(|event| event.line)
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, path) in [("send", self.sends()), ("receive", self.receives())] {
            writeln!(
                f,
                "  {name:7} {:7} steps: {:.2} lines touched, {:.2} written by {:.2} writes, \
                 {:.2} of them shared, {:.2} beside the mailbox, {} locks",
                path.steps,
                path.touched,
                path.written,
                path.writes,
                path.shared,
                path.others,
                path.locks,
            )?;
        }
        let mut kinds = BTreeMap::<_, usize>::new();
        for line in &self.shared {
            let kind = (line.writers.len(), line.cpus.len());
            *kinds.entry(kind).or_default() += 1;
        }
        writeln!(f, "  shared lines of {LINE} bytes: {}", self.shared.len())?;
        for ((writers, cpus), count) in kinds.into_iter().rev() {
            writeln!(f, "    {count} that {writers} CPUs write and {cpus} touch")?;
        }
        Ok(())
    }
}
