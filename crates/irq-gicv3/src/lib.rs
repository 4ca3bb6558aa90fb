//! irq-gicv3
