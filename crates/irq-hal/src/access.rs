// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access kinds: the type of a register handle tells what the hardware does.
//!
//! | type | read | write | for |
//! |---|---|---|---|
//! | [`Ro`], [`Rw`] | pure | plain | `GICD_TYPER`, `GICR_WAKER` |
//! | [`W1`] | none | acts on the given bits | set-enable, clear-enable, set-pending |
//! | [`Pop`] | a method named for its effect | none | `ICC_IAR1_EL1`, XIVE acknowledge |
//! | [`Cmd`] | none | `send` | `ICC_SGI1R_EL1`, `ICR`, doorbells |
//!
//! A handle is a bus reference and an offset; on hardware each call compiles to one access.
//! Fields come from tock-registers: [`Ro`] and [`Rw`] implement its traits, so `.read(FIELD)`,
//! `.is_set(FIELD)`, `.modify(..)` and `.extract()` work. There is no `modify` on a
//! write-one register, by type.
//!
//! ```
//! use irq_hal::access::{Rw, W1};
//! use irq_hal::bus::Bus;
//! use tock_registers::interfaces::{Readable, Writeable};
//!
//! fn enable<B: Bus<u32>>(frame: &B) {
//!     let control = Rw::<_, u32>::new(frame, 0x0);
//!     control.set(control.get() | 1);
//!     W1::<_, u32>::new(frame, 0x100).write_ones(1 << 27);
//! }
//! ```
//!
//! A write-one register has no value to read and modify:
//! ```compile_fail,E0599
//! # use irq_hal::{access::W1, bus::Bus};
//! # use tock_registers::interfaces::Readable;
//! fn wrong<B: Bus<u32>>(frame: &B) -> u32 {
//!     W1::<_, u32>::new(frame, 0x180).get()
//! }
//! ```
//!
//! nor is what a read takes away read as if it stayed:
//! ```compile_fail,E0599
//! # use irq_hal::{access::Pop, bus::Bus};
//! # use tock_registers::interfaces::Readable;
//! fn wrong<B: Bus<u64>>(interface: &B) -> u64 {
//!     Pop::<_, u64>::new(interface, 0xc60).get()
//! }
//! ```

use core::marker::PhantomData;

use tock_registers::interfaces::{Readable, Writeable};
use tock_registers::{RegisterLongName, UIntLike};

use crate::bus::Bus;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<'b, B, T, R = ()> {
            bus: &'b B,
            offset: usize,
            layout: PhantomData<(T, R)>,
        }

        impl<'b, B: Bus<T>, T, R> $name<'b, B, T, R> {
            /// The register at `offset` of `bus`.
            #[inline(always)]
            pub const fn new(bus: &'b B, offset: usize) -> Self {
                Self { bus, offset, layout: PhantomData }
            }
        }
    };
}

handle! {
    /// A read-only register whose read has no side effect.
    Ro
}
handle! {
    /// A plain read-write register.
    Rw
}
handle! {
    /// A register where a write acts on the bits that are one and leaves the others alone.
    ///
    /// ```compile_fail,E0599
    /// # use irq_hal::{access::W1, bus::Bus};
    /// # use tock_registers::interfaces::ReadWriteable;
    /// # use tock_registers::fields::Field;
    /// fn wrong<B: Bus<u32>>(frame: &B, bit: Field<u32, ()>) {
    ///     W1::<_, u32>::new(frame, 0x180).modify(bit.val(1));
    /// }
    /// ```
    ///
    /// It cannot be read through this type, so nobody writes a read-modify-write: on a
    /// clear-enable register that would disable every enabled interrupt of the word.
    W1
}
handle! {
    /// A register whose read takes something away (an acknowledge).
    Pop
}
handle! {
    /// A register where each write is a command.
    Cmd
}

impl<B: Bus<T>, T: UIntLike, R: RegisterLongName> Readable for Ro<'_, B, T, R> {
    type T = T;
    type R = R;

    #[inline(always)]
    fn get(&self) -> T {
        self.bus.load(self.offset)
    }
}

impl<B: Bus<T>, T: UIntLike, R: RegisterLongName> Readable for Rw<'_, B, T, R> {
    type T = T;
    type R = R;

    #[inline(always)]
    fn get(&self) -> T {
        self.bus.load(self.offset)
    }
}

impl<B: Bus<T>, T: UIntLike, R: RegisterLongName> Writeable for Rw<'_, B, T, R> {
    type T = T;
    type R = R;

    #[inline(always)]
    fn set(&self, value: T) {
        self.bus.store(self.offset, value);
    }
}

impl<B: Bus<T>, T, R> W1<'_, B, T, R> {
    /// Acts on the bits of `ones` that are one; the others are left as they are.
    #[inline(always)]
    pub fn write_ones(&self, ones: T) {
        self.bus.store(self.offset, ones);
    }
}

impl<B: Bus<T>, T, R> Pop<'_, B, T, R> {
    /// Takes what the register hands out: this read changes the device's state.
    #[inline(always)]
    pub fn pop(&self) -> T {
        self.bus.load(self.offset)
    }
}

impl<B: Bus<T>, T, R> Cmd<'_, B, T, R> {
    /// Gives the command `value`.
    #[inline(always)]
    pub fn send(&self, value: T) {
        self.bus.store(self.offset, value);
    }
}
