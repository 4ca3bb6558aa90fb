// SPDX-License-Identifier: MIT OR Apache-2.0
//! What benches measured, each value beside that of the baseline.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Number;

use crate::boot::protocol::{is_word, number};
use crate::boot::report::{Boot, columns};

/// How a row begins among the lines that a program prints.
const ROW: &str = "@row ";

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub bench: String,
    /// Whose work it was.
    pub variant: String,
    /// CPUs that took part.
    pub cpus: u32,
    /// Nodes they stood in.
    pub nodes: u32,
    /// The value.
    pub value: Number,
    /// Its unit.
    pub unit: String,
    /// The value divided by the baseline's: the bench's first variant, at as many CPUs and nodes,
    /// in this unit. `None` where there is no such row, or it is 0.
    pub ratio: Option<f64>,
}

impl Row {
    fn value(&self) -> f64 {
        self.value.as_f64().unwrap_or(0.0)
    }

    /// Both are the same measurement, maybe of two variants.
    fn is_beside(&self, other: &Row) -> bool {
        (&self.bench, self.cpus, self.nodes, &self.unit)
            == (&other.bench, other.cpus, other.nodes, &other.unit)
    }
}

/// The lines of what a program printed that are no rows, and the rows, or what is wrong with one.
pub fn read(out: &str) -> (String, Result<Vec<Row>, String>) {
    let (mut rest, mut rows) = (String::new(), Vec::new());
    for line in out.lines() {
        if let Some(row) = line.strip_prefix(ROW) {
            rows.push(parse(row).map_err(|why| format!("{why}: `{line}`")));
        } else {
            rest += line;
            rest.push('\n');
        }
    }
    (rest, rows.into_iter().collect())
}

/// `bench variant cpus nodes value unit`.
fn parse(text: &str) -> Result<Row, String> {
    let words: Vec<&str> = text.split(' ').collect();
    let [bench, variant, cpus, nodes, value, unit] = words[..] else {
        return Err("a row has six words".into());
    };
    let name = |word: &str| match is_word(word) {
        true => Ok(word.to_string()),
        false => Err(format!("`{word}` is not a name ([a-z0-9_.])")),
    };
    let count = |word: &str| match word.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("`{word}` is not a count")),
    };
    if unit.is_empty() {
        return Err("a unit is one word".into());
    }
    Ok(Row {
        bench: name(bench)?,
        variant: name(variant)?,
        cpus: count(cpus)?,
        nodes: count(nodes)?,
        value: number(value)?,
        unit: unit.into(),
        ratio: None,
    })
}

/// The name of a bench that a boot of `machine` gives rows of: boards measure the same.
pub fn on(bench: &str, machine: &str) -> String {
    format!("{bench}@{machine}")
}

/// The metrics of a boot that are rows: those named `bench.variant`.
pub fn of_boot(boot: &Boot) -> Vec<Row> {
    let row = |m: &crate::boot::report::Metric| {
        let (bench, variant) = m.name.split_once('.')?;
        Some(Row {
            bench: on(bench, &boot.machine),
            variant: variant.into(),
            cpus: boot.cpus,
            nodes: boot.nodes,
            value: m.value.clone(),
            unit: m.unit.clone(),
            ratio: None,
        })
    };
    boot.metrics.iter().filter_map(row).collect()
}

/// Says which row came twice.
pub fn twice(rows: &[Row]) -> Option<String> {
    let again = |(i, row): (usize, &Row)| {
        rows[..i]
            .iter()
            .any(|r| r.is_beside(row) && r.variant == row.variant)
            .then(|| {
                format!(
                    "{} {} with {} CPU(s) in {} node(s) came twice in {}",
                    row.bench, row.variant, row.cpus, row.nodes, row.unit
                )
            })
    };
    rows.iter().enumerate().find_map(again)
}

/// Brings rows that measure the same together, each where the first of them was, and sets every
/// ratio.
pub fn compare(mut rows: Vec<Row>) -> Vec<Row> {
    let mut sorted: Vec<Row> = Vec::with_capacity(rows.len());
    while let Some(first) = rows.first().cloned() {
        let (same, others) = rows.into_iter().partition(|r| r.is_beside(&first));
        let same: Vec<Row> = same;
        let baseline = sorted
            .iter()
            .find(|r| r.bench == first.bench)
            .map_or(&first.variant, |r| &r.variant);
        let value = same
            .iter()
            .find(|r| r.variant == *baseline)
            .map(Row::value)
            .filter(|v| *v != 0.0);
        sorted.extend(same.into_iter().map(|row| Row {
            ratio: value.map(|v| row.value() / v),
            ..row
        }));
        rows = others;
    }
    sorted
}

/// The table that ends `bench`.
pub fn table(rows: &[Row]) -> String {
    let head = [
        "bench", "variant", "cpus", "nodes", "value", "unit", "ratio",
    ];
    let cells = rows.iter().map(|r| {
        vec![
            r.bench.clone(),
            r.variant.clone(),
            r.cpus.to_string(),
            r.nodes.to_string(),
            r.value.to_string(),
            r.unit.clone(),
            r.ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")),
        ]
    });
    columns(&head, cells.collect())
}

/// Writes the rows as JSON.
pub fn write_json(rows: &[Row], path: &Path) -> Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        /// The version of this layout: 1.
        schema: u32,
        rows: &'a [Row],
    }
    let mut text = serde_json::to_string_pretty(&Report { schema: 1, rows })?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::boot::report::{Metric, Verdict};

    /// Rows from their text, compared.
    pub fn rows(text: &str) -> Vec<Row> {
        compare(text.lines().map(|l| parse(l).unwrap()).collect())
    }

    fn ratios(text: &str) -> Vec<Option<f64>> {
        rows(text).iter().map(|r| r.ratio).collect()
    }

    #[test]
    fn rows_are_taken_out_of_what_a_program_prints() {
        let (rest, rows) = read(
            "ours: 3 lines\n@row lines peer 352 4 9 n\n @row x\n@row lines ours 352 4 4.5 n\n",
        );
        let rows = rows.unwrap();
        assert_eq!(rest, "ours: 3 lines\n @row x\n");
        assert_eq!(rows.len(), 2);
        let ours = &rows[1];
        assert_eq!(
            (
                ours.bench.as_str(),
                ours.variant.as_str(),
                ours.unit.as_str()
            ),
            ("lines", "ours", "n")
        );
        assert_eq!((ours.cpus, ours.nodes, ours.value()), (352, 4, 4.5));
    }

    #[test]
    fn a_row_that_breaks_a_rule_is_told_with_its_line() {
        for (row, why) in [
            ("b v 1 1 3", "six words"),
            ("b v 1 1 3 ns more", "six words"),
            ("b  1 1 3 ns", "`` is not a name"),
            ("B v 1 1 3 ns", "`B` is not a name"),
            ("b v 0 1 3 ns", "`0` is not a count"),
            ("b v 1 -1 3 ns", "`-1` is not a count"),
            ("b v 1 1 1e3 ns", "`1e3` is not a decimal number"),
            ("b v 1 1 NaN ns", "`NaN` is not a decimal number"),
            ("b v 1 1 3 ", "a unit is one word"),
        ] {
            let line = format!("@row {row}");
            let said = read(&line).1.unwrap_err();
            assert!(said.contains(why), "{said} lacks {why}");
            assert!(said.ends_with(&format!("`{line}`")), "{said}");
        }
    }

    #[test]
    fn a_ratio_is_against_the_first_variant_of_the_same_bench() {
        let text = "a peer 8 2 10 ns\na ours 8 2 4 ns\na late 8 2 20 ns\nb ours 8 2 3 ns";
        assert_eq!(ratios(text), [Some(1.0), Some(0.4), Some(2.0), Some(1.0)]);
    }

    #[test]
    fn what_is_compared_stands_together_in_the_order_of_the_first() {
        let rows = rows("a x 8 2 1 ns\na x 8 2 1 B\nb y 8 2 1 ns\na z 8 2 1 B\na z 8 2 1 ns");
        let shown: Vec<_> = rows
            .iter()
            .map(|r| format!("{} {} {}", r.bench, r.variant, r.unit))
            .collect();
        assert_eq!(shown, ["a x ns", "a z ns", "a x B", "a z B", "b y ns"]);
    }

    #[test]
    fn a_ratio_compares_equal_cpus_nodes_and_units_only() {
        let text = "a peer 8 2 10 ns\na peer 16 2 20 ns\na peer 8 2 3 B\n\
                    a ours 16 2 5 ns\na ours 8 2 6 B\na ours 32 2 1 ns";
        let shown: Vec<_> = rows(text)
            .iter()
            .map(|r| (format!("{} {} {}", r.variant, r.cpus, r.unit), r.ratio))
            .collect();
        let expected = [
            ("peer 8 ns", Some(1.0)),
            ("peer 16 ns", Some(1.0)),
            ("ours 16 ns", Some(0.25)),
            ("peer 8 B", Some(1.0)),
            ("ours 8 B", Some(2.0)),
            ("ours 32 ns", None),
        ];
        assert_eq!(
            shown,
            expected.map(|(name, ratio)| (name.to_string(), ratio))
        );
    }

    #[test]
    fn nothing_is_compared_with_zero() {
        assert_eq!(ratios("a peer 8 2 0 ns\na ours 8 2 5 ns"), [None, None]);
        assert_eq!(
            ratios("a peer 8 2 5 ns\na ours 8 2 0 ns"),
            [Some(1.0), Some(0.0)]
        );
    }

    #[test]
    fn a_row_that_comes_twice_is_found() {
        let twice = |text| twice(&rows(text));
        assert_eq!(
            twice("a v 8 2 1 ns\na w 8 2 1 ns\na v 8 2 3 ns").as_deref(),
            Some("a v with 8 CPU(s) in 2 node(s) came twice in ns")
        );
        assert_eq!(
            twice("a v 8 2 1 ns\na v 8 2 1 B\na v 4 2 1 ns\nb v 8 2 1 ns"),
            None
        );
    }

    #[test]
    fn metrics_with_a_dot_are_rows() {
        let metric = |name: &str| Metric {
            test: "icount.self".into(),
            name: name.into(),
            value: 7.into(),
            unit: "instructions".into(),
        };
        let boot = Boot {
            machine: "m".into(),
            board: "b".into(),
            cpus: 2,
            nodes: 1,
            threads: 1,
            qemu: "10.0.2".into(),
            verdict: Verdict::Passed,
            wall_ms: 1,
            tests: vec![],
            metrics: vec![metric("loops"), metric("self_sgi.irq_core.fast")],
        };
        assert_eq!(
            of_boot(&boot),
            rows("self_sgi irq_core.fast 2 1 7 instructions")
                .into_iter()
                .map(|r| Row {
                    bench: "self_sgi@m".into(),
                    ratio: None,
                    ..r
                })
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_table_shows_value_and_ratio_to_the_right() {
        let text = table(&rows(
            "a peer 8 2 10 ns\na ours 8 2 2.5 ns\na none 16 2 1 ns",
        ));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "bench  variant  cpus  nodes  value  unit  ratio");
        assert_eq!(lines[2], "a      ours        8      2    2.5  ns    0.250");
        assert_eq!(lines[3], "a      none       16      2      1  ns        -");
    }

    #[test]
    fn json_has_exactly_the_fields_of_schema_1() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bench.json");
        write_json(
            &rows("a peer 8 2 4 ns\na ours 8 2 1 ns\na x 9 1 1 ns"),
            &path,
        )
        .unwrap();
        let value: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let row = |variant, cpus, nodes, value, ratio: serde_json::Value| {
            serde_json::json!({"bench": "a", "variant": variant, "cpus": cpus, "nodes": nodes,
                "value": value, "unit": "ns", "ratio": ratio})
        };
        let rows = [
            row("peer", 8, 2, 4, 1.0.into()),
            row("ours", 8, 2, 1, 0.25.into()),
            row("x", 9, 1, 1, serde_json::Value::Null),
        ];
        assert_eq!(value, serde_json::json!({"schema": 1, "rows": rows}));
    }
}
