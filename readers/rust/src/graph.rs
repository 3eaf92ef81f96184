//! The tensors of a ModelProto whose bytes are in entries.

use crate::error::{Result, Shown, refused, require};
use crate::wire::{Field, fields, varint};

/// The largest depth of nested messages.
const MAX_DEPTH: usize = 100;
const EXTERNAL: u32 = 1;

/// A kind of ONNX message that is read, because it can contain a tensor.
#[derive(Clone, Copy, PartialEq)]
pub enum Message {
    Model,
    Training,
    Function,
    Graph,
    Node,
    Attribute,
    SparseTensor,
    Tensor,
}

impl Message {
    /// The message that a field holds, and whether the field is repeated.
    fn child(self, number: u32) -> Option<(Message, bool)> {
        Some(match (self, number) {
            (Message::Model, 7) => (Message::Graph, false),
            (Message::Model, 20) => (Message::Training, true),
            (Message::Model, 25) => (Message::Function, true),
            (Message::Training, 1 | 2) => (Message::Graph, false),
            (Message::Function, 7) => (Message::Node, true),
            (Message::Function, 11) => (Message::Attribute, true),
            (Message::Graph, 1) => (Message::Node, true),
            (Message::Graph, 5) => (Message::Tensor, true),
            (Message::Graph, 15) => (Message::SparseTensor, true),
            (Message::Node, 5) => (Message::Attribute, true),
            (Message::Attribute, 5) => (Message::Tensor, false),
            (Message::Attribute, 6) => (Message::Graph, false),
            (Message::Attribute, 10) => (Message::Tensor, true),
            (Message::Attribute, 11) => (Message::Graph, true),
            (Message::Attribute, 22) => (Message::SparseTensor, false),
            (Message::Attribute, 23) => (Message::SparseTensor, true),
            (Message::SparseTensor, 1 | 2) => (Message::Tensor, false),
            _ => return None,
        })
    }
}

/// One item in a message.
#[cfg_attr(not(feature = "rten"), allow(dead_code, reason = "only who writes messages looks at it"))]
pub enum Content<'p, 'a> {
    /// A field whose content is not read.
    Field(Field<'a>),
    /// A message whose content is read, with all its parts.
    Message { number: u32, message: Message, parts: &'p [&'a [u8]] },
}

/// Calls `visit` with each item of a message. If a file has a field more than once that is not repeated in ONNX, the
/// message in this field has several parts. Its fields are the fields of all parts, one after another.
pub fn contents<'a>(
    message: Message,
    parts: &[&'a [u8]],
    visit: &mut dyn FnMut(Content<'_, 'a>) -> Result<()>,
) -> Result<()> {
    let mut parts_of_one = Vec::new();
    for field in parts.iter().flat_map(|part| fields(part)) {
        let field = field?;
        let number = field.number;
        match message.child(number).zip(field.message()) {
            Some(((message, true), part)) => visit(Content::Message { number, message, parts: &[part] })?,
            Some(((message, false), part)) => parts_of_one.push((number, message, part)),
            None => visit(Content::Field(field))?,
        }
    }
    parts_of_one.sort_by_key(|(number, ..)| *number); // a stable sort
    for chunk in parts_of_one.chunk_by(|(number, ..), (next, ..)| number == next) {
        let Some(&(number, message, _)) = chunk.first() else { continue };
        let parts: Vec<&[u8]> = chunk.iter().map(|(.., part)| *part).collect();
        visit(Content::Message { number, message, parts: &parts })?;
    }
    Ok(())
}

/// A tensor whose bytes are in an entry.
pub struct External<'a> {
    pub name: &'a [u8],
    pub data_type: u32,
    pub dims: Vec<i64>,
    pub location: &'a [u8],
    offset: Option<&'a [u8]>,
    length: Option<&'a [u8]>,
}

/// Calls `visit` with each external tensor of a ModelProto.
pub fn externals<'a>(model: &'a [u8], visit: &mut dyn FnMut(External<'a>) -> Result<()>) -> Result<()> {
    let mut has_graph = false;
    for field in fields(model) {
        let field = field?;
        has_graph |= field.number == 7 && field.message().is_some();
    }
    require(has_graph, "Z-6.5", || "the ModelProto has no graph".to_owned())?;
    walk(Message::Model, &[model], 0, visit)
}

fn walk<'a>(
    message: Message,
    parts: &[&'a [u8]],
    depth: usize,
    visit: &mut dyn FnMut(External<'a>) -> Result<()>,
) -> Result<()> {
    check_depth(depth)?;
    if message == Message::Tensor {
        return match External::read(parts, depth)? {
            Some(tensor) => visit(tensor),
            None => Ok(()),
        };
    }
    contents(message, parts, &mut |content| match content {
        Content::Field(_) => Ok(()),
        Content::Message { message, parts, .. } => walk(message, parts, depth.saturating_add(1), visit),
    })
}

fn check_depth(depth: usize) -> Result<()> {
    require(depth <= MAX_DEPTH, "Z-6.4", || {
        format!("messages of the graph are nested more than {MAX_DEPTH} deep")
    })
}

/// Whether a TensorProto is external.
fn is_external(parts: &[&[u8]]) -> Result<bool> {
    let mut location = 0;
    for field in parts.iter().flat_map(|part| fields(part)) {
        let field = field?;
        if let (14, Some(value)) = (field.number, field.varint()) {
            location = lower_half(value);
        }
    }
    Ok(location == EXTERNAL)
}

impl<'a> External<'a> {
    pub fn read(parts: &[&'a [u8]], depth: usize) -> Result<Option<Self>> {
        if !is_external(parts)? {
            return Ok(None);
        }
        let mut tensor =
            External { name: b"", data_type: 0, dims: Vec::new(), location: b"", offset: None, length: None };
        let mut location = None;
        let mut own_data = None;
        for field in parts.iter().flat_map(|part| fields(part)) {
            let field = field?;
            match (field.number, field.varint(), field.message()) {
                (1, Some(dim), _) => tensor.dims.push(dim.cast_signed()),
                (1, _, Some(packed)) => read_packed(packed, &mut tensor.dims)?,
                (2, Some(data_type), _) => tensor.data_type = lower_half(data_type),
                (3, ..) => return tensor.refuse("Z-7.7", "it is a segment"),
                (4..=7 | 9..=11, ..) => own_data = Some(field.number),
                (8, _, Some(name)) => tensor.name = name,
                (13, _, Some(entry)) => {
                    check_depth(depth.saturating_add(1))?;
                    tensor.read_external_data(entry, &mut location)?;
                }
                _ => {}
            }
        }
        if let Some(number) = own_data {
            return tensor.refuse("Z-7.6", format!("it also has data of its own, in field {number}"));
        }
        match location {
            Some(location) => tensor.location = location,
            None => return tensor.refuse("Z-7.2", "its external_data has no location"),
        }
        match tensor.offset {
            None | Some(b"0") => Ok(Some(tensor)),
            Some(offset) => tensor.refuse("Z-7.4", format!("its offset is {}, not \"0\"", Shown(offset))),
        }
    }

    fn read_external_data(&mut self, entry: &'a [u8], location: &mut Option<&'a [u8]>) -> Result<()> {
        let (mut key, mut value) = (&b""[..], &b""[..]);
        for field in fields(entry) {
            let field = field?;
            match (field.number, field.message()) {
                (1, Some(bytes)) => key = bytes,
                (2, Some(bytes)) => value = bytes,
                _ => {}
            }
        }
        let place = match key {
            b"location" => location,
            b"offset" => &mut self.offset,
            b"length" => &mut self.length,
            _ => return self.refuse("Z-7.2", format!("its external_data has the key {}", Shown(key))),
        };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => self.refuse("Z-7.2", format!("its external_data has the key {} twice", Shown(key))),
        }
    }

    /// Checks that an entry of `nbytes` bytes holds the tensor.
    pub fn check_nbytes(&self, nbytes: u64) -> Result<()> {
        if let Some(length) = self.length
            && length != nbytes.to_string().as_bytes()
        {
            return self
                .refuse("Z-7.5", format!("its length is {}, its entry has {nbytes} bytes", Shown(length)));
        }
        let Some(bits) = bits(self.data_type) else {
            return self.refuse("Z-7.8", format!("the element type {} has no known size", self.data_type));
        };
        if let Some(dim) = self.dims.iter().find(|dim| **dim < 0) {
            return self.refuse("Z-7.9", format!("it has the dimension {dim}"));
        }
        match needed_nbytes(bits, &self.dims) {
            Some(needed) if needed == nbytes.into() => Ok(()),
            Some(needed) => self.refuse("Z-7.10", format!("it takes {needed} bytes, its entry has {nbytes}")),
            None => {
                self.refuse("Z-7.10", format!("its shape is too large for the {nbytes} bytes of its entry"))
            }
        }
    }

    pub fn refuse<T>(&self, requirement: &'static str, message: impl AsRef<str>) -> Result<T> {
        refused(requirement, format!("tensor {}: {}", Shown(self.name), message.as_ref()))
    }
}

/// The number of bytes for a shape with elements of `bits` bits, or `None` if it does not fit into 128 bits.
fn needed_nbytes(bits: u8, dims: &[i64]) -> Option<u128> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut dims = dims.iter().map(|dim| u128::from(dim.unsigned_abs()));
    let elements = dims.try_fold(1_u128, |product, dim| product.checked_mul(dim))?;
    Some(elements.checked_mul(bits.into())?.div_ceil(8))
}

/// The size of an element in bits, or `None` if the type has no fixed size.
fn bits(data_type: u32) -> Option<u8> {
    Some(match data_type {
        25 | 26 => 2,
        21..=23 => 4,
        27 | 28 => 6,
        2 | 3 | 9 | 17..=20 | 24 => 8,
        4 | 5 | 10 | 16 => 16,
        1 | 6 | 12 => 32,
        7 | 11 | 13 | 14 => 64,
        15 => 128,
        _ => return None,
    })
}

fn read_packed(mut packed: &[u8], numbers: &mut Vec<i64>) -> Result<()> {
    while !packed.is_empty() {
        match varint(&mut packed) {
            Ok(number) => numbers.push(number.cast_signed()),
            Err(_) => return refused("Z-6.7", "packed dims in the graph are not whole numbers"),
        }
    }
    Ok(())
}

fn lower_half(value: u64) -> u32 {
    (value & u64::from(u32::MAX)) as u32
}
