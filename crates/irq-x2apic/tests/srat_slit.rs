// SPDX-License-Identifier: MIT OR Apache-2.0
//! SRAT and SLIT: QEMU's, and ones that lie.

mod tables;

use irq_hal::{Error, NodeId, PhysAddr};
use irq_x2apic::acpi::{Domain, Madt, MemoryRange, Slit, Srat, SratEntry};
use proptest::prelude::*;
use tables::{fixture, id, seal, table, wrong};

fn srat(revision: u8, entries: &[Vec<u8>]) -> Vec<u8> {
    table(b"SRAT", revision, &[0; 12], entries)
}

/// Type 0.
fn cpu(domain: u32, id: u8, flags: u32) -> Vec<u8> {
    let d = domain.to_le_bytes();
    let flags = flags.to_le_bytes();
    [
        &[0, 16, d[0], id][..],
        &flags,
        &[0, d[1], d[2], d[3]],
        &[0; 4],
    ]
    .concat()
}

/// Type 1.
fn memory(domain: u32, base: u64, len: u64, flags: u32) -> Vec<u8> {
    let mut entry = vec![0; 40];
    (entry[0], entry[1]) = (1, 40);
    entry[2..6].copy_from_slice(&domain.to_le_bytes());
    entry[8..16].copy_from_slice(&base.to_le_bytes());
    entry[16..24].copy_from_slice(&len.to_le_bytes());
    entry[28..32].copy_from_slice(&flags.to_le_bytes());
    entry
}

/// Type 2.
fn x2apic(domain: u32, id: u32, flags: u32) -> Vec<u8> {
    let words = [0, domain, id, flags, 0, 0].map(u32::to_le_bytes);
    let mut entry = words.concat();
    entry[..2].copy_from_slice(&[2, 24]);
    entry
}

fn domain_of(bytes: &[u8], cpu: u32) -> Result<Option<u32>, Error> {
    let found = Srat::new(bytes)?.domain_of(id(cpu))?;
    Ok(found.map(Domain::get))
}

fn slit(count: u64, matrix: &[u8]) -> Vec<u8> {
    let count = count.to_le_bytes();
    table(b"SLIT", 1, &[&count[..], matrix].concat(), &[])
}

#[test]
fn each_cpu_of_qemus_madt_stands_in_the_node_it_was_put_in() {
    let machines = [
        (fixture!("q35-8n2.madt"), fixture!("q35-8n2.srat"), 4),
        (fixture!("q35-6n2.madt"), fixture!("q35-6n2.srat"), 3),
        (fixture!("q35-288n2.madt"), fixture!("q35-288n2.srat"), 144),
    ];
    for (madt, srat, in_node) in machines {
        let srat = Srat::new(srat).unwrap();
        let mut room = [Domain::new(0); 8];
        let domains = srat.domains(&mut room).unwrap();
        for (index, cpu) in Madt::new(madt).unwrap().cpus().enumerate() {
            let domain = srat.domain_of(cpu.unwrap().id).unwrap().unwrap();
            let node = NodeId::new((index / in_node) as u32);
            assert_eq!(domains.node(domain), Some(node));
        }
    }
}

#[test]
fn qemus_memory_is_listed_without_the_entry_of_no_length() {
    let range = |domain, base, len| MemoryRange {
        domain: Domain::new(domain),
        base: PhysAddr::new(base),
        len,
        hot_pluggable: false,
    };
    let table = Srat::new(fixture!("q35-8n2.srat")).unwrap();
    assert_eq!(
        table.memory().collect::<Result<Vec<_>, _>>(),
        Ok(vec![
            range(0, 0, 0xa_0000),
            range(0, 0x10_0000, 0x7f0_0000),
            range(1, 0x800_0000, 0x800_0000),
        ])
    );
}

#[test]
fn qemus_distances_are_those_asked_for() {
    let table = Slit::new(fixture!("q35-8n2.slit")).unwrap();
    let distance = |from, to| table.distance(Domain::new(from), Domain::new(to));
    assert_eq!(table.count(), 2);
    assert_eq!([distance(0, 0), distance(1, 1)], [Some(10); 2]);
    assert_eq!([distance(0, 1), distance(1, 0)], [Some(21); 2]);
    assert_eq!([distance(0, 2), distance(2, 0)], [None; 2]);
}

#[test]
fn a_cpu_that_no_entry_names_has_no_domain() {
    let bytes = srat(3, &[cpu(1, 2, 1), cpu(1, 4, 0), x2apic(2, 300, 0)]);
    assert_eq!(domain_of(&bytes, 2), Ok(Some(1)));
    for absent in [0, 4, 300] {
        assert_eq!(domain_of(&bytes, absent), Ok(None));
    }
}

#[test]
fn the_first_entry_in_use_places_a_cpu_in_either_type() {
    let bytes = srat(
        3,
        &[
            cpu(7, 2, 0),
            x2apic(8, 2, 1),
            cpu(9, 2, 1),
            x2apic(3, 300, 1),
        ],
    );
    assert_eq!(domain_of(&bytes, 2), Ok(Some(8)));
    assert_eq!(domain_of(&bytes, 300), Ok(Some(3)));
}

#[test]
fn ids_that_mean_all_cpus_are_no_cpus() {
    let bytes = srat(3, &[cpu(1, 0xff, 1), x2apic(2, u32::MAX, 1)]);
    assert_eq!(Srat::new(&bytes).unwrap().entries().count(), 0);
}

#[test]
fn domains_have_32_bits_from_revision_2_on_and_8_before() {
    let entries = [
        cpu(0x0102_0304, 1, 1),
        memory(0x0102_0305, 0x1000, 0x1000, 3),
        x2apic(0x0102_0306, 2, 1),
    ];
    let domains = |revision| {
        let bytes = srat(revision, &entries);
        let table = Srat::new(&bytes).unwrap();
        table
            .entries()
            .map(|entry| entry.unwrap().domain().get())
            .collect::<Vec<_>>()
    };
    assert_eq!(domains(2), [0x0102_0304, 0x0102_0305, 0x0102_0306]);
    assert_eq!(domains(1), [4, 5, 0x0102_0306]);
}

#[test]
fn sparse_domains_become_dense_nodes_in_ascending_order() {
    let bytes = srat(
        3,
        &[
            cpu(40, 0, 1),
            x2apic(0x8000_0000, 1, 1),
            memory(7, 0, 0x1000, 1),
            cpu(40, 2, 1),
            memory(9, 0x1000, 0x1000, 0),
        ],
    );
    let table = Srat::new(&bytes).unwrap();
    let mut room = [Domain::new(0); 3];
    let domains = table.domains(&mut room).unwrap();
    let all = [7, 40, 0x8000_0000].map(Domain::new);
    assert_eq!(domains.as_slice(), all);
    let nodes = all.map(|domain| domains.node(domain).map(NodeId::get));
    assert_eq!(nodes, [Some(0), Some(1), Some(2)]);
    assert_eq!(domains.node(Domain::new(9)), None);
    assert_eq!(
        table.domains(&mut room[..2]),
        Err(Error::Full {
            what: "nodes",
            capacity: 2
        })
    );
}

#[test]
fn a_table_of_no_entries_has_no_domains() {
    let bytes = srat(3, &[]);
    let domains = Srat::new(&bytes).unwrap().domains(&mut []).map(|domains| {
        assert_eq!(domains.node(Domain::new(0)), None);
        domains.as_slice().len()
    });
    assert_eq!(domains, Ok(0));
}

#[test]
fn memory_up_to_the_last_address_is_taken_and_beyond_it_refused() {
    let entries = [
        memory(0, u64::MAX - 0xfff, 0x1000, 1),
        memory(1, u64::MAX - 0xfff, 0x1001, 1),
        memory(2, 0, u64::MAX, 3),
        memory(3, 0x5000, 0, 1),
    ];
    let bytes = srat(3, &entries);
    let table = Srat::new(&bytes).unwrap();
    let read: Vec<_> = table
        .memory()
        .map(|range| range.map(|range| (range.domain.get(), range.hot_pluggable)))
        .collect();
    assert_eq!(
        read,
        [
            Ok((0, false)),
            wrong("memory beyond all addresses", 48 + 40),
            Ok((2, true))
        ]
    );
}

#[test]
fn a_broken_srat_is_an_error_at_the_entry() {
    let walked = |entries: &[Vec<u8>]| {
        let bytes = srat(3, entries);
        let table = Srat::new(&bytes).unwrap();
        let known = table.domain_of(id(9));
        assert_eq!(table.domains(&mut [Domain::new(0); 4]).map(|_| None), known);
        known
    };
    let good = cpu(1, 2, 1);
    assert_eq!(
        walked(&[good.clone(), vec![0, 0, 1, 1]]),
        wrong("entry of length 0", 64)
    );
    assert_eq!(
        walked(&[good.clone(), good[..15].to_vec()]),
        wrong("entry reaches beyond the table", 64)
    );
    for whole in [good.clone(), memory(0, 0, 1, 1), x2apic(0, 0, 1)] {
        // The last bytes of each type are reserved; the fields end before them.
        let fields = [12, 32, 16][usize::from(whole[0])];
        let mut short = whole[..fields - 1].to_vec();
        short[1] = short.len() as u8;
        assert_eq!(
            walked(&[good.clone(), short]),
            wrong("entry too short for its type", 64)
        );
    }
}

#[test]
fn an_srat_cut_off_or_another_table_is_refused() {
    let bytes = fixture!("q35-6n2.srat");
    for len in 0..bytes.len() {
        let refused = wrong("table is cut off", len as u64);
        assert_eq!(Srat::new(&bytes[..len]).map(|_| ()), refused);
    }
    let other = fixture!("q35-6n2.madt");
    assert_eq!(Srat::new(other).map(|_| ()), wrong("no SRAT", 0));
    let short = table(b"SRAT", 3, &[0; 11], &[]);
    assert_eq!(Srat::new(&short).map(|_| ()), wrong("no SRAT", 4));
}

#[test]
fn an_absurd_count_is_refused() {
    for count in [2, 1 << 16, 1 << 32, u64::MAX] {
        let bytes = slit(count, &[10, 20, 20]);
        assert_eq!(Slit::new(&bytes).map(|_| ()), wrong("SLIT count", 36));
    }
}

#[test]
fn a_matrix_may_be_of_one_way_distances_and_followed_by_other_bytes() {
    let bytes = slit(2, &[10, 20, 255, 10, 0]);
    let table = Slit::new(&bytes).unwrap();
    let distance = |from, to| table.distance(Domain::new(from), Domain::new(to));
    assert_eq!(distance(0, 1), Some(20));
    assert_eq!(distance(1, 0), Some(Slit::UNREACHABLE));
    assert_eq!(distance(0, u32::MAX), None);
    let empty = slit(0, &[]);
    let none = Slit::new(&empty).unwrap();
    assert_eq!(none.distance(Domain::new(0), Domain::new(0)), None);
}

#[test]
fn distances_that_cannot_be_are_refused_at_their_place() {
    for (matrix, at) in [
        ([10, 9, 20, 10], 45),
        ([10, 20, 0, 10], 46),
        ([10, 20, 20, 11], 47),
        ([20, 20, 20, 10], 44),
    ] {
        let bytes = slit(2, &matrix);
        assert_eq!(Slit::new(&bytes).map(|_| ()), wrong("SLIT distance", at));
    }
}

#[test]
fn a_slit_without_its_count_or_another_table_is_refused() {
    let short = table(b"SLIT", 1, &[0; 7], &[]);
    assert_eq!(Slit::new(&short).map(|_| ()), wrong("no SLIT", 4));
    let other = fixture!("q35-6n2.madt");
    assert_eq!(Slit::new(other).map(|_| ()), wrong("no SLIT", 0));
}

/// Walks all that the tables offer. An error lies inside the table.
fn exercise(bytes: &[u8]) {
    let inside = |error: Error| match error {
        Error::Firmware { at, .. } => assert!(at <= bytes.len() as u64, "{error}"),
        Error::Full { capacity: 3, .. } => {}
        other => panic!("{other}"),
    };
    match Srat::new(bytes) {
        Ok(table) => {
            let mut room = [Domain::new(0); 3];
            let domains = table.domains(&mut room);
            for entry in table.entries() {
                match (entry, domains) {
                    (Ok(entry), Ok(domains)) => assert!(domains.node(entry.domain()).is_some()),
                    (Ok(SratEntry::Memory(range)), _) => {
                        assert!(range.base.checked_add(range.len - 1).is_some());
                    }
                    (Ok(_), _) => {}
                    (Err(error), _) => inside(error),
                }
            }
            let _ = domains.map_err(inside);
            let _ = table.domain_of(id(1)).map_err(inside);
        }
        Err(error) => inside(error),
    }
    match Slit::new(bytes) {
        Ok(table) => {
            let domain = |index: usize| Domain::new(index as u32);
            for index in 0..table.count() {
                let itself = table.distance(domain(index), domain(index));
                assert_eq!(itself, Some(Slit::LOCAL));
            }
        }
        Err(error) => inside(error),
    }
}

proptest! {
    #[test]
    fn arbitrary_entries_never_panic(body in proptest::collection::vec(0u8..44, 0..300), revision in 0u8..4) {
        exercise(&srat(revision, &[body]));
    }

    #[test]
    fn arbitrary_matrices_never_panic(count in 0u64..6, matrix in proptest::collection::vec(8u8..13, 0..30)) {
        exercise(&slit(count, &matrix));
    }

    #[test]
    fn arbitrary_changes_to_qemus_tables_never_panic(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        sealed in any::<bool>(),
    ) {
        let all = [fixture!("q35-6n2.srat"), fixture!("q35-8n2.srat"), fixture!("q35-8n2.slit")];
        let mut bytes = all[which].to_vec();
        for (at, value) in changes {
            *at.get_mut(&mut bytes) = value;
        }
        if sealed {
            bytes.truncate(36 + cut.index(bytes.len() - 35));
            seal(&mut bytes);
        }
        exercise(&bytes);
    }
}
