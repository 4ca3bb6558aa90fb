// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulator's log of guest errors: wrong accesses that its device models forgive and hardware
//! would not.

use crate::board::GuestError;

/// The lines of `log` that none of `allowed` allows: the first one, and how many there are.
pub fn beyond(log: &str, allowed: &[GuestError]) -> Option<(String, usize)> {
    let lines = log.lines().map(str::trim_end).filter(|l| !l.is_empty());
    let mut beyond = lines.filter(|line| !allowed.iter().any(|a| matches(&a.line, line)));
    let first = beyond.next()?;
    Some((first.into(), 1 + beyond.count()))
}

/// Whether `pattern`, in which a `*` stands for any text, is all of `line`.
fn matches(pattern: &str, line: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == line;
    };
    let Some(mut line) = line.strip_prefix(head) else {
        return false;
    };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match line.find(part) {
            Some(at) => line = &line[at + part.len()..],
            None => return false,
        }
    }
    line.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(lines: &[&str]) -> Vec<GuestError> {
        let allow = |line: &&str| GuestError {
            line: line.to_string(),
            reason: "r".into(),
        };
        lines.iter().map(allow).collect()
    }

    #[test]
    fn a_pattern_is_the_whole_line_with_any_text_for_each_star() {
        for (pattern, line) in [
            ("a b", "a b"),
            ("END * is invalid", "END 0/12 is invalid"),
            ("END */* is invalid", "END 0/12 is invalid"),
            ("*x", "x"),
            ("x*", "xyz"),
            ("a*b*c*", "a1b2c3"),
        ] {
            assert!(matches(pattern, line), "{pattern} {line}");
        }
        for (pattern, line) in [
            ("a b", "a b c"),
            ("a b", "x a b"),
            ("END * is invalid", "END 0/12 is invalid, really"),
            ("END * is invalid", "the END 0/12 is invalid"),
            ("END */* is invalid", "END 12 is invalid"),
            ("a*b*c", "acb"),
            ("ab*bc", "abc"),
        ] {
            assert!(!matches(pattern, line), "{pattern} {line}");
        }
    }

    #[test]
    fn what_nothing_allows_is_told_with_how_much_there_is() {
        let allowed = allow(&["known *"]);
        assert_eq!(beyond("", &allowed), None);
        assert_eq!(beyond("known 1\nknown 2\n\n", &allowed), None);
        assert_eq!(
            beyond("known 1\nbad 1\nknown 2\nbad 2\n", &allowed),
            Some(("bad 1".into(), 2))
        );
        assert_eq!(beyond("known 1\n", &[]), Some(("known 1".into(), 1)));
    }
}
