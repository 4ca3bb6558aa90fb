// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers, in the manual's spelling: field layouts, numbers, and the kind of access that
//! each allows. No sequence and no opinion.

pub mod apic;
pub mod lvt;
