// SPDX-License-Identifier: MIT OR Apache-2.0
//! How bench programs measure.

#[path = "../benches/measure/mod.rs"]
#[allow(dead_code, reason = "a part of it is under test")]
mod measure;

use std::time::{Duration, Instant};

use measure::*;

#[test]
fn a_median_is_the_middle_or_between_two_whatever_the_order() {
    assert_eq!(median(&[7.0]), 7.0);
    assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
    assert_eq!(median(&[9.0, 1.0, 5.0, 100.0]), 7.0);
}

#[test]
fn a_limit_holds_at_its_bound_and_on_one_side_of_it() {
    let verdicts = |limit: Limit| [1.9, 2.0, 2.1].map(|value| limit.holds(value));
    assert_eq!(verdicts(Limit::AtMost(2.0)), [true, true, false]);
    assert_eq!(verdicts(Limit::AtLeast(2.0)), [false, true, true]);
}

#[test]
fn every_variant_runs_as_often_each_is_first_in_turn_and_warming_up_does_not_count() {
    let point = Point {
        bench: "self_test",
        cpus: 1,
        nodes: 1,
    };
    let order = std::cell::RefCell::new(Vec::new());
    let variant = |name, time: u64| {
        let (order, mut calls) = (&order, 0);
        Variant::new(name, move |passes| {
            order.borrow_mut().push((name, passes));
            calls += 1;
            // criterion's own clock has to go on.
            let end = Instant::now() + Duration::from_micros(passes);
            while Instant::now() < end {}
            // Slow at first, as code is that has never run.
            let cold = if calls <= 4 { 1000 } else { 0 };
            Duration::from_micros((time + calls + cold) * passes)
        })
    };
    let mut meter = Meter::new(10, Duration::from_millis(2));
    let [short, long] = meter.medians(&point, [variant("short", 2), variant("long", 100)]);
    let order = order.into_inner();
    let (last, earlier) = (&order[order.len() - 20..], &order[..order.len() - 20]);
    assert!(!earlier.is_empty());
    for (pair, next) in last.chunks(2).zip(last[2..].chunks(2)) {
        assert_eq!(pair[0].1, pair[1].1);
        assert_ne!(pair[0].0, pair[1].0);
        assert_ne!(pair[0].0, next[0].0);
    }
    // Call number n took `n` and the variant's time; the last ten are what counts.
    let middle = order.len() as f64 / 2.0 - 4.5;
    assert_eq!(short, (2.0 + middle) * 1000.0);
    assert_eq!(long, (100.0 + middle) * 1000.0);
}
