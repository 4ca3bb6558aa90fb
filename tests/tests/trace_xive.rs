// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines driver and irq-core write when an IPI is sent and taken on a XIVE. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-tests --test trace_xive`.
#![cfg(irq_trace)]

use irq_core::{ActionContext, Kind};
use irq_tests::lines::Seen;
use irq_tests::xive::{GENERATIONS, System};

const CPUS: u32 = 40;
const NODES: u32 = 2;
const SENDS: u32 = 20;

fn nothing(_: usize, _: &ActionContext<'_>) {}

#[test]
fn trace_shows_that_an_ipi_writes_no_line_that_another_cpu_touches_but_the_mailbox() {
    for generation in GENERATIONS {
        let kinds = [Kind::new(nothing, 0)];
        let system = System::new(generation, CPUS, NODES, &kinds);
        let seen = Seen::storm(&system, NODES, SENDS);
        let (sends, receives) = (seen.sends(), seen.receives());
        assert!(receives.steps >= CPUS as usize, "{generation:?}");
        assert_eq!(
            (sends.shared, sends.others, sends.locks),
            (1.0, 0.0, 0),
            "{generation:?}"
        );
        assert_eq!(
            (receives.shared, receives.others, receives.locks),
            (1.0, 0.0, 0),
            "{generation:?}"
        );
        let mailboxes = seen.shared.len();
        assert_eq!(mailboxes, CPUS as usize, "one each, and nothing else");
        for cpu in 0..CPUS {
            let own = seen.shared_by_receives_of(cpu);
            assert_eq!(own.len(), 1, "{generation:?} cpu{cpu}");
            assert_eq!(own, seen.shared_by_sends_to(cpu), "{generation:?} cpu{cpu}");
        }
    }
}
