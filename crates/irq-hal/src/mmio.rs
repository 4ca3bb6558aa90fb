// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory-mapped registers, little-endian.

use core::ptr::NonNull;

use crate::bus::{Barrier, Bus, Extent};
use crate::error::Error;
use crate::release::Release;

/// An owned window of device space whose registers are little-endian (GIC, IOAPIC, local
/// APIC), whatever byte order the CPU runs in.
///
/// Accesses on arm64 are inline assembly with plain base addressing: a volatile access may
/// compile to a write-back form, for which a hypervisor gets no syndrome. On POWER they are the
/// caching-inhibited loads and stores of hypervisor real mode, in which plain ones are cached;
/// they are not for code that runs with translation on, which brings a bus of its own.
#[derive(Debug)]
pub struct Mmio {
    base: NonNull<u8>,
    len: usize,
    release: Option<Release>,
}

// SAFETY: a window is an address and a length; device accesses are sound from every CPU, as
// the constructor's caller promised.
unsafe impl Send for Mmio {}
// SAFETY: as for `Send`; accesses through `&Mmio` are single loads and stores of device memory
// and form no Rust reference to it.
unsafe impl Sync for Mmio {}

impl Mmio {
    /// A window that the embedder has mapped already.
    ///
    /// # Safety
    /// - `base..base + len` is mapped as device memory, readable and writable, until the value
    ///   is dropped, on every CPU that uses it; `base` is 8-byte aligned.
    /// - It holds device registers only, and no Rust reference to it exists.
    pub const unsafe fn from_mapped(base: NonNull<u8>, len: usize) -> Self {
        Self {
            base,
            len,
            release: None,
        }
    }

    /// Likewise, with what undoes the mapping when the window is dropped.
    ///
    /// # Safety
    /// As for [`from_mapped`](Self::from_mapped), and `release` is sound for this `base` and
    /// `len`.
    pub const unsafe fn with_release(base: NonNull<u8>, len: usize, release: Release) -> Self {
        Self {
            base,
            len,
            release: Some(release),
        }
    }

    /// Refuses a window shorter than the `need` bytes of the frame `what`.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn check(&self, what: &'static str, need: usize) -> Result<(), Error> {
        if self.len < need {
            return Err(Error::TooSmall {
                what,
                len: self.len,
                need,
            });
        }
        Ok(())
    }

    #[inline(always)]
    fn at<T>(&self, offset: usize) -> *mut T {
        at(self.base, self.len, offset)
    }
}

/// The word at `offset` of a window.
///
/// Checked in release builds too: the bus is safe code's. Where offset and length are constants
/// nothing is left of it.
#[inline(always)]
fn at<T>(base: NonNull<u8>, len: usize, offset: usize) -> *mut T {
    let size = size_of::<T>();
    assert!(
        offset.is_multiple_of(size) && offset < len && len - offset >= size,
        "access at {offset:#x} in a window of {len:#x} bytes"
    );
    base.as_ptr().wrapping_add(offset).cast()
}

impl Drop for Mmio {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: base and length are the ones this window was made with, and drop runs
            // once.
            unsafe { release.run(self.base, self.len) }
        }
    }
}

impl Extent for Mmio {
    fn extent(&self) -> usize {
        self.len
    }
}

/// A width of an access, with the instructions for it.
///
/// # Safety
/// An implementation performs exactly one access, of this width.
unsafe trait Width: Copy {
    /// Loads from `at`.
    ///
    /// # Safety
    /// - `at` is aligned, and inside of a window whose maker promised device memory.
    unsafe fn load(at: *mut Self) -> Self;

    /// Stores to `at`.
    ///
    /// # Safety
    /// - As for [`load`](Self::load).
    unsafe fn store(at: *mut Self, value: Self);
}

macro_rules! access {
    ($($t:ty, $load:literal, $store:literal, $reg:literal, $load_ci:literal, $store_ci:literal;)*) => { $(
        // SAFETY: each arm is one load or store of the type's width.
        unsafe impl Width for $t {
            #[inline(always)]
            unsafe fn load(at: *mut Self) -> Self {
                #[cfg(target_arch = "aarch64")]
                let raw = {
                    let value: $t;
                    // SAFETY: the caller promises an aligned address of device memory.
                    unsafe {
                        core::arch::asm!(
                            concat!($load, " {value:", $reg, "}, [{at}]"),
                            value = out(reg) value,
                            at = in(reg) at,
                            options(nostack, preserves_flags),
                        );
                    }
                    value
                };
                #[cfg(target_arch = "powerpc64")]
                let raw = {
                    let value: $t;
                    // SAFETY: the caller promises an aligned address of device memory.
                    unsafe {
                        core::arch::asm!(
                            concat!($load_ci, " {value}, 0, {at}"),
                            value = out(reg) value,
                            at = in(reg) at,
                            options(nostack, preserves_flags),
                        );
                    }
                    value
                };
                #[cfg(not(any(target_arch = "aarch64", target_arch = "powerpc64")))]
                // SAFETY: the caller promises an aligned address of device memory.
                let raw = unsafe { at.read_volatile() };
                <$t>::from_le(raw)
            }

            #[inline(always)]
            unsafe fn store(at: *mut Self, value: Self) {
                let raw = value.to_le();
                #[cfg(target_arch = "aarch64")]
                // SAFETY: the caller promises an aligned address of device memory.
                unsafe {
                    core::arch::asm!(
                        concat!($store, " {value:", $reg, "}, [{at}]"),
                        value = in(reg) raw,
                        at = in(reg) at,
                        options(nostack, preserves_flags),
                    );
                }
                #[cfg(target_arch = "powerpc64")]
                // SAFETY: the caller promises an aligned address of device memory.
                unsafe {
                    core::arch::asm!(
                        concat!($store_ci, " {value}, 0, {at}"),
                        value = in(reg) raw,
                        at = in(reg) at,
                        options(nostack, preserves_flags),
                    );
                }
                #[cfg(not(any(target_arch = "aarch64", target_arch = "powerpc64")))]
                // SAFETY: the caller promises an aligned address of device memory.
                unsafe {
                    at.write_volatile(raw)
                }
            }
        }
    )* };
}

access! {
    u8, "ldrb", "strb", "w", "lbzcix", "stbcix";
    u16, "ldrh", "strh", "w", "lhzcix", "sthcix";
    u32, "ldr", "str", "w", "lwzcix", "stwcix";
    u64, "ldr", "str", "x", "ldcix", "stdcix";
}

impl<T: Width> Bus<T> for Mmio {
    #[inline(always)]
    fn load(&self, offset: usize) -> T {
        // SAFETY: `at` is an aligned address inside the window, which its maker promised to be
        // mapped device memory.
        unsafe { T::load(self.at(offset)) }
    }

    #[inline(always)]
    fn store(&self, offset: usize, value: T) {
        // SAFETY: as for `load`.
        unsafe { T::store(self.at(offset), value) }
    }
}

/// A window of at least `LEN` bytes, of which the first `LEN` are used: an access at a constant
/// offset is checked when it is compiled.
#[derive(Debug)]
pub struct MmioPage<const LEN: usize>(Mmio);

impl<const LEN: usize> MmioPage<LEN> {
    /// The first `LEN` bytes of `window`.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    pub fn new(window: Mmio) -> Result<Self, Error> {
        window.check("window", LEN)?;
        Ok(Self(window))
    }

    #[inline(always)]
    fn at<T>(&self, offset: usize) -> *mut T {
        at(self.0.base, LEN, offset)
    }
}

impl<const LEN: usize> Extent for MmioPage<LEN> {
    fn extent(&self) -> usize {
        LEN
    }
}

impl<T: Width, const LEN: usize> Bus<T> for MmioPage<LEN> {
    #[inline(always)]
    fn load(&self, offset: usize) -> T {
        // SAFETY: `at` is an aligned address below `LEN`, and the window is at least as long;
        // its maker promised mapped device memory.
        unsafe { T::load(self.at(offset)) }
    }

    #[inline(always)]
    fn store(&self, offset: usize, value: T) {
        // SAFETY: as for `load`.
        unsafe { T::store(self.at(offset), value) }
    }
}

impl<const LEN: usize> Barrier for MmioPage<LEN> {
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

impl Barrier for Mmio {
    #[inline(always)]
    fn publish(&self) {
        crate::bus::arch::publish();
    }

    #[inline(always)]
    fn complete(&self) {
        crate::bus::arch::complete();
    }

    #[inline(always)]
    fn synchronize(&self) {
        crate::bus::arch::synchronize();
    }
}
