// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns the defmt frames of port 1 into text, with the tables of the image that sent them.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use defmt_decoder::{DecodeError, Frame, StreamDecoder, Table};

/// The most bytes that are decoded: a log for people, so what is beyond is only counted.
const MOST: usize = 8 << 20;

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
    let mut text = String::new();
    let can_recover = table.encoding().can_recover();
    let (bad, left) = feed(decoder.as_mut(), can_recover, frames, |frame| {
        write!(text, "{}", frame.display(false))?;
        if let Some(place) = places.as_ref().and_then(|p| p.get(&frame.index())) {
            let file = place.file.strip_prefix(&root).unwrap_or(&place.file);
            write!(text, "  ({}:{})", file.display(), place.line)?;
        }
        text.push('\n');
        Ok(())
    })?;
    if bad > 0 {
        writeln!(text, "{bad} frame(s) could not be read")?;
    }
    if left > 0 {
        writeln!(text, "{left} bytes more are not decoded")?;
    }
    Ok(text)
}

/// Hands each frame of the first [`MOST`] bytes to `each`. Returns how many frames could not be
/// read, and how many bytes are left.
fn feed(
    decoder: &mut dyn StreamDecoder,
    can_recover: bool,
    frames: &[u8],
    mut each: impl FnMut(Frame<'_>) -> Result<()>,
) -> Result<(usize, usize)> {
    let kept = &frames[..frames.len().min(MOST)];
    let left = frames.len() - kept.len();
    let mut bad = 0;
    // The decoder moves all that it holds at each frame, so it gets one frame at a time.
    for piece in kept.split_inclusive(|&byte| byte == 0) {
        decoder.received(piece);
        loop {
            match decoder.decode() {
                Ok(frame) => each(frame)?,
                Err(DecodeError::UnexpectedEof) => break,
                Err(DecodeError::Malformed) => {
                    bad += 1;
                    if !can_recover {
                        return Ok((bad, left));
                    }
                }
            }
        }
    }
    Ok((bad, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decoder to which every frame is malformed, and that knows the most it had to hold.
    #[derive(Default)]
    struct Fake {
        held: Vec<u8>,
        most: usize,
    }

    impl StreamDecoder for Fake {
        fn received(&mut self, data: &[u8]) {
            self.held.extend_from_slice(data);
            self.most = self.most.max(self.held.len());
        }

        fn decode(&mut self) -> Result<Frame<'_>, DecodeError> {
            let end = self.held.iter().position(|&byte| byte == 0);
            self.held.drain(..=end.ok_or(DecodeError::UnexpectedEof)?);
            Err(DecodeError::Malformed)
        }
    }

    #[test]
    fn the_decoder_holds_one_frame_at_a_time() {
        let mut decoder = Fake::default();
        let frames = [1, 2, 3, 0].repeat(1000);
        let fed = feed(&mut decoder, true, &frames, |_| Ok(())).unwrap();
        assert_eq!((fed, decoder.most), ((1000, 0), 4));
    }

    #[test]
    fn frames_beyond_the_bound_are_left_and_counted() {
        let frames = vec![1; MOST + 3];
        let fed = feed(&mut Fake::default(), true, &frames, |_| Ok(())).unwrap();
        assert_eq!(fed, (0, 3));
    }

    #[test]
    fn an_encoding_that_cannot_recover_ends_at_the_first_bad_frame() {
        let fed = feed(&mut Fake::default(), false, &[1, 0, 2, 0], |_| Ok(())).unwrap();
        assert_eq!(fed, (1, 0));
    }

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
