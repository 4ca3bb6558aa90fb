// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk of ACPI tables that every reader of one table stands on.
//!
//! ```text
//! Rsdp     where the root table is, and its width
//! Tables   root table -> a table by its signature, in memory that the embedder shows
//! Sdt      one whole table: header, length, checksum
//! Entries  the typed entries behind a table's fixed part
//! ```
//! Tables come from firmware and may be cut off or wrong: every answer is a value or
//! [`Error::Firmware`], in time bounded by the lengths given. Nothing is allocated, fields are
//! read bytewise at any alignment, and only addresses that the root table names are followed.
//!
//! `at` of an error is an offset from the table's first byte; where [`Tables`] found the table,
//! the physical address of that byte.
//!
//! Source: ACPI Specification, "ACPI System Description Tables".

mod entries;
mod fields;
mod rsdp;
mod sdt;
mod tables;

pub use entries::{ByteHead, Entries, Entry, EntryHead};
pub use rsdp::{Root, Rsdp};
pub use sdt::{Sdt, Signature};
pub use tables::{TABLE_MAX, Tables};

use crate::Error;

/// A table that is wrong at the offset `at`.
const fn firmware(what: &'static str, at: usize) -> Error {
    Error::Firmware {
        what,
        at: at as u64,
    }
}
