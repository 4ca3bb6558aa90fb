// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask sizes`: what each image occupies, and what has grown.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, SectionFlags, SectionKind};
use serde::{Deserialize, Serialize};

use crate::board::{self, Board};
use crate::boot::report::columns;
use crate::refused::refuse;
use crate::run::build_images;
use crate::setup::{self, Needs};
use crate::{output, workspace};

/// Bytes of one image.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Size {
    /// Code and constants.
    pub text: u64,
    /// Initialised variables.
    pub data: u64,
    /// Zeroed variables.
    pub bss: u64,
}

/// Sizes by image.
type Sizes = BTreeMap<String, Size>;

/// Builds every image and prints its size.
pub fn run(compare: Option<&Path>, json: Option<&Path>) -> Result<ExitCode> {
    let boards = board::load_all(&workspace::root())?;
    let all: Vec<&Board> = boards.iter().collect();
    let old = compare.map(read).transpose()?;
    json.map(output::writable).transpose()?;
    let ready = setup::ensure(
        &all,
        Needs {
            images: true,
            ..Needs::default()
        },
    )?;
    let mut sizes = Sizes::new();
    for (name, image) in build_images(&all, &ready)? {
        let Ok(image) = image else {
            bail!("{name} does not build")
        };
        let elf =
            std::fs::read(&image).with_context(|| format!("cannot read {}", image.display()))?;
        sizes.insert(name, measure(&elf)?);
    }
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_string_pretty(&sizes)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    print!("{}", table(&sizes, old.as_ref()));
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Sizes> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(why) => refuse!("cannot read {}: {why}", path.display()),
    };
    match serde_json::from_str(&text) {
        Ok(sizes) => Ok(sizes),
        Err(why) => refuse!("{} is no table of sizes: {why}", path.display()),
    }
}

/// Sums up the sections that are in memory at run time.
fn measure(elf: &[u8]) -> Result<Size> {
    let file = object::File::parse(elf)?;
    let mut size = Size::default();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else {
            continue;
        };
        let flag = |f: u32| sh_flags & u64::from(f) != 0;
        if !flag(object::elf::SHF_ALLOC) {
            continue;
        }
        let sum = match section.kind() {
            SectionKind::UninitializedData | SectionKind::UninitializedTls => &mut size.bss,
            _ if flag(object::elf::SHF_WRITE) => &mut size.data,
            _ => &mut size.text,
        };
        *sum += section.size();
    }
    Ok(size)
}

fn table(sizes: &Sizes, old: Option<&Sizes>) -> String {
    let rows = sizes.iter().map(|(name, size)| {
        let mut row = vec![name.clone()];
        let before = old.map(|o| o.get(name).copied().unwrap_or_default());
        for part in [|s: Size| s.text, |s: Size| s.data, |s: Size| s.bss] {
            row.push(part(*size).to_string());
            row.extend(before.map(|b| format!("{:+}", part(*size) as i64 - part(b) as i64)));
        }
        row
    });
    let head: &[&str] = match old {
        Some(_) => &["image", "text", "grown", "data", "grown", "bss", "grown"],
        None => &["image", "text", "data", "bss"],
    };
    columns(head, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: u64) -> Sizes {
        [(
            "virt".to_string(),
            Size {
                text,
                data: 20,
                bss: 300,
            },
        )]
        .into()
    }

    #[test]
    fn growth_is_shown_with_its_sign() {
        let text = table(&sizes(1000), Some(&sizes(1100)));
        assert_eq!(
            text.lines()
                .nth(1)
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>(),
            ["virt", "1000", "-100", "20", "+0", "300", "+0"]
        );
    }

    #[test]
    fn sizes_that_are_not_there_or_no_sizes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sizes.json");
        let refused = |path: &Path| read(path).unwrap_err().is::<crate::refused::Refused>();
        assert!(refused(&file));
        std::fs::write(&file, "no json").unwrap();
        assert!(refused(&file));
        std::fs::write(&file, serde_json::to_string(&sizes(3)).unwrap()).unwrap();
        assert_eq!(read(&file).unwrap(), sizes(3));
    }

    #[test]
    fn an_image_that_is_new_has_grown_by_all_it_has() {
        let text = table(&sizes(7), Some(&Sizes::new()));
        assert!(text.contains("+300"), "{text}");
    }

    #[test]
    fn a_program_has_code_and_data() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let size = measure(&elf).unwrap();
        assert!(
            size.text > 100_000 && size.data > 0 && size.bss > 0,
            "{size:?}"
        );
        assert!(size.text + size.data < elf.len() as u64);
    }
}
