// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a person sees while work goes on: a bar on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// One piece of work that is under way.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Announces `what`.
    pub fn start(what: &str) -> Progress {
        let bar = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar.set_message(what.to_string());
            bar
        } else {
            eprintln!("{what}");
            ProgressBar::hidden()
        };
        Progress { bar }
    }

    /// Shows how far it is; a plain terminal-less run shows nothing.
    pub fn at(&self, message: &str) {
        self.bar.set_message(message.to_string());
    }

    /// Prints a line that stays.
    pub fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
