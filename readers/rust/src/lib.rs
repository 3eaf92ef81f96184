#![doc = include_str!("../README.md")]
#![warn(missing_debug_implementations)]
// What could panic is not written: a file from a stranger ends in an error, whatever is in it.
#![warn(clippy::arithmetic_side_effects, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![warn(clippy::string_slice, clippy::unreachable, clippy::unwrap_used)]

mod archive;
mod error;
mod fields;
mod graph;
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
