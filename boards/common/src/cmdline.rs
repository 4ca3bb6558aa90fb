// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: words `key=value`, separated by blanks.
//!
//! `scenario=smoke,ipistorm` is a list. Of a key that is given twice the last one counts; words
//! without `=` are left to others.

/// A command line, read in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandLine<'a>(&'a str);

impl<'a> CommandLine<'a> {
    /// The command line `text`.
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The value of `key`.
    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.0
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .next_back()
    }

    /// The comma-separated values of `key`, each once, in order; none where the key is missing.
    pub fn list(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let value = self.value(key).unwrap_or("");
        let items = value.split(',').filter(|item| !item.is_empty());
        let earlier = items.clone();
        let repeated = move |at, item| earlier.clone().take(at).any(|other| other == item);
        items
            .enumerate()
            .filter(move |&(at, item)| !repeated(at, item))
            .map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_counts() {
        let line = CommandLine::new("quiet cpus=4  scenario=smoke cpus=8");
        assert_eq!(line.value("cpus"), Some("8"));
        assert_eq!(line.value("scenario"), Some("smoke"));
        assert_eq!(line.value("quiet"), None);
    }

    #[test]
    fn a_list_gives_each_item_once() {
        let line = CommandLine::new("scenario=smoke,,ipistorm,smoke");
        assert_eq!(
            line.list("scenario").collect::<Vec<_>>(),
            ["smoke", "ipistorm"]
        );
        assert_eq!(line.list("nothing").count(), 0);
    }
}
