// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places that a command writes to: tried before the work, and quiet when a reader is gone.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::Result;

use crate::refused::refuse;

/// Refuses a file that cannot be written, before the work whose result goes there. What it
/// holds stays until then.
pub fn writable(path: &Path) -> Result<()> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    if let Err(why) = opened {
        refuse!("cannot write {}: {why}", path.display());
    }
    Ok(())
}

/// Makes a folder; refuses one in which nothing can be made.
pub fn folder(path: &Path) -> Result<()> {
    let probe = path.join(".writable");
    if let Err(why) = fs::create_dir_all(path)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe))
    {
        refuse!("cannot write to {}: {why}", path.display());
    }
    Ok(())
}

/// Ends the process with status 1, without a word, when standard output or error is a pipe that
/// nobody reads any more. Children die with it.
pub fn leave_when_nobody_reads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str().is_some_and(is_broken_pipe) {
            std::process::exit(1);
        }
        usual(info);
    }));
}

/// What `print!` and `eprint!` panic with when the reader is gone.
fn is_broken_pipe(message: &str) -> bool {
    message.starts_with("failed printing to std") && message.contains("Broken pipe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::Refused;

    #[test]
    fn a_file_that_can_be_written_keeps_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "old").unwrap();
        writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        writable(&dir.path().join("new")).unwrap();
    }

    #[test]
    fn a_file_or_folder_that_cannot_be_written_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        for refused in [
            writable(&file.join("x")),
            writable(dir.path()),
            folder(&file),
        ] {
            let error = refused.unwrap_err();
            assert!(error.is::<Refused>());
            let path = dir.path().display().to_string();
            assert!(error.to_string().contains(&path), "{error}");
        }
    }

    #[test]
    fn a_folder_that_can_be_written_is_left_empty() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/b");
        folder(&new).unwrap();
        assert_eq!(fs::read_dir(new).unwrap().count(), 0);
    }
}
