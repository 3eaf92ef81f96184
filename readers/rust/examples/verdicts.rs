//! Reads paths of files from standard input, one per line. For each it prints a line of JSON: the content of the
//! archive, or the requirement that it breaks.
//!
//! ```text
//! {"ok": true, "graph": SHA-256 of the last graph, "entries": [[name, file offset, size], ...] with graphs,
//!  "tensors": [[location, file offset, size], ...]}
//! {"ok": false, "requirement": NUMBER, or "" if the system refused the file, "message": TEXT}
//! ```

use std::io::{self, BufRead, Write};

use onnxz::{Archive, Entry};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for path in io::stdin().lock().lines() {
        writeln!(out, "{}", verdict(&path?))?;
        out.flush()?; // the caller may wait for this answer before it sends the next path
    }
    Ok(())
}

fn verdict(path: &str) -> Value {
    match Archive::open(path) {
        Ok(archive) => {
            let graph = archive.graph();
            let digest: String =
                Sha256::digest(graph.bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            let files = archive.files().map(|(_, entry)| entry);
            let graphs = archive.graphs().map(|(_, entry)| entry);
            let entries: Vec<Value> =
                archive.entries().chain(files).chain(archive.hashes()).chain(graphs).map(place).collect();
            let tensors: Vec<Value> = archive.tensors().map(|tensor| place(tensor.entry())).collect();
            json!({"ok": true, "graph": digest, "entries": entries, "tensors": tensors})
        }
        Err(error) => {
            json!({"ok": false, "requirement": error.requirement().unwrap_or_default(), "message": error.to_string()})
        }
    }
}

fn place(entry: Entry) -> Value {
    json!([entry.name(), entry.file_offset(), entry.bytes().len()])
}
