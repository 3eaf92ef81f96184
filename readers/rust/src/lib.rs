#![doc = include_str!("../README.md")]
#![warn(missing_debug_implementations)]
// The code contains nothing that could panic: every bad file gives an error, whatever it contains.
#![warn(clippy::arithmetic_side_effects, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![warn(clippy::string_slice, clippy::unreachable, clippy::unwrap_used)]

mod archive;
mod error;
mod fields;
mod graph;
mod names;
#[cfg(any(feature = "rten", test))]
mod relocation;
#[cfg(feature = "rten")]
pub mod rten;
mod wire;
mod zip;

#[cfg(feature = "mmap")]
pub use archive::Map;
pub use archive::{Archive, Entry, Tensor};
pub use error::{Error, Result};
