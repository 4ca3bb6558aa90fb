//! virt
#![no_std]
