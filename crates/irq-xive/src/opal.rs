// SPDX-License-Identifier: MIT OR Apache-2.0
//! The OPAL calls that the driver makes, with their arguments and answers in types.
//!
//! Most calls take locks of firmware's and may answer that they are busy. They are repeated then,
//! bounded: at once for `OPAL_BUSY`, after a poll of firmware's events for `OPAL_BUSY_EVENT`.
//! Every other answer that is no success is an error with the call's name and its code.
//!
//! The words that firmware writes stand in memory of ours, big-endian, used by one call at a
//! time.

mod call;

use core::alloc::Layout;

use bitflags::bitflags;
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::MaskedLock;
use irq_hal::wait::{Bound, wait};
use irq_hal::{Error, NodeId, PhysAddr, Platform};

use crate::error::OpalError;
use crate::firmware::Firmware;
use crate::ids::{ChipId, Pir, Priority, SourceNumber};

pub use call::{Call, code};

/// How long a call may stay busy: by time, and by repetitions.
const BUSY_MICROS: u32 = 1_000_000;
const BUSY_POLLS: u32 = 100_000;

/// Five words for `OPAL_XIVE_GET_IRQ_INFO`; `OPAL_POLL_EVENTS` uses the first.
const OUT: usize = 64;
const OUT_FLAGS: usize = 0;
const OUT_EOI_PAGE: usize = 8;
const OUT_TRIGGER_PAGE: usize = 16;
const OUT_SHIFT: usize = 24;
const OUT_CHIP: usize = 28;

bitflags! {
    /// What firmware says about a source.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: u64 {
        /// The trigger page is another one than that of the ends.
        const TRIGGER_PAGE = 0x01;
        /// An end may be a store, on POWER9. It is lost now and then: not used.
        const OLD_STORE_EOI = 0x02;
        /// Raised by a line, as long as it is high.
        const LSI = 0x04;
        /// Offsets into the pages are shifted: early POWER9.
        const SHIFT_BUG = 0x08;
        /// Masked through firmware.
        const MASK_BY_FIRMWARE = 0x10;
        /// Ended through firmware.
        const EOI_BY_FIRMWARE = 0x20;
        /// An end may be a store.
        const STORE_EOI = 0x40;
    }
}

/// Where the pages of a source are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceInfo {
    /// What is special about it.
    pub flags: Flags,
    /// The page of its ends.
    pub eoi_page: PhysAddr,
    /// The page of its trigger, which may be the same; nothing if software cannot raise it.
    pub trigger_page: Option<PhysAddr>,
    /// The length of one page in bytes.
    pub page: usize,
    /// The chip that it is on.
    pub chip: ChipId,
}

/// The calls, over what makes them.
#[derive(Debug)]
pub struct Opal<F> {
    firmware: F,
    out: MaskedLock<DmaRegion, 5>,
}

/// No arguments.
const NONE: [u64; 7] = [0; 7];

/// `arguments`, and zeros.
fn args<const N: usize>(arguments: [u64; N]) -> [u64; 7] {
    let mut all = NONE;
    all.iter_mut()
        .zip(arguments)
        .for_each(|(to, from)| *to = from);
    all
}

const fn is_busy(answer: i64) -> bool {
    matches!(answer, code::BUSY | code::BUSY_EVENT)
}

impl<F: Firmware> Opal<F> {
    /// The calls of `firmware`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate. Calls nothing.
    pub fn new<P: Platform + ?Sized>(platform: &P, firmware: F) -> Result<Self, Error> {
        let layout = Layout::from_size_align(OUT, OUT).map_err(|_| NO_LAYOUT)?;
        let out = platform.dma_alloc(layout, NodeId::FLAT, DmaLimits::NONE)?;
        Ok(Self {
            firmware,
            out: MaskedLock::new(out),
        })
    }

    /// What makes the calls.
    pub const fn firmware(&self) -> &F {
        &self.firmware
    }

    /// One attempt of a call that writes no memory.
    fn once(&self, call: Call, arguments: [u64; 7]) -> i64 {
        // SAFETY: of the calls made through here, none writes to memory that its arguments name,
        // but for `set_queue` and `donate_page`, whose callers promise that the memory is theirs
        // to give.
        unsafe { self.firmware.call(call.number(), arguments) }
    }

    /// Lets firmware look after its own events, one of which a call waits for.
    fn poll_events<P: Platform + ?Sized>(&self, platform: &P) {
        self.out.with(platform, |out| {
            let arguments = args([out.device().get()]);
            // SAFETY: the call writes one word at `out`, which is longer, and ours under the lock.
            unsafe { self.firmware.call(Call::PollEvents.number(), arguments) }
        });
    }

    /// Repeats `attempt` of `call` as long as it is busy.
    fn patiently<P: Platform + ?Sized>(
        &self,
        platform: &P,
        call: Call,
        mut attempt: impl FnMut() -> i64,
    ) -> Result<u64, Error> {
        let mut last = code::SUCCESS;
        let ask = || {
            if last == code::BUSY_EVENT {
                self.poll_events(platform);
            }
            last = attempt();
            last as u64
        };
        let bound = Bound::new(platform, BUSY_MICROS, BUSY_POLLS);
        let answer = wait(platform, call.waits(), bound, ask, |answer| {
            !is_busy(answer as i64)
        })?;
        if (answer as i64) < 0 {
            let code = answer as i64;
            return Err(OpalError { call, code }.into());
        }
        Ok(answer)
    }

    fn repeat<P: Platform + ?Sized>(
        &self,
        platform: &P,
        call: Call,
        arguments: [u64; 7],
    ) -> Result<u64, Error> {
        self.patiently(platform, call, || self.once(call, arguments))
    }

    /// Likewise, for a call that has only one good answer.
    fn succeed<P: Platform + ?Sized>(
        &self,
        platform: &P,
        call: Call,
        arguments: [u64; 7],
    ) -> Result<(), Error> {
        match self.repeat(platform, call, arguments)? {
            0 => Ok(()),
            other => Err(OpalError {
                call,
                code: other as i64,
            }
            .into()),
        }
    }

    /// `OPAL_XIVE_RESET`, to the mode that this driver is for: every queue is off, every source
    /// off and unrouted, allocated sources are free, every CPU is closed.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler. From here on firmware leaves queue memory alone that it had been given.
    pub fn reset<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        self.succeed(platform, Call::Reset, args([call::EXPLOITATION]))
    }

    /// `OPAL_XIVE_SET_QUEUE_INFO`: from now on events for `pir` at `priority` are written to the
    /// 2 to the power of `log2` bytes at `at`, from the start, and each is notified.
    ///
    /// # Safety
    /// - The bytes are zero, aligned to their number, and nobody else's until the queue is
    ///   [off](Self::disable_queue) and [synchronized](Self::sync_queue), or the controller is
    ///   [reset](Self::reset).
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub unsafe fn set_queue<P: Platform + ?Sized>(
        &self,
        platform: &P,
        pir: Pir,
        priority: Priority,
        at: PhysAddr,
        log2: u32,
    ) -> Result<(), Error> {
        let arguments = args([
            u64::from(pir.get()),
            u64::from(priority.get()),
            at.get(),
            u64::from(log2),
            call::QUEUE_ENABLED | call::QUEUE_ALWAYS_NOTIFY,
        ]);
        self.succeed(platform, Call::SetQueueInfo, arguments)
    }

    /// Likewise without a queue: events for `pir` at `priority` are notified, and written nowhere.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn set_notification<P: Platform + ?Sized>(
        &self,
        platform: &P,
        pir: Pir,
        priority: Priority,
    ) -> Result<(), Error> {
        let flags = call::QUEUE_ENABLED | call::QUEUE_ALWAYS_NOTIFY;
        let (pir, priority) = (u64::from(pir.get()), u64::from(priority.get()));
        self.succeed(
            platform,
            Call::SetQueueInfo,
            args([pir, priority, 0, 0, flags]),
        )
    }

    /// Turns a queue off.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn disable_queue<P: Platform + ?Sized>(
        &self,
        platform: &P,
        pir: Pir,
        priority: Priority,
    ) -> Result<(), Error> {
        // Without the flag that enables it: a size of 0 alone makes a queue that takes nothing.
        let arguments = args([u64::from(pir.get()), u64::from(priority.get())]);
        self.succeed(platform, Call::SetQueueInfo, arguments)
    }

    /// `OPAL_XIVE_SYNC` of a queue: what `number` has sent is in it when the call returns.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn sync_queue<P: Platform + ?Sized>(
        &self,
        platform: &P,
        number: SourceNumber,
    ) -> Result<(), Error> {
        let arguments = args([call::SYNC_QUEUE, u64::from(number.get())]);
        self.succeed(platform, Call::Sync, arguments)
    }

    /// `OPAL_XIVE_ALLOCATE_IRQ`: a source on `chip` that software raises.
    ///
    /// # Errors
    /// [`Error::Refused`] with the code, [`PROVISIONING`](code::PROVISIONING) if firmware wants
    /// memory first ([`donate_page`](Self::donate_page)); [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn allocate_irq<P: Platform + ?Sized>(
        &self,
        platform: &P,
        chip: ChipId,
    ) -> Result<SourceNumber, Error> {
        let call = Call::AllocateIrq;
        let answer = self.repeat(platform, call, args([u64::from(chip.get())]))?;
        match u32::try_from(answer) {
            // Old firmware says so when there is none left.
            Ok(u32::MAX) | Err(_) => Err(OpalError {
                call,
                code: answer as i64,
            }
            .into()),
            Ok(number) => Ok(SourceNumber::new(number)),
        }
    }

    /// `OPAL_XIVE_FREE_IRQ`. `number` came from [`allocate_irq`](Self::allocate_irq): another one
    /// is masked before firmware says that it is not free.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn free_irq<P: Platform + ?Sized>(
        &self,
        platform: &P,
        number: SourceNumber,
    ) -> Result<(), Error> {
        self.succeed(platform, Call::FreeIrq, args([u64::from(number.get())]))
    }

    /// `OPAL_XIVE_DONATE_PAGE`.
    ///
    /// # Safety
    /// - The page at `page`, aligned, is nobody else's until the controller is
    ///   [reset](Self::reset).
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub unsafe fn donate_page<P: Platform + ?Sized>(
        &self,
        platform: &P,
        chip: ChipId,
        page: PhysAddr,
    ) -> Result<(), Error> {
        let arguments = args([u64::from(chip.get()), page.get()]);
        self.succeed(platform, Call::DonatePage, arguments)
    }

    /// `OPAL_XIVE_SET_IRQ_CONFIG`: the events of `number` go to `pir` at `priority` and read
    /// `data` there. Events that were under way are in their queue when the call returns.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn route<P: Platform + ?Sized>(
        &self,
        platform: &P,
        number: SourceNumber,
        pir: Pir,
        priority: Priority,
        data: u32,
    ) -> Result<(), Error> {
        self.configure(platform, number, pir, priority.get(), data)
    }

    /// Likewise, to nowhere. The source's state is off before: an event that comes here is lost,
    /// and its P stays.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a handler.
    pub fn unroute<P: Platform + ?Sized>(
        &self,
        platform: &P,
        number: SourceNumber,
        pir: Pir,
    ) -> Result<(), Error> {
        self.configure(platform, number, pir, call::MASKED, call::POISON)
    }

    fn configure<P: Platform + ?Sized>(
        &self,
        platform: &P,
        number: SourceNumber,
        pir: Pir,
        priority: u8,
        data: u32,
    ) -> Result<(), Error> {
        let arguments = args([
            u64::from(number.get()),
            u64::from(pir.get()),
            u64::from(priority),
            u64::from(data),
        ]);
        self.succeed(platform, Call::SetIrqConfig, arguments)
    }

    /// `OPAL_XIVE_GET_IRQ_INFO`.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Timeout`]; [`Error::Firmware`] for pages that cannot be.
    ///
    /// # Context
    /// Any but a handler.
    pub fn source_info<P: Platform + ?Sized>(
        &self,
        platform: &P,
        number: SourceNumber,
    ) -> Result<SourceInfo, Error> {
        let call = Call::GetIrqInfo;
        let mut words = Words::default();
        let answer = self.patiently(platform, call, || {
            let (answer, read) = self.out.with(platform, |out| {
                let answer = self.ask_source(out, number);
                (answer, Words::of(out))
            });
            words = read;
            answer
        })?;
        if answer != 0 {
            let code = answer as i64;
            return Err(OpalError { call, code }.into());
        }
        words.info(number)
    }

    /// One attempt of `OPAL_XIVE_GET_IRQ_INFO` into `out`.
    fn ask_source(&self, out: &DmaRegion, number: SourceNumber) -> i64 {
        let at = |offset: usize| out.device().get().wrapping_add(offset as u64);
        let arguments = args([
            u64::from(number.get()),
            at(OUT_FLAGS),
            at(OUT_EOI_PAGE),
            at(OUT_TRIGGER_PAGE),
            at(OUT_SHIFT),
            at(OUT_CHIP),
        ]);
        // SAFETY: the call writes five words from `out` on, which is longer, and ours: the caller
        // has it under its lock.
        unsafe { self.firmware.call(Call::GetIrqInfo.number(), arguments) }
    }

    /// `OPAL_INT_EOI`: ends a source that is [ended by firmware](Flags::EOI_BY_FIRMWARE). One
    /// attempt, since it is made on the way out of an interrupt; whether it succeeded.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn end(&self, number: SourceNumber) -> bool {
        self.once(Call::IntEoi, args([u64::from(number.get())])) >= 0
    }
}

const NO_LAYOUT: Error = Error::Invalid {
    what: "layout",
    value: OUT as u64,
};

/// What `OPAL_XIVE_GET_IRQ_INFO` wrote.
#[derive(Clone, Copy, Default)]
struct Words {
    flags: u64,
    eoi_page: u64,
    trigger_page: u64,
    shift: u32,
    chip: u32,
}

impl Words {
    fn of(out: &DmaRegion) -> Self {
        Self {
            flags: out.read_u64(OUT_FLAGS).swap_bytes(),
            eoi_page: out.read_u64(OUT_EOI_PAGE).swap_bytes(),
            trigger_page: out.read_u64(OUT_TRIGGER_PAGE).swap_bytes(),
            shift: out.read_u32(OUT_SHIFT).swap_bytes(),
            chip: out.read_u32(OUT_CHIP).swap_bytes(),
        }
    }

    fn info(self, number: SourceNumber) -> Result<SourceInfo, Error> {
        let flags = Flags::from_bits_truncate(self.flags);
        let two = flags.contains(Flags::TRIGGER_PAGE);
        // The shift covers both pages.
        let shift = self.shift.wrapping_sub(u32::from(two));
        let wrong = |what, at| Err(Error::Firmware { what, at });
        if !matches!(shift, 12 | 16) {
            return wrong("size of a source's pages", u64::from(self.shift));
        }
        let page = 1_u64 << shift;
        let misplaced =
            |at: u64| at == 0 || !at.is_multiple_of(page) || at.checked_add(page).is_none();
        if misplaced(self.eoi_page) {
            return wrong("page of a source's ends", u64::from(number.get()));
        }
        let trigger_page = match (self.trigger_page, two) {
            // The absent page of one that only a line raises.
            (0, false) => None,
            (at, true) if !misplaced(at) && at != self.eoi_page => Some(at),
            (at, false) if at == self.eoi_page => Some(at),
            _ => return wrong("trigger page of a source", u64::from(number.get())),
        };
        Ok(SourceInfo {
            flags,
            eoi_page: PhysAddr::new(self.eoi_page),
            trigger_page: trigger_page.map(PhysAddr::new),
            page: page as usize,
            chip: ChipId::new(self.chip),
        })
    }
}
