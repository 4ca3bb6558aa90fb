//! What boards share.
#![no_std]
