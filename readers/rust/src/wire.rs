//! The fields of a message of Protocol Buffers.

use crate::error::{Result, refused};

/// The largest depth of nested groups.
const MAX_GROUPS: usize = 100;
/// The largest size of a tag or a length.
const MAX_PREFIX_NBYTES: usize = 5;

/// A field of a message.
pub struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
    /// All its bytes, from the tag on.
    pub bytes: &'a [u8],
}

/// The value of a field.
pub enum Value<'a> {
    Varint(u64),
    /// A message, a string, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of fixed size, or a group. Readers do not use these.
    Other,
}

impl<'a> Field<'a> {
    pub fn varint(&self) -> Option<u64> {
        if let Value::Varint(value) = self.value { Some(value) } else { None }
    }

    pub fn message(&self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self.value { Some(bytes) } else { None }
    }
}

/// Returns the fields of a message. After an error, it returns nothing more.
pub struct Fields<'a>(&'a [u8]);

/// The fields of a message.
pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields(message)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(self.0);
        self.0 = match &field {
            Ok(field) => self.0.get(field.bytes.len()..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(field)
    }
}

/// The field at the start of `bytes`.
fn field(bytes: &[u8]) -> Result<Field<'_>> {
    let mut rest = bytes;
    let (number, wire_type) = tag(&mut rest)?;
    let value = match wire_type {
        3 => {
            skip_group(&mut rest, number)?;
            Value::Other
        }
        4 => return refused("Z-6.1", format!("the group {number} ends in the graph where none began")),
        _ => value(&mut rest, wire_type)?,
    };
    let nbytes = bytes.len().saturating_sub(rest.len());
    Ok(Field { number, value, bytes: bytes.get(..nbytes).unwrap_or_default() })
}

/// The value of a field that is not a group.
fn value<'a>(rest: &mut &'a [u8], wire_type: u64) -> Result<Value<'a>> {
    Ok(match wire_type {
        0 => Value::Varint(varint(rest)?),
        1 => {
            take(rest, 8)?;
            Value::Other
        }
        2 => {
            let nbytes = prefix(rest)?;
            Value::Bytes(take(rest, nbytes)?)
        }
        5 => {
            take(rest, 4)?;
            Value::Other
        }
        _ => return refused("Z-6.1", format!("a field of the graph has the wire type {wire_type}")),
    })
}

/// Skips a group. The caller has read the first tag of the group.
fn skip_group(rest: &mut &[u8], number: u32) -> Result<()> {
    let mut open = vec![number];
    while let Some(innermost) = open.last() {
        if rest.is_empty() {
            return refused("Z-6.3", format!("the group {innermost} in the graph does not end"));
        }
        match tag(rest)? {
            (number, 3) if open.len() < MAX_GROUPS => open.push(number),
            (_, 3) => return refused("Z-6.3", "groups in the graph are nested more than 100 deep"),
            (number, 4) if number == *innermost => drop(open.pop()),
            (number, 4) => {
                return refused(
                    "Z-6.3",
                    format!("the group {innermost} in the graph ends as group {number}"),
                );
            }
            (_, wire_type) => {
                value(rest, wire_type)?;
            }
        }
    }
    Ok(())
}

/// The number of a field, and its wire type.
fn tag(rest: &mut &[u8]) -> Result<(u32, u64)> {
    let tag = prefix(rest)?;
    match u32::try_from(tag >> 3) {
        Ok(number @ 1..=0x1fff_ffff) => Ok((number, tag & 7)),
        _ => refused("Z-6.1", format!("a field of the graph has the number {}", tag >> 3)),
    }
}

/// Removes a tag or a length from the start of `rest` and returns it.
fn prefix(rest: &mut &[u8]) -> Result<u64> {
    let before = rest.len();
    let value = varint(rest)?;
    if before.saturating_sub(rest.len()) > MAX_PREFIX_NBYTES {
        return refused("Z-6.2", "a tag or a length in the graph takes more than 5 bytes");
    }
    Ok(value)
}

/// Removes a varint from the start of `rest` and returns it.
pub fn varint(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = take(rest, 1)? else { break };
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << shift;
        if shifted >> shift != bits {
            break; // the tenth byte has bits that do not fit
        }
        value |= shifted;
        if *byte < 0x80 {
            return Ok(value);
        }
    }
    refused("Z-6.2", "a number in the graph has more than 64 bits, or takes more than 10 bytes")
}

fn take<'a>(rest: &mut &'a [u8], nbytes: u64) -> Result<&'a [u8]> {
    match usize::try_from(nbytes).ok().and_then(|nbytes| rest.split_at_checked(nbytes)) {
        Some((taken, after)) => {
            *rest = after;
            Ok(taken)
        }
        None => refused("Z-6.1", format!("{nbytes} bytes of a field of the graph are beyond its message")),
    }
}
