//! The names of entries: which ones are allowed, and what each means.

use std::collections::HashSet;

use crate::error::{Result, Shown, refused, require};

/// The name of the entry that holds the default graph.
pub const GRAPH_NAME: &str = "__MODEL_PROTO";
const GRAPH_PREFIX: &str = "__MODEL_PROTO_";
const HASHES_NAME: &str = "__SHA256SUMS";
const FILES_PREFIX: &str = "files/";
const MAX_NAME_NBYTES: usize = 255;

/// What an entry is. The entries of an archive are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Tensor,
    File,
    Hashes,
    Graph,
    DefaultGraph,
}

/// What an entry with this name is, if the name is allowed.
pub fn part(name: &[u8]) -> Part {
    if name == GRAPH_NAME.as_bytes() {
        Part::DefaultGraph
    } else if name.starts_with(GRAPH_PREFIX.as_bytes()) {
        Part::Graph
    } else if name == HASHES_NAME.as_bytes() {
        Part::Hashes
    } else if name.starts_with(FILES_PREFIX.as_bytes()) {
        Part::File
    } else {
        Part::Tensor
    }
}

/// The name of the model whose graph is the entry with this name, or `None` for the default one.
pub fn model(name: &str) -> Option<&str> {
    name.strip_prefix(GRAPH_PREFIX)
}

/// The name of a file, without the folder of all files.
pub fn file(name: &str) -> &str {
    name.strip_prefix(FILES_PREFIX).unwrap_or(name)
}

/// Checks the names of all entries, in the order of the file, against the rules and against each other.
pub fn check(names: &[&[u8]]) -> Result<()> {
    for name in names {
        if let Some(requirement) = broken(name) {
            let remark = if requirement == "Z-4.4" {
                ": the archive may be of a later version of the format"
            } else {
                ""
            };
            return refused(requirement, format!("an entry may not be called {}{remark}", Shown(name)));
        }
    }
    let Some(last) = names.last() else {
        return refused("Z-4.1", "the archive has no entry");
    };
    require(part(last) >= Part::Graph, "Z-4.1", || {
        format!("the last entry is {}, not {GRAPH_NAME} or {GRAPH_PREFIX}NAME", Shown(last))
    })?;
    check_order(names)?;
    check_unique(names)
}

fn check_order(names: &[&[u8]]) -> Result<()> {
    for (name, next) in names.iter().zip(names.iter().skip(1)) {
        require(part(name) <= part(next), "Z-4.9", || {
            format!("entry {} comes after {}, but must come before it", Shown(next), Shown(name))
        })?;
    }
    Ok(())
}

fn check_unique(names: &[&[u8]]) -> Result<()> {
    let mut folded = HashSet::with_capacity(names.len());
    for name in names {
        require(folded.insert(name.to_ascii_lowercase()), "Z-4.6", || {
            format!("the names of two entries are {} but for case", Shown(name))
        })?;
    }
    for name in names.iter().filter(|name| part(name) == Part::File) {
        let lower = name.to_ascii_lowercase();
        for (at, _) in lower.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            require(!folded.contains(lower.get(..at).unwrap_or_default()), "Z-4.8", || {
                format!("an entry has the name of a folder of {}", Shown(name))
            })?;
        }
    }
    Ok(())
}

/// The requirement that a name breaks.
fn broken(name: &[u8]) -> Option<&'static str> {
    let is_word = |name: &[u8]| name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if name.len() > MAX_NAME_NBYTES {
        Some("Z-4.3")
    } else if name.starts_with(b"__") && is_word(name) {
        let is_graph = name == GRAPH_NAME.as_bytes()
            || name.strip_prefix(GRAPH_PREFIX.as_bytes()).is_some_and(|model| !model.is_empty());
        (!is_graph && name != HASHES_NAME.as_bytes()).then_some("Z-4.4")
    } else if let Some(path) = name.strip_prefix(FILES_PREFIX.as_bytes()) {
        let mut components = path.split(|byte| *byte == b'/');
        if !components.clone().all(is_component) {
            Some("Z-4.7")
        } else {
            components.any(is_device).then_some("Z-4.5")
        }
    } else if !is_word(name) || name.first().is_none_or(u8::is_ascii_digit) {
        Some("Z-4.2")
    } else {
        is_device(name).then_some("Z-4.5")
    }
}

/// Whether a folder or file of the archive may have this name.
fn is_component(name: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    name.first().is_some_and(is_first)
        && name.last() != Some(&b'.')
        && name.iter().all(|byte| is_first(byte) || matches!(byte, b'.' | b'-'))
}

/// Whether the name, up to its first dot, means a device on Windows.
fn is_device(name: &[u8]) -> bool {
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    match stem.to_ascii_lowercase().as_slice() {
        b"con" | b"prn" | b"aux" | b"nul" => true,
        [b'c', b'o', b'm', digit] | [b'l', b'p', b't', digit] => digit.is_ascii_digit(),
        _ => false,
    }
}
