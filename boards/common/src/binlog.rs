// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `defmt` port: frames on serial port 1, rzCOBS-encoded, each written whole.

use irq_hal::platform::IrqState;

use crate::lock::Masked;
use crate::machine::{self, Port};

#[defmt::global_logger]
struct Logger;

struct Frames {
    encoder: defmt::Encoder,
    /// The interrupt mask before the frame was begun.
    mask: Option<IrqState>,
}

static FRAMES: Masked<Frames> = Masked::new(Frames {
    encoder: defmt::Encoder::new(),
    mask: None,
});

defmt::timestamp!("{=u64:us}", micros());

fn micros() -> u64 {
    let Some(machine) = machine::get() else {
        return 0;
    };
    // Ticks of a millisecond: finer than that, a counter slower than 1 MHz would be 0.
    let per_milli = machine.ticks_in(1_000).0.max(1);
    let now = machine.now().0;
    (now / per_milli) * 1_000 + (now % per_milli) * 1_000 / per_milli
}

fn send(bytes: &[u8]) {
    if let Some(machine) = machine::get() {
        bytes
            .iter()
            .for_each(|&byte| machine.put(Port::Frames, byte));
    }
}

// SAFETY: `acquire` masks interrupts and takes the lock, `release` undoes both: a frame has the
// encoder for itself.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        let mask = machine::get().map(|machine| machine.irq_save());
        FRAMES.acquire();
        // SAFETY: acquired in the line above, and the reference ends with this function.
        let frames = unsafe { FRAMES.held() };
        frames.mask = mask;
        frames.encoder.start_frame(send);
    }

    unsafe fn flush() {}

    unsafe fn release() {
        // SAFETY: called between `acquire` and the end of this function, as `defmt` promises.
        let frames = unsafe { FRAMES.held() };
        frames.encoder.end_frame(send);
        let mask = frames.mask.take();
        // SAFETY: `frames` is used no more.
        unsafe { FRAMES.release() };
        if let (Some(machine), Some(mask)) = (machine::get(), mask) {
            // SAFETY: the mask is the one that `acquire` saved on this CPU.
            unsafe { machine.irq_restore(mask) }
        }
    }

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: called between `acquire` and `release`, as `defmt` promises.
        let frames = unsafe { FRAMES.held() };
        frames.encoder.write(bytes, send);
    }
}
