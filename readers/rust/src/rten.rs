//! Archives as models of the [RTen](https://github.com/robertknight/rten) runtime, whose weights are the mapped file.
//!
//! ```no_run
//! let model = onnxz::rten::load("model.onnxz")?;
//! # Ok::<(), onnxz::rten::LoadError>(())
//! ```
//!
//! RTen takes weights that are in memory already as `'static` slices only. So **a map that a model was loaded from
//! stays until the process ends**, also when the model is dropped, or RTen refuses it. That costs address space, and
//! no memory that the system could not take back; Windows does not let the file be replaced meanwhile. A program that
//! loads the same archive again and again maps it once with [`Archive::leak`] and calls [`load_static`].
//!
//! RTen uses the elements where they are in the map if their alignment is that of their type, 4 for float32 and int32
//! and 2 for float16, which archives have unless something else than an aligning writer made them. What is aligned to
//! less is copied once, and lives as long as the model. float16 becomes float32, and int64, float64 and bool become
//! types that RTen has, in memory of RTen's, as they do from an `.onnx` file.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

pub use ::rten::{Model, ModelOptions};

use crate::relocation::{Location, relocated};
use crate::{Archive, Error};

/// RTen takes no other names than those with such a suffix.
const ARCHIVE: &str = "archive.data";
const COPIES: &str = "copies.data";
/// The largest alignment that RTen asks for.
const MAX_ALIGNMENT: usize = 4;

/// Why an archive is not loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be mapped, or is no archive.
    Archive(Error),
    /// RTen refuses the graph.
    Model(::rten::LoadError),
    /// RTen takes external data on little-endian machines only.
    BigEndian,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Archive(error) => error.fmt(f),
            LoadError::Model(error) => error.fmt(f),
            LoadError::BigEndian => f.write_str("RTen takes external data on little-endian machines only"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Archive(error) => Some(error),
            LoadError::Model(error) => Some(error),
            LoadError::BigEndian => None,
        }
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        LoadError::Archive(error)
    }
}

impl From<::rten::LoadError> for LoadError {
    fn from(error: ::rten::LoadError) -> Self {
        LoadError::Model(error)
    }
}

/// Maps the archive at `path` until the process ends, and loads its model with RTen's default options.
///
/// What [`Archive::open`] asks of the file, that nobody shortens it or writes into it, holds from now on.
///
/// # Errors
///
/// [`LoadError::Archive`] if there is no archive, [`LoadError::Model`] if RTen refuses the model in it.
pub fn load(path: impl AsRef<Path>) -> Result<Model, LoadError> {
    load_with(path, &ModelOptions::default())
}

/// Does what [`load`] does, with options for RTen.
///
/// With `prepack_weights`, RTen makes copies of the weights for itself.
///
/// # Errors
///
/// Those of [`load`].
pub fn load_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model, LoadError> {
    load_static(&Archive::open(path)?.leak(), options)
}

/// Loads the model of an archive that stays in memory until the process ends, such as one of `include_bytes!`.
///
/// # Errors
///
/// [`LoadError::Model`] if RTen refuses the model.
pub fn load_static(archive: &Archive<&'static [u8]>, options: &ModelOptions) -> Result<Model, LoadError> {
    if cfg!(target_endian = "big") {
        return Err(LoadError::BigEndian);
    }
    let mut copies = Copies::of(archive);
    let graph = relocated(archive.graph().bytes(), &mut |tensor| {
        let entry = archive.named(tensor.location);
        let (file_offset, nbytes) =
            entry.map_or((0, 0), |entry| (entry.file_offset(), entry.bytes().len() as u64));
        let is_aligned = entry.is_none_or(|entry| is_aligned(entry.bytes(), tensor.data_type));
        match copies.offsets.get(&file_offset) {
            Some(offset) if !is_aligned => Location { path: COPIES, file_offset: *offset, nbytes },
            _ => Location { path: ARCHIVE, file_offset, nbytes },
        }
    })?;
    let mut options = options.clone();
    options.external_data_static(ARCHIVE, archive.get_ref());
    options.external_data(COPIES, std::mem::take(&mut copies.bytes));
    Ok(options.load(graph)?)
}

/// The bytes of tensors that RTen cannot use where they are.
struct Copies {
    bytes: Vec<u8>,
    /// Where in `bytes` the bytes are that begin at an offset of the file.
    offsets: HashMap<u64, u64>,
}

impl Copies {
    fn of(archive: &Archive<&'static [u8]>) -> Self {
        let copied = || {
            let tensors =
                archive.tensors().filter(|tensor| !is_aligned(tensor.entry().bytes(), tensor.data_type()));
            tensors.map(|tensor| tensor.entry())
        };
        let nbytes = copied()
            .map(|entry| entry.bytes().len().saturating_add(MAX_ALIGNMENT))
            .fold(0, usize::saturating_add);
        let mut bytes: Vec<u8> = Vec::with_capacity(nbytes.saturating_add(MAX_ALIGNMENT));
        let mut offsets = HashMap::new();
        for entry in copied() {
            offsets.entry(entry.file_offset()).or_insert_with(|| {
                // The allocation is large enough already, so what is aligned in it stays so.
                while !bytes.as_ptr().addr().saturating_add(bytes.len()).is_multiple_of(MAX_ALIGNMENT) {
                    bytes.push(0);
                }
                let offset = bytes.len() as u64;
                bytes.extend_from_slice(entry.bytes());
                offset
            });
        }
        Copies { bytes, offsets }
    }
}

/// Whether RTen can use the bytes of a tensor where they are. It copies those of other types itself.
fn is_aligned(bytes: &[u8], data_type: u32) -> bool {
    const FLOAT: u32 = 1;
    const INT32: u32 = 6;
    const FLOAT16: u32 = 10;
    let alignment = match data_type {
        FLOAT | INT32 => 4,
        FLOAT16 => 2,
        _ => 1,
    };
    bytes.as_ptr().addr().is_multiple_of(alignment)
}
