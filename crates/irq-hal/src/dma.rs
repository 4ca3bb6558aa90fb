// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that a controller reads and writes: tables, queues.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::error::Error;
use crate::ids::{NodeId, PhysAddr};
use crate::release::Release;

/// What a device can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmaLimits {
    /// The highest address that the device can name, inclusive.
    pub highest: PhysAddr,
}

impl DmaLimits {
    /// Any address.
    pub const NONE: Self = Self {
        highest: PhysAddr::new(u64::MAX),
    };
}

/// Owned Normal memory with the address that the CPU uses and the one that the device uses,
/// as a pair: nobody translates one into the other later.
///
/// Words are little-endian, as every controller table of this project except XIVE's is. Each
/// access is one relaxed atomic of its width, so that CPUs and device may meet; order comes
/// from [`Barrier::publish`](crate::Barrier::publish) and
/// [`Platform::dma_publish`](crate::Platform::dma_publish).
#[derive(Debug)]
pub struct DmaRegion {
    cpu: NonNull<u8>,
    device: PhysAddr,
    len: usize,
    /// Base and length as allocated, for `release`.
    whole: (NonNull<u8>, usize),
    release: Option<Release>,
}

// SAFETY: the memory belongs to the region alone and is touched by atomic accesses only.
unsafe impl Send for DmaRegion {}
// SAFETY: as for `Send`.
unsafe impl Sync for DmaRegion {}

impl DmaRegion {
    /// `len` bytes at `cpu`, which the device knows as `device`.
    ///
    /// # Safety
    /// - The memory is Normal, zeroed, contiguous for the device, and used by nobody else until
    ///   the region is dropped.
    /// - `release`, if given, is sound for `cpu` and `len`.
    pub const unsafe fn new(
        cpu: NonNull<u8>,
        device: PhysAddr,
        len: usize,
        release: Option<Release>,
    ) -> Self {
        Self {
            cpu,
            device,
            len,
            whole: (cpu, len),
            release,
        }
    }

    /// The size that an allocator with alignment `granule` (a power of two) must be asked for,
    /// so that [`narrow`](Self::narrow) finds `layout` in it. Nothing if that overflows.
    pub fn over_aligned(layout: Layout, granule: usize) -> Option<usize> {
        let slack = layout.align().saturating_sub(granule);
        let size = layout.size().checked_add(slack)?;
        size.checked_next_multiple_of(granule)
    }

    /// The part of this region that fits `layout`, by device address; dropping it still gives
    /// the whole region back.
    ///
    /// # Errors
    /// [`Error::TooSmall`]; the region is then given back.
    pub fn narrow(mut self, layout: Layout) -> Result<Self, Error> {
        let align = layout.align() as u64;
        let skip = (self.device.get().wrapping_neg() & (align - 1)) as usize;
        let need = skip.saturating_add(layout.size());
        if need > self.len {
            return Err(Error::TooSmall {
                what: "DMA region",
                len: self.len,
                need,
            });
        }
        // SAFETY: `skip` is at most `need`, which is within the region.
        self.cpu = unsafe { self.cpu.add(skip) };
        self.device = PhysAddr::new(self.device.get() + skip as u64);
        self.len = layout.size();
        Ok(self)
    }

    /// The address that the device uses.
    pub const fn device(&self) -> PhysAddr {
        self.device
    }

    /// The address that the CPU uses, for cache maintenance.
    pub const fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the region has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Refuses a region that does not keep within `limits`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn within(self, limits: DmaLimits, node: NodeId) -> Result<Self, Error> {
        let last = self.device.checked_add((self.len as u64).saturating_sub(1));
        if last.is_some_and(|last| last <= limits.highest) {
            return Ok(self);
        }
        Err(Error::OutOfMemory {
            bytes: self.len,
            node,
        })
    }

    #[inline]
    fn at<T>(&self, offset: usize) -> *mut T {
        assert!(
            offset
                .checked_add(size_of::<T>())
                .is_some_and(|end| end <= self.len),
            "offset {offset:#x} in a region of {:#x} bytes",
            self.len
        );
        let at = self.cpu.as_ptr().wrapping_add(offset).cast::<T>();
        assert!(at.is_aligned(), "offset {offset:#x} is not aligned");
        at
    }
}

macro_rules! words {
    ($($t:ty, $atomic:ty, $read:ident, $write:ident;)*) => { impl DmaRegion { $(
        /// Reads the little-endian word at `offset` (bytes, aligned).
        ///
        /// # Panics
        /// If the word is not inside the region: an error of the calling driver.
        #[inline]
        pub fn $read(&self, offset: usize) -> $t {
            let at: *mut $t = self.at(offset);
            // SAFETY: `at` checked bounds and alignment; the region's memory is accessed by
            // atomics alone.
            let word = unsafe { <$atomic>::from_ptr(at) };
            <$t>::from_le(word.load(Relaxed))
        }

        /// Writes the little-endian word at `offset` (bytes, aligned).
        ///
        /// # Panics
        /// As the read.
        #[inline]
        pub fn $write(&self, offset: usize, value: $t) {
            let at: *mut $t = self.at(offset);
            // SAFETY: `at` checked bounds and alignment; the region's memory is accessed by
            // atomics alone.
            let word = unsafe { <$atomic>::from_ptr(at) };
            word.store(value.to_le(), Relaxed);
        }
    )* } };
}

words! {
    u8, AtomicU8, read_u8, write_u8;
    u32, AtomicU32, read_u32, write_u32;
    u64, AtomicU64, read_u64, write_u64;
}

impl Drop for DmaRegion {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            let (base, len) = self.whole;
            // SAFETY: base and length are the ones this region was made with, and drop runs
            // once.
            unsafe { release.run(base, len) }
        }
    }
}
