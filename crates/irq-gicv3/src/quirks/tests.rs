// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each entry fires on its identity and on no near miss.

use std::vec::Vec;

use super::*;

/// A machine that satisfies `when`.
fn machine_for(when: When) -> (Vec<&'static str>, Vec<&'static str>, Option<u32>) {
    match when {
        When::Always => (Vec::new(), Vec::new(), None),
        When::Compatible(name) => (std::vec![name], Vec::new(), None),
        When::Property(name) => (Vec::new(), std::vec![name], None),
        When::Soc { id, .. } => (Vec::new(), Vec::new(), Some(id)),
    }
}

fn fires(quirks: &Quirks<'_>, block: Block, id: u32, name: &str) -> bool {
    quirks.firing(block, id).any(|quirk| quirk.name == name)
}

#[test]
fn each_entry_fires_on_its_identity_and_not_beside_it() {
    for quirk in TABLE {
        let (compatible, properties, soc_id) = machine_for(quirk.when);
        let machine = Machine {
            compatible: &compatible,
            properties: &properties,
            soc_id,
            ..Machine::default()
        };
        let right = Quirks {
            machine,
            ..Quirks::default()
        };
        assert!(
            fires(&right, quirk.block, quirk.value, quirk.name),
            "{}",
            quirk.name
        );
        // Bits outside of the mask do not count, each bit inside does.
        assert!(fires(
            &right,
            quirk.block,
            quirk.value ^ !quirk.mask,
            quirk.name
        ));
        for bit in (0..32).filter(|bit| quirk.mask >> bit & 1 == 1) {
            assert!(
                !fires(&right, quirk.block, quirk.value ^ 1 << bit, quirk.name),
                "{} with bit {bit} flipped",
                quirk.name
            );
        }
        // Another block with the same number is another thing.
        let other = if quirk.block == Block::Cpu {
            Block::Redistributor
        } else {
            Block::Cpu
        };
        assert!(
            !fires(&right, other, quirk.value, quirk.name),
            "{}",
            quirk.name
        );
        // Without what the machine must be, no.
        if quirk.when != When::Always {
            let plain = Quirks::default();
            assert!(
                !fires(&plain, quirk.block, quirk.value, quirk.name),
                "{}",
                quirk.name
            );
        }
    }
}

#[test]
fn identities_from_public_errata_lists_have_their_effects() {
    let quirks = Quirks::default();
    let gicd = |iidr| quirks.effects(Block::Distributor, iidr);
    // ThunderX pass 2, GIC-600 r0p4, QEMU, GIC-700 r0p0, r1p0 and r2p0.
    assert_eq!(gicd(0xa100_034c), Effects::NO_TYPER2);
    assert_eq!(gicd(0x0204_043b), Effects::NO_ESPI);
    assert_eq!(gicd(0x0000_043b), Effects::empty());
    assert_eq!(gicd(0x0400_043b), Effects::LOST_DEACTIVATION);
    assert_eq!(gicd(0x0401_143b), Effects::LOST_DEACTIVATION);
    assert_eq!(gicd(0x0402_043b), Effects::LOST_DEACTIVATION);
    assert_eq!(gicd(0x0403_043b), Effects::empty());
    let gicr = |iidr| quirks.effects(Block::Redistributor, iidr);
    assert_eq!(gicr(0x0201_743b), Effects::POWER);
    assert_eq!(gicr(0x0000_043b), Effects::empty());
    // ThunderX2 (part 0xaf) is no ThunderX.
    assert_eq!(quirks.effects(Block::Cpu, 0x430f_0af1), Effects::empty());
    assert_eq!(quirks.effects(Block::Cpu, 0x430f_0a11), Effects::STALE_IAR);
}

#[test]
fn names_are_unique_so_that_a_veto_hits_one_entry() {
    for (i, quirk) in TABLE.iter().enumerate() {
        assert!(
            TABLE[i + 1..].iter().all(|other| other.name != quirk.name),
            "{}",
            quirk.name
        );
    }
}

#[test]
fn the_embedder_adds_and_vetoes_entries() {
    let mine = Quirk {
        name: "mine",
        block: Block::Distributor,
        value: 0x43b,
        mask: u32::MAX,
        when: When::Always,
        effects: Effects::NO_V4,
    };
    let extra = [mine];
    let quirks = Quirks {
        extra: &extra,
        veto: &["Cavium 38539"],
        ..Quirks::default()
    };
    assert_eq!(quirks.effects(Block::Distributor, 0x43b), Effects::NO_V4);
    assert_eq!(
        quirks.effects(Block::Distributor, 0xa000_034c),
        Effects::empty()
    );
}

#[test]
fn a_machine_quirk_needs_no_register() {
    let machine = Machine {
        compatible: &["qcom,msm8996-gic-v3"],
        ..Machine::default()
    };
    let quirks = Quirks {
        machine,
        ..Quirks::default()
    };
    assert_eq!(quirks.machine_effects(), Effects::NO_WAKER);
    let machine = Machine {
        midr: Some(0x411f_d130),
        ..Machine::default()
    };
    let quirks = Quirks {
        machine,
        ..Quirks::default()
    };
    assert_eq!(quirks.machine_effects(), Effects::AFF0_ONLY);
}
