// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of this image, each listed once.

pub mod icount;
mod xive;

use boards_common::scenario::Scenario;
use boards_common::{harness, ipistorm, smoke, tests};

use crate::bench::Bench;

/// All of them.
pub const ALL: &[Scenario<Bench>] = &[
    Scenario {
        name: "smoke",
        tests: tests![
            xive::firmware_knows_every_cpu_of_the_devicetree,
            xive::each_cpu_runs_with_the_block_of_its_pir,
            xive::each_cpu_has_its_ipi_source_on_its_own_chip,
            smoke::every_cpu_is_online,
            smoke::each_cpu_is_in_its_domains,
            xive::the_decrementer_is_far_away_while_no_timer_is_armed,
            smoke::ten_timer_ticks,
            xive::interrupts_enter_little_endian_by_their_vector,
            xive::an_interrupt_waits_while_hvice_is_clear,
            xive::registers_and_the_red_zone_are_kept_over_an_interrupt,
            xive::a_source_of_each_chip_reaches_a_cpu_of_each_chip,
            xive::a_source_that_is_had_again_is_silent,
            xive::sources_that_fire_together_are_each_taken_once,
            xive::a_closed_cppr_keeps_interrupts_until_it_opens,
            xive::queues_wrap_and_lose_nothing,
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
            xive::nothing_is_left_behind,
        ],
    },
    ipistorm::scenario(),
    Scenario {
        name: "icount",
        tests: tests![icount::self_ipi, icount::there_and_back],
    },
    harness::panic(),
    harness::panic_elsewhere(),
    harness::die(),
    harness::hang(),
];
