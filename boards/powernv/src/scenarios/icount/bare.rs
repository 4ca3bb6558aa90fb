// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers without irq-core: by hand, with a source and a queue of their own, and by the driver
//! alone.

use core::arch::global_asm;
use core::mem::{self, offset_of};
use core::sync::atomic::Ordering::Relaxed;

use boards_common::verdict::{OrFail, Stop};
use irq_core::{Flow, IrqContext, Kick};
use irq_hal::CpuIndex;
use irq_hal::percpu::OnCpu;
use irq_xive::opal::Flags;
use irq_xive::{ChipId, Esb, EventQueue, Firmware, Pq, Priority};

use crate::bench::Bench;
use crate::cpu::{self, CpuBlock};
use crate::interrupts::{System, system};
use crate::platform::MACHINE;
use crate::start::HEADER;
use crate::vectors;

/// Words of a frame: r0, r3 to r12, LR, CTR, XER, CR; an even number.
const SAVED: usize = 16;

// Entries that save what a call may change and call `handler`. By hand: the acknowledge before it,
// then the queue is read until it is empty, with an end of the source for each entry, then CPPR
// opens. Not saved: HSRR0 and HSRR1, so they cannot nest. `end` is a load that sets the source to
// idle, and a trigger if an event waited (POWER9), or a store (POWER10).
global_asm!(
    r#"
    .macro  SAVE
    stdu    1, -{whole}(1)
    std     0, {at} + 0(1)
    std     3, {at} + 8(1)
    std     4, {at} + 16(1)
    std     5, {at} + 24(1)
    std     6, {at} + 32(1)
    std     7, {at} + 40(1)
    std     8, {at} + 48(1)
    std     9, {at} + 56(1)
    std     10, {at} + 64(1)
    std     11, {at} + 72(1)
    std     12, {at} + 80(1)
    mflr    4
    mfctr   5
    mfxer   6
    mfcr    7
    std     4, {at} + 88(1)
    std     5, {at} + 96(1)
    std     6, {at} + 104(1)
    std     7, {at} + 112(1)
    .endm

    .macro  RESTORE
    ld      4, {at} + 88(1)
    ld      5, {at} + 96(1)
    ld      6, {at} + 104(1)
    ld      7, {at} + 112(1)
    mtlr    4
    mtctr   5
    mtxer   6
    mtcr    7
    ld      0, {at} + 0(1)
    ld      3, {at} + 8(1)
    ld      4, {at} + 16(1)
    ld      5, {at} + 24(1)
    ld      6, {at} + 32(1)
    ld      7, {at} + 40(1)
    ld      8, {at} + 48(1)
    ld      9, {at} + 56(1)
    ld      10, {at} + 64(1)
    ld      11, {at} + 72(1)
    ld      12, {at} + 80(1)
    addi    1, 1, {whole}
    hrfid
    .endm

    .macro  BY_HAND name, handler, store_eoi
    .global \name
\name:
    SAVE
    ld      4, {acknowledge}(13)
    lhzcix  5, 0, 4
    twi     0, 5, 0
    isync
1:  lwz     5, {position}(13)
    ld      6, {queue}(13)
    clrldi  7, 5, 48
    lwbrx   8, 6, 7
    rlwinm  9, 5, 15, 0, 0              // the generation that was read last
    xor     9, 9, 8
    cmpwi   9, 0
    bge     2f
    addi    5, 5, 4
    stw     5, {position}(13)
    clrlwi  3, 8, 1
    bl      \handler
    ld      4, {end}(13)
    .if     \store_eoi
    stdcix  5, 0, 4
    .else
    ldcix   5, 0, 4
    rldicl. 5, 5, 8, 63                 // Q, big-endian
    bne     3f
    .endif
    b       1b
    .if     \store_eoi == 0
3:  ld      4, {trigger}(13)
    stdcix  5, 0, 4
    b       1b
    .endif
2:  ld      4, {cppr}(13)
    li      5, 0xff
    stbcix  5, 0, 4
    RESTORE
    .endm

    .macro  BY_DRIVER name, handler
    .global \name
\name:
    SAVE
    lis     12, \handler@ha
    addi    12, 12, \handler@l
    mtctr   12
    bctrl
    RESTORE
    .endm

    .section .text.vectors.bare, "ax"
    BY_HAND bare_load, bare_handler, 0
    BY_HAND bare_store, bare_handler, 1
    BY_HAND bare_load_answer, bare_answering_handler, 0
    BY_HAND bare_store_answer, bare_answering_handler, 1
    BY_DRIVER driver_entry, {driver_count}
    BY_DRIVER driver_answer_entry, {driver_answer}

bare_handler:
    ld      10, {count}(13)
    addi    10, 10, 1
    std     10, {count}(13)
    blr

bare_answering_handler:
    ld      10, {count}(13)
    addi    10, 10, 1
    std     10, {count}(13)
    ld      11, {answer}(13)
    cmpdi   11, 0
    beqlr
    sync
    stdcix  10, 0, 11
    blr
    "#,
    whole = const vectors::RED_ZONE + HEADER + 8 * SAVED,
    at = const HEADER,
    acknowledge = const offset_of!(CpuBlock, bare.acknowledge),
    position = const offset_of!(CpuBlock, bare.at),
    queue = const offset_of!(CpuBlock, bare.queue),
    end = const offset_of!(CpuBlock, bare.end),
    trigger = const offset_of!(CpuBlock, bare.trigger),
    cppr = const offset_of!(CpuBlock, bare.cppr),
    count = const offset_of!(CpuBlock, bare.count),
    answer = const offset_of!(CpuBlock, bare.answer),
    driver_count = sym driver_count,
    driver_answer = sym driver_answer,
);

unsafe extern "C" {
    safe static bare_load: u8;
    safe static bare_store: u8;
    safe static bare_load_answer: u8;
    safe static bare_store_answer: u8;
    safe static driver_entry: u8;
    safe static driver_answer_entry: u8;
}

/// The call of the entry where the driver is used alone: counts.
extern "C" fn driver_count() {
    through_driver(|_, _, block| block.count());
}

/// Likewise; sends the block's answer too, if it has one.
extern "C" fn driver_answer() {
    through_driver(|system, _, block| {
        block.count();
        if let Some(to) = block.answers_to() {
            // What goes wrong shows as an answer that never comes.
            let _ = system.xive.kick(to, || true);
        }
    });
}

#[inline(always)]
fn through_driver(handler: impl FnOnce(&System, &OnCpu, &CpuBlock)) {
    let (Ok(system), block) = (system(), cpu::this()) else {
        return;
    };
    // SAFETY: the vector masked, and returns after this; the block is this CPU's.
    let on = unsafe { OnCpu::new(block.index) };
    let cx = IrqContext::new(on, None, None);
    if let Some((_, active)) = system.xive.ack(&cx) {
        handler(system, cx.on(), block);
        system.xive.end(active);
    }
}

/// More favoured than what the driver uses.
const PRIORITY: u8 = 4;
/// The base-2 logarithm of the queue's bytes, as the entry wraps.
const QUEUE: u32 = 16;
/// What the events say.
const DATA: u32 = 1;

/// Offsets: of the acknowledge and CPPR in the TIMA, of the ends in a source's page.
const ACKNOWLEDGE: u64 = 0x830;
const CPPR: u64 = 0x31;
const SET_IDLE: u64 = 0xc00;
const STORE_EOI: u64 = 0x400;

/// Gives `cpu` a source and a queue of its own for the hand-written entries, once and for good.
/// Says whether the source is ended by a store.
pub fn prepare(bench: &Bench, cpu: CpuIndex) -> Result<bool, Stop> {
    let block = bench.0.block(cpu).or_fail("block")?;
    let (opal, bare) = (bench.0.xive.opal(), &block.bare);
    if bare.queue.load(Relaxed) != 0 {
        return Ok(bare.end.load(Relaxed) & 0xfff == STORE_EOI);
    }
    let Some(priority) = Priority::new(PRIORITY) else {
        return Err(Stop::Skip("no such priority"));
    };
    let queue = EventQueue::new(&MACHINE, QUEUE, block.place.node).or_fail("queue")?;
    let at = queue.device();
    // Never given back: the controller writes to it from now on.
    mem::forget(queue);
    // SAFETY: fresh, zeroed, aligned to its size, and leaked.
    let set = unsafe { opal.set_queue(&MACHINE, block.pir(), priority, at, QUEUE) };
    set.or_fail("queue")?;
    let chip = ChipId::new(block.place.package);
    let number = opal.allocate_irq(&MACHINE, chip).or_fail("source")?;
    let info = opal.source_info(&MACHINE, number).or_fail("source")?;
    opal.route(&MACHINE, number, block.pir(), priority, DATA)
        .or_fail("route")?;
    let map = |at, len| bench.0.xive.opal().firmware().map(at, len);
    let esb = Esb::new(&info, map).or_fail("source")?;
    esb.set(Pq::RESET);
    let Some(trigger) = info.trigger_page else {
        return Err(Stop::Skip("a source that software cannot raise"));
    };
    let store = info.flags.contains(Flags::STORE_EOI);
    let end = if store { STORE_EOI } else { SET_IDLE };
    bare.end.store(info.eoi_page.get() + end, Relaxed);
    bare.trigger.store(trigger.get(), Relaxed);
    bare.acknowledge.store(bench.0.tima + ACKNOWLEDGE, Relaxed);
    bare.cppr.store(bench.0.tima + CPPR, Relaxed);
    bare.at.store(0, Relaxed);
    bare.queue.store(at.get(), Relaxed);
    Ok(store)
}

/// An entry of every CPU.
#[derive(Clone, Copy)]
pub struct Entry(&'static u8);

impl Entry {
    /// The hand-written one; its handler counts.
    pub fn by_hand(store_eoi: bool) -> Self {
        Self(if store_eoi { &bare_store } else { &bare_load })
    }

    /// Likewise; the handler sends the block's answer too, if it has one.
    pub fn by_hand_with_answer(store_eoi: bool) -> Self {
        Self(if store_eoi {
            &bare_store_answer
        } else {
            &bare_load_answer
        })
    }

    /// The driver's acknowledge and end; the handler counts.
    pub fn by_driver() -> Self {
        Self(&driver_entry)
    }

    /// Likewise; the handler sends the block's answer too, if it has one.
    pub fn by_driver_with_answer() -> Self {
        Self(&driver_answer_entry)
    }

    /// Makes it every CPU's, none of which takes an interrupt now.
    pub fn install(self) -> Installed {
        // SAFETY: entries are code of the vectors' section, made for this; the tests let no
        // other interrupt come.
        unsafe { vectors::redirect(Some(self.0)) };
        Installed
    }
}

/// An entry that is every CPU's while the value lives; then the image's is again.
pub struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        // SAFETY: as in `install`.
        unsafe { vectors::redirect(None) };
    }
}
