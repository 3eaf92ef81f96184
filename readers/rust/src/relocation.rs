//! Writes a graph with other locations for its external tensors.

use crate::error::Result;
use crate::graph::{Content, External, Message, contents};
use crate::wire::fields;

/// A part of a file of external data.
pub struct Location {
    pub path: &'static str,
    pub file_offset: u64,
    pub nbytes: u64,
}

/// Returns a ModelProto in which the external tensors have the locations that `locate` returns. Nothing else changes.
pub fn relocated(model: &[u8], locate: &mut dyn FnMut(&External) -> Location) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(model.len());
    write(Message::Model, &[model], locate, &mut out)?;
    Ok(out)
}

fn write(
    message: Message,
    parts: &[&[u8]],
    locate: &mut dyn FnMut(&External) -> Location,
    out: &mut Vec<u8>,
) -> Result<()> {
    if message == Message::Tensor {
        return write_tensor(parts, locate, out);
    }
    contents(message, parts, &mut |content| match content {
        Content::Field(field) => {
            out.extend_from_slice(field.bytes);
            Ok(())
        }
        Content::Message { number, message, parts } => {
            write_nested(number, out, |out| write(message, parts, locate, out))
        }
    })
}

fn write_tensor(
    parts: &[&[u8]],
    locate: &mut dyn FnMut(&External) -> Location,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Some(tensor) = External::read(parts, 0)? else {
        out.extend(parts.iter().flat_map(|part| *part));
        return Ok(());
    };
    for field in parts.iter().flat_map(|part| fields(part)) {
        let field = field?;
        if field.number != 13 {
            out.extend_from_slice(field.bytes);
        }
    }
    let Location { path, file_offset, nbytes } = locate(&tensor);
    for (key, value) in
        [("location", path), ("offset", &file_offset.to_string()), ("length", &nbytes.to_string())]
    {
        write_nested(13, out, |out| {
            write_bytes(1, key.as_bytes(), out);
            write_bytes(2, value.as_bytes(), out);
            Ok(())
        })?;
    }
    Ok(())
}

/// Appends a field with a message. `content` appends the content of the message.
fn write_nested(
    number: u32,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    write_tag(number, out);
    let start = out.len();
    content(out)?;
    let mut length = Vec::with_capacity(10);
    write_varint(out.len().saturating_sub(start) as u64, &mut length);
    out.splice(start..start, length);
    Ok(())
}

fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_tag(number, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends the tag of a length-delimited field.
fn write_tag(number: u32, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 2, out);
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by a panic")]
mod tests {
    use super::*;
    use crate::graph::externals;

    fn nested(number: u32, content: &[u8]) -> Vec<u8> {
        let mut field = Vec::new();
        write_bytes(number, content, &mut field);
        field
    }

    fn place(key: &str, value: &str) -> Vec<u8> {
        nested(13, &[nested(1, key.as_bytes()), nested(2, value.as_bytes())].concat())
    }

    /// The names, the locations and the dims of the external tensors in a ModelProto.
    fn tensors(model: &[u8]) -> Vec<(String, String, Vec<i64>)> {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let result = externals(model, &mut |tensor| {
            found.push((text(tensor.name), text(tensor.location), tensor.dims));
            Ok(())
        });
        assert!(result.is_ok(), "{result:?}");
        found
    }

    fn relocate(model: &[u8]) -> Vec<u8> {
        let locate = &mut |tensor: &External| Location {
            path: "all.data",
            file_offset: u64::from(tensor.data_type),
            nbytes: 300,
        };
        relocated(model, locate).expect("the model is whole")
    }

    #[test]
    fn other_fields_stay_byte_for_byte() {
        let plain =
            [nested(5, &[nested(8, b"name"), nested(9, &[0; 200])].concat()), nested(1, b"")].concat();
        let model =
            [vec![8, 10], nested(7, &plain), nested(2, b"producer"), vec![0xfb, 1, 8, 1, 0xfc, 1]].concat();
        let mut fields = relocate(&model);
        assert_eq!(fields.len(), model.len());
        fields.sort_unstable(); // the graph comes last, like all fields that ONNX does not repeat
        let mut expected = model.clone();
        expected.sort_unstable();
        assert_eq!(fields, expected);
    }

    #[test]
    fn a_tensor_in_two_parts_becomes_one() {
        let first = [vec![8, 2], nested(8, b"old"), place("location", "entry")].concat();
        let second = [vec![8, 3, 16, 1, 0x70, 1], nested(8, b"new"), place("offset", "0")].concat();
        let attribute = [nested(5, &first), nested(1, b"value"), nested(5, &second)].concat();
        let model = nested(7, &nested(1, &nested(5, &attribute)));
        assert_eq!(tensors(&model), [("new".to_owned(), "entry".to_owned(), vec![2, 3])]);

        let expected = [
            [vec![8, 2], nested(8, b"old"), vec![8, 3, 16, 1, 0x70, 1], nested(8, b"new")].concat(),
            [place("location", "all.data"), place("offset", "1"), place("length", "300")].concat(),
        ];
        let attribute = [nested(1, b"value"), nested(5, &expected.concat())].concat();
        assert_eq!(relocate(&model), nested(7, &nested(1, &nested(5, &attribute))));
    }
}
