// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the compiler refuses. Each item is a doctest that must not compile, with the code of its
//! error; but for `OutcomeIsNotDropped`, which a denied lint refuses and no code tells, and for
//! `ControlIsNotGeneric` and `NamesAreRight`, which must compile.

/// The proof of a CPU cannot be carried to another one.
///
/// ```compile_fail,E0277
/// fn carried<T: Send>() {}
/// carried::<irq_hal::percpu::OnCpu>();
/// ```
#[cfg(doctest)]
pub struct OnCpuIsNotSend;

/// Nor can a reference to it.
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<irq_hal::percpu::OnCpu>();
/// ```
#[cfg(doctest)]
pub struct OnCpuIsNotSync;

/// An entry's context is its CPU's.
///
/// ```compile_fail,E0277
/// fn carried<T: Send>() {}
/// carried::<irq_core::IrqContext<'static>>();
/// ```
#[cfg(doctest)]
pub struct IrqContextIsNotSend;

/// The interface is that of the CPU that runs.
///
/// ```compile_fail,E0277
/// fn carried<T: Send>() {}
/// carried::<irq_gicv3::CpuInterface<irq_gicv3::SysRegs>>();
/// ```
#[cfg(doctest)]
pub struct CpuInterfaceIsNotSend;

/// A write-one register has nothing to modify: writing back what was read acts on other bits.
///
/// ```compile_fail,E0599
/// fn broken<B: irq_hal::Bus<u32>>(register: irq_hal::access::W1<B, u32>) {
///     register.modify(1);
/// }
/// ```
#[cfg(doctest)]
pub struct W1HasNoModify;

/// A removal that succeeded leaves nothing to remove.
///
/// ```compile_fail,E0382
/// fn twice(registration: irq_core::Registration<'_>) {
///     let _ = registration.remove();
///     let _ = registration.remove();
/// }
/// ```
#[cfg(doctest)]
pub struct RegistrationIsConsumed;

/// A closure that changes what it captures may run on two CPUs at once: it has to be made
/// exclusive.
///
/// ```compile_fail,E0594
/// let mut calls = 0;
/// let action = irq_core::Action::new(move |_| calls += 1);
/// ```
#[cfg(doctest)]
pub struct ActionIsNoFnMut;

/// Nor does an action take what only one thread may use.
///
/// ```compile_fail,E0277
/// let calls = std::rc::Rc::new(());
/// let action = irq_core::Action::new(move |_| drop(calls.clone()));
/// ```
#[cfg(doctest)]
pub struct ActionIsShared;

/// What a value is made exclusive for moves between CPUs, and so must it.
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<irq_hal::exclusive::Exclusive<std::rc::Rc<u32>>>();
/// ```
#[cfg(doctest)]
pub struct ExclusiveOfRcIsNotShared;

/// Who says that a window is mapped, says so in an unsafe block.
///
/// ```compile_fail,E0133
/// let base = core::ptr::NonNull::<u8>::dangling();
/// let window = irq_hal::Mmio::from_mapped(base, 0x1_0000);
/// ```
#[cfg(doctest)]
pub struct MappedWindowIsUnsafe;

/// So does who says on which CPU it runs.
///
/// ```compile_fail,E0133
/// let on = irq_hal::percpu::OnCpu::new(irq_hal::CpuIndex::new(0));
/// ```
#[cfg(doctest)]
pub struct CpuProofIsUnsafe;

/// What an interrupt came to is not passed over: a bit may ask for a switch.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn entry(interrupts: &irq_core::Interrupts, gic: &impl irq_core::Controller, cx: &irq_core::IrqContext<'_>) {
///     interrupts.dispatch(gic, cx);
/// }
/// ```
#[cfg(doctest)]
pub struct OutcomeIsNotDropped;

/// A handle of the control side names neither platform nor controller.
///
/// ```
/// fn driver(control: irq_core::Control<'static>, irq: irq_core::Irq) -> Result<(), irq_hal::Error> {
///     let registration = control.register(irq, irq_core::Action::new(|_| ()))?;
///     control.unmask(irq)?;
///     registration.remove().map_err(|(error, _)| error)
/// }
/// ```
#[cfg(doctest)]
pub struct ControlIsNotGeneric;

/// The names that the others use are right: it is not a slip that does not compile.
///
/// ```
/// use irq_core::{Action, Answer, Controller, Interrupts, IrqContext, Registration};
/// use irq_hal::{Bus, CpuIndex, Mmio, access::W1, exclusive::Exclusive, percpu::OnCpu};
///
/// fn named<T>() {}
/// named::<OnCpu>();
/// named::<IrqContext<'static>>();
/// named::<Exclusive<std::rc::Rc<u32>>>();
/// named::<irq_gicv3::CpuInterface<irq_gicv3::SysRegs>>();
/// fn right<B: Bus<u32>>(register: W1<B, u32>) {
///     register.write_ones(1);
/// }
/// fn once(registration: Registration<'_>) {
///     let _ = registration.remove();
/// }
/// fn entry(interrupts: &Interrupts, gic: &impl Controller, cx: &IrqContext<'_>) {
///     let _ = interrupts.dispatch(gic, cx);
/// }
/// let calls = 0;
/// let action = Action::new(move |_| drop(calls.clone()));
/// let base = core::ptr::NonNull::<u8>::dangling();
/// // SAFETY: never used.
/// let window = unsafe { Mmio::from_mapped(base, 0x1_0000) };
/// // SAFETY: there is one thread, and no other CPU.
/// let on = unsafe { OnCpu::new(CpuIndex::new(0)) };
/// ```
#[cfg(doctest)]
pub struct NamesAreRight;
