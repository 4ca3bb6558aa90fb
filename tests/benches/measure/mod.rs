// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of variants of the same work, taken in turn in one process, and the rows that the bench
//! command reads.
//!
//! criterion plans and drives: it warms up, finds how many passes make a sample, and asks for
//! samples. Each sample runs every variant, another one first each time, so that what changes
//! while the program runs (the clock of the CPU, a neighbour on the machine) meets all of them
//! alike. The value of a variant is the median of its samples.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode};

/// One way to do the work.
pub struct Variant<'a> {
    name: &'static str,
    run: Box<dyn FnMut(u64) -> Duration + 'a>,
}

impl<'a> Variant<'a> {
    /// `run` does so many passes, at least one, and says how long they took: what it prepares
    /// before or between them need not count.
    pub fn new(name: &'static str, run: impl FnMut(u64) -> Duration + 'a) -> Self {
        let run = Box::new(run);
        Self { name, run }
    }

    /// Each call of `pass` is one.
    pub fn each<T>(name: &'static str, mut pass: impl FnMut() -> T + 'a) -> Self {
        Self::new(name, move |passes| {
            let start = Instant::now();
            for _ in 0..passes {
                black_box(pass());
            }
            start.elapsed()
        })
    }
}

/// What a row says beside its variant and value.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The bench, `[a-z0-9_.]`.
    pub bench: &'static str,
    /// CPUs of the machine, at least 1.
    pub cpus: u32,
    /// Nodes of the machine, at least 1.
    pub nodes: u32,
}

impl Point {
    /// Prints a row; of a bench's rows the first one's variant is what the others are compared to.
    pub fn row(&self, variant: &str, value: f64, unit: &str) {
        let Self { bench, cpus, nodes } = self;
        println!("@row {bench} {variant} {cpus} {nodes} {value:.3} {unit}");
    }
}

/// The measuring engine, one for a program.
pub struct Meter {
    criterion: Criterion,
    samples: usize,
}

impl Default for Meter {
    fn default() -> Self {
        Self::new(30, Duration::from_secs(1))
    }
}

impl Meter {
    /// Of each point `samples` samples, at least 10, that take `time` in all; half of that again
    /// to warm up. A sample has one pass at least, however long that is.
    pub fn new(samples: usize, time: Duration) -> Self {
        let criterion = Criterion::default()
            .sample_size(samples)
            .measurement_time(time)
            .warm_up_time(time / 2)
            // Of the intervals that criterion prints; they are not what is reported.
            .nresamples(2000);
        Self { criterion, samples }
    }

    /// Nanoseconds that a pass takes, the median for each variant.
    pub fn medians<const N: usize>(
        &mut self,
        point: &Point,
        mut variants: [Variant<'_>; N],
    ) -> [f64; N] {
        let mut samples: [Vec<f64>; N] = [const { Vec::new() }; N];
        let mut first = 0;
        let names = variants.each_ref().map(|variant| variant.name).join("+");
        let at = format!("{}CPUs/{}nodes", point.cpus, point.nodes);
        let mut group = self.criterion.benchmark_group(point.bench);
        // As many passes in every sample.
        group.sampling_mode(SamplingMode::Flat);
        group.bench_function(BenchmarkId::new(names, at), |bencher| {
            bencher.iter_custom(|passes| {
                first += 1;
                let mut sum = Duration::ZERO;
                for turn in 0..N {
                    let at = (first + turn) % N;
                    let took = (variants[at].run)(passes);
                    samples[at].push(took.as_nanos() as f64 / passes as f64);
                    sum += took;
                }
                sum
            });
        });
        group.finish();
        // What came before was to warm up.
        samples.map(|all| median(&all[all.len() - self.samples..]))
    }

    /// As `medians`, and prints a row of each variant in nanoseconds.
    pub fn rows<const N: usize>(&mut self, point: &Point, variants: [Variant<'_>; N]) -> [f64; N] {
        let names = variants.each_ref().map(|variant| variant.name);
        let medians = self.medians(point, variants);
        for (name, value) in names.into_iter().zip(medians) {
            point.row(name, value, "ns");
        }
        medians
    }
}

/// The middle one of the values, or between the two in the middle. There is one at least.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

/// What a value should be. A miss is told and fails nothing: times are not the same everywhere.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// No larger than this.
    AtMost(f64),
    /// No smaller than this.
    AtLeast(f64),
}

impl Limit {
    /// Whether `value` is within the limit.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    /// Prints a line that says whether `value`, which `what` names, is within the limit.
    pub fn tell(self, what: &str, value: f64) {
        let (bound, limit) = match self {
            Self::AtMost(limit) => ("at most", limit),
            Self::AtLeast(limit) => ("at least", limit),
        };
        let verdict = if self.holds(value) { "holds" } else { "MISSED" };
        println!("limit: {what}: {value:.3}, {bound} {limit}: {verdict}");
    }
}
