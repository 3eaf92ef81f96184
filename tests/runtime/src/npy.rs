//! NumPy `.npy` files as RTen values, and back.
//!
//! RTen computes in f32, i32, i8 and u8 only, so a file of any other type is converted on the way in:
//! f16 and f64 to f32, bool and the other integers to i32, saturating.
//!
//! Spec: NumPy, "NPY format" (numpy.lib.format), versions 1 to 3.

use std::fs;
use std::io::Write;
use std::path::Path;

use rten::{Value, ValueView};
use rten_tensor::prelude::*;
use rten_tensor::{Tensor, TensorView};

/// The value in the file at `path`.
pub fn read(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|err| format!("{}: {err}", path.display()))?;
    decode(&bytes).ok_or_else(|| format!("{}: not a little-endian, C-ordered .npy file", path.display()))
}

fn decode(bytes: &[u8]) -> Option<Value> {
    let (length_field, header_start) = match bytes.strip_prefix(b"\x93NUMPY")?.first()? {
        1 => (bytes.get(8..10)?, 10),
        _ => (bytes.get(8..12)?, 12),
    };
    let header_nbytes = length_field.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let header = std::str::from_utf8(bytes.get(header_start..header_start + header_nbytes)?).ok()?;
    let data = &bytes[header_start + header_nbytes..];

    if !entry(header, "fortran_order")?.starts_with("False") {
        return None;
    }
    let dims = entry(header, "shape")?.strip_prefix('(')?.split(')').next()?;
    let shape: Vec<usize> = dims.split(',').filter_map(|dim| dim.trim().parse().ok()).collect();
    let dtype = entry(header, "descr")?.split('\'').nth(1)?;
    match dtype {
        "<f4" => tensor(&shape, data, f32::from_le_bytes),
        "<f8" => tensor(&shape, data, |x| f64::from_le_bytes(x) as f32),
        "<f2" => tensor(&shape, data, |x| f16_to_f32(u16::from_le_bytes(x))),
        "<i4" => tensor(&shape, data, i32::from_le_bytes),
        "|i1" => tensor(&shape, data, i8::from_le_bytes),
        "|u1" => tensor(&shape, data, u8::from_le_bytes),
        "|b1" => tensor(&shape, data, |[x]| i32::from(x != 0)),
        "<i2" => tensor(&shape, data, |x| i32::from(i16::from_le_bytes(x))),
        "<u2" => tensor(&shape, data, |x| i32::from(u16::from_le_bytes(x))),
        "<u4" => tensor(&shape, data, |x| saturate(u32::from_le_bytes(x).into())),
        "<i8" => tensor(&shape, data, |x| saturate(i64::from_le_bytes(x).into())),
        "<u8" => tensor(&shape, data, |x| saturate(u64::from_le_bytes(x).into())),
        _ => None,
    }
}

/// What follows `'key':` in the Python dictionary of the header.
fn entry<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let after = header.split_once(&format!("'{key}'"))?.1;
    Some(after.split_once(':')?.1.trim_start())
}

fn tensor<T, const N: usize>(shape: &[usize], data: &[u8], convert: impl Fn([u8; N]) -> T) -> Option<Value>
where
    Value: From<Tensor<T>>,
{
    let (elements, rest) = data.as_chunks::<N>();
    let is_whole = rest.is_empty() && elements.len() == shape.iter().product::<usize>();
    is_whole
        .then(|| Tensor::from_data(shape, elements.iter().map(|x| convert(*x)).collect::<Vec<T>>()).into())
}

fn saturate(x: i128) -> i32 {
    x.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn f16_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

/// Writes a tensor to `path`, in its own type.
pub fn write(path: &Path, value: &ValueView) -> Result<(), String> {
    let bytes = match value {
        ValueView::FloatTensor(x) => encode("<f4", x, f32::to_le_bytes),
        ValueView::Int32Tensor(x) => encode("<i4", x, i32::to_le_bytes),
        ValueView::Int8Tensor(x) => encode("|i1", x, i8::to_le_bytes),
        ValueView::UInt8Tensor(x) => encode("|u1", x, u8::to_le_bytes),
        _ => return Err("a sequence inside a sequence has no .npy form".to_owned()),
    };
    let written = fs::File::create(path).and_then(|mut file| file.write_all(&bytes));
    written.map_err(|err| format!("{}: {err}", path.display()))
}

fn encode<T: Copy, const N: usize>(
    dtype: &str,
    tensor: &TensorView<T>,
    convert: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    let dims: String = tensor.shape().iter().map(|dim| format!("{dim},")).collect();
    let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({dims}), }}");
    let padding = 63 - (10 + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');

    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(tensor.iter().flat_map(|x| convert(*x)));
    bytes
}
