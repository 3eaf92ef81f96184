//! Loads archives into the [RTen](https://github.com/robertknight/rten) runtime. The weights are in the mapped file.
//!
//! ```no_run
//! let model = onnxz::rten::load("model.onnxz")?;
//! # Ok::<(), onnxz::rten::LoadError>(())
//! ```
//!
//! If weights are already in memory, RTen accepts them only as `'static` slices. So **if a model was loaded from a
//! map, the map stays until the process ends**, even if the program drops the model, or RTen refuses the model. The map
//! needs address space. The system can reclaim its memory. On Windows, nobody can replace the file while it is mapped.
//! If a program loads the same archive many times, it should map the archive once with [`Archive::leak`] and call
//! [`load_static`].
//!
//! RTen uses the elements in the map without a copy if they have the alignment of their type: 4 for float32 and int32,
//! and 2 for float16. In an archive from a writer that aligns its entries, they have it. If an alignment is too small,
//! this module copies the elements once; the copy lives as long as the model. RTen converts float16 to float32, and
//! int64, float64 and bool to types that RTen has, in memory of its own. It does the same for an `.onnx` file.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

pub use ::rten::{Model, ModelOptions};

use crate::relocation::{Location, relocated};
use crate::{Archive, Entry, Error};

/// RTen accepts only names with a suffix such as `.data`.
const ARCHIVE: &str = "archive.data";
const COPIES: &str = "copies.data";
/// The largest alignment that RTen needs.
const MAX_ALIGNMENT: usize = 4;

/// The reason why an archive was not loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be mapped, or is not a valid archive.
    Archive(Error),
    /// RTen refuses the graph.
    Model(::rten::LoadError),
    /// The archive has no such model, or it has several and no default one.
    NoModel,
    /// RTen accepts external data only on little-endian machines.
    BigEndian,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Archive(error) => error.fmt(f),
            LoadError::Model(error) => error.fmt(f),
            LoadError::NoModel => f.write_str("the archive has no such model, or several and no default one"),
            LoadError::BigEndian => f.write_str("RTen takes external data on little-endian machines only"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Archive(error) => Some(error),
            LoadError::Model(error) => Some(error),
            LoadError::NoModel | LoadError::BigEndian => None,
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
/// From now on, no process may shorten the file or write into it, as [`Archive::open`] explains.
///
/// # Errors
///
/// [`LoadError::Archive`] if there is no valid archive, [`LoadError::NoModel`] if it has several models and no default
/// one, [`LoadError::Model`] if RTen refuses the model.
pub fn load(path: impl AsRef<Path>) -> Result<Model, LoadError> {
    load_with(path, &ModelOptions::default())
}

/// Does what [`load`] does, with options for RTen.
///
/// With `prepack_weights`, RTen makes its own copies of the weights.
///
/// # Errors
///
/// The errors of [`load`].
pub fn load_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model, LoadError> {
    load_static(&Archive::open(path)?.leak(), options)
}

/// Loads the default model, or the only one, of an archive that stays in memory until the process ends, such as one of `include_bytes!`.
///
/// # Errors
///
/// [`LoadError::Model`] if RTen refuses the model.
pub fn load_static(archive: &Archive<&'static [u8]>, options: &ModelOptions) -> Result<Model, LoadError> {
    load_named(archive, None, options)
}

/// Loads the model with this name of an archive that stays in memory until the process ends.
///
/// Several models of one archive use the same map: call [`Archive::leak`] once.
///
/// # Errors
///
/// [`LoadError::NoModel`] if there is no such model, and [`LoadError::Model`] if RTen refuses it.
pub fn load_named(
    archive: &Archive<&'static [u8]>,
    name: Option<&str>,
    options: &ModelOptions,
) -> Result<Model, LoadError> {
    if cfg!(target_endian = "big") {
        return Err(LoadError::BigEndian);
    }
    let graph = archive.model(name).ok_or(LoadError::NoModel)?;
    let mut copies = Copies::of(archive, graph);
    let graph = relocated(graph.bytes(), &mut |tensor| {
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
    /// For an offset in the file, the place in `bytes` where the copy of these bytes begins.
    offsets: HashMap<u64, u64>,
}

impl Copies {
    fn of(archive: &Archive<&'static [u8]>, graph: Entry) -> Self {
        let copied = || {
            let tensors = archive.tensors().filter(|tensor| {
                tensor.graph().name() == graph.name()
                    && !is_aligned(tensor.entry().bytes(), tensor.data_type())
            });
            tensors.map(|tensor| tensor.entry())
        };
        let nbytes = copied()
            .map(|entry| entry.bytes().len().saturating_add(MAX_ALIGNMENT))
            .fold(0, usize::saturating_add);
        let mut bytes: Vec<u8> = Vec::with_capacity(nbytes.saturating_add(MAX_ALIGNMENT));
        let mut offsets = HashMap::new();
        for entry in copied() {
            offsets.entry(entry.file_offset()).or_insert_with(|| {
                // The allocation is already large enough, so the bytes in it do not move and stay aligned.
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

/// Whether RTen can use the bytes of a tensor without a copy. RTen itself copies the bytes of other types.
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
