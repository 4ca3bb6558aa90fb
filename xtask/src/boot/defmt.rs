// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns the defmt frames of port 1 into text, with the tables of the image that sent them.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use defmt_decoder::{DecodeError, Table};

/// Decodes the file `frames` with `image` into the file `log`. Without the file there is no
/// log; without frames in it the log is empty.
pub fn decode_file(frames: &Path, image: &Path, log: &Path) -> Result<()> {
    let Ok(frames) = std::fs::read(frames) else {
        return Ok(());
    };
    if frames.is_empty() {
        return std::fs::write(log, "").with_context(|| format!("cannot write {}", log.display()));
    }
    let elf = std::fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let text = decode(&frames, &elf).unwrap_or_else(|why| {
        format!(
            "{} bytes that could not be decoded: {why:#}\n",
            frames.len()
        )
    });
    std::fs::write(log, text).with_context(|| format!("cannot write {}", log.display()))
}

/// The frames as text, one line each. Frames that cannot be read are counted.
pub fn decode(frames: &[u8], elf: &[u8]) -> Result<String> {
    let table = Table::parse(elf)?.ok_or_else(|| anyhow!("the image has no defmt tables"))?;
    let places = table
        .get_locations(elf)
        .ok()
        .filter(|p| table.indices().all(|i| p.contains_key(&(i as u64))));
    let root = crate::workspace::root();
    let mut decoder = table.new_stream_decoder();
    decoder.received(frames);
    let (mut text, mut bad) = (String::new(), 0);
    loop {
        match decoder.decode() {
            Ok(frame) => {
                write!(text, "{}", frame.display(false))?;
                if let Some(place) = places.as_ref().and_then(|p| p.get(&frame.index())) {
                    let file = place.file.strip_prefix(&root).unwrap_or(&place.file);
                    write!(text, "  ({}:{})", file.display(), place.line)?;
                }
                text.push('\n');
            }
            Err(DecodeError::UnexpectedEof) => break,
            Err(DecodeError::Malformed) => {
                bad += 1;
                if !table.encoding().can_recover() {
                    break;
                }
            }
        }
    }
    if bad > 0 {
        writeln!(text, "{bad} frame(s) could not be read")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_frames_the_log_is_empty_and_without_a_port_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (frames, log) = (dir.path().join("f"), dir.path().join("l"));
        decode_file(&frames, Path::new("none"), &log).unwrap();
        assert!(!log.exists());
        std::fs::write(&frames, b"").unwrap();
        decode_file(&frames, Path::new("none"), &log).unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"");
    }

    #[test]
    fn frames_of_an_image_without_tables_are_told_not_fatal() {
        let dir = tempfile::tempdir().unwrap();
        let (frames, log) = (dir.path().join("f"), dir.path().join("l"));
        std::fs::write(&frames, b"\x01\x02\x00").unwrap();
        decode_file(&frames, &std::env::current_exe().unwrap(), &log).unwrap();
        assert!(
            std::fs::read_to_string(&log)
                .unwrap()
                .contains("3 bytes that could not be decoded")
        );
    }
}
