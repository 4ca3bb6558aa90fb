// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structure of a flattened tree (Devicetree Specification, "Flattened Devicetree (DTB)
//! Format"), so far as a reader relies on it.
//!
//! The specification allows names of 31 characters, and dtoolkit refuses longer ones. Trees of
//! this firmware have them, so its reader is used without its own check, behind this one.

use irq_hal::Error;

use super::wrong;

const MAGIC: u32 = 0xd00d_feed;
const VERSION: u32 = 17;
const HEADER: usize = 40;
const RESERVATION: usize = 16;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;
const TOKEN: usize = 4;

/// The tree at the start of `blob`, without what may follow it, once its structure is checked:
/// dtoolkit's `Fdt::new_unchecked` may be given it.
///
/// # Errors
/// [`Error::Firmware`] with the offset of what is wrong.
///
/// # Context
/// Any. No allocation, no recursion, in time bounded by the length.
pub fn checked(blob: &[u8]) -> Result<&[u8], Error> {
    let size = word(blob, 4)? as usize;
    let tree = blob
        .get(..size)
        .filter(|tree| tree.len() >= HEADER)
        .ok_or(wrong("devicetree is truncated", blob.len() as u64))?;
    if word(tree, 0)? != MAGIC {
        return Err(wrong("devicetree magic", 0));
    }
    let (version, oldest) = (word(tree, 20)?, word(tree, 24)?);
    if !(oldest..=version).contains(&VERSION) {
        return Err(wrong("devicetree version", version.into()));
    }
    let at = |offset| word(tree, offset).map(|word| word as usize);
    let (structure, strings, reserved) = (at(8)?, at(12)?, at(16)?);
    let strings_len = at(32)?;
    let structure_end = structure.checked_add(at(36)?);
    let strings_end = strings.checked_add(strings_len);
    let placed = (HEADER..=structure).contains(&reserved)
        && reserved.is_multiple_of(8)
        && structure.is_multiple_of(TOKEN)
        && structure_end.is_some_and(|end| end <= strings)
        && strings_end.is_some_and(|end| end <= tree.len());
    let strings = tree.get(strings..strings_end.unwrap_or(0));
    let strings = strings.filter(|_| placed);
    let strings = strings.ok_or(wrong("devicetree header", 8))?;
    reservations(tree.get(reserved..structure).unwrap_or_default())?;
    nodes(tree, structure, strings)?;
    Ok(tree)
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    let word = word.ok_or(wrong("devicetree is truncated", at as u64))?;
    Ok(u32::from_be_bytes(*word))
}

/// The list of reserved memory ends with an entry of zeros.
fn reservations(list: &[u8]) -> Result<(), Error> {
    let (entries, _) = list.as_chunks::<RESERVATION>();
    if entries.contains(&[0; RESERVATION]) {
        return Ok(());
    }
    Err(wrong("devicetree reservations", list.len() as u64))
}

/// Begins and ends of nodes pair up, and properties come before children.
fn nodes(tree: &[u8], start: usize, strings: &[u8]) -> Result<(), Error> {
    let (mut at, mut depth) = (start, 0_usize);
    // Whether a child of the innermost node has been met.
    let mut children = false;
    loop {
        let token = word(tree, at)?;
        let bad = wrong("devicetree token", at as u64);
        let next = at + TOKEN;
        at = match token {
            BEGIN_NODE => {
                let name = text(tree.get(next..).unwrap_or_default(), next)?;
                // There is one root, and it alone has no name.
                if (depth == 0) != name.is_empty() || (depth == 0 && at != start) {
                    return Err(wrong("devicetree node name", next as u64));
                }
                depth += 1;
                children = false;
                aligned(next + name.len() + 1)
            }
            END_NODE if depth > 0 => {
                depth -= 1;
                children = true;
                next
            }
            PROP if depth > 0 && !children => property(tree, at, strings)?,
            NOP if depth > 0 => next,
            END if depth == 0 && at != start => return Ok(()),
            _ => return Err(bad),
        };
    }
}

/// Where the property at `at` ends.
fn property(tree: &[u8], at: usize, strings: &[u8]) -> Result<usize, Error> {
    let len = word(tree, at + TOKEN)? as usize;
    let name = word(tree, at + 2 * TOKEN)? as usize;
    let name = strings.get(name..).filter(|rest| !rest.is_empty());
    let name = text(name.unwrap_or_default(), at)?;
    if name.is_empty() {
        return Err(wrong("devicetree property name", at as u64));
    }
    let value = at + 3 * TOKEN;
    let end = value.checked_add(len).filter(|&end| end <= tree.len());
    let end = end.ok_or(wrong("devicetree length", at as u64))?;
    Ok(aligned(end))
}

/// The text up to a zero byte, which is there.
fn text(bytes: &[u8], at: usize) -> Result<&str, Error> {
    let text = bytes.split(|&byte| byte == 0).next();
    let text = text.filter(|text| text.len() < bytes.len());
    text.and_then(|text| core::str::from_utf8(text).ok())
        .ok_or(wrong("devicetree name", at as u64))
}

const fn aligned(at: usize) -> usize {
    at.next_multiple_of(TOKEN)
}
