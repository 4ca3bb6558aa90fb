// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix in words: a table for people, JSON for tools.

use core::fmt;

use irq_hal::{CpuIndex, Platform};

use super::area::VectorSet;
use super::bank::Bank;
use super::{Counts, Matrix};

/// Prints the matrix, at the moment that each line is printed. It holds no lock while it writes
/// and allocates nothing.
///
/// As [`Display`](fmt::Display) a table: a line for all, and one for each CPU that is online or
/// has something, with its vectors in use.
///
/// ```text
/// 2 of 4 online, 401 available, 1 reserved, system 0x80
///   cpu available managed managed-allocated allocated vectors
///     0       202       1                 1         1 0x20
///     1       199       1                 0         3 0x21-0x23
///    2-       203       0                 0         0 -
/// ```
/// A CPU that is offline is marked by `-`.
pub struct Snapshot<'a, P: ?Sized> {
    matrix: &'a Matrix,
    platform: &'a P,
}

/// A line of it.
struct Row {
    online: bool,
    counts: Counts,
    vectors: VectorSet,
    reserved: VectorSet,
}

impl Matrix {
    /// The matrix, to print.
    ///
    /// # Context
    /// To print: any but a non-maskable interrupt, under no lock of rank 2 or above.
    pub const fn snapshot<'a, P>(&'a self, platform: &'a P) -> Snapshot<'a, P>
    where
        P: Platform + ?Sized,
    {
        Snapshot {
            matrix: self,
            platform,
        }
    }

    fn row(&self, bank: &Bank, cpu: CpuIndex, online: bool) -> Row {
        let (_, bit) = crate::cpu::word_and_bit(cpu);
        let (mut vectors, mut reserved) = (VectorSet::default(), VectorSet::default());
        for at in 0..self.area.len() {
            let state = bank.state(bit, at);
            if state.alloc {
                vectors.insert(self.area.vector(at));
            }
            if state.managed {
                reserved.insert(self.area.vector(at));
            }
        }
        Row {
            online,
            counts: self.kept(bank, cpu),
            vectors,
            reserved,
        }
    }
}

impl<P: Platform + ?Sized> Snapshot<'_, P> {
    /// Those of CPUs that are online or have something.
    fn rows(&self) -> impl Iterator<Item = (CpuIndex, Row)> {
        let all = (0..self.matrix.cpus()).map(CpuIndex::new);
        let rows = all.filter_map(|cpu| {
            let (index, bit) = self.matrix.home(cpu).ok()?;
            let row = self
                .matrix
                .placement
                .update_bank(self.platform, index, |change, bank| {
                    self.matrix.row(bank, cpu, change.online() & bit != 0)
                });
            Some((cpu, row.ok()?))
        });
        rows.filter(|(_, row)| row.online || row.counts.managed != 0 || row.counts.allocated != 0)
    }

    fn online(&self) -> usize {
        let all = (0..self.matrix.cpus()).map(CpuIndex::new);
        all.filter(|cpu| self.matrix.is_online(*cpu)).count()
    }

    fn system(&self) -> VectorSet {
        let platform = self.platform;
        let system = self.matrix.placement.update_bank(platform, 0, |_, bank| {
            let mut system = VectorSet::default();
            let all = 0..=u8::MAX;
            all.filter(|vector| bank.has_system(*vector))
                .for_each(|vector| system.insert(vector));
            system
        });
        system.unwrap_or_default()
    }

    /// Writes the matrix as one JSON object, without blanks:
    ///
    /// ```json
    /// {"possible": 4, "online": 2, "available": 401, "reserved": 1, "system": [[128, 128]],
    ///  "cpus": [{"cpu": 0, "online": true, "available": 202, "managed": 1,
    ///            "managed_allocated": 1, "allocated": 1,
    ///            "vectors": [[32, 32]], "managed_vectors": [[32, 32]]}]}
    /// ```
    /// Vectors are ranges, first and last.
    ///
    /// # Errors
    /// Those of `out`.
    ///
    /// # Context
    /// As for the table.
    pub fn write_json(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let matrix = self.matrix;
        write!(
            out,
            r#"{{"possible":{},"online":{},"available":{},"reserved":{},"system":"#,
            matrix.cpus(),
            self.online(),
            matrix.available(),
            matrix.reserved(),
        )?;
        write_ranges(&self.system(), out)?;
        out.write_str(r#","cpus":["#)?;
        let mut comma = "";
        for (cpu, row) in self.rows() {
            let Row {
                online,
                counts,
                vectors,
                reserved,
            } = row;
            write!(
                out,
                r#"{comma}{{"cpu":{},"online":{online},"available":{},"managed":{},"managed_allocated":{},"allocated":{},"vectors":"#,
                cpu.get(),
                counts.available,
                counts.managed,
                counts.managed_allocated,
                counts.allocated,
            )?;
            write_ranges(&vectors, out)?;
            out.write_str(r#","managed_vectors":"#)?;
            write_ranges(&reserved, out)?;
            out.write_char('}')?;
            comma = ",";
        }
        out.write_str("]}")
    }
}

fn write_ranges(set: &VectorSet, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut comma = "";
    out.write_char('[')?;
    for (first, last) in set.ranges() {
        write!(out, "{comma}[{first},{last}]")?;
        comma = ",";
    }
    out.write_char(']')
}

impl<P: Platform + ?Sized> fmt::Display for Snapshot<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = self.matrix;
        writeln!(
            f,
            "{} of {} online, {} available, {} reserved, system {}",
            self.online(),
            matrix.cpus(),
            matrix.available(),
            matrix.reserved(),
            self.system(),
        )?;
        f.write_str("  cpu available managed managed-allocated allocated vectors\n")?;
        for (cpu, row) in self.rows() {
            let Row {
                online,
                counts,
                vectors,
                ..
            } = row;
            let mark = if online { " " } else { "-" };
            writeln!(
                f,
                "{:>4}{mark}{:>10}{:>8}{:>18}{:>10} {vectors}",
                cpu.get(),
                counts.available,
                counts.managed,
                counts.managed_allocated,
                counts.allocated,
            )?;
        }
        Ok(())
    }
}

impl<P: Platform + ?Sized> fmt::Debug for Snapshot<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
