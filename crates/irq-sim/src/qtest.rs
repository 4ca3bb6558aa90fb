// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's own device models as a bus: no guest, no second opinion of ours.
//!
//! QEMU runs with its CPUs stopped and its qtest socket open; each load or store of a
//! [`QtestBus`] is one command over that socket. What it cannot reach is what has no address:
//! the CPU interface's system registers.
//!
//! ```no_run
//! use irq_sim::qtest::{Qtest, QtestError};
//! use irq_sim::SimPlatform;
//!
//! match Qtest::virt(&SimPlatform::new(2)) {
//!     Ok(qemu) => drop(qemu.window(0x0800_0000, 0x1_0000)),
//!     Err(error @ QtestError::Missing { .. }) => println!("skipped: {error}"),
//!     Err(error) => panic!("{error}"),
//! }
//! ```

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus};

use crate::log::{Access, Event, Fence, Unit};
use crate::platform::SimPlatform;

/// The variable that names the program, where it is not on `PATH`.
pub const PROGRAM_VARIABLE: &str = "IRQ_QEMU_AARCH64";
const PROGRAM: &str = "qemu-system-aarch64";
/// How long QEMU may take to connect, and to answer one command.
const PATIENCE: Duration = Duration::from_secs(20);
/// SPIs of QEMU's `virt` machine; its GIC's input lines are these, then 32 for each CPU.
const VIRT_SPIS: u32 = 256;

/// What can go wrong between the test and QEMU.
#[non_exhaustive]
#[derive(Debug)]
pub enum QtestError {
    /// There is no such program: a test may skip.
    Missing {
        /// What was looked for.
        program: PathBuf,
    },
    /// The temporary directory, the socket or the process cannot be made.
    Start {
        /// What was tried.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// QEMU ended before it connected.
    Died {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// QEMU did not connect, or not answer, in time.
    Silent {
        /// What it was asked.
        command: String,
    },
    /// The connection broke.
    Broken {
        /// What it was asked.
        command: String,
        /// Why.
        error: io::Error,
    },
    /// QEMU refused a command.
    Refused {
        /// What it was asked.
        command: String,
        /// What it answered.
        answer: String,
    },
}

impl fmt::Display for QtestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program } => write!(f, "there is no {}", program.display()),
            Self::Start { what, error } => write!(f, "{what}: {error}"),
            Self::Died { status, stderr } => write!(f, "QEMU ended ({status}): {stderr}"),
            Self::Silent { command } => write!(f, "QEMU did not answer to: {command}"),
            Self::Broken { command, error } => write!(f, "QEMU is gone at: {command} ({error})"),
            Self::Refused { command, answer } => write!(f, "QEMU answered {answer} to: {command}"),
        }
    }
}

impl std::error::Error for QtestError {}

/// The child and its directory; both go with it.
#[derive(Debug)]
struct Process {
    child: Option<Child>,
    dir: PathBuf,
}

impl Process {
    /// How the child ended, if it did.
    fn ended(&mut self) -> Option<QtestError> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        let stderr = fs::read_to_string(self.dir.join("stderr")).unwrap_or_default();
        Some(QtestError::Died {
            status,
            stderr: stderr.trim().into(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Either fails only if the child is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
        // What stays is a directory of three small files in the temporary directory.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[derive(Debug)]
struct Link {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Link {
    /// One command, one answer: the words after `OK`.
    fn ask(&mut self, command: &str) -> Result<String, QtestError> {
        let fail = |error: io::Error| {
            let command = command.to_string();
            match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    QtestError::Silent { command }
                }
                _ => QtestError::Broken { command, error },
            }
        };
        self.writer
            .write_all(format!("{command}\n").as_bytes())
            .map_err(fail)?;
        let mut answer = String::new();
        if self.reader.read_line(&mut answer).map_err(fail)? == 0 {
            return Err(fail(io::ErrorKind::UnexpectedEof.into()));
        }
        match answer.trim().strip_prefix("OK") {
            Some(rest) => Ok(rest.trim().into()),
            None => {
                let (command, answer) = (command.into(), answer.trim().into());
                Err(QtestError::Refused { command, answer })
            }
        }
    }
}

#[derive(Debug)]
struct Shared {
    sim: SimPlatform,
    /// Declared before the process, so the socket closes first.
    link: Mutex<Link>,
    _process: Process,
}

/// A QEMU that answers to this test. A handle: clones share it; the last one ends it.
#[derive(Clone, Debug)]
pub struct Qtest {
    shared: Arc<Shared>,
}

impl Qtest {
    /// The program: what `IRQ_QEMU_AARCH64` names, or the one on `PATH`.
    ///
    /// # Errors
    /// [`QtestError::Missing`].
    pub fn program() -> Result<PathBuf, QtestError> {
        if let Some(named) = std::env::var_os(PROGRAM_VARIABLE) {
            let program = PathBuf::from(named);
            return if program.is_file() {
                Ok(program)
            } else {
                Err(missing(&program))
            };
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|dir| dir.join(PROGRAM));
        found
            .into_iter()
            .find(|program| program.is_file())
            .ok_or_else(|| missing(PROGRAM.as_ref()))
    }

    /// The machine `virt` with a GICv3 and as many CPUs as `sim` has.
    ///
    /// # Errors
    /// Any [`QtestError`].
    pub fn virt(sim: &SimPlatform) -> Result<Self, QtestError> {
        let cpus = sim.cpus().to_string();
        let machine = ["-M", "virt,gic-version=3", "-cpu", "max", "-smp", &cpus];
        Self::spawn(sim, &Self::program()?, &machine.map(OsString::from))
    }

    /// `program` with `machine`, and what makes it stop and listen. Accesses are logged and
    /// timed on `sim`.
    ///
    /// # Errors
    /// Any [`QtestError`].
    pub fn spawn(
        sim: &SimPlatform,
        program: &Path,
        machine: &[OsString],
    ) -> Result<Self, QtestError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("irq-qtest-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let start = |what| move |error| QtestError::Start { what, error };
        fs::create_dir_all(&dir).map_err(start("temporary directory"))?;
        let mut process = Process {
            child: None,
            dir: dir.clone(),
        };
        let socket = dir.join("qtest");
        let listener = UnixListener::bind(&socket).map_err(start("qtest socket"))?;
        listener
            .set_nonblocking(true)
            .map_err(start("qtest socket"))?;
        let stderr = fs::File::create(dir.join("stderr")).map_err(start("QEMU's error file"))?;
        let child = Command::new(program)
            .args(machine)
            .args([
                "-S",
                "-nodefaults",
                "-display",
                "none",
                "-monitor",
                "none",
                "-serial",
                "none",
            ])
            .args(["-qtest-log", "none", "-qtest"])
            .arg(format!("unix:{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn();
        match child {
            Ok(child) => process.child = Some(child),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(program)),
            Err(error) => {
                return Err(QtestError::Start {
                    what: "QEMU",
                    error,
                });
            }
        }
        let stream = accept(&listener, &mut process)?;
        stream
            .set_nonblocking(false)
            .map_err(start("qtest socket"))?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .map_err(start("qtest socket"))?;
        let writer = stream.try_clone().map_err(start("qtest socket"))?;
        let link = Mutex::new(Link {
            reader: BufReader::new(stream),
            writer,
        });
        Ok(Self {
            shared: Arc::new(Shared {
                sim: sim.clone(),
                link,
                _process: process,
            }),
        })
    }

    /// One qtest command; what follows `OK` in the answer.
    ///
    /// # Errors
    /// [`QtestError::Refused`], [`QtestError::Silent`], [`QtestError::Broken`].
    pub fn command(&self, command: &str) -> Result<String, QtestError> {
        self.shared
            .link
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ask(command)
    }

    /// The `len` bytes of QEMU's physical address space from `base` on.
    pub fn window(&self, base: u64, len: usize) -> QtestBus {
        QtestBus {
            qemu: self.clone(),
            base,
            len,
        }
    }

    /// Drives the wire of SPI `intid` of machine `virt`.
    ///
    /// # Errors
    /// As for [`command`](Self::command).
    ///
    /// # Panics
    /// If the machine has no such SPI.
    pub fn spi_line(&self, intid: u32, high: bool) -> Result<(), QtestError> {
        assert!(
            (32..32 + VIRT_SPIS).contains(&intid),
            "no SPI {intid} on virt"
        );
        self.gic_input(intid - 32, high)
    }

    /// Drives the wire of PPI `intid` of `cpu` of machine `virt`.
    ///
    /// # Errors
    /// As for [`command`](Self::command).
    ///
    /// # Panics
    /// If there is no such PPI or CPU.
    pub fn ppi_line(&self, cpu: u32, intid: u32, high: bool) -> Result<(), QtestError> {
        assert!(
            cpu < self.shared.sim.cpus() && (16..32).contains(&intid),
            "cpu{cpu} PPI {intid}"
        );
        self.gic_input(VIRT_SPIS + cpu * 32 + intid, high)
    }

    /// The GIC is the device made after the CPUs.
    fn gic_input(&self, input: u32, high: bool) -> Result<(), QtestError> {
        let gic = self.shared.sim.cpus();
        let level = u32::from(high);
        let path = format!("/machine/unattached/device[{gic}]");
        self.command(&format!(
            "set_irq_in {path} unnamed-gpio-in {input} {level}"
        ))
        .map(drop)
    }

    fn access(&self, at: u64, width: u8, store: Option<u64>) -> u64 {
        let letter = match width {
            1 => 'b',
            2 => 'w',
            4 => 'l',
            _ => 'q',
        };
        let command = match store {
            Some(value) => format!("write{letter} {at:#x} {value:#x}"),
            None => format!("read{letter} {at:#x}"),
        };
        let answer = self
            .command(&command)
            .unwrap_or_else(|error| panic!("{error}"));
        let value = store.unwrap_or_else(|| {
            let digits = answer.trim_start_matches("0x");
            u64::from_str_radix(digits, 16)
                .unwrap_or_else(|error| panic!("{command}: {answer:?}: {error}"))
        });
        let sim = &self.shared.sim;
        sim.note_access();
        let (cpu, offset) = (sim.current(), at as usize);
        let access = Access {
            cpu,
            unit: Unit::Qtest,
            offset,
            width,
            value,
            cost: 0,
        };
        let event = if store.is_some() {
            Event::Store(access)
        } else {
            Event::Load(access)
        };
        sim.log().push(event);
        value
    }

    fn fence(&self, fence: Fence) {
        let sim = &self.shared.sim;
        sim.log().push(Event::Barrier {
            cpu: sim.current(),
            fence,
        });
    }
}

fn missing(program: &Path) -> QtestError {
    QtestError::Missing {
        program: program.into(),
    }
}

/// Waits for QEMU to connect, unless it ends before.
fn accept(listener: &UnixListener, process: &mut Process) -> Result<UnixStream, QtestError> {
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                return Err(QtestError::Start {
                    what: "qtest socket",
                    error,
                });
            }
        }
        if let Some(died) = process.ended() {
            return Err(died);
        }
        if start.elapsed() > PATIENCE {
            return Err(QtestError::Silent {
                command: "connect".into(),
            });
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A window of QEMU's address space. Accesses are logged under [`Unit::Qtest`] with their
/// absolute address.
///
/// # Panics
/// Accesses panic if QEMU is gone or silent, or outside of the window.
#[derive(Clone, Debug)]
pub struct QtestBus {
    qemu: Qtest,
    base: u64,
    len: usize,
}

impl QtestBus {
    fn at(&self, offset: usize, width: u8) -> u64 {
        let end = offset + width as usize;
        assert!(
            end <= self.len,
            "{offset:#x} in a window of {:#x} bytes",
            self.len
        );
        assert!(
            offset.is_multiple_of(width as usize),
            "{offset:#x} is not aligned"
        );
        self.base + offset as u64
    }
}

impl Extent for QtestBus {
    fn extent(&self) -> usize {
        self.len
    }
}

impl Barrier for QtestBus {
    fn publish(&self) {
        self.qemu.fence(Fence::Publish);
    }

    fn complete(&self) {
        self.qemu.fence(Fence::Complete);
    }

    fn synchronize(&self) {
        self.qemu.fence(Fence::Synchronize);
    }
}

macro_rules! widths {
    ($($t:ty),*) => { $(
        impl Bus<$t> for QtestBus {
            fn load(&self, offset: usize) -> $t {
                let width = size_of::<$t>() as u8;
                self.qemu.access(self.at(offset, width), width, None) as $t
            }

            fn store(&self, offset: usize, value: $t) {
                let width = size_of::<$t>() as u8;
                self.qemu.access(self.at(offset, width), width, Some(value.into()));
            }
        }
    )* };
}

widths!(u8, u16, u32, u64);
