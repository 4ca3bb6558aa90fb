// SPDX-License-Identifier: MIT OR Apache-2.0
//! The logging facade: [`irq_warn!`](crate::irq_warn), [`irq_debug!`](crate::irq_debug),
//! [`irq_trace!`](crate::irq_trace).
//!
//! Messages go to `defmt` with feature `defmt`, else to `log` with feature `log`, else nowhere.
//! Never log in entry, end or IPI send: count instead. A message carries ids and numbers.

#[doc(hidden)]
#[cfg(feature = "defmt")]
pub use defmt;
#[doc(hidden)]
#[cfg(all(feature = "log", not(feature = "defmt")))]
pub use log;

macro_rules! level {
    ($d:tt $name:ident, $level:ident, $doc:literal) => {
        #[doc = $doc]
        #[cfg(feature = "defmt")]
        #[macro_export]
        macro_rules! $name {
                    ($d($d arg:tt)*) => {{
                        use $d crate::log::defmt;
                        defmt::$level!($d($d arg)*);
                    }};
                }

        #[doc = $doc]
        #[cfg(all(feature = "log", not(feature = "defmt")))]
        #[macro_export]
        macro_rules! $name {
                    ($d($d arg:tt)*) => { $d crate::log::log::$level!($d($d arg)*) };
                }

        #[doc = $doc]
        #[cfg(not(any(feature = "log", feature = "defmt")))]
        #[macro_export]
        macro_rules! $name {
                    ($d format:literal $d(, $d arg:expr)* $d(,)?) => {{ $d(let _ = &$d arg;)* }};
                }
    };
}

level!($ irq_warn, warn, "Something is wrong with hardware or firmware, and we go on.");
level!($ irq_debug, debug, "A step of bring-up or of a change, once.");
level!($ irq_trace, trace, "Every command of a slow path.");
