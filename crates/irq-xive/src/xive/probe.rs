// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking the controller over: queues and sources of all CPUs, before any of them is online.

use alloc::vec::Vec;
use core::alloc::Layout as MemoryLayout;
use core::{iter, mem};

use irq_hal::atomic::AtomicBool;
use irq_hal::dma::DmaLimits;
use irq_hal::heap::try_vec;
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::{CachePadded, PerCpu};
use irq_hal::{Barrier, Error, NodeId, Platform};

use super::held::Slot;
use super::online::DEAD;
use super::targets::Ledger;
use super::{Config, Cpu, Description, Fixed, Hot, Own, Thread, Xive};
use crate::error::ProbeError;
use crate::esb::{Eoi, Esb, Pq};
use crate::firmware::Firmware;
use crate::ids::{ChipId, PRIORITIES, Priority, SourceNumber};
use crate::layout::{IPI, Layout};
use crate::opal::{Opal, code};
use crate::queue::EventQueue;
use crate::tima::Tima;

/// The names of threads are smaller: firmware gives virtual processors the others.
const PIR_END: u32 = 1 << 30;
/// How often firmware is given the memory that it asks for, for one source.
const DONATIONS: usize = 8;
/// What the window of the TIMA page covers.
const TIMA_PAGE: usize = 0x1_0000;

/// The sources of a CPU.
struct Sources<W> {
    ipi: (SourceNumber, Esb<W>),
    again: Esb<W>,
}

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// Takes the controller over. It is reset; for each described CPU an event queue and two
    /// sources are made, on its node and its chip. No CPU is open when the call returns.
    ///
    /// # Errors
    /// See [`ProbeError`]; unless it is [`ProbeError::Hardware`], nothing has been touched.
    ///
    /// # Context
    /// The boot CPU, once a heap exists and firmware takes calls; before any
    /// [`cpu_online`](Self::cpu_online). Thread: maps device pages.
    pub fn probe(
        platform: P,
        firmware: F,
        description: Description<'_>,
        config: Config,
    ) -> Result<Self, ProbeError> {
        check(&description, &config)?;
        let layout = Layout::new(config.base, config.sources)?;
        let threads = description.threads;

        // Memory first: what is not to be had leaves the controller as it was.
        let mut queues = try_vec(threads.len())?;
        for thread in threads {
            queues.push(EventQueue::new(
                &platform,
                config.device_queue,
                thread.node,
            )?);
        }
        let mut sources = try_vec(config.sources as usize)?;
        sources.extend((0..config.sources).map(|_| Slot::new()));
        let ledger = Ledger::new(config.sources, threads.len())?;
        let mut provision_chips = try_vec(description.provision.chips.len())?;
        provision_chips.extend_from_slice(description.provision.chips);
        let donated = try_vec(provision_chips.len() * DONATIONS)?;
        let made = try_vec(threads.len())?;
        let opal = Opal::new(&platform, firmware)?;
        let tima = Tima::new(opal.firmware().map(description.tima, TIMA_PAGE)?)?;
        let mut xive = Self {
            hot: CachePadded::new(Hot {
                tima,
                cpus: PerCpu::from_blocks(iter::empty())?,
                sources,
                layout,
                ipi_priority: config.ipi_priority,
                device_priority: config.device_priority,
            }),
            ledger: MaskedLock::new(ledger),
            opal,
            platform,
            provision_page: description.provision.page,
            provision_chips,
            donated: MaskedLock::new(donated),
            touched: false,
        };
        xive.opal.reset(&xive.platform)?;
        xive.touched = true;
        match xive.take_over(threads, &queues, made) {
            Ok(made) => xive.keep(threads, queues, made)?,
            Err(error) => {
                // Before the queues are given back. If that fails they never are.
                match xive.opal.reset(&xive.platform) {
                    Ok(()) => xive.touched = false,
                    Err(_) => mem::forget(queues),
                }
                return Err(error.into());
            }
        }
        for (_, cpu) in xive.hot.cpus.iter() {
            cpu.fixed.ipi.set(Pq::RESET).ok_or(DEAD)?;
        }
        Ok(xive)
    }

    /// Lets the controller know the queues, and makes the sources that send to them. All are
    /// off.
    fn take_over(
        &self,
        threads: &[Thread],
        queues: &[EventQueue],
        mut made: Vec<Sources<F::Window>>,
    ) -> Result<Vec<Sources<F::Window>>, Error> {
        // Firmware and controller see the queues as the memory that they are given as: zero.
        self.hot.tima.barrier().publish();
        for (thread, queue) in threads.iter().zip(queues) {
            let (at, log2) = (queue.device(), queue.log2());
            let priority = self.hot.device_priority;
            // SAFETY: the queue is new, so zero; it is aligned to its size. It is dropped after a
            // reset of the controller, or never: here by `probe`, later by `drop`.
            let set = unsafe {
                self.opal
                    .set_queue(&self.platform, thread.pir, priority, at, log2)
            };
            set?;
            let priority = self.hot.ipi_priority;
            self.opal
                .set_notification(&self.platform, thread.pir, priority)?;
        }
        for thread in threads {
            let ipi = self.source_for(thread, self.hot.ipi_priority, Layout::data(IPI))?;
            let again = self.hot.layout.again();
            let (_, again) = self.source_for(thread, self.hot.device_priority, again)?;
            made.push(Sources { ipi, again });
        }
        Ok(made)
    }

    /// A source of a CPU's own, on its chip.
    fn source_for(
        &self,
        thread: &Thread,
        priority: Priority,
        data: u32,
    ) -> Result<(SourceNumber, Esb<F::Window>), Error> {
        let number = self.allocate(thread.chip)?;
        let info = self.opal.source_info(&self.platform, number)?;
        let wrong = |what| Error::Firmware {
            what,
            at: u64::from(number.get()),
        };
        if info.chip != thread.chip {
            return Err(wrong("chip of an allocated source"));
        }
        let esb = self.map(&info)?;
        if esb.is_lsi() || !esb.is_raisable() || esb.eoi() == Eoi::Firmware {
            return Err(wrong("allocated source that software cannot raise and end"));
        }
        esb.set(Pq::OFF).ok_or(DEAD)?;
        self.opal
            .route(&self.platform, number, thread.pir, priority, data)?;
        Ok((number, esb))
    }

    /// A new source on `chip`. Firmware gets memory for its tables if it asks for some.
    pub(super) fn allocate(&self, chip: ChipId) -> Result<SourceNumber, Error> {
        for _ in 0..DONATIONS {
            match self.opal.allocate_irq(&self.platform, chip) {
                Err(error) if wants_memory(&error) && !self.provision_chips.is_empty() => {
                    self.provision()?;
                }
                answer => return answer,
            }
        }
        self.opal.allocate_irq(&self.platform, chip)
    }

    /// Gives firmware a page for each chip that takes one.
    fn provision(&self) -> Result<(), Error> {
        let page = self.provision_page as usize;
        let invalid = Error::Firmware {
            what: "size of a page for firmware",
            at: u64::from(self.provision_page),
        };
        let layout = MemoryLayout::from_size_align(page, page).map_err(|_| invalid)?;
        if page == 0 {
            return Err(invalid);
        }
        for &chip in &self.provision_chips {
            let mut threads = self.threads();
            let thread = threads.find(|thread| thread.chip == chip);
            let node = thread.map_or(NodeId::FLAT, |thread| thread.node);
            let memory = self.platform.dma_alloc(layout, node, DmaLimits::NONE)?;
            let at = memory.device();
            let full = self.donated.with(&self.platform, |donated| {
                if donated.len() == donated.capacity() {
                    return Some(memory);
                }
                donated.push(memory);
                None
            });
            if full.is_some() {
                return Err(Error::Full {
                    what: "pages for firmware",
                    capacity: (self.provision_chips.len() * DONATIONS) as u32,
                });
            }
            // SAFETY: the page is in the list of those that are given back after a reset only.
            let donated = unsafe { self.opal.donate_page(&self.platform, chip, at) };
            donated?;
        }
        Ok(())
    }

    /// Puts the CPUs' parts where entries find them. Should memory run out here, the queues go
    /// before the controller is reset; nothing writes to them, since no source is on yet.
    fn keep(
        &mut self,
        threads: &[Thread],
        queues: Vec<EventQueue>,
        made: Vec<Sources<F::Window>>,
    ) -> Result<(), Error> {
        let mut parts = threads.iter().zip(queues).zip(made);
        self.hot.cpus = PerCpu::try_new(threads.len() as u32, |cpu| {
            let ((thread, queue), sources) = parts.next().ok_or(Error::NoSuchCpu { cpu })?;
            let (ipi_number, ipi) = sources.ipi;
            Ok(Cpu {
                fixed: CachePadded::new(Fixed {
                    queue,
                    ipi,
                    again: sources.again,
                    online: AtomicBool::new(false),
                    thread: *thread,
                    ipi_number,
                }),
                own: CachePadded::new(Own::new()),
            })
        })?;
        Ok(())
    }
}

/// What can be refused before anything is touched.
fn check(description: &Description<'_>, config: &Config) -> Result<(), ProbeError> {
    let threads = description.threads;
    if threads.is_empty() {
        return Err(ProbeError::NoCpus);
    }
    for (n, thread) in threads.iter().enumerate() {
        let pir = thread.pir.get();
        if pir >= PIR_END {
            return Err(ProbeError::Pir { pir });
        }
        if threads[..n].iter().any(|other| other.pir == thread.pir) {
            return Err(ProbeError::SamePir { pir });
        }
    }
    let priorities = description.priorities.min(PRIORITIES);
    for priority in [config.ipi_priority, config.device_priority] {
        if priority.get() >= priorities {
            return Err(ProbeError::Priority {
                priority: priority.get(),
                priorities,
            });
        }
    }
    if config.ipi_priority >= config.device_priority {
        return Err(ProbeError::Order {
            ipi: config.ipi_priority.get(),
            device: config.device_priority.get(),
        });
    }
    let sizes = description.queue_sizes;
    let known = |log2: &u32| matches!(log2, 12 | 16 | 21 | 24);
    if let Some(&log2) = sizes.iter().find(|log2| !known(log2)) {
        return Err(ProbeError::QueueSize { log2 });
    }
    if !sizes.contains(&config.device_queue) {
        return Err(ProbeError::QueueSize {
            log2: config.device_queue,
        });
    }
    Ok(())
}

fn wants_memory(error: &Error) -> bool {
    *error
        == Error::from(crate::error::OpalError {
            call: crate::opal::Call::AllocateIrq,
            code: code::PROVISIONING,
        })
}
