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
/// compile to a write-back form, for which a hypervisor gets no syndrome.
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
        // In release builds too: the bus is safe code's, and no hot path of a controller with
        // system registers comes here. Where the offset is a constant it is one comparison.
        assert!(
            offset.is_multiple_of(size_of::<T>())
                && offset
                    .checked_add(size_of::<T>())
                    .is_some_and(|end| end <= self.len),
            "access at {offset:#x} in a window of {:#x} bytes",
            self.len
        );
        self.base.as_ptr().wrapping_add(offset).cast()
    }
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

macro_rules! access {
    ($($t:ty, $load:literal, $store:literal, $reg:literal;)*) => { $(
        impl Bus<$t> for Mmio {
            #[inline(always)]
            fn load(&self, offset: usize) -> $t {
                let at: *mut $t = self.at(offset);
                #[cfg(target_arch = "aarch64")]
                let raw = {
                    let value: $t;
                    // SAFETY: `at` is an aligned address inside the window, which its maker
                    // promised to be mapped device memory.
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
                #[cfg(not(target_arch = "aarch64"))]
                // SAFETY: `at` is an aligned address inside the window, which its maker
                // promised to be mapped device memory.
                let raw = unsafe { at.read_volatile() };
                <$t>::from_le(raw)
            }

            #[inline(always)]
            fn store(&self, offset: usize, value: $t) {
                let at: *mut $t = self.at(offset);
                let raw = value.to_le();
                #[cfg(target_arch = "aarch64")]
                // SAFETY: `at` is an aligned address inside the window, which its maker
                // promised to be mapped device memory.
                unsafe {
                    core::arch::asm!(
                        concat!($store, " {value:", $reg, "}, [{at}]"),
                        value = in(reg) raw,
                        at = in(reg) at,
                        options(nostack, preserves_flags),
                    );
                }
                #[cfg(not(target_arch = "aarch64"))]
                // SAFETY: `at` is an aligned address inside the window, which its maker
                // promised to be mapped device memory.
                unsafe {
                    at.write_volatile(raw)
                }
            }
        }
    )* };
}

access! {
    u8, "ldrb", "strb", "w";
    u16, "ldrh", "strh", "w";
    u32, "ldr", "str", "w";
    u64, "ldr", "str", "x";
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
