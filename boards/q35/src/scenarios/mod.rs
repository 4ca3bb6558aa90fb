// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of this image, each listed once.

mod apic;
pub mod icount;

use boards_common::scenario::Scenario;
use boards_common::{harness, ipistorm, smoke, tests};

use crate::bench::Bench;

/// All of them.
pub const ALL: &[Scenario<Bench>] = &[
    Scenario {
        name: "smoke",
        tests: tests![
            smoke::every_cpu_is_online,
            apic::every_cpu_has_its_id_in_x2apic_mode,
            apic::a_vector_of_an_exception_is_refused,
            smoke::each_cpu_is_in_its_domains,
            smoke::ten_timer_ticks,
            apic::each_free_vector_reaches_its_sender_once,
            apic::an_nmi_reaches_another_cpu,
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
            apic::a_spurious_interrupt_is_counted_and_not_ended,
            apic::nothing_is_left_behind,
        ],
    },
    ipistorm::scenario(),
    Scenario {
        name: icount::NAME,
        tests: tests![icount::eoi, icount::self_ipi, icount::there_and_back],
    },
    harness::panic(),
    harness::panic_elsewhere(),
    harness::die(),
    harness::hang(),
];
