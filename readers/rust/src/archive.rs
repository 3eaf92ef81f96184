//! A checked archive: its entries, its graph, and the tensors whose bytes are in the entries.

use std::fmt;
use std::ops::Range;

use crate::error::{Result, Shown, require};
use crate::fields::Fields;
use crate::names::Part;
use crate::{graph, names, zip};

/// An `.onnxz` archive that meets every requirement of the specification.
///
/// The payloads are slices of the file. Opening the archive does not read or copy them.
pub struct Archive<B> {
    bytes: B,
    /// Tensors, files, hashes, graphs, in this order.
    places: Vec<zip::Place>,
    /// The places of the entries of tensors, sorted by name.
    by_name: Vec<usize>,
    /// The place of the first graph. All after it are graphs.
    first_graph: usize,
    tensors: Vec<TensorPlace>,
}

struct TensorPlace {
    graph: usize,
    name: Range<usize>,
    data_type: u32,
    dims: Box<[i64]>,
    place: usize,
}

/// A file that is mapped for reading.
#[cfg(feature = "mmap")]
pub struct Map(memmap2::Mmap);

#[cfg(feature = "mmap")]
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("nbytes", &self.0.len()).finish_non_exhaustive()
    }
}

#[cfg(feature = "mmap")]
impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// An entry of an archive: the bytes of one or more tensors, a file, the hashes, or a graph.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    name: &'a str,
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The name, unique in the archive. That of a tensor's entry is made from the name of the tensor, but can differ
    /// from it. That of a file begins with `files/`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Where the bytes begin in the file.
    pub fn file_offset(&self) -> u64 {
        self.offset
    }

    /// The bytes.
    ///
    /// In most archives, they begin at a multiple of 64 in the file, and so also in a map of the file. This is not
    /// required. To use them as another type than bytes, check the alignment of the slice, and copy the bytes if the
    /// alignment is too small.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("file_offset", &self.offset)
            .field("nbytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// A tensor anywhere in a graph, whose bytes are an entry.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    graph: Entry<'a>,
    name: &'a [u8],
    data_type: u32,
    dims: &'a [i64],
    entry: Entry<'a>,
}

impl<'a> Tensor<'a> {
    /// The name in the graph, empty if the tensor has no name. It is valid text if the graph is valid.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// The graph that has the tensor.
    #[cfg(feature = "rten")]
    pub(crate) fn graph(&self) -> Entry<'a> {
        self.graph
    }

    /// The name of the model whose graph has the tensor, or `None` for the default one.
    pub fn model(&self) -> Option<&'a str> {
        names::model(self.graph.name)
    }

    /// The element type, a number of `TensorProto.DataType`.
    pub fn data_type(&self) -> u32 {
        self.data_type
    }

    /// The shape. No number in it is negative.
    pub fn dims(&self) -> &'a [i64] {
        self.dims
    }

    /// The entry with the elements. They are little-endian, and the last dim varies fastest. The size of the entry is
    /// the size that the type and the shape demand. Several tensors can share one entry.
    pub fn entry(&self) -> Entry<'a> {
        self.entry
    }
}

#[cfg(feature = "mmap")]
impl Archive<Map> {
    /// Maps the archive at `path` and checks it.
    ///
    /// As with any map of a file, no process may change the file in place while it is mapped. If a process shortens
    /// the file, a signal ends this process. If a process writes to the file, the slices change while the program
    /// uses them, which is undefined behaviour in Rust. It is safe to replace the file by renaming a new file. If
    /// other processes may write to the file, read it into memory instead, and call [`Archive::parse`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the file cannot be opened or mapped, and
    /// [`Error::Refused`](crate::Error::Refused) if it breaks a requirement.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        let path = path.as_ref();
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file").into());
        }
        let file = std::fs::File::open(path)?;
        // SAFETY: the map is read-only, and lives as long as everything that borrows from it. The caller must make
        // sure that no process changes the file, as the documentation above says: no system can promise this.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        // Local headers are between the weights. Reading 100 bytes costs less than mapping their page.
        let places = zip::places(&map, &|offset, buffer| read_at(&file, &map, offset, buffer))?;
        Archive::of(Map(map), places)
    }

    /// Leaves the file mapped until the process ends, for functions that need `'static` slices.
    pub fn leak(self) -> Archive<&'static [u8]> {
        let map: &'static Map = Box::leak(Box::new(self.bytes));
        Archive {
            bytes: map.as_ref(),
            places: self.places,
            by_name: self.by_name,
            first_graph: self.first_graph,
            tensors: self.tensors,
        }
    }
}

impl<B: AsRef<[u8]>> Archive<B> {
    /// Checks an archive that is in memory.
    ///
    /// `bytes` is any object that holds the bytes and gives the same slice each time: a `Vec<u8>`, a
    /// `&'static [u8]`, an `Arc<[u8]>` or a map.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`](crate::Error::Refused) if the bytes break a requirement.
    pub fn parse(bytes: B) -> Result<Self> {
        let file = bytes.as_ref();
        let places = zip::places(file, &|offset, buffer| copy(file, offset, buffer))?;
        Archive::of(bytes, places)
    }

    /// Checks the hashes and the graphs of an archive whose container is valid.
    fn of(bytes: B, places: Vec<zip::Place>) -> Result<Self> {
        let file = bytes.as_ref();
        let name = |place: usize| places.get(place).and_then(|place| file.get(place.name.clone()));
        let part = |place: &zip::Place| names::part(file.get(place.name.clone()).unwrap_or_default());
        let tensor_count = places.partition_point(|place| part(place) == Part::Tensor);
        let first_graph = places.partition_point(|place| part(place) < Part::Graph);
        check_hashes(file, &places, part)?;
        let mut by_name: Vec<usize> = (0..tensor_count).collect();
        by_name.sort_unstable_by_key(|place| name(*place));
        let mut is_used = vec![false; tensor_count];
        let mut tensors = Vec::new();
        for (graph, place) in places.iter().enumerate().skip(first_graph) {
            graph::externals(file.get(place.payload.clone()).unwrap_or_default(), &mut |tensor| {
                let index = find(file, &places, &by_name, tensor.location);
                let Some((index, place)) = index.and_then(|index| Some((index, places.get(index)?))) else {
                    let location = Shown(tensor.location);
                    return tensor.refuse(
                        "Z-7.3",
                        format!("its location is {location}, which is not an entry of a tensor"),
                    );
                };
                tensor.check_nbytes(place.payload.len() as u64)?;
                if let Some(is_used) = is_used.get_mut(index) {
                    *is_used = true;
                }
                tensors.push(TensorPlace {
                    graph,
                    name: zip::range(file, tensor.name),
                    data_type: tensor.data_type,
                    dims: tensor.dims.into_boxed_slice(),
                    place: index,
                });
                Ok(())
            })?;
        }
        let unused = is_used.iter().position(|is_used| !is_used).and_then(name);
        require(unused.is_none(), "Z-7.11", || {
            format!("no tensor refers to entry {}", Shown(unused.unwrap_or_default()))
        })?;
        Ok(Archive { bytes, places, by_name, first_graph, tensors })
    }

    /// The last graph: a serialised ModelProto. It is the default one, if the archive has a default one.
    ///
    /// The `location` of each external tensor in it is the name of an entry.
    pub fn graph(&self) -> Entry<'_> {
        self.at(self.places.len().saturating_sub(1))
    }

    /// The graphs with the names of their models, in the order of the file. `None` is the default one, the last.
    pub fn graphs(&self) -> impl ExactSizeIterator<Item = (Option<&str>, Entry<'_>)> + Clone {
        (self.first_graph..self.places.len()).map(|index| {
            let entry = self.at(index);
            (names::model(entry.name), entry)
        })
    }

    /// The graph of the model with this name. `None` is the default one, or the only one, if there is one.
    pub fn model(&self, name: Option<&str>) -> Option<Entry<'_>> {
        let mut graphs = self.graphs();
        if name.is_none() && graphs.len() == 1 {
            return Some(self.graph());
        }
        graphs.find_map(|(model, graph)| (model == name).then_some(graph))
    }

    /// The files that go with the models, with their names without `files/`, in the order of the archive.
    pub fn files(&self) -> impl Iterator<Item = (&str, Entry<'_>)> + Clone {
        (self.by_name.len()..self.first_graph)
            .map(|index| self.at(index))
            .filter(|entry| names::part(entry.name.as_bytes()) == Part::File)
            .map(|entry| (names::file(entry.name), entry))
    }

    /// The entry with the SHA-256 of each other entry, in the form of `sha256sum`, if there is one.
    ///
    /// The crate checks the form of the hashes, but does not compare them.
    pub fn hashes(&self) -> Option<Entry<'_>> {
        let entry = self.at(self.first_graph.checked_sub(1)?);
        (names::part(entry.name.as_bytes()) == Part::Hashes).then_some(entry)
    }

    /// The entries of the tensors, in the order of the file.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> + Clone {
        (0..self.by_name.len()).map(|index| self.at(index))
    }

    /// The entry with this name, if it is the entry of a tensor.
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.named(name.as_bytes())
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<Entry<'_>> {
        let index = find(self.bytes.as_ref(), &self.places, &self.by_name, name)?;
        Some(self.at(index))
    }

    /// The tensors of all graphs whose bytes are in entries.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> + Clone {
        let file = self.bytes.as_ref();
        self.tensors.iter().map(move |tensor| Tensor {
            graph: self.at(tensor.graph),
            name: file.get(tensor.name.clone()).unwrap_or_default(),
            data_type: tensor.data_type,
            dims: &tensor.dims,
            entry: self.at(tensor.place),
        })
    }

    /// The source of the archive: the map, or the object that was given to [`Archive::parse`].
    pub fn get_ref(&self) -> &B {
        &self.bytes
    }

    fn at(&self, index: usize) -> Entry<'_> {
        let file = self.bytes.as_ref();
        let place = self.places.get(index);
        let slice = |range: Option<&Range<usize>>| {
            range.and_then(|range| file.get(range.clone())).unwrap_or_default()
        };
        Entry {
            name: std::str::from_utf8(slice(place.map(|place| &place.name))).unwrap_or_default(),
            offset: place.map_or(0, |place| place.payload.start as u64),
            bytes: slice(place.map(|place| &place.payload)),
        }
    }
}

impl<B> fmt::Debug for Archive<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("entries", &self.by_name.len())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}

/// Checks the form of the hashes, if there are any.
fn check_hashes(file: &[u8], places: &[zip::Place], part: impl Fn(&zip::Place) -> Part) -> Result<()> {
    let Some(hashes) = places.iter().find(|place| part(place) == Part::Hashes) else { return Ok(()) };
    let mut lines = Fields::of(file.get(hashes.payload.clone()).unwrap_or_default());
    for place in places.iter().filter(|place| part(place) != Part::Hashes) {
        let name = file.get(place.name.clone()).unwrap_or_default();
        require(hash_line(&mut lines, name).is_some(), "Z-4.10", || {
            format!("the hashes have no right line for entry {}", Shown(name))
        })?;
    }
    require(lines.rest().is_empty(), "Z-4.10", || "the hashes have more lines than entries".to_owned())
}

/// Reads the line with the hash of an entry.
fn hash_line(lines: &mut Fields<'_>, name: &[u8]) -> Option<()> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_right = lines.bytes(64)?.iter().all(is_digit)
        && lines.bytes(2)? == b"  "
        && lines.bytes(name.len())? == name
        && lines.bytes(1)? == b"\n";
    is_right.then_some(())
}

/// The place with this name.
fn find(file: &[u8], places: &[zip::Place], by_name: &[usize], name: &[u8]) -> Option<usize> {
    let name_of = |index: &usize| file.get(places.get(*index)?.name.clone());
    let found = by_name.binary_search_by_key(&Some(name), name_of);
    by_name.get(found.ok()?).copied()
}

/// Copies the bytes at an offset. The caller makes sure that they exist.
fn copy(file: &[u8], offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    let bytes = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)?.get(..buffer.len()));
    buffer.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

#[cfg(all(feature = "mmap", unix))]
fn read_at(file: &std::fs::File, _map: &[u8], offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(all(feature = "mmap", not(unix)))]
fn read_at(_file: &std::fs::File, map: &[u8], offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    copy(map, offset, buffer)
}
