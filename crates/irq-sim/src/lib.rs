//! irq-sim
