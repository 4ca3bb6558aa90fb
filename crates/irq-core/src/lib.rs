//! irq-core
