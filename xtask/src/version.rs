// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dotted version numbers, as programs and Debian packages print them.

use std::fmt;

/// Major, minor, patch. Ordered as one expects.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Version(pub [u32; 3]);

impl Version {
    /// The first dotted number of `text`; an epoch before a colon is no part of it.
    pub fn find(text: &str) -> Option<Version> {
        let text = match text.split_once(':') {
            Some((epoch, rest))
                if !epoch.is_empty() && epoch.bytes().all(|b| b.is_ascii_digit()) =>
            {
                rest
            }
            _ => text,
        };
        let start = text.find(|c: char| c.is_ascii_digit())?;
        let end = |c: char| !c.is_ascii_digit() && c != '.';
        let number = text[start..].split(end).next()?;
        let mut parts = [0; 3];
        for (part, text) in parts.iter_mut().zip(number.split('.')) {
            *part = text.parse().unwrap_or(0);
        }
        Some(Version(parts))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0[0], self.0[1], self.0[2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let of = |t| Version::find(t).unwrap().0;
        assert_eq!(
            of("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)"),
            [10, 0, 2]
        );
        assert_eq!(of("1:7.2+dfsg-7+deb12u18"), [7, 2, 0]);
        assert_eq!(of("1.96.0+dfsg1-1~deb12u2"), [1, 96, 0]);
        assert_eq!(
            of("rustc 1.97.0-nightly (e50aa6fba 2026-05-19)"),
            [1, 97, 0]
        );
        assert_eq!(of("10.0"), [10, 0, 0]);
        assert_eq!(Version::find("none"), None);
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(Version::find("9.2.4") < Version::find("10.0"));
        assert!(Version::find("1.100.0") > Version::find("1.95"));
    }
}
