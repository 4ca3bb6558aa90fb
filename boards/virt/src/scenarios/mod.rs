// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of this image, each listed once.

mod gic;
pub mod icount;

use boards_common::scenario::Scenario;
use boards_common::{harness, ipistorm, smoke, tests};

use crate::bench::Bench;

/// The scenario for which the controller is brought up with EOImode 0.
pub const COMBINED: &str = "combined";

/// All of them.
pub const ALL: &[Scenario<Bench>] = &[
    Scenario {
        name: "smoke",
        tests: tests![
            gic::every_cpu_has_a_redistributor,
            gic::special_and_reserved_numbers_are_refused,
            smoke::every_cpu_is_online,
            smoke::each_cpu_is_in_its_domains,
            smoke::ten_timer_ticks,
            gic::each_free_sgi_reaches_its_sender_once,
            smoke::every_cpu_reaches_every_cpu,
            smoke::a_multicast_reaches_the_cpus_of_a_node,
            smoke::a_broadcast_reaches_all_others,
            smoke::a_remote_call_returns_a_value,
            smoke::a_call_to_many_returns_when_all_have_run_it,
            smoke::two_cpus_that_call_each_other_masked_both_return,
            smoke::a_device_line_fires_once_per_raise,
            smoke::a_level_line_fires_until_it_is_lowered,
            smoke::a_masked_line_fires_once_when_it_is_unmasked,
            smoke::an_edge_fires_once_per_retrigger,
            smoke::an_edge_is_kept_while_masked,
            smoke::a_deferred_source_is_silent_until_completed,
            smoke::a_deferred_source_is_completed_on_another_cpu,
            smoke::a_removed_action_is_not_called,
            smoke::an_action_is_removed_while_it_fires,
            smoke::an_end_first_action_switches_stacks,
            smoke::the_last_kind_of_an_ipi_switches_stacks,
            smoke::a_line_that_nobody_owns_up_to_is_shut_off,
            smoke::a_cpu_goes_offline_and_comes_back,
            smoke::a_call_to_a_silent_cpu_times_out,
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
    ipistorm::scenario(),
    Scenario {
        name: icount::NAME,
        tests: tests![icount::self_sgi, icount::there_and_back],
    },
    harness::panic(),
    harness::panic_elsewhere(),
    harness::die(),
    harness::hang(),
];
