// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls about virtual processors.

use super::super::machine::Gen;
use super::super::vp::Processor;
use super::super::{State, Target, end_pages};
use super::{Answer, code, word};

/// Numbers of allocated virtual processors have this bit.
const VIRTUAL: u32 = 1 << 30;
/// Where the order of the block is in such a number.
const ORDER: u32 = 24;
/// The index on chip 0 of the first queue of allocated virtual processors.
const FIRST_END: u32 = 0x1000;

/// Enabled.
const ENABLED: u64 = 1;
/// Hardware saves and restores it.
const SAVE_RESTORE: u64 = 4;
/// `W2`: save and restore by hardware.
const W2_SAVE_RESTORE: u64 = 0x4000_0000;

impl State {
    /// The virtual processor with this number.
    pub(super) fn vp(&self, vp: u64) -> Result<u32, i64> {
        let vp = word(vp, "virtual processor")?;
        match self.vps.contains_key(&vp) {
            true => Ok(vp),
            false => Err(code::PARAMETER),
        }
    }

    fn soft_vp(&self, vp: u64) -> Result<u32, i64> {
        let vp = self.vp(vp)?;
        match self.vps[&vp].hard {
            true => Err(code::PARAMETER),
            false => Ok(vp),
        }
    }

    /// Ends all blocks, as a reset does.
    pub(super) fn drop_soft_vps(&mut self) {
        self.vps.retain(|_, one| one.hard);
        let vps = &self.vps;
        let lives = |vp: &u32| vps.contains_key(vp);
        self.ends.retain(|(vp, _), _| lives(vp));
        self.pages.retain(|_, page| match page.target {
            Target::Source(_) => true,
            Target::Queue(vp, _) => lives(&vp),
        });
    }

    /// `XIVE_ALLOCATE_VP_BLOCK`.
    pub(super) fn allocate_vp_block(&mut self, order: u64) -> Answer {
        if order > 12 {
            return Err(code::PARAMETER);
        }
        for chip in 0..self.machine.chips {
            let given = self.donated.iter().filter(|(to, _)| *to == chip).count();
            if (given as u32) < self.machine.provision {
                return Err(code::PROVISIONING);
            }
        }
        let size = 1_u32 << order;
        let soft = self.vps.keys().filter(|vp| **vp & VIRTUAL != 0);
        let next = soft.map(|vp| (vp & 0xff_ffff) + 1).max().unwrap_or(0);
        let first = next.next_multiple_of(size);
        let base = VIRTUAL | (order as u32) << ORDER | first;
        for n in 0..size {
            let end = FIRST_END + (first + n) * 8;
            self.vps.insert(base + n, Processor::soft(0, end));
            end_pages(&self.machine, &mut self.pages, base + n, 0, end);
        }
        Ok(base.into())
    }

    /// `XIVE_FREE_VP_BLOCK`.
    pub(super) fn free_vp_block(&mut self, vp: u64) -> Answer {
        let base = self.soft_vp(vp)?;
        let size = 1_u32 << (base >> ORDER & 0x1f);
        if !base.is_multiple_of(size) {
            return Err(code::PARAMETER);
        }
        let block = base..base + size;
        let active = |vp: u32| {
            self.vps
                .get(&vp)
                .is_some_and(|one| one.flags & ENABLED != 0)
        };
        if block.clone().any(active) {
            return Err(code::FREE_ACTIVE);
        }
        self.vps.retain(|vp, _| !block.contains(vp));
        self.ends.retain(|(vp, _), _| !block.contains(vp));
        self.pages
            .retain(|_, page| !matches!(page.target, Target::Queue(vp, _) if block.contains(&vp)));
        Ok(0)
    }

    /// `XIVE_GET_VP_INFO`.
    pub(super) fn get_vp_info(&mut self, vp: u64, out: [u64; 4]) -> Answer {
        let vp = self.vp(vp)?;
        let processor = &self.vps[&vp];
        let restored = self.machine.generation == Gen::Two && !processor.hard;
        let cam = match self.thread_of(vp) {
            Some(thread) => u64::from(self.machine.hard_cam(&self.threads[thread].spec)),
            None => u64::from(vp & 0x7_ffff),
        };
        let (more_flags, more_cam) = match restored {
            true => (SAVE_RESTORE, W2_SAVE_RESTORE),
            false => (0, 0),
        };
        let [flags, w2, report_line, chip] = out;
        self.put64(flags, processor.flags | more_flags);
        self.put64(w2, cam | more_cam);
        self.put64(report_line, processor.report_line);
        self.put32(chip, self.machine.chip_ids[processor.chip]);
        Ok(0)
    }

    /// `XIVE_SET_VP_INFO`.
    pub(super) fn set_vp_info(&mut self, vp: u64, flags: u64, report_line: u64) -> Answer {
        let vp = self.soft_vp(vp)?;
        if flags & !7 != 0 || !report_line.is_multiple_of(256) {
            return Err(code::PARAMETER);
        }
        let Some(processor) = self.vps.get_mut(&vp) else {
            return Err(code::PARAMETER);
        };
        processor.flags = flags;
        processor.report_line = report_line;
        Ok(0)
    }

    /// `XIVE_GET_VP_STATE`.
    pub(super) fn get_vp_state(&mut self, vp: u64, out: u64) -> Answer {
        let vp = self.vp(vp)?;
        let ipb = u64::from(self.vps[&vp].ipb) << 40;
        self.put64(out, ipb);
        Ok(0)
    }
}
