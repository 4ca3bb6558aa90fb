// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the matrix is measured against makes the same choices: otherwise it would be other work.

use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::matrix::{self, Policy, Slot};
use irq_core::placement::{Among, Class};
use irq_tests::bare::Bare;
use irq_tests::machine::{Machine, Random};
use irq_tests::pair::{Area, matrix};
use irq_tests::scan::{self, Scan};

/// What both gave out for an irq.
type Given = (u32, Slot, (CpuIndex, u8));

fn mask(random: &mut Random, machine: &Machine) -> CpuMask {
    let cpus = machine.cpus;
    let (start, len) = (random.below(cpus), 1 + random.below(cpus));
    let (contiguous, sparse) = (random.once_in(2), 1 + random.below(8));
    let mut mask = CpuMask::try_new(cpus).unwrap();
    for cpu in machine.each() {
        let inside = (cpu.get() + cpus - start) % cpus < len;
        if cpu.get() == start
            || (if contiguous {
                inside
            } else {
                random.once_in(sparse)
            })
        {
            mask.insert(cpu).unwrap();
        }
    }
    mask
}

fn compare(seed: u64) {
    let random = &mut Random::new(seed);
    let cpus = 1 + random.below(300);
    let threads = 1 << random.below(3);
    let machine = Machine {
        cpus,
        nodes: 1 + random.below(cpus.div_ceil(threads).min(6)),
        threads,
        apart: random.once_in(2),
    };
    let first = 40;
    let area = Area {
        first,
        end: u16::from(first) + 4 + random.below(30) as u16,
        system: vec![first + 2],
    };
    let ours = matrix(&machine, &area, Policy::Balanced);
    let scan = Scan::new(cpus, machine.nodes, area.first, area.end, &area.system);
    for cpu in machine.each() {
        let mut siblings = machine.each().take(cpu.index());
        let sibling = siblings.find(|other| machine.core(other.get()) == machine.core(cpu.get()));
        let place = machine.place(cpu.get());
        ours.online(&Bare, cpu, place).unwrap();
        scan.online(&Bare, cpu, sibling, place.node.get());
    }
    let masks: Vec<_> = (0..4).map(|_| mask(random, &machine)).collect();
    let mut live: Vec<Given> = Vec::new();
    for step in 0..400 {
        let irq = step + random.below(2) * random.below(1000);
        let mask = &masks[random.below(4) as usize];
        let words = mask.words().unwrap();
        let near = random.once_in(3).then(|| random.below(machine.nodes));
        let all = random.once_in(3);
        let wanted = matrix::Wanted {
            irq: Irq::new(irq),
            among: if all {
                Among::Machine
            } else {
                Among::Mask(mask)
            },
            near: near.map(NodeId::new),
        };
        let asked = scan::Wanted {
            irq,
            mask: (!all).then_some(words),
            near,
        };
        match random.below(16) {
            0 => {
                let (cpu, isolated) = (CpuIndex::new(random.below(cpus)), random.once_in(3));
                ours.isolate(&Bare, cpu, isolated).unwrap();
                scan.isolate(&Bare, cpu, isolated);
            }
            1..4 => {
                let done = ours.reserve_managed(&Bare, mask).is_ok();
                assert_eq!(scan.reserve_managed(&Bare, words), done);
            }
            4 => {
                // One does nothing where the other does what it can.
                if ours.remove_managed(&Bare, mask).is_ok() {
                    assert!(scan.remove_managed(&Bare, words));
                }
            }
            kind @ 5..13 => {
                let managed = kind < 8;
                let got = match managed {
                    true => ours.alloc_managed(&Bare, &wanted),
                    false => ours.alloc(&Bare, &wanted, false),
                };
                let class = if managed {
                    Class::Managed
                } else {
                    Class::Regular
                };
                let chosen = scan.choose(&Bare, class, &asked);
                let theirs = scan.alloc(&Bare, class, &asked);
                assert_eq!(theirs.map(|(cpu, _)| cpu), chosen);
                assert_eq!(
                    chosen,
                    got.ok().map(|slot| slot.cpu),
                    "{asked:?} on {machine:?}"
                );
                if let (Ok(ours), Some(theirs)) = (got, theirs) {
                    live.push((irq, ours, theirs));
                }
            }
            _ if live.is_empty() => {}
            _ => {
                let at = random.below(live.len() as u32) as usize;
                let (irq, slot, theirs) = live.swap_remove(at);
                ours.free(&Bare, slot, Irq::new(irq)).unwrap();
                assert!(!scan.free(&Bare, theirs, irq + 1));
                assert!(scan.free(&Bare, theirs, irq));
                assert!(!scan.free(&Bare, theirs, irq));
            }
        }
    }
}

#[test]
fn the_scan_and_the_matrix_choose_the_same_cpus() {
    for seed in 0..150 {
        compare(seed);
    }
}
