// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tracer says about a storm of IPIs: one descriptor for the system, and ours.
//!
//! `cargo xtask bench --filter lines` builds it with the tracer, and runs it.

#[cfg(not(irq_trace))]
fn main() {
    // Built with everything else, too: there it has nothing to say.
    eprintln!("trace_lines measures under --cfg irq_trace only: cargo xtask bench --filter lines");
    std::process::exit(2);
}

#[cfg(irq_trace)]
fn main() {
    traced::main();
}

#[cfg(irq_trace)]
mod traced {
    use irq_core::{ActionContext, Detector, Kind};
    use irq_tests::lines::Seen;
    use irq_tests::peer::OneDescriptor;
    use irq_tests::storm::OnDescriptor;
    use irq_tests::system::{Plan, System};

    const SENDS: u32 = 10;

    fn nothing(_: usize, _: &ActionContext<'_>) {}

    fn system(cpus: u32, nodes: u32) -> System {
        System::new(&Plan {
            kinds: &[Kind::new(nothing, 0)],
            detector: Some(Detector::new(|_, _| (), 0)),
            ..Plan::new(cpus, nodes)
        })
    }

    fn report(variant: &str, cpus: u32, nodes: u32, seen: &Seen) {
        print!("{variant}, {cpus} CPUs in {nodes} nodes:\n{seen}");
        let (sends, receives) = (seen.sends(), seen.receives());
        for (value, unit) in [
            (receives.others, "shared_lines_beside_mailbox_per_receive"),
            (receives.touched, "lines_touched_per_receive"),
            (receives.writes, "writes_per_receive"),
            (sends.others, "shared_lines_beside_mailbox_per_send"),
            (sends.touched, "lines_touched_per_send"),
            (sends.writes, "writes_per_send"),
        ] {
            println!("@row lines {variant} {cpus} {nodes} {value:.3} {unit}");
        }
    }

    pub fn main() {
        println!("A storm of IPIs; the peer counts receives only, irq_core sends as well.");
        for (cpus, nodes) in [(8, 2), (352, 4)] {
            let machine = system(cpus, nodes);
            let peer = OneDescriptor::new(cpus);
            let on = OnDescriptor {
                system: &machine,
                peer: &peer,
            };
            report(
                "one_descriptor",
                cpus,
                nodes,
                &Seen::storm(&on, nodes, SENDS),
            );
            let machine = system(cpus, nodes);
            report(
                "irq_core",
                cpus,
                nodes,
                &Seen::storm(&machine, nodes, SENDS),
            );
        }
    }
}
