// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cuts the byte stream of a serial port into lines of bounded length.

/// Bytes kept of one line. What is longer is cut and marked.
pub const MAX_LINE: usize = 4096;

/// One line as it came from the port, without its line end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RawLine {
    /// The first [`MAX_LINE`] bytes.
    pub bytes: Vec<u8>,
    /// Bytes were left out at the end.
    pub cut: bool,
    /// The line ended with a line feed, not with the end of the stream.
    pub whole: bool,
}

impl RawLine {
    /// The line as printable text: control characters and bad UTF-8 are replaced.
    pub fn printable(&self) -> String {
        let mut text: String = String::from_utf8_lossy(&self.bytes)
            .chars()
            .map(|c| match c {
                '\t' => ' ',
                c if c.is_control() => char::REPLACEMENT_CHARACTER,
                c => c,
            })
            .collect();
        if self.cut {
            text.push_str(" [cut]");
        }
        text
    }
}

/// Collects bytes until a line is complete.
#[derive(Default)]
pub struct Lines {
    held: Vec<u8>,
    cut: bool,
}

impl Lines {
    /// Takes bytes and hands each line that they complete to `each`.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(RawLine)) {
        for part in bytes.split_inclusive(|&b| b == b'\n') {
            let (text, whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = MAX_LINE - self.held.len();
            self.held.extend_from_slice(&text[..text.len().min(room)]);
            self.cut |= text.len() > room;
            if whole {
                each(self.take(true));
            }
        }
    }

    /// What the stream left behind without a line feed.
    pub fn rest(&mut self) -> Option<RawLine> {
        (!self.held.is_empty()).then(|| self.take(false))
    }

    fn take(&mut self, whole: bool) -> RawLine {
        let mut bytes = std::mem::take(&mut self.held);
        let cut = std::mem::take(&mut self.cut);
        if whole && !cut && bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        RawLine { bytes, cut, whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines_of(chunks: &[&[u8]]) -> Vec<RawLine> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |l| out.push(l));
        }
        out.extend(lines.rest());
        out
    }

    #[test]
    fn a_line_may_arrive_in_pieces() {
        let got = lines_of(&[b"@st", b"art a.b\r", b"\n@end", b"\n"]);
        let text: Vec<_> = got.iter().map(RawLine::printable).collect();
        assert_eq!(text, ["@start a.b", "@end"]);
        assert!(got.iter().all(|l| l.whole));
    }

    #[test]
    fn a_line_without_its_end_is_not_whole() {
        let got = lines_of(&[b"one\ntwo"]);
        assert!(got[0].whole);
        assert!(!got[1].whole);
        assert_eq!(got[1].bytes, b"two");
    }

    #[test]
    fn a_very_long_line_is_cut_and_the_next_one_is_intact() {
        let long = vec![b'x'; 10 * MAX_LINE];
        let got = lines_of(&[&long, b"y\nshort\n"]);
        assert_eq!(got[0].bytes.len(), MAX_LINE);
        assert!(got[0].cut);
        assert_eq!(got[1].printable(), "short");
    }

    #[test]
    fn control_characters_and_bad_utf8_become_printable() {
        let got = lines_of(&[b"\x1b[2J\x00ok\xff\xfe\tend\n"]);
        let text = got[0].printable();
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
        assert!(text.contains("ok") && text.ends_with(" end"));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_give_the_same_bounded_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..600),
            at in 0usize..600,
        ) {
            let at = at.min(bytes.len());
            let whole = lines_of(&[&bytes]);
            let parts = lines_of(&[&bytes[..at], &bytes[at..]]);
            prop_assert_eq!(&whole, &parts);
            for line in &whole {
                prop_assert!(line.bytes.len() <= MAX_LINE);
                prop_assert!(!line.bytes.contains(&b'\n'));
                prop_assert!(line.printable().chars().all(|c| !c.is_control()));
            }
        }
    }
}
