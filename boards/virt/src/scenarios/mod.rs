// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of this image, each listed once.

mod gic;

use boards_common::scenario::Scenario;
use boards_common::{harness, smoke, tests};

use crate::interrupts::Bench;

/// The scenario for which the controller is brought up with EOImode 0.
pub const COMBINED: &str = "combined";

/// All of them.
pub const ALL: &[Scenario<Bench>] = &[
    Scenario {
        name: "smoke",
        tests: tests![
            gic::every_cpu_has_a_redistributor,
            gic::special_and_reserved_numbers_are_refused,
            smoke::ten_timer_ticks,
            gic::each_free_sgi_reaches_its_sender_once,
            smoke::a_device_line_fires_once_per_raise,
            smoke::a_level_line_fires_until_it_is_lowered,
            smoke::a_masked_line_fires_once_when_it_is_unmasked,
            smoke::an_edge_fires_once_and_is_kept_while_masked,
            smoke::a_deferred_source_is_silent_until_completed,
            smoke::a_removed_action_is_not_called,
            smoke::an_entry_for_nothing_takes_nothing,
            gic::nothing_is_left_behind,
        ],
    },
    Scenario {
        name: COMBINED,
        tests: tests![
            smoke::ten_timer_ticks,
            gic::each_free_sgi_reaches_its_sender_once,
            smoke::a_device_line_fires_once_per_raise,
            smoke::a_level_line_fires_until_it_is_lowered,
            gic::a_line_that_cannot_be_deferred_is_ended,
            gic::nothing_is_left_behind,
        ],
    },
    harness::panic(),
    harness::die(),
    harness::hang(),
];
