//! The verdicts of the crate on the test vectors of the specification.
//!
//! `tests/vectors` has copies of the files in `tests/onnxzip/golden` of the repository, where a README describes them.
//! The script there writes both.

use onnxz::Archive;
use serde_json::Value;

fn vectors(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("a list of vectors")
}

fn text<'v>(vector: &'v Value, key: &str) -> &'v str {
    vector[key].as_str().expect("a text")
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let octet = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits");
    (0..hex.len()).step_by(2).map(octet).collect()
}

/// Asserts that the crate takes an archive, or refuses it for the requirement that it breaks, as the vector says.
fn check<B>(vector: &Value, kind: &str, verdict: onnxz::Result<Archive<B>>) {
    let name = text(vector, "name");
    let expected = (kind == "refused").then(|| text(vector, "breaks"));
    let found = verdict.as_ref().err().map(|error| error.requirement().expect("the system read the file"));
    assert_eq!(found, expected, "{name}, {kind}: {verdict:?}");
}

#[test]
fn each_vector_is_refused_with_the_requirement_that_it_breaks_or_taken() {
    let vectors = vectors(include_str!("vectors/vectors.json"));
    let mut count = [0, 0];
    for vector in &vectors {
        for (index, kind) in ["refused", "taken"].into_iter().enumerate() {
            if let Some(hex) = vector[kind].as_str() {
                check(vector, kind, Archive::parse(bytes_of(hex)));
                count[index] += 1;
            }
        }
    }
    assert!(count > [400, 400], "there are only {count:?} vectors");
}

/// The vectors over 4 GiB, or with 65,535 entries: files with holes, which need a file system that has holes.
#[cfg(all(feature = "mmap", unix, target_pointer_width = "64"))]
mod large {
    use super::*;
    use std::fs::File;
    use std::io::{Result, Seek, SeekFrom, Write};

    fn number(value: &Value) -> u64 {
        value.as_u64().expect("a whole number")
    }

    fn write(file: &mut File, parts: &Value) -> Result<()> {
        for part in parts.as_array().expect("a list of parts") {
            if let Some(count) = part["count"].as_u64() {
                let repeated: Vec<u8> = (0..count).flat_map(|index| repetition(&part["of"], index)).collect();
                file.write_all(&repeated)?;
            } else if let Some(zeros) = part["zeros"].as_u64() {
                let end = file.stream_position()? + zeros;
                file.set_len(end)?;
                file.seek(SeekFrom::Start(end))?;
            } else {
                file.write_all(&bytes_of(text(part, "hex")))?;
            }
        }
        Ok(())
    }

    /// The bytes of parts that are repeated, for the repetition with this index.
    fn repetition(parts: &Value, index: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in parts.as_array().expect("a list of parts") {
            if let Some(letters) = part["letters"].as_u64() {
                let letter = |place| b'a' + u8::try_from(index / 26_u64.pow(place) % 26).expect("below 26");
                bytes.extend((0..u32::try_from(letters).expect("a few")).rev().map(letter));
            } else if let Some(sequence) = part["u32"].as_array() {
                let value = number(&sequence[0]) + index * number(&sequence[1]);
                bytes.extend(u32::try_from(value).expect("it has 32 bits").to_le_bytes());
            } else {
                bytes.extend(bytes_of(text(part, "hex")));
            }
        }
        bytes
    }

    #[test]
    fn each_large_vector_is_refused_with_the_requirement_that_it_breaks_or_taken() -> Result<()> {
        let path = std::env::temp_dir().join(format!("onnxz-test-{}-large.onnxz", std::process::id()));
        for vector in vectors(include_str!("vectors/large.json")) {
            for kind in ["refused", "taken"] {
                if !vector[kind].is_null() {
                    write(&mut File::create(&path)?, &vector[kind])?;
                    check(&vector, kind, Archive::open(&path));
                }
            }
        }
        std::fs::remove_file(path)
    }
}
