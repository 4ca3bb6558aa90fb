// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of sends, takes, and CPUs that come and go. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_ipi`.
#![cfg(loom)]

mod common;
mod ipi_common;

use std::sync::Arc;

use ipi_common::{Machine, cpu};
use irq_core::cpu::NodeId;
use irq_core::{ActionContext, Kind, Sent};
use irq_hal::Error;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

/// What a sender leaves for the kind, unordered by itself: loom reports a run that does not
/// come after the write.
#[derive(Default)]
struct Message {
    text: UnsafeCell<u32>,
    runs: AtomicU32,
}

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Sync for Message {}
// SAFETY: as for `Sync`.
unsafe impl Send for Message {}

impl Message {
    fn write(&self) {
        // SAFETY: loom has checked that no access is concurrent.
        self.text.with_mut(|text| unsafe { *text += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: loom has checked that no write is concurrent.
        self.text.with(|text| unsafe { *text })
    }
}

/// A kind that reads `message`, which the test keeps until the machine is gone.
fn reader(message: &Arc<Message>) -> Kind {
    fn read(word: usize, _: &ActionContext<'_>) {
        // SAFETY: the word is the address of a message that `reader` was given, and its test
        // keeps until all interrupts are taken.
        let message = unsafe { &*(word as *const Message) };
        assert_ne!(message.read(), 0);
        message.runs.fetch_add(1, Relaxed);
    }
    Kind::new(read, Arc::as_ptr(message) as usize)
}

fn messages() -> [Arc<Message>; 2] {
    [Arc::default(), Arc::default()]
}

/// Fails when the release of `Mailbox::post`, or the acquire of `Mailbox::take`, becomes
/// Relaxed: the kind does not see its message. Fails as well when a take is no single update:
/// then a kind never runs.
#[test]
fn each_send_is_followed_by_a_run_that_sees_its_message() {
    loom::model(|| {
        let messages = messages();
        let kinds = messages.each_ref().map(reader);
        let machine = Arc::new(Machine::new(3, 1, &kinds));
        let sender = |index: u32| {
            let (machine, message) = (machine.clone(), messages[index as usize].clone());
            thread::spawn(move || {
                message.write();
                machine.send(index, 2, index as u8).unwrap()
            })
        };
        let senders = [sender(0), sender(1)];
        // The receiver, in between.
        let mut taken = machine.drain(2);
        let sent = senders.map(|sender| sender.join().unwrap());
        // Whoever rang, the ring is there.
        taken += machine.drain(2);
        for message in &messages {
            assert_eq!(message.runs.load(Relaxed), 1);
        }
        let rung = sent.iter().filter(|sent| **sent == Sent::Rung).count() as u64;
        let counts = machine.interrupts.ipi_counts(NodeId::FLAT).unwrap();
        assert_eq!((counts.sent, counts.rung), (2, rung));
        assert_eq!(counts.taken, u64::from(taken));
        assert!(rung >= 1 && counts.taken <= rung);
    });
}

/// Fails when the acquire of `Mailbox::close`, or the release of `Mailbox::post`, becomes
/// Relaxed: a kind that was accepted does not see its message.
#[test]
fn what_a_cpu_accepted_before_it_went_offline_has_run_and_what_it_refused_never_does() {
    loom::model(|| {
        let [message, _] = messages();
        let machine = Arc::new(Machine::new(2, 1, &[reader(&message)]));
        let leaving = thread::spawn({
            let machine = machine.clone();
            move || {
                machine.drain(1);
                machine.offline(1).unwrap();
                machine.drain(1);
                machine.online(1, 0).unwrap();
                machine.drain(1);
            }
        });
        message.write();
        let sent = machine.send(0, 1, 0);
        leaving.join().unwrap();
        machine.drain(1);
        let runs = message.runs.load(Relaxed);
        match sent {
            Ok(_) => assert_eq!(runs, 1),
            Err(error) => {
                assert_eq!(error, Error::CpuOffline { cpu: cpu(1) });
                assert_eq!(runs, 0);
            }
        }
    });
}

/// Fails when the release of `Mailbox::open`, or the acquire of `Mailbox::post`, becomes
/// Relaxed: the sender does not know the node, and counts nowhere.
#[test]
fn the_first_send_to_a_cpu_that_comes_online_counts_on_its_node() {
    loom::model(|| {
        let [message, _] = messages();
        let machine = Arc::new(Machine::dark(2, 2, &[reader(&message)]));
        let coming = thread::spawn({
            let machine = machine.clone();
            move || machine.online(1, 1).unwrap()
        });
        message.write();
        let sent = machine.send(0, 1, 0);
        coming.join().unwrap();
        machine.drain(1);
        let counts = machine.interrupts.ipi_counts(NodeId::new(1)).unwrap();
        assert_eq!(counts.sent, u64::from(sent.is_ok()));
        assert_eq!(message.runs.load(Relaxed), u32::from(sent.is_ok()));
    });
}
