// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated physical memory, with the view that a device has of it.
//!
//! A region has the CPU's bytes and, on a non-coherent machine, the device's own copy, which
//! begins as garbage and changes by `dma_publish` alone; what the device writes reaches the
//! CPU by `dma_observe` alone. On a coherent machine both see the same bytes.
//!
//! Addresses are hostile: a block is aligned as asked and no better, ends before unmapped
//! space, lies above 4 GiB unless the limits forbid it, and in its node's part of the map.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::release::Release;
use irq_hal::{Error, NodeId, PhysAddr};

/// What a device's copy holds before the first `dma_publish`.
pub const STALE: u8 = 0xa5;

/// Unmapped bytes after each block.
const GUARD: u64 = 0x1000;
/// Memory below 4 GiB.
const LOW: Range<u64> = 0x4000_0000..0xf000_0000;
/// Each node has this much above: node `n` from `(n + 1) * NODE_SPAN` on.
const NODE_SPAN: u64 = 1 << 36;

#[derive(Debug)]
struct Block {
    cpu: NonNull<u8>,
    layout: Layout,
    node: NodeId,
    /// The device's copy, where it is not the CPU's.
    copy: Option<Vec<u8>>,
}

// SAFETY: a block owns its memory; the pointer is used for atomic byte accesses under the
// memory's lock, and for the one deallocation.
unsafe impl Send for Block {}

impl Block {
    fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(
            at < self.layout.size(),
            "byte {at:#x} of a block of {:#x}",
            self.layout.size()
        );
        let at = self.cpu.as_ptr().wrapping_add(at);
        // SAFETY: `at` is inside the allocation, which lives until the block is removed, and is
        // accessed by atomics alone (`DmaRegion`, and here).
        unsafe { AtomicU8::from_ptr(at) }
    }

    fn cpu_bytes(&self, range: Range<usize>) -> Vec<u8> {
        range.map(|at| self.byte(at).load(Relaxed)).collect()
    }
}

#[derive(Debug, Default)]
struct Map {
    blocks: BTreeMap<u64, Block>,
    next_low: u64,
    next_high: BTreeMap<u32, u64>,
    /// What devices still use: first byte to user.
    pins: BTreeMap<u64, String>,
    exhausted: bool,
}

impl Map {
    /// The block that holds `len` bytes at `at`, and where in it they begin.
    fn find(&mut self, at: PhysAddr, len: usize) -> (usize, &mut Block) {
        let found = self.blocks.range_mut(..=at.get()).next_back();
        let Some((base, block)) = found else {
            panic!("the device reads {at}: no memory there")
        };
        let start = (at.get() - base) as usize;
        assert!(
            start + len <= block.layout.size(),
            "the device touches {len} bytes at {at}: no memory there"
        );
        (start, block)
    }
}

/// The memory of one simulated machine. A handle: clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    map: Arc<Mutex<Map>>,
    coherent: bool,
}

impl Memory {
    /// Empty memory; `coherent` says whether devices snoop the CPUs' caches.
    pub(crate) fn new(coherent: bool) -> Self {
        let map = Map {
            next_low: LOW.start,
            ..Map::default()
        };
        Self {
            map: Arc::new(Mutex::new(map)),
            coherent,
        }
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether devices see the CPU's stores without `dma_publish`.
    pub const fn coherent(&self) -> bool {
        self.coherent
    }

    /// The number of blocks that are not given back yet.
    pub fn live_blocks(&self) -> usize {
        self.map().blocks.len()
    }

    /// The bytes that are not given back yet.
    pub fn live_bytes(&self) -> usize {
        self.map()
            .blocks
            .values()
            .map(|block| block.layout.size())
            .sum()
    }

    /// The node that the memory at `at` belongs to.
    ///
    /// # Panics
    /// If there is no memory at `at`.
    pub fn node_of(&self, at: PhysAddr) -> NodeId {
        self.map().find(at, 1).1.node
    }

    /// From now on every allocation fails, or none.
    pub fn exhaust(&self, exhausted: bool) {
        self.map().exhausted = exhausted;
    }

    pub(crate) fn alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
        release: impl FnOnce(Self, PhysAddr) -> Release,
    ) -> Result<DmaRegion, Error> {
        let refused = Error::OutOfMemory {
            bytes: layout.size(),
            node,
        };
        let size = layout.size().max(1);
        let layout = Layout::from_size_align(size, layout.align().max(8)).map_err(|_| refused)?;
        let mut map = self.map();
        if map.exhausted {
            return Err(refused);
        }
        let high = (u64::from(node.get()) + 1) * NODE_SPAN;
        let from = map.next_high.get(&node.get()).copied().unwrap_or(high);
        let mut at = odd_multiple(from, layout.align() as u64);
        let is_high = at + size as u64 - 1 <= limits.highest.get();
        if !is_high {
            at = odd_multiple(map.next_low, layout.align() as u64);
            let last = at + size as u64 - 1;
            if last > limits.highest.get() || last >= LOW.end {
                return Err(refused);
            }
        }
        let next = (at + size as u64 + GUARD).next_multiple_of(GUARD);
        if is_high {
            map.next_high.insert(node.get(), next);
        } else {
            map.next_low = next;
        }
        // SAFETY: the layout's size is at least one byte.
        let cpu = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let copy = (!self.coherent).then(|| vec![STALE; size]);
        map.blocks.insert(
            at,
            Block {
                cpu,
                layout,
                node,
                copy,
            },
        );
        drop(map);
        let device = PhysAddr::new(at);
        let release = release(self.clone(), device);
        // SAFETY: the memory was allocated above, zeroed, for this region alone; `release` gives
        // back exactly this block.
        Ok(unsafe { DmaRegion::new(cpu, device, size, Some(release)) })
    }

    /// Gives the block at `device` back.
    pub(crate) fn free(&self, device: PhysAddr) {
        let mut map = self.map();
        let Some(block) = map.blocks.remove(&device.get()) else {
            drop(map);
            panic!("memory at {device} given back twice");
        };
        let end = device.get() + block.layout.size() as u64;
        let pinned = map.pins.range(device.get()..end).next();
        let pinned = pinned.map(|(at, user)| format!("memory at {at:#x} given back: {user}"));
        drop(map);
        // SAFETY: allocated with this layout in `alloc`, removed from the map once.
        unsafe { dealloc(block.cpu.as_ptr(), block.layout) }
        if let Some(text) = pinned
            && !std::thread::panicking()
        {
            panic!("{text}");
        }
    }

    /// A device uses the memory at `at` from now on: giving it back is a panic that says
    /// `user`. Takes the place of an earlier pin at `at`.
    pub(crate) fn pin(&self, at: PhysAddr, user: String) {
        self.map().pins.insert(at.get(), user);
    }

    /// No device uses the memory at `at` any more.
    pub(crate) fn unpin(&self, at: PhysAddr) {
        self.map().pins.remove(&at.get());
    }

    /// Whether there are `len` bytes of memory at `at`.
    pub fn holds(&self, at: PhysAddr, len: u64) -> bool {
        let map = self.map();
        let found = map.blocks.range(..=at.get()).next_back();
        found.is_some_and(|(base, block)| {
            let size = block.layout.size() as u64;
            (at.get() - base)
                .checked_add(len)
                .is_some_and(|end| end <= size)
        })
    }

    /// A device that snoops stores the big-endian word `value` at `at`, in one piece.
    ///
    /// # Panics
    /// If there is no memory at `at`, it is not aligned, or the machine is not coherent.
    pub(crate) fn device_write_be32(&self, at: PhysAddr, value: u32) {
        assert!(self.coherent, "a device that snoops on another machine");
        let mut map = self.map();
        let (start, block) = map.find(at, 4);
        let word = block.cpu.as_ptr().wrapping_add(start).cast::<u32>();
        assert!(word.is_aligned(), "a word at {at}");
        // SAFETY: `find` has checked that the word is inside the block, the assertion that it
        // is aligned; memory is accessed by atomics alone.
        let word = unsafe { AtomicU32::from_ptr(word) };
        word.store(value.to_be(), Ordering::Release);
    }

    /// Whether `len` bytes at `at` are zero, for a device that snoops.
    ///
    /// # Panics
    /// If there is no memory at `at`, it is not made of aligned double words, or the machine
    /// is not coherent.
    pub(crate) fn device_sees_zero(&self, at: PhysAddr, len: usize) -> bool {
        assert!(self.coherent, "a device that snoops on another machine");
        let mut map = self.map();
        let (start, block) = map.find(at, len);
        let first = block.cpu.as_ptr().wrapping_add(start).cast::<u64>();
        assert!(
            first.is_aligned() && len.is_multiple_of(8),
            "double words at {at}"
        );
        let mut index = 0;
        // By hand: tests have large queues, and are not optimized.
        while index < len / 8 {
            // SAFETY: `find` has checked that the double word is inside the block, the
            // assertion that it is aligned; memory is accessed by atomics alone.
            let word = unsafe { AtomicU64::from_ptr(first.wrapping_add(index)) };
            if word.load(Relaxed) != 0 {
                return false;
            }
            index += 1;
        }
        true
    }

    pub(crate) fn publish(&self, at: PhysAddr, len: usize) {
        let mut map = self.map();
        let (start, block) = map.find(at, len);
        let bytes = block.cpu_bytes(start..start + len);
        if let Some(copy) = &mut block.copy {
            copy[start..start + len].copy_from_slice(&bytes);
        }
    }

    pub(crate) fn observe(&self, at: PhysAddr, len: usize) {
        let mut map = self.map();
        let (start, block) = map.find(at, len);
        if let Some(copy) = &block.copy {
            for (index, byte) in copy.iter().enumerate().skip(start).take(len) {
                block.byte(index).store(*byte, Relaxed);
            }
        }
    }

    /// The bytes at `at` as a device sees them.
    ///
    /// # Panics
    /// If there is no memory at `at`.
    pub fn device_read(&self, at: PhysAddr, bytes: &mut [u8]) {
        let mut map = self.map();
        let (start, block) = map.find(at, bytes.len());
        match &block.copy {
            Some(copy) => bytes.copy_from_slice(&copy[start..start + bytes.len()]),
            None => bytes.copy_from_slice(&block.cpu_bytes(start..start + bytes.len())),
        }
    }

    /// The little-endian double word at `at` as a device sees it.
    ///
    /// # Panics
    /// If there is no memory at `at`.
    pub fn device_read_u64(&self, at: PhysAddr) -> u64 {
        let mut bytes = [0; 8];
        self.device_read(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A device writes `bytes` at `at`.
    ///
    /// # Panics
    /// If there is no memory at `at`.
    pub fn device_write(&self, at: PhysAddr, bytes: &[u8]) {
        let mut map = self.map();
        let (start, block) = map.find(at, bytes.len());
        match &mut block.copy {
            Some(copy) => copy[start..start + bytes.len()].copy_from_slice(bytes),
            None => {
                for (index, byte) in bytes.iter().enumerate() {
                    block.byte(start + index).store(*byte, Relaxed);
                }
            }
        }
    }
}

/// The first address from `from` on that is a multiple of `align` and not of twice that.
fn odd_multiple(from: u64, align: u64) -> u64 {
    let at = from.next_multiple_of(align);
    if at & align == 0 { at + align } else { at }
}
