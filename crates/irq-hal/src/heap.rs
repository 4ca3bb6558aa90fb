// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists on the heap whose allocations can fail without ending the kernel.

use alloc::vec::Vec;

use crate::error::Error;
use crate::ids::NodeId;

/// The error for `count` values of `T` that found no memory.
pub const fn out_of_memory<T>(count: usize) -> Error {
    Error::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
        node: NodeId::FLAT,
    }
}

/// An empty list with room for `capacity` values: one allocation, none for no room.
///
/// # Errors
/// [`Error::OutOfMemory`].
///
/// # Context
/// Any that may allocate.
pub fn try_vec<T>(capacity: usize) -> Result<Vec<T>, Error> {
    let mut list = Vec::new();
    list.try_reserve_exact(capacity)
        .map_err(|_| out_of_memory::<T>(capacity))?;
    Ok(list)
}

/// Puts `item` behind the others of `list`, which grows by more than one at a time.
///
/// # Errors
/// [`Error::OutOfMemory`]; the list is as before then.
///
/// # Context
/// Any that may allocate.
pub fn try_push<T>(list: &mut Vec<T>, item: T) -> Result<(), Error> {
    list.try_reserve(1).map_err(|_| out_of_memory::<T>(1))?;
    list.push(item);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_no_memory_can_hold_is_an_error_with_its_size() {
        let impossible = usize::MAX / 8;
        assert_eq!(
            try_vec::<u64>(impossible).err(),
            Some(Error::OutOfMemory {
                bytes: impossible * 8,
                node: NodeId::FLAT
            })
        );
        assert_eq!(
            out_of_memory::<u64>(usize::MAX),
            Error::OutOfMemory {
                bytes: usize::MAX,
                node: NodeId::FLAT
            }
        );
    }

    #[test]
    fn a_push_keeps_the_order_and_what_was_there() {
        let mut list = try_vec(1).unwrap();
        for item in 0..10 {
            try_push(&mut list, item).unwrap();
        }
        assert!(list.iter().copied().eq(0..10));
    }
}
