// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk of ACPI tables: good ones, and ones that are cut off or lie.
#![cfg(not(loom))]

use irq_hal::acpi::{ByteHead, Root, Rsdp, Sdt, TABLE_MAX, Tables};
use irq_hal::{Error, PhysAddr};
use proptest::prelude::*;

/// Where the RSDP is.
const RSDP: u64 = 0xf_5200;

/// Sets the byte at `at` so that all of `bytes` sum to 0.
fn seal(bytes: &mut [u8], at: usize) {
    bytes[at] = 0;
    let sum = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    bytes[at] = sum.wrapping_neg();
}

/// A table with a header, and `body` behind it.
fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut table = vec![0; Sdt::HEADER];
    table[..4].copy_from_slice(signature);
    table.extend_from_slice(body);
    let len = table.len() as u32;
    table[4..8].copy_from_slice(&len.to_le_bytes());
    table[8] = 3;
    seal(&mut table, 9);
    table
}

fn rsdp(revision: u8, rsdt: u32, xsdt: u64) -> Vec<u8> {
    let mut rsdp = Rsdp::SIGNATURE.to_vec();
    rsdp.extend_from_slice(&[0; 7]);
    rsdp.push(revision);
    rsdp.extend_from_slice(&rsdt.to_le_bytes());
    seal(&mut rsdp, 8);
    if revision >= 2 {
        rsdp.extend_from_slice(&36u32.to_le_bytes());
        rsdp.extend_from_slice(&xsdt.to_le_bytes());
        rsdp.extend_from_slice(&[0; 4]);
        seal(&mut rsdp, 32);
    }
    rsdp
}

fn addresses<const N: usize>(addresses: &[[u8; N]]) -> Vec<u8> {
    addresses.concat()
}

/// Pieces of physical memory.
#[derive(Default)]
struct Memory(Vec<(u64, Vec<u8>)>);

/// What [`Memory`] says where it has nothing.
const UNMAPPED: Error = Error::Unsupported {
    feature: "this address",
};

impl Memory {
    fn with(mut self, at: u64, bytes: Vec<u8>) -> Self {
        self.0.push((at, bytes));
        self
    }

    fn show(&self, at: PhysAddr, len: usize) -> Result<&[u8], Error> {
        assert!(len <= TABLE_MAX, "{len:#x} bytes asked for");
        self.0
            .iter()
            .find_map(|(base, bytes)| {
                let offset = at.get().checked_sub(*base)? as usize;
                bytes.get(offset..)?.get(..len)
            })
            .ok_or(UNMAPPED)
    }

    fn find(&self, signature: &[u8; 4]) -> Result<Option<&[u8]>, Error> {
        let tables = Tables::new(PhysAddr::new(RSDP), |at, len| self.show(at, len))?;
        Ok(tables.find(*signature)?.map(Sdt::bytes))
    }
}

/// A machine with an RSDT of these tables, one behind the other at odd addresses.
fn old(tables: &[Vec<u8>]) -> Memory {
    let (mut memory, mut list, mut at) = (Memory::default(), Vec::new(), 0xffe_2001);
    for table in tables {
        list.push((at as u32).to_le_bytes());
        memory = memory.with(at, table.clone());
        at += table.len() as u64;
    }
    memory
        .with(0xffe_1000, table(b"RSDT", &addresses(&list)))
        .with(RSDP, rsdp(0, 0xffe_1000, 0))
}

fn wrong<T: std::fmt::Debug>(what: &'static str, at: u64) -> Result<T, Error> {
    Err(Error::Firmware { what, at })
}

#[test]
fn revision_0_counts_the_rsdt_and_revision_2_the_xsdt() {
    assert_eq!(
        Rsdp::new(&rsdp(0, 0x1000, 0)).map(Rsdp::root),
        Ok(Root::Rsdt(PhysAddr::new(0x1000)))
    );
    assert_eq!(
        Rsdp::new(&rsdp(2, 0x1000, 0x1_0000_2000)).map(Rsdp::root),
        Ok(Root::Xsdt(PhysAddr::new(0x1_0000_2000)))
    );
}

#[test]
fn revision_2_without_an_xsdt_counts_the_rsdt() {
    let read = Rsdp::new(&rsdp(2, 0x1000, 0)).unwrap();
    assert_eq!(read.root(), Root::Rsdt(PhysAddr::new(0x1000)));
    assert_eq!(read.revision(), 2);
}

#[test]
fn a_broken_rsdp_is_refused_with_the_place() {
    let good = rsdp(2, 0x1000, 0x2000);
    let changed = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 1;
        Rsdp::new(&bad)
    };
    assert_eq!(changed(0), wrong("RSDP signature", 0));
    assert_eq!(changed(9), wrong("RSDP checksum", 8));
    assert_eq!(changed(33), wrong("RSDP extended checksum", 32));
    assert_eq!(Rsdp::new(&good[..19]), wrong("RSDP is cut off", 19));
    assert_eq!(Rsdp::new(&good[..35]), wrong("RSDP is cut off", 35));
    let mut short = good.clone();
    short[20] = 35;
    assert_eq!(Rsdp::new(&short), wrong("RSDP length", 20));
    assert_eq!(
        Rsdp::new(&rsdp(2, 0, 0)),
        wrong("RSDP without a root table", 16)
    );
}

#[test]
fn tables_are_found_by_signature_at_any_alignment() {
    let (facp, madt) = (table(b"FACP", &[1; 9]), table(b"APIC", &[2; 7]));
    let memory = old(&[facp.clone(), madt.clone()]);
    assert_eq!(memory.find(b"APIC"), Ok(Some(&madt[..])));
    assert_eq!(memory.find(b"FACP"), Ok(Some(&facp[..])));
    assert_eq!(memory.find(b"SRAT"), Ok(None));
}

#[test]
fn an_xsdt_leads_above_4_gib() {
    let madt = table(b"APIC", &[2; 7]);
    let memory = Memory::default()
        .with(RSDP, rsdp(2, 0, 0x1_0000_0000))
        .with(
            0x1_0000_0000,
            table(b"XSDT", &addresses(&[0x2_0000_0003u64.to_le_bytes()])),
        )
        .with(0x2_0000_0003, madt.clone());
    assert_eq!(memory.find(b"APIC"), Ok(Some(&madt[..])));
}

#[test]
fn a_root_table_of_the_other_kind_is_refused() {
    let memory = Memory::default()
        .with(RSDP, rsdp(0, 0x1000, 0))
        .with(0x1000, table(b"XSDT", &[]));
    assert_eq!(memory.find(b"APIC"), wrong("no RSDT", 0x1000));
}

#[test]
fn the_first_of_two_tables_counts() {
    let (first, second) = (table(b"APIC", &[1]), table(b"APIC", &[2]));
    assert_eq!(
        old(&[first.clone(), second]).find(b"APIC"),
        Ok(Some(&first[..]))
    );
}

#[test]
fn addresses_that_lead_nowhere_do_not_hide_a_table_behind_them() {
    let madt = table(b"APIC", &[2; 7]);
    let list = [0u32, 0xdead_0000, 0x3000].map(u32::to_le_bytes);
    let memory = Memory::default()
        .with(RSDP, rsdp(0, 0x1000, 0))
        .with(0x1000, table(b"RSDT", &addresses(&list)))
        .with(0x3000, madt.clone());
    assert_eq!(memory.find(b"APIC"), Ok(Some(&madt[..])));
    assert_eq!(memory.find(b"SRAT"), Err(UNMAPPED));
}

#[test]
fn an_rsdt_that_ends_inside_an_address_lists_the_whole_ones() {
    let madt = table(b"APIC", &[]);
    let mut list = 0x3000u32.to_le_bytes().to_vec();
    list.extend_from_slice(&[1, 2, 3]);
    let memory = Memory::default()
        .with(RSDP, rsdp(0, 0x1000, 0))
        .with(0x1000, table(b"RSDT", &list))
        .with(0x3000, madt.clone());
    assert_eq!(memory.find(b"APIC"), Ok(Some(&madt[..])));
    assert_eq!(memory.find(b"SRAT"), Ok(None));
}

#[test]
fn a_found_table_that_is_wrong_is_an_error_with_the_address() {
    let mut madt = table(b"APIC", &[2; 7]);
    madt[40] ^= 1;
    assert_eq!(
        old(&[madt]).find(b"APIC"),
        wrong("table checksum", 0xffe_2001 + 9)
    );
}

#[test]
fn an_absurd_length_is_refused_before_memory_is_asked_for() {
    for len in [0, 35, TABLE_MAX as u32 + 1, u32::MAX] {
        let mut madt = table(b"APIC", &[2; 7]);
        madt[4..8].copy_from_slice(&len.to_le_bytes());
        assert_eq!(
            old(&[madt]).find(b"APIC"),
            wrong("table length", 0xffe_2001 + 4),
            "{len:#x}"
        );
    }
    let mut long = rsdp(2, 0, 0x1000);
    long[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        Memory::default().with(RSDP, long).find(b"APIC"),
        wrong("RSDP length", RSDP + 20)
    );
}

#[test]
fn an_address_at_the_end_of_all_memory_is_refused() {
    let memory = Memory::default().with(RSDP, rsdp(2, 0, 0x1000)).with(
        0x1000,
        table(b"XSDT", &addresses(&[(u64::MAX - 3).to_le_bytes()])),
    );
    assert_eq!(
        memory.find(b"APIC"),
        wrong("address beyond all memory", u64::MAX - 3)
    );
}

#[test]
fn a_table_cut_off_shorter_than_its_header_or_without_its_checksum_is_refused() {
    let good = table(b"APIC", &[2; 7]);
    assert_eq!(Sdt::new(&good[..35]), wrong("table is cut off", 35));
    assert_eq!(Sdt::new(&good[..42]), wrong("table is cut off", 42));
    assert!(Sdt::new(&good[..43]).is_ok());
    let mut short = good.clone();
    short[4] = 35;
    assert_eq!(Sdt::new(&short), wrong("table length", 4));
    let mut bad = good.clone();
    bad[20] ^= 0x80;
    assert_eq!(Sdt::new(&bad), wrong("table checksum", 9));
}

#[test]
fn what_follows_a_table_is_no_part_of_it() {
    let good = table(b"APIC", &[2; 7]);
    let mut more = good.clone();
    more.extend_from_slice(&[0xff; 100]);
    assert_eq!(Sdt::new(&more).map(Sdt::bytes), Ok(&good[..]));
}

/// The entries of a table with this body: type and bytes.
fn walk(body: &[u8]) -> Vec<Result<(u16, usize, usize), Error>> {
    let table = table(b"TEST", body);
    let entries = Sdt::new(&table).unwrap().entries::<ByteHead>(Sdt::HEADER);
    entries
        .map(|entry| entry.map(|entry| (entry.kind(), entry.at(), entry.bytes().len())))
        .collect()
}

#[test]
fn entries_follow_each_other_by_their_lengths() {
    assert_eq!(
        walk(&[7, 3, 0, 9, 2, 7, 4, 0, 0]),
        [Ok((7, 36, 3)), Ok((9, 39, 2)), Ok((7, 41, 4))]
    );
    assert_eq!(walk(&[]), []);
}

#[test]
fn an_entry_of_an_impossible_length_ends_the_walk() {
    for (body, what) in [
        (&[7, 2, 5, 0, 9, 2][..], "entry of length 0"),
        (&[7, 2, 5, 1, 9, 2], "entry shorter than its head"),
        (&[7, 2, 5, 5, 9, 2], "entry reaches beyond the table"),
        (&[7, 2, 5], "entry reaches beyond the table"),
    ] {
        assert_eq!(walk(body), [Ok((7, 36, 2)), wrong(what, 38)]);
    }
}

#[test]
fn a_field_beyond_its_entry_is_an_error_at_the_entry() {
    let table = table(b"TEST", &[7, 2, 5, 6, 1, 2, 3, 4, 0, 0]);
    let mut entries = Sdt::new(&table).unwrap().entries::<ByteHead>(Sdt::HEADER);
    let entry = entries.nth(1).unwrap().unwrap();
    assert_eq!(entry.u32(2), Ok(0x0403_0201));
    assert_eq!(entry.u16(4), Ok(0x0403));
    let short = "entry too short for its type";
    assert_eq!(entry.u8(6), wrong(short, 38));
    assert_eq!(entry.u32(3), wrong(short, 38));
    assert_eq!(entry.u64(2), wrong(short, 38));
    assert_eq!(entry.u16(usize::MAX), wrong(short, 38));
}

proptest! {
    #[test]
    fn walks_of_arbitrary_bytes_end_and_stay_inside(body in proptest::collection::vec(0u8..16, 0..200)) {
        let walked = walk(&body);
        prop_assert!(walked.len() <= body.len().div_ceil(2));
        let mut next = Sdt::HEADER;
        for (i, entry) in walked.iter().enumerate() {
            match entry {
                Ok((_, at, len)) => {
                    prop_assert_eq!(*at, next);
                    next = at + len;
                    prop_assert!(next <= Sdt::HEADER + body.len());
                }
                Err(Error::Firmware { at, .. }) => {
                    prop_assert_eq!((*at as usize, i + 1), (next, walked.len()));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn arbitrary_changes_to_a_machines_tables_give_a_table_or_an_error(
        changes in proptest::collection::vec((0usize..4, any::<prop::sample::Index>(), any::<u8>()), 1..6),
        sealed in any::<bool>(),
    ) {
        let mut memory = old(&[table(b"FACP", &[1; 9]), table(b"APIC", &[2; 7])]);
        for (piece, at, value) in changes {
            let bytes = &mut memory.0[piece].1;
            *at.get_mut(bytes) = value;
            if sealed {
                let rsdp = bytes.starts_with(b"RSD PTR ");
                seal(bytes, if rsdp { 8 } else { 9 });
            }
        }
        if let Ok(Some(found)) = memory.find(b"APIC") {
            prop_assert!(found.starts_with(b"APIC"));
            prop_assert!(Sdt::new(found).is_ok());
        }
    }
}
