// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines that can be pasted into a shell.

use std::process::Command;

/// `text` as one word of a POSIX shell.
pub fn quote(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-+=:,./@%".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A command as a shell takes it.
pub fn line(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    words
        .map(|w| quote(&w.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_command_line_gives_a_shell_the_same_words() {
        let words = [
            "a b",
            "it's",
            "",
            "$HOME",
            "x;y",
            "scenario=smoke,ipistorm",
            "\\",
            "*",
            "`x`",
            "\"q\"",
            "é",
        ];
        let mut command = Command::new("printf");
        command.arg("%s\\n").args(words);
        let out = Command::new("sh")
            .arg("-c")
            .arg(line(&command))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(out.stdout).unwrap(),
            words.join("\n") + "\n"
        );
    }

    #[test]
    fn plain_words_stay_as_they_are() {
        assert_eq!(quote("virt,gic-version=3"), "virt,gic-version=3");
    }
}
