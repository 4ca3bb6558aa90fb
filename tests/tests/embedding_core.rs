// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel takes irq-core and the driver: the glue of docs/embedding.md runs on four cores.

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_hal::{Error, ErrorKind};
use irq_tests::hermit::kernel::{self, Machine};
use irq_tests::hermit::with_core as glue;

fn boot() -> (MutexGuard<'static, ()>, &'static Machine) {
    kernel::boot(
        4,
        glue::do_irq,
        glue::init,
        glue::init_cpu,
        glue::start_timer,
    )
}

#[test]
fn the_timer_of_each_core_ticks_and_asks_for_a_switch() {
    let (_alone, machine) = boot();
    for cpu in 0..4 {
        let before = (machine.timer_ticks(cpu), machine.switches(cpu));
        machine.expire_timer(cpu);
        machine.run(cpu);
        assert_eq!(machine.timer_ticks(cpu), before.0 + 1);
        assert_eq!(machine.switches(cpu), before.1 + 1);
    }
}

#[test]
fn a_core_is_woken_by_another_and_by_a_handler() {
    let (_alone, machine) = boot();
    for from in 0..4 {
        for to in 0..4 {
            let before = machine.switches(to);
            machine.on(from, || glue::wakeup_core(to)).unwrap();
            machine.run(to);
            assert_eq!(machine.switches(to), before + 1, "{from} to {to}");
        }
    }
    let error = machine.on(0, || glue::wakeup_core(4)).unwrap_err();
    assert_eq!(
        error,
        Error::NoSuchCpu {
            cpu: kernel::cpu(4)
        }
    );
}

#[test]
fn a_task_gives_its_core_away_before_the_next_statement() {
    let (_alone, machine) = boot();
    let before = (machine.switches(2), machine.executor_runs(2));
    machine.sim.set_masked(2, true);
    machine.on(2, || {
        glue::reschedule().unwrap();
        assert_eq!(machine.switches(2), before.0 + 1);
        assert_eq!(machine.executor_runs(2), before.1 + 1);
    });
}

static UART: AtomicU32 = AtomicU32::new(0);
static DISK: AtomicU32 = AtomicU32::new(0);

fn uart() {
    UART.fetch_add(1, Relaxed);
    kernel::this_machine().model.line(33).deassert();
    // Handlers wake tasks of other cores.
    glue::wakeup_core(3).unwrap();
}

fn disk() {
    DISK.fetch_add(1, Relaxed);
}

#[test]
fn a_drivers_line_stays_masked_until_its_handlers_are_there_and_all_of_them_run() {
    let (_alone, machine) = boot();
    machine.on(0, || {
        assert_eq!(glue::detect_interrupt(&[0, 1, 4]), Ok(1));
        let wide = glue::detect_interrupt(&[0, 300, 4]).unwrap_err();
        assert_eq!(wide.kind(), ErrorKind::Invalid);
        let absent = glue::detect_interrupt(&[0, 900, 4]).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
    });
    machine.model.line(33).assert();
    machine.run(0);
    assert_eq!(UART.load(Relaxed), 0);
    let handlers: [(u8, fn()); 2] = [(1, uart), (1, disk)];
    machine.on(0, || glue::install_handlers(&handlers)).unwrap();
    let switches = (machine.switches(0), machine.switches(3));
    machine.run(0);
    assert_eq!((UART.load(Relaxed), DISK.load(Relaxed)), (1, 1));
    assert_eq!(machine.switches(0), switches.0, "no action asked for it");
    machine.run(3);
    assert_eq!(machine.switches(3), switches.1 + 1);
}
