// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hands the linker its scripts: where the image stands, and where `defmt` keeps its strings.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../linker/q35.ld");
    println!("cargo:rerun-if-changed={script}");
    // The target's default is an image that can be anywhere; this one is where the script says.
    println!("cargo:rustc-link-arg-bins=--no-pie");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=-Tdefmt.x");
}
