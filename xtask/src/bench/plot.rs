// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bar chart of each bench and unit, as SVG.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::rows::Row;

const WIDTH: u32 = 900;
/// Of one bar with its gap.
const BAR: u32 = 36;
/// Title above, axis below.
const HEAD: u32 = 50;
const FOOT: u32 = 40;
/// Room for the names on the left.
const NAMES: u32 = 260;
const BASELINE: RGBColor = RGBColor(140, 140, 140);
const OTHERS: RGBColor = RGBColor(40, 110, 180);

/// Writes `bench-unit.svg` for each bench and unit into `dir`.
pub fn write(rows: &[Row], dir: &Path) -> Result<()> {
    let mut drawn: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let key = (row.bench.as_str(), row.unit.as_str());
        if drawn.contains(&key) {
            continue;
        }
        drawn.push(key);
        let bars: Vec<&Row> = rows
            .iter()
            .filter(|r| (r.bench.as_str(), r.unit.as_str()) == key)
            .collect();
        let path = dir.join(file_name(key.0, key.1));
        std::fs::write(&path, svg(&bars)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn file_name(bench: &str, unit: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!(
        "{bench}-{}.svg",
        unit.chars().map(plain).collect::<String>()
    )
}

/// The chart of rows that share a bench and a unit, in their order from top to bottom.
fn svg(bars: &[&Row]) -> Result<String> {
    let mut text = String::new();
    let height = HEAD + FOOT + BAR * bars.len() as u32;
    let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    draw(&root, bars).map_err(|why| anyhow!("cannot draw {}: {why}", bars[0].bench))?;
    drop(root);
    Ok(text)
}

type Failed = Box<dyn std::error::Error>;

fn draw(root: &DrawingArea<SVGBackend, Shift>, bars: &[&Row]) -> Result<(), Failed> {
    root.fill(&WHITE)?;
    let value = |r: &Row| r.value.as_f64().unwrap_or(0.0);
    let low = bars.iter().map(|r| value(r)).fold(0.0, f64::min);
    let high = bars.iter().map(|r| value(r)).fold(0.0, f64::max);
    // Room for the number at a bar's end, and an axis also where all is 0.
    let room = if high > low { (high - low) * 0.25 } else { 1.0 };
    let title = format!("{}, {}", bars[0].bench, bars[0].unit);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(FOOT - 10)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(low..high + room, bars.len() as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .max_light_lines(1)
        .x_label_formatter(&|v| short(*v))
        .draw()?;
    let right = Pos::new(HPos::Right, VPos::Center);
    let left = Pos::new(HPos::Left, VPos::Center);
    let style = |at: Pos| TextStyle::from(("sans-serif", 14)).pos(at);
    for (i, row) in bars.iter().enumerate() {
        let top = i as f64;
        let colour = if row.variant == bars[0].variant {
            BASELINE
        } else {
            OTHERS
        };
        let bar = [(0.0, top + 0.15), (value(row), top + 0.85)];
        chart.draw_series([Rectangle::new(bar, colour.filled())])?;
        let (x, y) = chart.backend_coord(&(value(row).max(0.0), top + 0.5));
        let number = match row.ratio {
            Some(ratio) => format!("{} ({ratio:.3})", row.value),
            None => row.value.to_string(),
        };
        root.draw_text(&number, &style(left), (x + 6, y))?;
        let (x, y) = chart.backend_coord(&(low, top + 0.5));
        let name = format!("{} ({} CPUs, {} nodes)", row.variant, row.cpus, row.nodes);
        root.draw_text(&name, &style(right), (x - 8, y))?;
    }
    root.present()?;
    Ok(())
}

/// At most three digits after the point.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::rows;
    use super::*;

    #[test]
    fn each_bench_and_unit_has_a_chart_with_a_bar_for_each_row() {
        let dir = tempfile::tempdir().unwrap();
        let text = "lines peer 8 2 12 lines/ipi\nlines ours 8 2 3 lines/ipi\n\
                    lines ours 8 2 7 ns\nmasks v1.2 8 2 0 ns";
        write(&rows(text), dir.path()).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            ["lines-lines_ipi.svg", "lines-ns.svg", "masks-ns.svg"]
        );
        let svg = std::fs::read_to_string(dir.path().join("lines-lines_ipi.svg")).unwrap();
        for text in [
            "lines, lines/ipi",
            "peer (8 CPUs, 2 nodes)",
            "12 (1.000)",
            "3 (0.250)",
        ] {
            assert!(svg.contains(text), "{svg} lacks {text}");
        }
        // The ground, and one for each row.
        assert_eq!(svg.matches("<rect").count(), 3);
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let rows = rows("b one 1 1 10 ns\nb two 1 1 20 ns");
        let svg = svg(&rows.iter().collect::<Vec<_>>()).unwrap();
        let widths: Vec<f64> = svg
            .split("<rect")
            .skip(2)
            .map(|r| r.split("width=\"").nth(1).unwrap())
            .map(|w| w.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!((widths[1] / widths[0] - 2.0).abs() < 0.02, "{widths:?}");
    }

    #[test]
    fn numbers_on_the_axis_are_short() {
        let shown = [0.1 + 0.2, 0.0, 200.0, -2.5, 1e6].map(short);
        assert_eq!(shown, ["0.3", "0", "200", "-2.5", "1000000"]);
    }

    #[test]
    fn a_bench_whose_values_are_all_zero_has_a_chart() {
        let rows = rows("b one 1 1 0 ns\nb two 1 1 0 ns");
        let svg = svg(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert!(
            svg.contains("two (1 CPUs, 1 nodes)") && !svg.contains("NaN"),
            "{svg}"
        );
    }

    #[test]
    fn a_unit_that_xml_reserves_is_escaped() {
        let rows = rows("b one 1 1 -10 <&>");
        let svg = svg(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert!(
            svg.contains("&lt;&amp;&gt;") && !svg.contains("<&>"),
            "{svg}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_with_its_path() {
        let error = write(&rows("b v 1 1 1 ns"), Path::new("/nonexistent")).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /nonexistent/b-ns.svg");
    }
}
