// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls and codes by number, as skiboot's `opal-api.h` names them.

use irq_hal::wait::WaitFor;

/// What a call returns. A number that is not negative is a success.
pub mod code {
    /// Done.
    pub const SUCCESS: i64 = 0;
    /// A wrong argument.
    pub const PARAMETER: i64 = -1;
    /// Busy: to be called again.
    pub const BUSY: i64 = -2;
    /// The hardware failed.
    pub const HARDWARE: i64 = -6;
    /// Not on this machine.
    pub const UNSUPPORTED: i64 = -7;
    /// There is no more of it.
    pub const RESOURCE: i64 = -10;
    /// Firmware failed.
    pub const INTERNAL_ERROR: i64 = -11;
    /// Busy: to be called again after `OPAL_POLL_EVENTS`.
    pub const BUSY_EVENT: i64 = -12;
    /// Not in this state of firmware.
    pub const WRONG_STATE: i64 = -14;
    /// Firmware wants a page of memory for each chip first.
    pub const PROVISIONING: i64 = -31;
    /// What is to be freed is active.
    pub const FREE_ACTIVE: i64 = -32;
}

/// The mode of `OPAL_XIVE_RESET` in which the calls of this driver exist.
pub(super) const EXPLOITATION: u64 = 1;
pub(super) const QUEUE_ENABLED: u64 = 1;
pub(super) const QUEUE_ALWAYS_NOTIFY: u64 = 2;
pub(super) const SYNC_QUEUE: u64 = 2;
/// The priority that lets no event through.
pub(super) const MASKED: u8 = 0xff;
/// What an event of an unrouted source would read: no number of ours.
pub(super) const POISON: u32 = 0x7fff_ffff;

macro_rules! calls {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// A call.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub enum Call {
            $(#[doc = concat!("`", $text, "`.")] $name,)*
        }

        impl Call {
            /// Its number.
            pub const fn number(self) -> u64 {
                match self {
                    $(Self::$name => $number,)*
                }
            }

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            pub(super) fn waits(self) -> &'static WaitFor {
                match self {
                    $(Self::$name => {
                        static WAITS: WaitFor = WaitFor {
                            register: $text,
                            state: "another answer than OPAL_BUSY",
                        };
                        &WAITS
                    })*
                }
            }
        }
    };
}

calls! {
    PollEvents = 10, "OPAL_POLL_EVENTS";
    IntEoi = 124, "OPAL_INT_EOI";
    Reset = 128, "OPAL_XIVE_RESET";
    GetIrqInfo = 129, "OPAL_XIVE_GET_IRQ_INFO";
    SetIrqConfig = 131, "OPAL_XIVE_SET_IRQ_CONFIG";
    SetQueueInfo = 133, "OPAL_XIVE_SET_QUEUE_INFO";
    DonatePage = 134, "OPAL_XIVE_DONATE_PAGE";
    AllocateIrq = 139, "OPAL_XIVE_ALLOCATE_IRQ";
    FreeIrq = 140, "OPAL_XIVE_FREE_IRQ";
    Sync = 141, "OPAL_XIVE_SYNC";
}
