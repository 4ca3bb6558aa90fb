// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every set of CPUs can be asked.

use core::fmt;

use super::{CpuIndex, cpus_of};

/// A set of CPUs that can be read: an owned mask, a domain's live mask, the online CPUs.
///
/// A live set may change while it is read: each word is read once, and a CPU that stays in, or
/// out, all the while is reported so.
///
/// # Context
/// Every method: any. Nothing locks or allocates.
pub trait CpuSet: Sync {
    /// Whether `cpu` is in the set; not, for one that cannot exist.
    fn contains(&self, cpu: CpuIndex) -> bool;

    /// Calls `f(first, bits)` for each word that has members, in rising order: bit `i` stands
    /// for CPU `first + i`, and `first` is a multiple of 64.
    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64));

    /// The words, from that of CPU 0 on, where the set has them in a row: cheaper to read than
    /// by [`each_word`](Self::each_word).
    fn words(&self) -> Option<&[u64]> {
        None
    }

    /// Calls `f` for each member, in rising order.
    fn each(&self, f: &mut dyn FnMut(CpuIndex)) {
        self.each_word(&mut |first, bits| cpus_of(first, bits).for_each(&mut *f));
    }

    /// How many members there are.
    fn count(&self) -> u32 {
        let mut count = 0;
        self.each_word(&mut |_, bits| count += bits.count_ones());
        count
    }

    /// The member with the lowest index.
    fn first(&self) -> Option<CpuIndex> {
        let mut lowest = None;
        self.each_word(&mut |first, bits| lowest = lowest.or(cpus_of(first, bits).next()));
        lowest
    }

    /// Whether there is no member.
    fn is_empty(&self) -> bool {
        self.first().is_none()
    }
}

/// Prints a set as ranges, `0-3,8,10-11`; nothing for no member. Allocates nothing.
#[derive(Clone, Copy)]
pub struct Ranges<'a>(pub &'a dyn CpuSet);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        // The range that is not printed yet, and what goes before it.
        let (mut open, mut comma) = (None::<(u32, u32)>, "");
        let mut print = |range: Option<(u32, u32)>| match range {
            None => {}
            Some((first, last)) if result.is_ok() => {
                result = match first == last {
                    true => write!(f, "{comma}{first}"),
                    false => write!(f, "{comma}{first}-{last}"),
                };
                comma = ",";
            }
            Some(_) => {}
        };
        self.0.each(&mut |cpu| {
            open = match open {
                Some((first, last)) if last.wrapping_add(1) == cpu.get() => {
                    Some((first, cpu.get()))
                }
                _ => {
                    print(open);
                    Some((cpu.get(), cpu.get()))
                }
            }
        });
        print(open);
        result
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}
