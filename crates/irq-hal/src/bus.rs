// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware seam: one aligned access, and the barriers that order it.
//!
//! A driver is generic over its bus. On hardware the bus is [`Mmio`](crate::Mmio), a bank of
//! system registers, an MSR or a port space; in tests it is a device model, and over QEMU's
//! qtest socket it is QEMU's own model. All of them see each access with width, value and
//! order, and each barrier as a call of its own, so that a model can judge a missing one.
//!
//! Methods take `&self`: a bus may own its window ([`Mmio`](crate::Mmio)) or borrow it
//! (`&Mmio`, `&Model`), and a driver that owns its bus holds no reference into itself.

/// One aligned access of width `T`, `offset` bytes into a register frame.
///
/// For registers that have no address (AArch64 system registers, x86 MSRs) the offset is the
/// architecture's number of the register; the driver that uses such a bus documents it.
///
/// Implementations perform exactly one access of width `T` for each call.
///
/// # Context
/// Any. Both calls are wait-free on the CPU's side.
pub trait Bus<T> {
    /// Reads the register at `offset`. The read may have side effects: see
    /// [`access`](crate::access) for the types that tell.
    fn load(&self, offset: usize) -> T;

    /// Writes `value` to the register at `offset`.
    fn store(&self, offset: usize, value: T);
}

impl<T, B: Bus<T> + ?Sized> Bus<T> for &B {
    #[inline(always)]
    fn load(&self, offset: usize) -> T {
        (**self).load(offset)
    }

    #[inline(always)]
    fn store(&self, offset: usize, value: T) {
        (**self).store(offset, value);
    }
}

/// The barriers of a bus. What each promises holds on every architecture; the instruction
/// differs.
///
/// | call | arm64 | POWER | x86-64 |
/// |---|---|---|---|
/// | `publish` | `dsb ishst` | `sync` | `mfence; lfence` |
/// | `complete` | `dsb sy` | `sync` | `mfence` |
/// | `synchronize` | `isb` | `isync` | nothing |
///
/// # Context
/// Any.
pub trait Barrier {
    /// Memory before doorbell: every store to memory before the call is visible to the device
    /// and to other CPUs before any access through this bus after it.
    fn publish(&self);

    /// Every load and store before the call, to memory and to the device, is complete before
    /// any instruction after it.
    fn complete(&self);

    /// Every effect of register writes before the call is seen by every instruction after it
    /// (context synchronization; system registers need it, memory does not).
    fn synchronize(&self);
}

impl<B: Barrier + ?Sized> Barrier for &B {
    #[inline(always)]
    fn publish(&self) {
        (**self).publish();
    }

    #[inline(always)]
    fn complete(&self) {
        (**self).complete();
    }

    #[inline(always)]
    fn synchronize(&self) {
        (**self).synchronize();
    }
}

/// The length of a bus that is a window of bytes, so that a driver can refuse one that is too
/// short for its frame before it touches anything.
pub trait Extent {
    /// The number of bytes that the bus covers; valid offsets are below it.
    fn extent(&self) -> usize;
}

impl<B: Extent + ?Sized> Extent for &B {
    fn extent(&self) -> usize {
        (**self).extent()
    }
}

/// A part of another bus, starting `base` bytes into it: one redistributor of a region, one
/// source of a block.
#[derive(Clone, Copy, Debug)]
pub struct Part<B> {
    bus: B,
    base: usize,
    len: usize,
}

impl<B: Extent> Part<B> {
    /// The `len` bytes of `bus` from `base` on, or nothing where `bus` does not cover them.
    pub fn new(bus: B, base: usize, len: usize) -> Option<Self> {
        (base.checked_add(len)? <= bus.extent()).then_some(Self { bus, base, len })
    }
}

impl<B> Part<B> {
    /// Where the part begins in its bus, in bytes.
    pub const fn base(&self) -> usize {
        self.base
    }
}

impl<T, B: Bus<T>> Bus<T> for Part<B> {
    #[inline(always)]
    fn load(&self, offset: usize) -> T {
        debug_assert!(
            offset < self.len,
            "offset {offset:#x} outside of a part of {:#x} bytes",
            self.len
        );
        self.bus.load(self.base.wrapping_add(offset))
    }

    #[inline(always)]
    fn store(&self, offset: usize, value: T) {
        debug_assert!(
            offset < self.len,
            "offset {offset:#x} outside of a part of {:#x} bytes",
            self.len
        );
        self.bus.store(self.base.wrapping_add(offset), value);
    }
}

impl<B: Barrier> Barrier for Part<B> {
    #[inline(always)]
    fn publish(&self) {
        self.bus.publish();
    }

    #[inline(always)]
    fn complete(&self) {
        self.bus.complete();
    }

    #[inline(always)]
    fn synchronize(&self) {
        self.bus.synchronize();
    }
}

impl<B> Extent for Part<B> {
    fn extent(&self) -> usize {
        self.len
    }
}

/// A bus whose registers are big-endian (POWER), over one whose registers are little-endian
/// ([`Mmio`](crate::Mmio), and every model): a word is swapped, a byte is not.
#[derive(Clone, Copy, Debug)]
pub struct BigEndian<B>(pub B);

impl<B: Bus<u8>> Bus<u8> for BigEndian<B> {
    #[inline(always)]
    fn load(&self, offset: usize) -> u8 {
        self.0.load(offset)
    }

    #[inline(always)]
    fn store(&self, offset: usize, value: u8) {
        self.0.store(offset, value);
    }
}

macro_rules! big_endian {
    ($($t:ty),*) => { $(
        impl<B: Bus<$t>> Bus<$t> for BigEndian<B> {
            #[inline(always)]
            fn load(&self, offset: usize) -> $t {
                self.0.load(offset).swap_bytes()
            }

            #[inline(always)]
            fn store(&self, offset: usize, value: $t) {
                self.0.store(offset, value.swap_bytes());
            }
        }
    )* };
}

big_endian!(u16, u32, u64);

impl<B: Barrier> Barrier for BigEndian<B> {
    #[inline(always)]
    fn publish(&self) {
        self.0.publish();
    }

    #[inline(always)]
    fn complete(&self) {
        self.0.complete();
    }

    #[inline(always)]
    fn synchronize(&self) {
        self.0.synchronize();
    }
}

impl<B: Extent> Extent for BigEndian<B> {
    fn extent(&self) -> usize {
        self.0.extent()
    }
}

/// The barrier instructions of the CPU that the crate is built for, for buses on hardware.
pub mod arch {
    #[cfg(any(
        target_arch = "aarch64",
        target_arch = "powerpc64",
        target_arch = "x86_64"
    ))]
    macro_rules! instruction {
        ($text:literal) => {
            // SAFETY: a barrier has no operands and changes no register; not `nomem`, so the
            // compiler keeps memory accesses on their side.
            unsafe {
                core::arch::asm!($text, options(nostack, preserves_flags));
            }
        };
    }

    /// See [`Barrier::publish`](super::Barrier::publish). On x86-64 the second instruction keeps a
    /// WRMSR behind the first one.
    #[inline(always)]
    pub fn publish() {
        #[cfg(target_arch = "aarch64")]
        instruction!("dsb ishst");
        #[cfg(target_arch = "powerpc64")]
        instruction!("sync");
        #[cfg(target_arch = "x86_64")]
        instruction!("mfence\nlfence");
        #[cfg(not(any(
            target_arch = "aarch64",
            target_arch = "powerpc64",
            target_arch = "x86_64"
        )))]
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }

    /// See [`Barrier::complete`](super::Barrier::complete).
    #[inline(always)]
    pub fn complete() {
        #[cfg(target_arch = "aarch64")]
        instruction!("dsb sy");
        #[cfg(target_arch = "powerpc64")]
        instruction!("sync");
        #[cfg(target_arch = "x86_64")]
        instruction!("mfence");
        #[cfg(not(any(
            target_arch = "aarch64",
            target_arch = "powerpc64",
            target_arch = "x86_64"
        )))]
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }

    /// See [`Barrier::synchronize`](super::Barrier::synchronize). On POWER it also keeps the loads
    /// after it behind a load before it whose value a branch depends on.
    #[inline(always)]
    pub fn synchronize() {
        #[cfg(target_arch = "aarch64")]
        instruction!("isb");
        #[cfg(target_arch = "powerpc64")]
        instruction!("isync");
        #[cfg(not(any(target_arch = "aarch64", target_arch = "powerpc64")))]
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }
}
