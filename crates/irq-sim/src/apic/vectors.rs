// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of vectors: `IRR`, `ISR`, `TMR`.

/// One bit for each of the 256 vectors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Vectors([u32; 8]);

impl Vectors {
    pub fn insert(&mut self, vector: u8) {
        self.0[usize::from(vector / 32)] |= 1 << (vector % 32);
    }

    pub fn remove(&mut self, vector: u8) {
        self.0[usize::from(vector / 32)] &= !(1 << (vector % 32));
    }

    pub fn set(&mut self, vector: u8, to: bool) {
        if to {
            self.insert(vector);
        } else {
            self.remove(vector);
        }
    }

    pub fn contains(&self, vector: u8) -> bool {
        self.0[usize::from(vector / 32)] >> (vector % 32) & 1 != 0
    }

    /// The vector of the highest priority.
    pub fn highest(&self) -> Option<u8> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some((32 * word as u32 + self.0[word].ilog2()) as u8)
    }

    /// One of the eight registers.
    pub fn word(&self, index: usize) -> u32 {
        self.0[index]
    }

    /// In rising order.
    pub fn list(&self) -> Vec<u8> {
        (0..=255).filter(|vector| self.contains(*vector)).collect()
    }
}
