//! Any bytes give an archive or an error, and every range that an archive gives is inside the file.
//!
//! `cargo +nightly fuzz run read CORPUS`, where the corpus is a folder with the archives of the test vectors.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxz::Archive;

fuzz_target!(|file: &[u8]| {
    let Ok(archive) = Archive::parse(file) else { return };
    let mut end = 0;
    let files = archive.files().map(|(_, entry)| entry);
    let graphs = archive.graphs().map(|(_, entry)| entry);
    for entry in archive.entries().chain(files).chain(archive.hashes()).chain(graphs) {
        let start = usize::try_from(entry.file_offset()).expect("it is in memory");
        assert!(start > end, "a header is before each payload");
        assert!(std::ptr::eq(entry.bytes(), &file[start..start + entry.bytes().len()]));
        end = start + entry.bytes().len();
    }
    for tensor in archive.tensors() {
        let named = archive.entry(tensor.entry().name()).expect("a tensor has an entry");
        assert!(std::ptr::eq(named.bytes(), tensor.entry().bytes()));
    }
});
