// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devicetrees that lie, made from the one that QEMU itself would hand over.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeProperty};
use dtoolkit::{Node, Property};

use super::{Job, command};
use crate::process;

/// Time that QEMU has to write its devicetree.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes `absent.dtb` into `folder`: QEMU's devicetree for this job, and one CPU more.
pub fn with_absent_cpu(job: &Job, folder: &Path, reg: u32) -> Result<PathBuf> {
    let dump = folder.join("qemu.dtb");
    let ports = command::Ports {
        console: "null".into(),
        defmt: "null".into(),
    };
    let mut command = command::qemu(job, &ports, None);
    command
        .arg("-machine")
        .arg(format!("dumpdtb={}", dump.display()));
    let said = process::capture(command, PATIENCE)?;
    if let Some(trouble) = said.trouble {
        bail!("QEMU gave no devicetree: {trouble}, {}", said.err.trim());
    }
    let blob = std::fs::read(&dump).context("QEMU wrote no devicetree")?;
    let path = folder.join("absent.dtb");
    std::fs::write(&path, add_cpu(&blob, reg)?)?;
    Ok(path)
}

/// `blob` with one CPU more: a copy of the first one with another `reg`.
fn add_cpu(blob: &[u8], reg: u32) -> Result<Vec<u8>> {
    let fdt = Fdt::new(blob).map_err(|e| anyhow!("QEMU's devicetree: {e}"))?;
    let mut tree = DeviceTree::from_fdt(&fdt);
    let cpus = tree
        .find_node_mut("/cpus")
        .ok_or_else(|| anyhow!("the devicetree has no /cpus"))?;
    let first = cpus
        .children()
        .find(|c| c.name().starts_with("cpu@"))
        .cloned();
    let first = first.ok_or_else(|| anyhow!("the devicetree has no CPU"))?;
    let width = first.property("reg").map_or(4, |p| p.value().len());
    let mut value = vec![0; width];
    value[width.saturating_sub(4)..].copy_from_slice(&reg.to_be_bytes()[4 - width.min(4)..]);
    let mut absent = dtoolkit::model::DeviceTreeNode::new(format!("cpu@{reg:x}"))?;
    for property in first
        .properties()
        .filter(|p| !["reg", "phandle"].contains(&p.name()))
    {
        absent.add_property(property.clone());
    }
    absent.add_property(DeviceTreeProperty::new("reg", value.as_slice())?);
    cpus.add_child(absent);
    Ok(tree.to_dtb())
}
