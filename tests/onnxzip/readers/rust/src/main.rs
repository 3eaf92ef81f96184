//! Prints what the crate `zip` reads of each archive that is named: a line with its entries and their bytes, or "!".
use std::error::Error;
use std::fs::File;
use std::io::Read;

fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &str) -> Result<String, Box<dyn Error>> {
    let mut archive = zip::ZipArchive::new(File::open(path)?)?;
    let mut parts = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let mut data = Vec::new();
        entry.read_to_end(&mut data)?;
        parts.push(format!("{}={}", hex(entry.name().as_bytes()), hex(&data)));
    }
    Ok(parts.join(","))
}

fn main() {
    for path in std::env::args().skip(1) {
        println!("{}", read(&path).unwrap_or_else(|_| "!".into()));
    }
}
