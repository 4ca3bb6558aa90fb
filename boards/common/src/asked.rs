// SPDX-License-Identifier: MIT OR Apache-2.0
//! What machine the command line says was asked for: `cpus=8 nodes=2 threads=1`.
//!
//! What the devicetree says is checked against it: a topology that is read wrongly agrees with
//! itself.

use spin::Once;

use crate::cmdline::CommandLine;

/// A machine, as far as the command line tells of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Asked {
    /// CPUs.
    pub cpus: Option<u32>,
    /// Nodes that have CPUs, equally many each.
    pub nodes: Option<u32>,
    /// Threads of a core.
    pub threads: Option<u32>,
}

static ASKED: Once<Asked> = Once::new();

impl Asked {
    /// What `line` tells. What is no number is not told.
    pub fn of(line: CommandLine<'_>) -> Self {
        let number = |key| line.value(key)?.parse().ok();
        Self {
            cpus: number("cpus"),
            nodes: number("nodes"),
            threads: number("threads"),
        }
    }

    /// Keeps it for the tests. The first call counts.
    pub fn install(self) {
        ASKED.call_once(|| self);
    }

    /// What was kept; nothing is told before.
    pub fn get() -> Self {
        ASKED.get().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_no_number_is_not_told() {
        let asked = Asked::of(CommandLine::new("scenario=smoke cpus=8 nodes=two"));
        let expected = Asked {
            cpus: Some(8),
            ..Asked::default()
        };
        assert_eq!(asked, expected);
    }
}
