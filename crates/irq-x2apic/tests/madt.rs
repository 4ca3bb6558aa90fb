// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MADT: QEMU's, and each way in which firmware gets it wrong.

mod tables;

use irq_hal::acpi::Tables;
use irq_hal::{Error, PhysAddr};
use irq_x2apic::acpi::{CpuState, Inti, MADT_ENTRIES_MAX, Madt, MadtEntry, Polarity, TriggerMode};
use proptest::prelude::*;
use tables::{fixture, id, seal, table, wrong};

const ENABLED: u32 = 1;
const ONLINE_CAPABLE: u32 = 2;

fn madt(entries: &[Vec<u8>]) -> Vec<u8> {
    table(b"APIC", 5, &[0, 0, 0xe0, 0xfe, 1, 0, 0, 0], entries)
}

/// Type 0.
fn lapic(uid: u8, id: u8, flags: u32) -> Vec<u8> {
    [&[0, 8, uid, id][..], &flags.to_le_bytes()].concat()
}

/// Type 9.
fn x2apic(uid: u32, id: u32, flags: u32) -> Vec<u8> {
    let words = [id, flags, uid].map(u32::to_le_bytes).concat();
    [&[9, 16, 0, 0][..], &words].concat()
}

/// Ids of the CPUs that are there.
fn ids(table: &[u8]) -> Result<Vec<u32>, Error> {
    let cpus = Madt::new(table)?.cpus();
    cpus.map(|cpu| Ok(cpu?.id.get())).collect()
}

fn addable(table: &[u8]) -> Vec<u32> {
    let cpus = Madt::new(table).unwrap().addable_cpus();
    cpus.map(|cpu| cpu.unwrap().id.get()).collect()
}

#[test]
fn qemus_cpus_are_listed_with_their_sparse_ids_and_those_above_255() {
    let dense = |count| Ok((0..count).collect());
    assert_eq!(ids(fixture!("q35-1.madt")), dense(1));
    assert_eq!(ids(fixture!("q35-8n2.madt")), dense(8));
    assert_eq!(ids(fixture!("q35-255.madt")), dense(255));
    assert_eq!(ids(fixture!("q35-256.madt")), dense(256));
    assert_eq!(ids(fixture!("q35-6n2.madt")), Ok(vec![0, 1, 2, 4, 5, 6]));
    assert_eq!(
        ids(fixture!("q35-288n2.madt")),
        Ok((0..144).chain(256..400).collect())
    );
}

#[test]
fn absent_cpus_are_neither_there_nor_addable_where_the_table_cannot_say_so() {
    let bytes = fixture!("q35-id256.madt");
    assert_eq!(ids(bytes), Ok(vec![0, 256]));
    assert_eq!(addable(bytes), []);
    let absent = |entry| {
        matches!(
            entry,
            Ok(MadtEntry::Cpu {
                state: CpuState::Absent,
                ..
            })
        )
    };
    let entries = Madt::new(bytes).unwrap().entries();
    assert_eq!(entries.filter(|&entry| absent(entry)).count(), 510);
}

#[test]
fn acpi_ids_are_those_of_the_table_and_not_apic_ids() {
    let table = Madt::new(fixture!("q35-288n2.madt")).unwrap();
    let last = table.cpus().last().unwrap().unwrap();
    assert_eq!((last.id, last.uid), (id(399), 287));
}

#[test]
fn qemus_tables_are_found_from_the_rsdp() {
    let root = fixture!("q35-8n2.rsdt");
    let memory = |at: PhysAddr, len: usize| {
        let (base, bytes) = match at.get() {
            0x0f_5200.. if at.get() < 0x10_0000 => (0x0f_5200, fixture!("q35-8n2.rsdp")),
            0x0ffe_26ec.. => (0x0ffe_26ec, root),
            0x0ffe_2658.. => (0x0ffe_2658, fixture!("q35-8n2.slit")),
            0x0ffe_2508.. => (0x0ffe_2508, fixture!("q35-8n2.srat")),
            0x0ffe_2420.. => (0x0ffe_2420, fixture!("q35-8n2.madt")),
            _ => (0, &[][..]),
        };
        let at = (at.get() - base) as usize;
        bytes
            .get(at..)
            .and_then(|bytes| bytes.get(..len))
            .ok_or(Error::Unsupported {
                feature: "other memory",
            })
    };
    let tables = Tables::new(PhysAddr::new(0x0f_5200), memory).unwrap();
    let found = tables.find(Madt::SIGNATURE).unwrap().unwrap();
    assert_eq!(Madt::from_sdt(found).unwrap().check(id(3)), Ok(8));
    let found = tables.find(*b"SRAT").unwrap().unwrap();
    assert_eq!(found.bytes(), fixture!("q35-8n2.srat"));
    let found = tables.find(*b"SLIT").unwrap().unwrap();
    assert_eq!(found.bytes(), fixture!("q35-8n2.slit"));
}

#[test]
fn the_8259s_the_io_apic_and_the_overrides_of_qemu_are_read() {
    let table = Madt::new(fixture!("q35-8n2.madt")).unwrap();
    assert!(table.has_8259());
    assert_eq!(table.local_apic_addr(), Ok(PhysAddr::new(0xfee0_0000)));
    let other: Vec<_> = table
        .entries()
        .map(Result::unwrap)
        .filter(|entry| !matches!(entry, MadtEntry::Cpu { .. }))
        .collect();
    let over = |irq: u8, gsi, flags| MadtEntry::Override {
        bus: 0,
        irq,
        gsi,
        inti: Inti::new(flags),
    };
    assert_eq!(
        other,
        [
            MadtEntry::IoApic {
                id: 0,
                addr: PhysAddr::new(0xfec0_0000),
                gsi_base: 0
            },
            over(0, 2, 0),
            over(5, 5, 0xd),
            over(9, 9, 0xd),
            over(10, 10, 0xd),
            over(11, 11, 0xd),
            MadtEntry::LocalNmi {
                uid: None,
                lint: 1,
                inti: Inti::new(0)
            },
        ]
    );
}

#[test]
fn qemus_nmi_comes_in_on_lint1_of_every_cpu_in_both_entry_types() {
    for bytes in [fixture!("q35-255.madt"), fixture!("q35-256.madt")] {
        let table = Madt::new(bytes).unwrap();
        assert_eq!(table.nmi_pins(200), Ok([None, Some(Inti::new(0))]));
    }
}

#[test]
fn a_table_without_the_pcat_flag_has_no_8259() {
    let bytes = table(b"APIC", 5, &[0; 8], &[]);
    assert!(!Madt::new(&bytes).unwrap().has_8259());
}

#[test]
fn only_x2apic_entries_list_cpus_too() {
    let bytes = madt(&[x2apic(7, 0, ENABLED), x2apic(8, 0x1_0000, ENABLED)]);
    assert_eq!(ids(&bytes), Ok(vec![0, 0x1_0000]));
    assert_eq!(Madt::new(&bytes).unwrap().check(id(0x1_0000)), Ok(2));
}

#[test]
fn a_repeated_id_is_one_cpu_in_one_type_and_across_both() {
    let bytes = madt(&[
        lapic(1, 3, ENABLED),
        x2apic(9, 3, ENABLED),
        lapic(2, 4, ENABLED),
        lapic(5, 3, ENABLED),
    ]);
    assert_eq!(ids(&bytes), Ok(vec![3, 4]));
    let table = Madt::new(&bytes).unwrap();
    assert_eq!(table.check(id(3)), Ok(2));
    assert_eq!(table.cpus().next().unwrap().unwrap().uid, 1);
}

#[test]
fn a_cpu_that_one_entry_says_is_there_is_there() {
    for state in [0, ONLINE_CAPABLE] {
        for entries in [
            [lapic(1, 3, state), x2apic(9, 3, ENABLED)],
            [x2apic(9, 3, ENABLED), lapic(1, 3, state)],
        ] {
            let bytes = madt(&entries);
            assert_eq!(ids(&bytes), Ok(vec![3]));
            assert_eq!(addable(&bytes), []);
            let cpu = Madt::new(&bytes).unwrap().cpus().next().unwrap().unwrap();
            assert_eq!(cpu.uid, 9);
        }
    }
}

#[test]
fn online_capable_cpus_are_reported_apart_and_once() {
    let bytes = madt(&[
        lapic(0, 0, ENABLED),
        lapic(1, 1, ONLINE_CAPABLE),
        lapic(2, 2, 0),
        x2apic(1, 1, ONLINE_CAPABLE),
        x2apic(3, 300, ONLINE_CAPABLE),
        lapic(4, 4, ENABLED | ONLINE_CAPABLE),
    ]);
    assert_eq!(ids(&bytes), Ok(vec![0, 4]));
    assert_eq!(addable(&bytes), [1, 300]);
}

#[test]
fn ids_that_mean_all_cpus_are_no_cpus() {
    let bytes = madt(&[
        lapic(0, 0xff, ENABLED),
        x2apic(1, u32::MAX, ENABLED),
        x2apic(2, 0xff, ENABLED),
        lapic(3, 0xff, ONLINE_CAPABLE),
    ]);
    assert_eq!(ids(&bytes), Ok(vec![0xff]));
    assert_eq!(addable(&bytes), []);
}

#[test]
fn a_table_without_the_boot_cpu_is_refused_with_its_id() {
    let missing = |cpu: u32| {
        Err(Error::NoUnitForCpu {
            block: "MADT entry",
            id: cpu.into(),
        })
    };
    let bytes = madt(&[
        lapic(0, 0, ENABLED),
        lapic(1, 1, 0),
        lapic(2, 2, ONLINE_CAPABLE),
    ]);
    let table = Madt::new(&bytes).unwrap();
    assert_eq!(table.check(id(0)), Ok(1));
    assert_eq!(table.check(id(1)), missing(1));
    assert_eq!(table.check(id(2)), missing(2));
    assert_eq!(table.check(id(0x300)), missing(0x300));
    let empty = madt(&[]);
    assert_eq!(Madt::new(&empty).unwrap().check(id(0)), missing(0));
}

#[test]
fn the_boot_cpu_need_not_come_first() {
    let bytes = madt(&[lapic(0, 2, ENABLED), lapic(1, 0, ENABLED)]);
    assert_eq!(Madt::new(&bytes).unwrap().check(id(0)), Ok(2));
}

#[test]
fn a_table_cut_off_is_refused_wherever_it_ends() {
    let bytes = fixture!("q35-8n2.madt");
    for len in 0..bytes.len() {
        let refused = wrong("table is cut off", len as u64);
        assert_eq!(Madt::new(&bytes[..len]).map(|_| ()), refused);
    }
}

#[test]
fn a_length_that_ends_inside_an_entry_is_an_error_at_the_entry() {
    let mut bytes = madt(&[lapic(0, 0, ENABLED), lapic(1, 1, ENABLED)]);
    bytes.pop();
    seal(&mut bytes);
    let beyond = "entry reaches beyond the table";
    assert_eq!(ids(&bytes), wrong(beyond, 52));
    let table = Madt::new(&bytes).unwrap();
    assert_eq!(table.check(id(0)), wrong(beyond, 52));
    assert_eq!(table.nmi_pins(0), wrong(beyond, 52));
    assert_eq!(table.local_apic_addr(), wrong(beyond, 52));
}

#[test]
fn an_entry_of_length_0_is_an_error_behind_which_nothing_is_read() {
    let bytes = madt(&[
        lapic(0, 0, ENABLED),
        vec![0, 0, 1, 1, 1, 0, 0, 0],
        lapic(2, 2, ENABLED),
    ]);
    let table = Madt::new(&bytes).unwrap();
    let walked: Vec<_> = table.cpus().map(|cpu| cpu.map(|cpu| cpu.id)).collect();
    assert_eq!(walked, [Ok(id(0)), wrong("entry of length 0", 52)]);
    assert_eq!(table.check(id(0)), wrong("entry of length 0", 52));
}

#[test]
fn an_entry_too_short_for_its_type_does_not_hide_those_behind_it() {
    let mut bytes = madt(&[vec![0, 7, 1, 1, 1, 0, 0], lapic(2, 2, ENABLED)]);
    seal(&mut bytes);
    let table = Madt::new(&bytes).unwrap();
    let walked: Vec<_> = table.cpus().map(|cpu| cpu.map(|cpu| cpu.id)).collect();
    assert_eq!(
        walked,
        [wrong("entry too short for its type", 44), Ok(id(2))]
    );
}

#[test]
fn each_known_type_is_refused_one_byte_short() {
    for (kind, len) in [
        (0, 8),
        (1, 12),
        (2, 10),
        (3, 8),
        (4, 6),
        (5, 12),
        (9, 16),
        (10, 9),
    ] {
        let mut entry = vec![0; len];
        (entry[0], entry[1]) = (kind, len as u8);
        let whole = madt(&[entry.clone()]);
        assert!(
            Madt::new(&whole)
                .unwrap()
                .entries()
                .all(|entry| entry.is_ok())
        );
        entry.pop();
        entry[1] -= 1;
        let short = madt(&[entry]);
        assert_eq!(
            Madt::new(&short).unwrap().entries().next(),
            Some(wrong("entry too short for its type", 44)),
            "type {kind}"
        );
    }
}

#[test]
fn unknown_types_and_longer_entries_of_known_ones_are_taken() {
    let mut long = lapic(1, 1, ENABLED);
    long.extend_from_slice(&[0xff; 4]);
    long[1] = 12;
    let bytes = madt(&[vec![0x7f, 2], vec![0x80, 5, 1, 2, 3], long, vec![0xff, 255]]);
    let mut bytes = [bytes, vec![0; 253]].concat();
    seal(&mut bytes);
    assert_eq!(ids(&bytes), Ok(vec![1]));
    assert_eq!(Madt::new(&bytes).unwrap().entries().count(), 1);
}

#[test]
fn another_table_or_one_without_its_fixed_part_is_refused() {
    let refused = |bytes: &[u8]| Madt::new(bytes).map(|_| ());
    assert_eq!(refused(fixture!("q35-8n2.srat")), wrong("no MADT", 0));
    let short = table(b"APIC", 5, &[0; 7], &[]);
    assert_eq!(refused(&short), wrong("no MADT", 4));
    let mut bad = madt(&[lapic(0, 0, ENABLED)]);
    bad[47] ^= 1;
    assert_eq!(refused(&bad), wrong("table checksum", 9));
}

#[test]
fn more_entries_than_any_machine_has_are_refused() {
    let most = madt(&vec![vec![0x7f, 2]; MADT_ENTRIES_MAX]);
    assert!(Madt::new(&most).is_ok());
    let more = madt(&vec![vec![0x7f, 2]; MADT_ENTRIES_MAX + 1]);
    let refused = wrong("MADT with too many entries", 44);
    assert_eq!(Madt::new(&more).map(|_| ()), refused);
}

#[test]
fn a_cpus_own_nmi_entry_counts_before_one_for_all() {
    let bytes = madt(&[
        vec![4, 6, 0xff, 0xd, 0, 1],
        vec![4, 6, 3, 0x5, 0, 1],
        vec![0xa, 12, 0xf, 0, 0x2c, 1, 0, 0, 0, 0, 0, 0],
        vec![4, 6, 3, 0, 0, 1],
    ]);
    let table = Madt::new(&bytes).unwrap();
    assert_eq!(table.nmi_pins(0), Ok([None, Some(Inti::new(0xd))]));
    assert_eq!(table.nmi_pins(3), Ok([None, Some(Inti::new(5))]));
    let both = [Some(Inti::new(0xf)), Some(Inti::new(0xd))];
    assert_eq!(table.nmi_pins(300), Ok(both));
    let none = madt(&[vec![4, 6, 3, 0, 0, 1]]);
    assert_eq!(Madt::new(&none).unwrap().nmi_pins(4), Ok([None, None]));
}

#[test]
fn an_nmi_on_a_pin_that_does_not_exist_is_an_error_at_the_entry() {
    let bytes = madt(&[vec![0x7f, 2], vec![4, 6, 3, 0, 0, 2]]);
    let table = Madt::new(&bytes).unwrap();
    assert_eq!(
        table.nmi_pins(3),
        wrong("NMI on a pin that does not exist", 46)
    );
    assert_eq!(table.nmi_pins(4), Ok([None, None]));
}

#[test]
fn flags_of_a_line_are_told_apart_with_the_reserved_values() {
    let both = |flags| (Inti::new(flags).polarity(), Inti::new(flags).trigger());
    assert_eq!(both(0), (Polarity::Bus, TriggerMode::Bus));
    assert_eq!(both(0x5), (Polarity::High, TriggerMode::Edge));
    assert_eq!(both(0xf), (Polarity::Low, TriggerMode::Level));
    assert_eq!(both(0xa), (Polarity::Reserved, TriggerMode::Reserved));
}

#[test]
fn an_nmi_source_an_address_override_and_a_wakeup_mailbox_are_read() {
    let word = 0x1_0000_2000u64.to_le_bytes();
    let bytes = madt(&[
        [&[3, 8, 5, 0][..], &300u32.to_le_bytes()].concat(),
        [&[5, 12, 0, 0][..], &word].concat(),
        [&[0x10, 16, 0, 0, 0, 0, 0, 0][..], &word].concat(),
        [&[0x10, 24, 1, 0, 0, 0, 0, 0][..], &word, &word].concat(),
        [&[0x10, 16, 1, 0, 0, 0, 0, 0][..], &word].concat(),
    ]);
    let (addr, table) = (PhysAddr::new(0x1_0000_2000), Madt::new(&bytes).unwrap());
    let wakeup = |reset| MadtEntry::Wakeup {
        mailbox: addr,
        reset,
    };
    assert_eq!(
        table.entries().collect::<Vec<_>>(),
        [
            Ok(MadtEntry::NmiSource {
                gsi: 300,
                inti: Inti::new(5)
            }),
            Ok(MadtEntry::LocalApicAddr(addr)),
            Ok(wakeup(None)),
            Ok(wakeup(Some(addr))),
            wrong("entry too short for its type", 44 + 8 + 12 + 16 + 24),
        ]
    );
    assert_eq!(table.local_apic_addr(), Ok(addr));
}

/// Walks all that a table offers. An error lies inside the table; no id comes twice.
fn exercise(bytes: &[u8]) {
    let inside = |error: Error| match error {
        Error::Firmware { at, .. } => assert!(at <= bytes.len() as u64, "{error}"),
        Error::NoUnitForCpu { .. } => {}
        other => panic!("{other}"),
    };
    let table = match Madt::new(bytes) {
        Ok(table) => table,
        Err(error) => return inside(error),
    };
    assert!(table.entries().count() <= bytes.len() / 2);
    let mut ids = Vec::new();
    for cpu in table.cpus().chain(table.addable_cpus()) {
        match cpu {
            Ok(cpu) => ids.push(cpu.id),
            Err(error) => inside(error),
        }
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
    let _ = table.check(id(0)).map_err(inside);
    let _ = table.nmi_pins(1).map_err(inside);
    let _ = table.local_apic_addr().map_err(inside);
}

proptest! {
    #[test]
    fn arbitrary_entries_never_panic(body in proptest::collection::vec(0u8..20, 0..300), sealed in any::<bool>()) {
        let mut bytes = madt(&[body]);
        if !sealed {
            bytes[9] ^= 1;
        }
        exercise(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        exercise(&bytes);
    }

    #[test]
    fn arbitrary_changes_to_qemus_table_never_panic(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        sealed in any::<bool>(),
    ) {
        let all = [fixture!("q35-6n2.madt"), fixture!("q35-8n2.madt"), fixture!("q35-256.madt")];
        let mut bytes = all[which].to_vec();
        for (at, value) in changes {
            *at.get_mut(&mut bytes) = value;
        }
        if sealed {
            bytes.truncate(44 + cut.index(bytes.len() - 43));
            seal(&mut bytes);
        }
        exercise(&bytes);
    }
}
