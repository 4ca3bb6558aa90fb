// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths that must not allocate, counted by the allocator itself.
//!
//! The model keeps a log and so allocates; here words that answer stand for the hardware.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use irq_core::{Flow, IrqContext, Kick, Lines};
use irq_hal::bus::Extent;
use irq_hal::percpu::OnCpu;
use irq_hal::{Barrier, Bus, CpuIndex, Error, NodeId, PhysAddr, Platform};
use irq_sim::SimPlatform;
use irq_tests::gicv3::cpu_set;
use irq_tests::heap::{Counting, allocations};
use irq_xive::{ChipId, Config, Description, Firmware, Pir, Thread, Xive};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Hardware that answers what it is told to.
#[derive(Clone, Default)]
struct Words {
    /// What an acknowledge gives.
    ack: Arc<AtomicU64>,
    /// Where the queue for devices is.
    queue: Arc<AtomicU64>,
    flags: u64,
}

const TIMA: u64 = 0x1_0000;

struct Page {
    words: Words,
}

impl Bus<u8> for Page {
    fn load(&self, _: usize) -> u8 {
        0x80
    }
    fn store(&self, _: usize, _: u8) {}
}

impl Bus<u16> for Page {
    fn load(&self, _: usize) -> u16 {
        (self.words.ack.swap(0, Relaxed) as u16).swap_bytes()
    }
    fn store(&self, _: usize, _: u16) {}
}

macro_rules! quiet {
    ($($t:ty),*) => { $(
        impl Bus<$t> for Page {
            fn load(&self, _: usize) -> $t {
                0
            }
            fn store(&self, _: usize, _: $t) {}
        }
    )* };
}

quiet!(u32, u64);

impl Barrier for Page {
    fn publish(&self) {}
    fn complete(&self) {}
    fn synchronize(&self) {}
}

impl Extent for Page {
    fn extent(&self) -> usize {
        0x1_0000
    }
}

struct Quiet {
    words: Words,
    sim: SimPlatform,
    numbers: AtomicU64,
}

// SAFETY: it writes what the arguments name, in simulated memory alone.
unsafe impl Firmware for Quiet {
    type Window = Page;

    unsafe fn call(&self, call: u64, args: [u64; 7]) -> i64 {
        match call {
            129 => {
                let number = args[0];
                let page = 0x100_0000 + number * 0x2_0000;
                let memory = self.sim.memory();
                let write =
                    |at, value: u64| memory.device_write(PhysAddr::new(at), &value.to_be_bytes());
                write(args[1], self.words.flags);
                write(args[2], page + 0x1_0000);
                write(args[3], page);
                memory.device_write(PhysAddr::new(args[4]), &17_u32.to_be_bytes());
                memory.device_write(PhysAddr::new(args[5]), &0_u32.to_be_bytes());
                0
            }
            133 if args[1] == 6 => {
                self.words.queue.store(args[2], Relaxed);
                0
            }
            139 => self.numbers.fetch_add(1, Relaxed) as i64,
            _ => 0,
        }
    }

    fn map(&self, _: PhysAddr, _: usize) -> Result<Page, Error> {
        Ok(Page {
            words: self.words.clone(),
        })
    }
}

#[test]
fn entry_end_send_mask_move_and_cpus_that_come_and_go_allocate_nothing() {
    for flags in [0x01, 0x41] {
        let sim = SimPlatform::new(1);
        let words = Words {
            flags,
            ..Words::default()
        };
        let thread = Thread {
            pir: Pir::new(4),
            chip: ChipId::new(0),
            node: NodeId::FLAT,
        };
        let firmware = Quiet {
            words: words.clone(),
            sim: sim.clone(),
            numbers: AtomicU64::new(0x10),
        };
        let threads = [thread];
        let description = Description::new(PhysAddr::new(TIMA), &threads);
        assert_ne!(
            allocations(|| drop(vec![0_u8; 100])),
            0,
            "the allocator counts"
        );
        let xive = Xive::probe(sim.clone(), firmware, description, Config::default()).unwrap();
        sim.as_cpu(0, |on| {
            // The simulated platform notes each mask in a list: let it grow once.
            let state = sim.irq_save();
            // SAFETY: `state` came from `irq_save` just above, on this CPU.
            unsafe { sim.irq_restore(state) };
            let count = allocations(|| xive.cpu_online(on, thread.pir).unwrap());
            assert_eq!(count, 0, "cpu_online");
            let irqs = [(); 3].map(|()| xive.alloc_source(CpuIndex::new(0)).unwrap());

            // SAFETY: `as_cpu` promises the same for `on`, which lives as long.
            let here = unsafe { OnCpu::new(on.cpu()) };
            let cx = IrqContext::new(here, None, None);
            let mut position = 0;
            let push = |position: &mut u64, data: u32| {
                let at = words.queue.load(Relaxed) + *position * 4;
                let entry = (1_u32 << 31 | data).to_be_bytes();
                sim.memory().device_write(PhysAddr::new(at), &entry);
                *position += 1;
            };
            for first in [false, true] {
                for irq in irqs {
                    push(&mut position, irq.get() + 1);
                }
                push(&mut position, 0x7777);
                for _ in 0..3 {
                    words.ack.store(0x8006, Relaxed);
                    let count = allocations(|| {
                        let mut next = xive.ack(&cx);
                        while let Some((_, active)) = next {
                            if first {
                                xive.end(active);
                                break;
                            }
                            next = xive.end_and_next(&cx, active);
                        }
                    });
                    assert_eq!(count, 0, "entry");
                }
            }
            for ack in [0, 0x8006, 0x4006, 0x8003] {
                words.ack.store(ack, Relaxed);
                assert_eq!(allocations(|| assert!(xive.ack(&cx).is_none())), 0);
            }
            words.ack.store(0x8005, Relaxed);
            let count = allocations(|| {
                let (irq, active) = xive.ack(&cx).unwrap();
                assert_eq!(irq, xive.ipi_irq());
                xive.end(active);
            });
            assert_eq!(count, 0, "an IPI");
            let set = cpu_set([0]);
            let count = allocations(|| {
                xive.kick(CpuIndex::new(0), || true).unwrap();
                xive.kick_mask(&set, |_| true).unwrap();
            });
            assert_eq!(count, 0, "sending");
            let [irq, ..] = irqs;
            let count = allocations(|| {
                xive.unmask(irq).unwrap();
                xive.mask(irq).unwrap();
                xive.off(irq).unwrap();
                xive.on(irq).unwrap();
                xive.retrigger(irq).unwrap();
                xive.state(irq).unwrap();
                xive.set_target(irq, CpuIndex::new(0)).unwrap();
                let _ = xive.complete(irq);
            });
            assert_eq!(count, 0, "control");
            let count = allocations(|| xive.cpu_offline(on).unwrap());
            assert_eq!(count, 0, "cpu_offline");
        });
    }
}
