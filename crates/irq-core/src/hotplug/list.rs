// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists through arrays: an item is in at most one list, and joins and leaves it in a few steps.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::heap::try_vec;

/// No item.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

/// The links of all items.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        len: 0,
    };

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) const fn first(&self) -> Option<u32> {
        item(self.first)
    }
}

const fn item(index: u32) -> Option<u32> {
    if index == NONE { None } else { Some(index) }
}

impl Links {
    /// For items below `count`, none of them in a list.
    pub(super) fn new(count: usize) -> Result<Self, Error> {
        let mut links = try_vec(count)?;
        links.resize(
            count,
            Link {
                next: NONE,
                prev: NONE,
            },
        );
        Ok(Self(links))
    }

    /// The item behind `at` in its list.
    pub(super) fn next(&self, at: u32) -> Option<u32> {
        item(self.0[at as usize].next)
    }

    /// Puts `at`, which is in no list, at the end of `list`.
    pub(super) fn push(&mut self, list: &mut List, at: u32) {
        self.0[at as usize] = Link {
            next: NONE,
            prev: list.last,
        };
        match item(list.last) {
            Some(last) => self.0[last as usize].next = at,
            None => list.first = at,
        }
        list.last = at;
        list.len += 1;
    }

    /// Takes `at` out of `list`, which it is in.
    pub(super) fn unlink(&mut self, list: &mut List, at: u32) {
        let Link { next, prev } = self.0[at as usize];
        match item(prev) {
            Some(prev) => self.0[prev as usize].next = next,
            None => list.first = next,
        }
        match item(next) {
            Some(next) => self.0[next as usize].prev = prev,
            None => list.last = prev,
        }
        list.len -= 1;
    }

    /// Puts the first item of `list` at its end.
    pub(super) fn rotate(&mut self, list: &mut List) {
        if let Some(first) = list.first() {
            self.unlink(list, first);
            self.push(list, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(links: &Links, list: &List) -> Vec<u32> {
        core::iter::successors(list.first(), |at| links.next(*at)).collect()
    }

    #[test]
    fn items_join_at_the_end_and_leave_from_anywhere() {
        let mut links = Links::new(5).unwrap();
        let mut list = List::EMPTY;
        for at in [3, 0, 4, 1] {
            links.push(&mut list, at);
        }
        assert_eq!((items(&links, &list), list.len()), ([3, 0, 4, 1].into(), 4));
        links.unlink(&mut list, 0);
        assert_eq!(items(&links, &list), [3, 4, 1]);
        links.unlink(&mut list, 1);
        links.rotate(&mut list);
        assert_eq!(items(&links, &list), [4, 3]);
        links.unlink(&mut list, 4);
        links.rotate(&mut list);
        assert_eq!((items(&links, &list), list.len()), ([3].into(), 1));
        links.unlink(&mut list, 3);
        assert_eq!((list.first(), list.len()), (None, 0));
    }
}
