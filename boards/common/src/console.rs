// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text on serial port 0: whole lines, each under one lock.
//!
//! A line that begins with `@` in column 0 belongs to the [protocol](crate::protocol); text
//! that happens to begin so gets a space in front.

use core::fmt::{self, Write};

use crate::lock::Masked;
use crate::machine::{self, Machine, Port};

/// Port 0, with what must be known about the line that is being written.
#[derive(Debug)]
struct Console {
    /// The next byte begins a line.
    line_start: bool,
}

static CONSOLE: Masked<Console> = Masked::new(Console { line_start: true });

/// Writes `text` and a newline, whole.
///
/// # Context
/// Any but a non-maskable interrupt.
pub fn line(text: fmt::Arguments<'_>) {
    let Some(machine) = machine::get() else {
        return;
    };
    CONSOLE.with(|console| {
        let _ = Plain(Out { console, machine }).write_fmt(text);
        Out { console, machine }.put(b'\n');
    });
}

/// As [`line()`], in a panic: breaks the lock if it is held, and begins in column 0 whatever was
/// being written.
pub fn emergency_line(text: fmt::Arguments<'_>) {
    let Some(machine) = machine::get() else {
        return;
    };
    CONSOLE.with_or_break(|console| {
        if !console.line_start {
            Out { console, machine }.put(b'\n');
        }
        let _ = OneLine(Out { console, machine }).write_fmt(text);
        Out { console, machine }.put(b'\n');
    });
}

/// Writes a line of the protocol: `word` with its `@`, then `fields`, newlines in them escaped.
pub(crate) fn protocol_line(fields: fmt::Arguments<'_>) {
    let Some(machine) = machine::get() else {
        return;
    };
    CONSOLE.with(|console| {
        let _ = OneLine(Out { console, machine }).write_fmt(fields);
        Out { console, machine }.put(b'\n');
    });
}

/// Prints a line of text on the console.
#[macro_export]
macro_rules! println {
    ($($arg:tt)*) => { $crate::console::line(::core::format_args!($($arg)*)) };
}

struct Out<'a> {
    console: &'a mut Console,
    machine: &'static dyn Machine,
}

impl Out<'_> {
    fn put(&mut self, byte: u8) {
        self.machine.put(Port::Text, byte);
        self.console.line_start = byte == b'\n';
    }
}

/// Text of any number of lines, none of which looks like the protocol.
struct Plain<'a>(Out<'a>);

impl Write for Plain<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.0.console.line_start && byte == b'@' {
                self.0.put(b' ');
            }
            self.0.put(byte);
        }
        Ok(())
    }
}

/// Text that stays on its line: control characters are escaped.
struct OneLine<'a>(Out<'a>);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            escape(byte, |byte| self.0.put(byte));
        }
        Ok(())
    }
}

/// Hands `byte` to `put`, or its escape where it would end or upset a line.
pub(crate) fn escape(byte: u8, mut put: impl FnMut(u8)) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    match byte {
        b'\n' => b"\\n".iter().for_each(|&byte| put(byte)),
        b'\r' => b"\\r".iter().for_each(|&byte| put(byte)),
        b'\t' => put(b' '),
        0..0x20 | 0x7f => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]];
            b"\\x".iter().chain(&digits).for_each(|&byte| put(byte));
        }
        _ => put(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_several_lines_stays_on_one() {
        let mut out = Vec::new();
        for byte in *b"a\nb\r\x1b[0m\tc" {
            escape(byte, |byte| out.push(byte));
        }
        assert_eq!(out, b"a\\nb\\r\\x1b[0m c");
    }
}
