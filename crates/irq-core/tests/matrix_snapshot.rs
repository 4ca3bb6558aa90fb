// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix as a table and as JSON, to the letter.
#![cfg(not(loom))]

mod matrix_common;

use core::fmt::{self, Write};

use irq_core::matrix::Setup;
use matrix_common::{PLATFORM, Rig, cpu, irq};

/// Four possible CPUs, one of which is offline with something, and one without.
fn rig() -> Rig {
    let rig = Rig::offline_with(&Setup::new(4));
    for index in [0, 1, 2] {
        rig.online(index).unwrap();
    }
    rig.reserve_managed(&[0, 2]).unwrap();
    rig.alloc_managed(7, &[2]).unwrap();
    let slots: Vec<_> = (10..15).map(|n| rig.alloc(n, &[1]).unwrap()).collect();
    rig.free(slots[2], 12).unwrap();
    rig.assign(1, 0xeb, 20).unwrap();
    rig.alloc(30, &[2]).unwrap();
    rig.offline(2);
    rig.matrix.reserve().unwrap();
    rig
}

#[test]
fn the_table_has_a_line_for_each_cpu_that_is_online_or_has_something() {
    let snapshot = rig().matrix.snapshot(&PLATFORM).to_string();
    let expected = "\
2 of 4 online, 400 available, 1 reserved, system 0x80
  cpu available managed managed-allocated allocated vectors
   0        202       1                 0         0 -
   1        198       0                 0         5 0x20-0x21,0x23-0x24,0xeb
   2-       201       1                 1         2 0x20-0x21
";
    assert_eq!(snapshot, expected);
}

#[test]
fn json_has_the_same_and_the_reserved_vectors() {
    let rig = rig();
    let mut json = String::new();
    let snapshot = rig.matrix.snapshot(&PLATFORM);
    snapshot.write_json(&mut json).unwrap();
    let expected = concat!(
        r#"{"possible":4,"online":2,"available":400,"reserved":1,"system":[[128,128]],"cpus":["#,
        r#"{"cpu":0,"online":true,"available":202,"managed":1,"managed_allocated":0,"#,
        r#""allocated":0,"vectors":[],"managed_vectors":[[32,32]]},"#,
        r#"{"cpu":1,"online":true,"available":198,"managed":0,"managed_allocated":0,"#,
        r#""allocated":5,"vectors":[[32,33],[35,36],[235,235]],"managed_vectors":[]},"#,
        r#"{"cpu":2,"online":false,"available":201,"managed":1,"managed_allocated":1,"#,
        r#""allocated":2,"vectors":[[32,33]],"managed_vectors":[[32,32]]}]}"#,
    );
    assert_eq!(json, expected);
}

#[test]
fn a_machine_without_cpus_online_is_a_table_without_lines() {
    let rig = Rig::offline_with(&Setup {
        system: &[],
        ..Setup::new(2)
    });
    let snapshot = rig.matrix.snapshot(&PLATFORM);
    assert_eq!(
        snapshot.to_string(),
        "0 of 2 online, 0 available, 0 reserved, system -\n  \
         cpu available managed managed-allocated allocated vectors\n"
    );
    let mut json = String::new();
    snapshot.write_json(&mut json).unwrap();
    assert!(json.ends_with(r#""system":[],"cpus":[]}"#), "{json}");
}

/// Calls the matrix from inside of what it prints to.
struct Nosy<'a> {
    rig: &'a Rig,
    calls: u32,
}

impl Write for Nosy<'_> {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        self.rig.matrix.counts(&PLATFORM, cpu(1)).unwrap();
        let slot = self.rig.alloc(99, &[1]).unwrap();
        self.rig.matrix.free(&PLATFORM, slot, irq(99)).unwrap();
        self.calls += 1;
        Ok(())
    }
}

#[test]
fn nothing_is_locked_while_the_snapshot_is_written() {
    let rig = rig();
    let snapshot = rig.matrix.snapshot(&PLATFORM);
    let mut nosy = Nosy {
        rig: &rig,
        calls: 0,
    };
    write!(nosy, "{snapshot}").unwrap();
    snapshot.write_json(&mut nosy).unwrap();
    assert!(nosy.calls > 30);
}

#[test]
fn what_refuses_to_be_written_to_ends_the_snapshot() {
    struct Full(usize);
    impl Write for Full {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let rig = rig();
    let snapshot = rig.matrix.snapshot(&PLATFORM);
    for room in [0, 10, 100, 300] {
        assert!(write!(Full(room.min(200)), "{snapshot}").is_err());
        assert!(snapshot.write_json(&mut Full(room)).is_err());
    }
}
