// SPDX-License-Identifier: MIT OR Apache-2.0
//! The logging facade, used as a crate uses it that knows neither `log` nor `defmt`.
#![cfg(not(any(loom, feature = "defmt")))]

use irq_hal::{irq_debug, irq_trace, irq_warn};

fn report(step: u32) -> u32 {
    let last = step + 1;
    match step {
        0 => irq_warn!("GICR_WAKER stays {:#x}", 6_u32),
        1 => irq_debug!("{} redistributors", last,),
        _ => irq_trace!("done"),
    }
    last
}

#[test]
#[cfg(not(feature = "log"))]
fn without_a_feature_messages_are_statements_that_do_nothing() {
    assert_eq!((report(0), report(1), report(2)), (1, 2, 3));
}

#[test]
#[cfg(feature = "log")]
fn with_log_each_message_arrives_at_its_level() {
    use std::sync::Mutex;

    struct Collect;
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    impl log::Log for Collect {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            SEEN.lock()
                .unwrap()
                .push(format!("{} {}", record.level(), record.args()));
        }

        fn flush(&self) {}
    }
    log::set_logger(&Collect).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    assert_eq!((report(0), report(1), report(2)), (1, 2, 3));
    let seen = SEEN.lock().unwrap();
    assert_eq!(
        *seen,
        [
            "WARN GICR_WAKER stays 0x6",
            "DEBUG 2 redistributors",
            "TRACE done"
        ]
    );
}
