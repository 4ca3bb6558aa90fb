// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line protocol that an image speaks on port 0.
//!
//! A protocol line begins with `@` in column 0, its fields are separated by one
//! space, and it ends with a line feed. Everything else is console text:
//!
//! ```text
//! @plan N                      once, first: how many tests follow
//! @start name                  name = scenario.test, [a-z0-9_.]
//! @ok name ms
//! @fail name file:line text
//! @skip name why
//! @metric name value unit      of the running test; value is decimal
//! @end
//! ```
//!
//! A console line that begins with `panic at ` is the image's last word.

use super::line::RawLine;

/// How a console line that reports a panic begins.
pub const PANIC: &str = "panic at ";

/// One line, understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// `@plan N`.
    Plan(u32),
    /// `@start name`.
    Start(String),
    /// `@ok name ms`.
    Ok { name: String, ms: u64 },
    /// `@fail name file:line text`; `text` is `file:line text`.
    Fail { name: String, text: String },
    /// `@skip name why`.
    Skip { name: String, why: String },
    /// `@metric name value unit`.
    Metric {
        name: String,
        value: serde_json::Number,
        unit: String,
    },
    /// `@end`.
    End,
    /// A console line that reports a panic.
    Panic(String),
    /// Console text.
    Text,
    /// A protocol line that breaks a rule, with the rule.
    Bad(String),
}

/// Reads one line.
pub fn parse(raw: &RawLine) -> Line {
    if raw.bytes.first() != Some(&b'@') {
        let text = raw.printable();
        return if text.starts_with(PANIC) {
            Line::Panic(text)
        } else {
            Line::Text
        };
    }
    let shown = raw.printable();
    protocol_line(raw).unwrap_or_else(|why| Line::Bad(format!("{why}: `{shown}`")))
}

fn protocol_line(raw: &RawLine) -> Result<Line, String> {
    if raw.cut {
        return Err("a protocol line is too long".into());
    }
    if !raw.whole {
        return Err("the last line was not written whole".into());
    }
    let text = std::str::from_utf8(&raw.bytes).map_err(|_| "a protocol line is not UTF-8")?;
    if text.chars().any(char::is_control) {
        return Err("a protocol line holds a control character".into());
    }
    let (word, rest) = text
        .split_once(' ')
        .map_or((text, None), |(w, r)| (w, Some(r)));
    let rest_or = |what: &str| rest.ok_or(format!("`{word}` lacks {what}"));
    match word {
        "@plan" => Ok(Line::Plan(decimal(rest_or("a count")?)?)),
        "@start" => Ok(Line::Start(test_name(rest_or("a name")?)?)),
        "@ok" => {
            let (name, ms) = two(rest_or("a name")?, "milliseconds")?;
            Ok(Line::Ok {
                name: test_name(name)?,
                ms: decimal(ms)?,
            })
        }
        "@fail" => {
            let (name, text) = two(rest_or("a name")?, "a place")?;
            place(text)?;
            Ok(Line::Fail {
                name: test_name(name)?,
                text: text.into(),
            })
        }
        "@skip" => {
            let (name, why) = two(rest_or("a name")?, "a reason")?;
            if why.trim().is_empty() {
                return Err("`@skip` lacks a reason".into());
            }
            Ok(Line::Skip {
                name: test_name(name)?,
                why: why.into(),
            })
        }
        "@metric" => {
            let (name, rest) = two(rest_or("a name")?, "a value")?;
            let (value, unit) = two(rest, "a unit")?;
            if !is_word(name) {
                return Err(format!("`{name}` is not a metric's name ([a-z0-9_.])"));
            }
            if unit.is_empty() || unit.contains(' ') {
                return Err("a metric's unit is one word".into());
            }
            Ok(Line::Metric {
                name: name.into(),
                value: number(value)?,
                unit: unit.into(),
            })
        }
        "@end" if rest.is_none() => Ok(Line::End),
        "@end" => Err("`@end` stands alone".into()),
        _ => Err("unknown protocol word".into()),
    }
}

fn two<'a>(text: &'a str, second: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once(' ').ok_or(format!("{second} is missing"))
}

/// A name: `[a-z0-9_.]`.
pub fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b))
}

fn test_name(name: &str) -> Result<String, String> {
    let split = name.split_once('.');
    if is_word(name) && split.is_some_and(|(s, t)| !s.is_empty() && !t.is_empty()) {
        Ok(name.into())
    } else {
        Err(format!(
            "`{name}` is not a test's name (scenario.test, [a-z0-9_.])"
        ))
    }
}

fn decimal<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .ok_or(format!("`{text}` is not a decimal number in range"))
}

/// `-?digits[.digits]`, exact where JSON can hold it so.
pub fn number(text: &str) -> Result<serde_json::Number, String> {
    let bad = || format!("`{text}` is not a decimal number in range");
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let value = match unsigned.split_once('.') {
        Some((whole, part)) if digits(whole) && digits(part) => {
            text.parse().ok().and_then(serde_json::Number::from_f64)
        }
        None if digits(unsigned) => match text.parse::<u64>() {
            Ok(value) => Some(value.into()),
            Err(_) => text.parse::<i64>().ok().map(Into::into),
        },
        _ => None,
    };
    value.ok_or_else(bad)
}

fn place(text: &str) -> Result<(), String> {
    let first = text.split(' ').next().unwrap_or_default();
    match first.rsplit_once(':') {
        Some((file, line)) if !file.is_empty() => decimal::<u32>(line).map(drop),
        _ => Err(format!("`{first}` is not a place (file:line)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn line(text: &str) -> Line {
        parse(&RawLine {
            bytes: text.as_bytes().to_vec(),
            cut: false,
            whole: true,
        })
    }

    fn bad(text: &str) -> String {
        match line(text) {
            Line::Bad(why) => why,
            other => panic!("{text:?} was read as {other:?}"),
        }
    }

    #[test]
    fn each_word_is_read_with_its_fields() {
        assert_eq!(line("@plan 12"), Line::Plan(12));
        assert_eq!(
            line("@start smoke.timer"),
            Line::Start("smoke.timer".into())
        );
        assert_eq!(
            line("@ok smoke.timer 31"),
            Line::Ok {
                name: "smoke.timer".into(),
                ms: 31
            }
        );
        assert_eq!(
            line("@fail smoke.sgi src/sgi.rs:17 sgi 3 was not seen"),
            Line::Fail {
                name: "smoke.sgi".into(),
                text: "src/sgi.rs:17 sgi 3 was not seen".into()
            }
        );
        assert_eq!(
            line("@skip smoke.eppi no extended PPI here"),
            Line::Skip {
                name: "smoke.eppi".into(),
                why: "no extended PPI here".into()
            }
        );
        assert_eq!(
            line("@metric rate 12.5 1/s"),
            Line::Metric {
                name: "rate".into(),
                value: serde_json::Number::from_f64(12.5).unwrap(),
                unit: "1/s".into()
            }
        );
        assert_eq!(line("@end"), Line::End);
    }

    #[test]
    fn text_is_console_even_with_an_at_sign_inside() {
        for text in ["", "hello", " @end", "x@ok smoke.a 1", "\t@plan 1"] {
            assert_eq!(line(text), Line::Text, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_word_is_bad() {
        for text in ["@", "@ ok a.b 1", "@okay a.b 1", "@END", "@plan=1", "@@end"] {
            assert!(bad(text).starts_with("unknown protocol word"), "{text:?}");
        }
    }

    #[test]
    fn a_missing_field_is_bad() {
        for text in [
            "@plan",
            "@start",
            "@ok",
            "@ok a.b",
            "@fail a.b",
            "@skip a.b",
            "@skip a.b  ",
            "@metric",
            "@metric a",
            "@metric a 1",
            "@metric a 1 ",
        ] {
            bad(text);
        }
    }

    #[test]
    fn a_field_too_many_is_bad() {
        for text in [
            "@plan 1 2",
            "@plan 1 ",
            "@start a.b c",
            "@ok a.b 1 2",
            "@metric a 1 ns x",
            "@end now",
            "@end ",
        ] {
            bad(text);
        }
    }

    #[test]
    fn two_spaces_between_fields_are_bad() {
        for text in ["@plan  1", "@start  a.b", "@ok  a.b 1", "@ok a.b  1"] {
            bad(text);
        }
    }

    #[test]
    fn a_name_outside_its_alphabet_is_bad() {
        for name in [
            "smoke",
            ".a",
            "a.",
            "Smoke.a",
            "smoke.a-b",
            "smoke/a",
            "smöke.a",
        ] {
            bad(&format!("@start {name}"));
        }
        bad("@metric Rate 1 ns");
    }

    #[test]
    fn a_value_that_is_not_decimal_is_bad() {
        for value in [
            "0x10", "1e3", "+1", "1.", ".5", "-", "1_000", "nan", "inf", "1,5",
        ] {
            bad(&format!("@metric a {value} ns"));
        }
        for ms in ["-1", "1.5", "0x1", "99999999999999999999"] {
            bad(&format!("@ok a.b {ms}"));
        }
        bad("@plan -1");
    }

    #[test]
    fn whole_values_stay_exact() {
        for value in ["18446744073709551615", "-9223372036854775808", "0"] {
            let Line::Metric { value: got, .. } = line(&format!("@metric a {value} n")) else {
                panic!("{value}")
            };
            assert_eq!(got.to_string(), value);
        }
        bad("@metric a 18446744073709551616 n");
    }

    #[test]
    fn a_failure_without_a_place_is_bad() {
        for text in [
            "@fail a.b text",
            "@fail a.b :3 x",
            "@fail a.b f.rs: x",
            "@fail a.b f.rs:x y",
        ] {
            assert!(
                bad(text).contains("place") || bad(text).contains("decimal"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_protocol_line_with_a_control_character_is_bad() {
        bad("@end\u{1b}");
        bad("@ok a.b\t1");
        let raw = RawLine {
            bytes: b"@end\0".to_vec(),
            cut: false,
            whole: true,
        };
        assert!(matches!(parse(&raw), Line::Bad(_)));
    }

    #[test]
    fn a_protocol_line_that_is_not_utf8_is_bad() {
        let raw = RawLine {
            bytes: b"@skip a.b \xff".to_vec(),
            cut: false,
            whole: true,
        };
        assert!(matches!(parse(&raw), Line::Bad(_)));
    }

    #[test]
    fn a_torn_or_overlong_protocol_line_is_bad() {
        for (cut, whole) in [(true, true), (false, false)] {
            let raw = RawLine {
                bytes: b"@ok a.b 1".to_vec(),
                cut,
                whole,
            };
            assert!(matches!(parse(&raw), Line::Bad(_)));
        }
    }

    #[test]
    fn a_panic_line_is_recognised_in_column_0_only() {
        assert_eq!(
            line("panic at a.rs:1: x"),
            Line::Panic("panic at a.rs:1: x".into())
        );
        assert_eq!(line(" panic at a.rs:1: x"), Line::Text);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut: bool, whole: bool) {
            parse(&RawLine { bytes, cut, whole });
        }

        #[test]
        fn any_protocol_like_line_is_read_without_a_panic(text in "@(plan|start|ok|fail|skip|metric|end)?[ -~]{0,60}") {
            parse(&RawLine { bytes: text.into_bytes(), cut: false, whole: true });
        }
    }
}
