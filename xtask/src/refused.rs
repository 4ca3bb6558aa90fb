// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error that ends xtask with status 2: usage or set-up, nothing was judged.

use std::fmt;

/// Why a command did not start.
#[derive(Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Returns early with a [`Refused`] made by `format!`.
macro_rules! refuse {
    ($($arg:tt)*) => {
        return Err($crate::refused::Refused(format!($($arg)*)).into())
    };
}
pub(crate) use refuse;
