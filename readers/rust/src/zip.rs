//! The container: a zip file in which every byte belongs to exactly one record, and nothing is compressed.
//!
//! The layouts of the records are those of APPNOTE.TXT 6.3. docs/onnxz.md says which choices an archive may make.

use std::io;
use std::ops::Range;

use crate::error::{Result, Shown, refused, require};
use crate::fields::Fields;
use crate::names;

const LOCAL_HEADER: &[u8; 4] = b"PK\x03\x04";
const END_NBYTES: u64 = 22;
const LOCATOR_NBYTES: u64 = 20;
const ZIP64_END_NBYTES: u64 = 56;
const LOCAL_HEADER_NBYTES: u64 = 30;
/// A record of the directory with a name of one character and no extra field.
const MIN_RECORD_NBYTES: u64 = 47;
/// A record of the directory with a name of 255 characters and three values in its zip64 record.
const MAX_RECORD_NBYTES: u64 = 46 + 255 + 28;
/// The newest version of zip that an entry may require: 4.5, which has zip64.
const MAX_VERSION: u16 = 45;
const ZIP64_ID: u16 = 0x0001;
const PADDING_ID: u16 = 0x5a4f;

/// The place of an entry in the file. The file has its name twice; this is the name in the directory.
#[derive(Clone, Debug)]
pub struct Place {
    pub name: Range<usize>,
    pub payload: Range<usize>,
}

/// Fills a buffer with the bytes at an offset of the file. The caller makes sure that they exist.
pub type ReadAt<'f> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + 'f;

struct Directory {
    entries: u64,
    nbytes: u64,
    offset: u64,
}

/// The entries of an archive in the order of the file, graphs last.
///
/// `read_at` reads the local headers. All other parts of the file are used without a copy.
pub fn places(file: &[u8], read_at: &ReadAt) -> Result<Vec<Place>> {
    let directory = directory(file)?;
    let Directory { entries, nbytes, offset: directory_offset } = directory;
    let Some(mut fields) = Fields::at(file, directory_offset, nbytes) else {
        return refused("Z-2.4", "the directory reaches beyond the file");
    };
    // Do not allocate memory for more entries than the file can have (Z-9.5).
    let fits = entries.saturating_mul(MIN_RECORD_NBYTES) <= nbytes
        && nbytes <= entries.saturating_mul(MAX_RECORD_NBYTES);
    require(fits, "Z-5.1", || format!("a directory of {nbytes} bytes cannot have {entries} entries"))?;
    let mut places = Vec::with_capacity(usize::try_from(entries).unwrap_or(0));
    let mut header = Vec::new();
    let mut offset = 0;
    for index in 0..entries {
        let Some(record) = Record::read(&mut fields) else {
            return refused("Z-5.1", format!("the directory has no whole record of entry {index}"));
        };
        read_header(directory_offset, offset, read_at, &mut header)?;
        let place = entry(file, &record, offset, &header)?;
        offset = place.payload.end as u64;
        places.push(place);
    }
    require(fields.rest().is_empty(), "Z-5.1", || {
        format!("the directory continues after the {entries} entries that the end record states")
    })?;
    require(offset == directory_offset, "Z-2.3", || {
        format!("the entries end at byte {offset}, the directory begins at byte {directory_offset}")
    })?;
    let names: Vec<&[u8]> =
        places.iter().map(|place| file.get(place.name.clone()).unwrap_or_default()).collect();
    names::check(&names)?;
    Ok(places)
}

/// The end record: the place of the directory and the number of its entries, if they fit into the fields.
struct End {
    disks: [u16; 2],
    entries_on_disk: u16,
    entries: u16,
    nbytes: u32,
    offset: u32,
    comment_nbytes: u16,
}

impl End {
    fn read(file: &[u8], offset: u64) -> Option<Self> {
        let mut fields = Fields::at(file, offset, END_NBYTES)?;
        signature(&mut fields, b"PK\x05\x06")?;
        Some(End {
            disks: [fields.u16()?, fields.u16()?],
            entries_on_disk: fields.u16()?,
            entries: fields.u16()?,
            nbytes: fields.u32()?,
            offset: fields.u32()?,
            comment_nbytes: fields.u16()?,
        })
    }
}

struct Locator {
    record_disk: u32,
    record_offset: u64,
    disks: u32,
}

impl Locator {
    fn read(file: &[u8], offset: u64) -> Option<Self> {
        let mut fields = Fields::at(file, offset, LOCATOR_NBYTES)?;
        signature(&mut fields, b"PK\x06\x07")?;
        Some(Locator { record_disk: fields.u32()?, record_offset: fields.u64()?, disks: fields.u32()? })
    }
}

struct Zip64End {
    record_nbytes: u64,
    disks: [u32; 2],
    entries_on_disk: u64,
    entries: u64,
    nbytes: u64,
    offset: u64,
}

impl Zip64End {
    fn read(file: &[u8], offset: u64) -> Option<Self> {
        let mut fields = Fields::at(file, offset, ZIP64_END_NBYTES)?;
        signature(&mut fields, b"PK\x06\x06")?;
        let record_nbytes = fields.u64()?;
        let _versions = fields.u32()?;
        Some(Zip64End {
            record_nbytes,
            disks: [fields.u32()?, fields.u32()?],
            entries_on_disk: fields.u64()?,
            entries: fields.u64()?,
            nbytes: fields.u64()?,
            offset: fields.u64()?,
        })
    }
}

/// Reads the end record, and also the zip64 structures if they hold a value that the end record does not.
fn directory(file: &[u8]) -> Result<Directory> {
    let file_nbytes = file.len() as u64;
    let Some(end_offset) = file_nbytes.checked_sub(END_NBYTES) else {
        return refused("Z-2.1", format!("the file has {file_nbytes} bytes, an end record alone has 22"));
    };
    let Some(end) = End::read(file, end_offset) else {
        return refused("Z-2.1", "the last 22 bytes are not the end record of a zip file");
    };
    require(end.comment_nbytes == 0, "Z-2.1", || "the archive has a comment".to_owned())?;
    require(end.disks == [0, 0], "Z-5.7", || "the archive is on several disks".to_owned())?;
    let counts = [end.entries_on_disk, end.entries];
    let is_long = counts.contains(&u16::MAX) || end.nbytes == u32::MAX || end.offset == u32::MAX;
    let (directory, next_offset) = if is_long {
        zip64_directory(file, end_offset, &end)?
    } else {
        require(end.entries_on_disk == end.entries, "Z-5.7", || {
            format!("{} of {} entries are on this disk", end.entries_on_disk, end.entries)
        })?;
        let [entries, nbytes, offset] = [end.entries.into(), end.nbytes.into(), end.offset.into()];
        (Directory { entries, nbytes, offset }, end_offset)
    };
    let Directory { nbytes, offset, .. } = directory;
    require(offset.checked_add(nbytes) == Some(next_offset), "Z-2.4", || {
        format!(
            "a directory of {nbytes} bytes at byte {offset} does not end at byte {next_offset}, before the end records"
        )
    })?;
    Ok(directory)
}

/// Reads the zip64 end record: the directory, and the offset of the record itself.
fn zip64_directory(file: &[u8], end_offset: u64, end: &End) -> Result<(Directory, u64)> {
    let locator_offset = end_offset.saturating_sub(LOCATOR_NBYTES);
    let record_offset = locator_offset.saturating_sub(ZIP64_END_NBYTES);
    let (locator, long) = match (Locator::read(file, locator_offset), Zip64End::read(file, record_offset)) {
        (Some(locator), Some(long)) => (locator, long),
        (None, None) => {
            return refused("Z-5.8", "the end record needs zip64, and there is no zip64 end record");
        }
        (None, _) => return refused("Z-5.8", format!("there is no zip64 locator at byte {locator_offset}")),
        (_, None) => {
            return refused("Z-5.9", format!("there is no zip64 end record at byte {record_offset}"));
        }
    };
    require(locator.record_disk == 0 && locator.disks == 1, "Z-5.11", || {
        "the zip64 locator names several disks".to_owned()
    })?;
    require(locator.record_offset == record_offset, "Z-5.11", || {
        format!("the zip64 locator points to byte {}, not to {record_offset}", locator.record_offset)
    })?;
    require(long.record_nbytes == ZIP64_END_NBYTES - 12, "Z-5.10", || {
        "the zip64 end record has extensible data".to_owned()
    })?;
    require(long.disks == [0, 0], "Z-5.10", || "the zip64 end record names several disks".to_owned())?;
    require(long.entries_on_disk == long.entries, "Z-5.7", || {
        format!("{} of {} entries are on this disk", long.entries_on_disk, long.entries)
    })?;
    let is_needed = long.entries >= u16::MAX.into() || long.nbytes.max(long.offset) >= u32::MAX.into();
    require(is_needed, "Z-5.8", || "the archive needs no zip64 end record".to_owned())?;
    let is_same = u64::from(end.entries_on_disk) == long.entries_on_disk.min(u16::MAX.into())
        && u64::from(end.entries) == long.entries.min(u16::MAX.into())
        && u64::from(end.nbytes) == long.nbytes.min(u32::MAX.into())
        && u64::from(end.offset) == long.offset.min(u32::MAX.into());
    require(is_same, "Z-5.9", || "the end record and the zip64 end record differ".to_owned())?;
    Ok((Directory { entries: long.entries, nbytes: long.nbytes, offset: long.offset }, record_offset))
}

/// The fields of an entry that are both in the directory and in the local header.
struct Said<'a> {
    version_needed: u16,
    flags: u16,
    method: u16,
    time: u16,
    date: u16,
    crc32: u32,
    compressed_nbytes: u32,
    nbytes: u32,
    name: &'a [u8],
}

/// A record of the directory.
struct Record<'a> {
    said: Said<'a>,
    extra: &'a [u8],
    comment_nbytes: u16,
    disk: u16,
    external_attributes: u32,
    header_offset: u32,
}

impl Said<'_> {
    /// The name of a field that has another value in `other`, which is about the same entry.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let differs = [
            (self.version_needed != other.version_needed, "the version needed"),
            (self.flags != other.flags, "the flags"),
            (self.method != other.method, "the method"),
            (self.time != other.time, "the time"),
            (self.date != other.date, "the date"),
            (self.crc32 != other.crc32, "the CRC-32"),
            (self.compressed_nbytes != other.compressed_nbytes, "the compressed size"),
            (self.nbytes != other.nbytes, "the size"),
            (self.name != other.name, "the name"),
        ];
        differs.into_iter().find_map(|(differs, field)| differs.then_some(field))
    }
}

impl<'a> Record<'a> {
    fn read(fields: &mut Fields<'a>) -> Option<Self> {
        signature(fields, b"PK\x01\x02")?;
        let _version_made_by = fields.u16()?;
        let (mut said, name_nbytes, extra_nbytes) = said(fields)?;
        let comment_nbytes = fields.u16()?;
        let disk = fields.u16()?;
        let _internal_attributes = fields.u16()?;
        let external_attributes = fields.u32()?;
        let header_offset = fields.u32()?;
        said.name = fields.bytes(name_nbytes)?;
        let extra = fields.bytes(extra_nbytes)?;
        Some(Record { said, extra, comment_nbytes, disk, external_attributes, header_offset })
    }
}

/// The fields that both have. The name comes after the fields that only the directory has.
fn said<'a>(fields: &mut Fields<'a>) -> Option<(Said<'a>, usize, usize)> {
    let said = Said {
        version_needed: fields.u16()?,
        flags: fields.u16()?,
        method: fields.u16()?,
        time: fields.u16()?,
        date: fields.u16()?,
        crc32: fields.u32()?,
        compressed_nbytes: fields.u32()?,
        nbytes: fields.u32()?,
        name: &[],
    };
    Some((said, fields.u16()?.into(), fields.u16()?.into()))
}

/// Checks an entry. Its local header must be at `offset`, and `header` holds the bytes of the file there.
fn entry(file: &[u8], record: &Record, offset: u64, header: &[u8]) -> Result<Place> {
    let said = &record.said;
    let name = Shown(said.name);
    require(said.version_needed <= MAX_VERSION, "Z-3.5", || {
        format!("entry {name} needs version {} of zip, an archive needs 45 at most", said.version_needed)
    })?;
    require(said.flags == 0, "Z-3.3", || format!("entry {name} has flags {:#06x}", said.flags))?;
    require(said.method == 0, "Z-3.4", || format!("entry {name} is compressed, by method {}", said.method))?;
    require(record.comment_nbytes == 0, "Z-5.2", || format!("entry {name} has a comment"))?;
    require(record.disk == 0, "Z-5.3", || format!("entry {name} is on disk {}", record.disk))?;
    require(is_file(record.external_attributes), "Z-5.4", || {
        let attributes = record.external_attributes;
        format!("entry {name} is a directory, a link or a device: its attributes are {attributes:#010x}")
    })?;

    let ExtraRecords { padding, zip64 } = extra_records(record.extra, "Z-5.5", name)?;
    require(padding.is_none(), "Z-5.5", || format!("entry {name} has padding in the directory"))?;
    let shorts = [said.nbytes, said.compressed_nbytes, record.header_offset];
    let [nbytes, compressed_nbytes, header_offset] = in_full(shorts, zip64, "Z-5.6", name)?;
    require(said.nbytes == said.compressed_nbytes && nbytes == compressed_nbytes, "Z-3.6", || {
        format!("the {nbytes} bytes of entry {name} take {compressed_nbytes}, though it is not compressed")
    })?;
    require(header_offset == offset, "Z-2.2", || {
        format!("entry {name} begins at byte {header_offset}, what is before it ends at {offset}")
    })?;

    let Some((header, header_extra, header_nbytes)) = local_header(header) else {
        let requirement = if header.starts_with(LOCAL_HEADER) { "Z-2.5" } else { "Z-3.1" };
        return refused(requirement, format!("entry {name} has no whole local header at byte {offset}"));
    };
    if let Some(field) = said.difference(&header) {
        return refused("Z-3.2", format!("{field} of entry {name} differs from that in the directory"));
    }
    let ExtraRecords { padding, zip64 } = extra_records(header_extra, "Z-3.7", name)?;
    let is_zero = padding.is_none_or(|zeros| zeros.iter().all(|byte| *byte == 0));
    require(is_zero, "Z-3.8", || format!("the padding of entry {name} is not all zeros"))?;
    let shorts = [header.nbytes, header.compressed_nbytes];
    require(in_full(shorts, zip64, "Z-3.9", name)? == [nbytes; 2], "Z-3.9", || {
        format!("the zip64 sizes of entry {name} differ from those in the directory")
    })?;

    let payload_offset = offset.saturating_add(header_nbytes);
    let payload_end = payload_offset.saturating_add(nbytes);
    require(payload_end <= file.len() as u64, "Z-2.5", || {
        format!("the {nbytes} bytes of entry {name} reach beyond the file")
    })?;
    // The file is in memory, so offsets in the file fit.
    Ok(Place { name: range(file, said.name), payload: payload_offset as usize..payload_end as usize })
}

/// The place of a part of the file.
pub fn range(file: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(file.as_ptr().addr());
    start..start.saturating_add(part.len())
}

/// Reads the local header at `offset` into `header`, and also some bytes after it, up to the directory.
fn read_header(directory_offset: u64, offset: u64, read_at: &ReadAt, header: &mut Vec<u8>) -> Result<()> {
    const USUAL_NBYTES: u64 = 512;
    let available = directory_offset.saturating_sub(offset);
    header.resize(available.min(USUAL_NBYTES) as usize, 0);
    read_at(offset, header)?;
    let mut lengths = Fields::of(header.get(26..).unwrap_or_default());
    let name_and_extra = lengths
        .u16()
        .zip(lengths.u16())
        .map_or(0, |(name, extra)| u64::from(name).saturating_add(extra.into()));
    let nbytes = available.min(LOCAL_HEADER_NBYTES.saturating_add(name_and_extra));
    if nbytes > USUAL_NBYTES {
        header.resize(nbytes as usize, 0);
        read_at(offset, header)?;
    }
    Ok(())
}

/// A local header: its fields, its extra field, and its size including the name and the extra field.
fn local_header(header: &[u8]) -> Option<(Said<'_>, &[u8], u64)> {
    let mut fields = Fields::of(header);
    signature(&mut fields, LOCAL_HEADER)?;
    let (mut said, name_nbytes, extra_nbytes) = said(&mut fields)?;
    said.name = fields.bytes(name_nbytes)?;
    let extra = fields.bytes(extra_nbytes)?;
    Some((said, extra, header.len().saturating_sub(fields.rest().len()) as u64))
}

/// The data of the records of an extra field.
#[derive(Default)]
struct ExtraRecords<'a> {
    padding: Option<&'a [u8]>,
    zip64: Option<&'a [u8]>,
}

fn extra_records<'a>(extra: &'a [u8], requirement: &'static str, name: Shown) -> Result<ExtraRecords<'a>> {
    let mut fields = Fields::of(extra);
    let mut records = ExtraRecords::default();
    while !fields.rest().is_empty() {
        match extra_record(&mut fields) {
            Some((PADDING_ID, data)) if records.padding.is_none() => records.padding = Some(data),
            Some((ZIP64_ID, data)) if records.zip64.is_none() => records.zip64 = Some(data),
            Some((id, _)) => {
                return refused(
                    requirement,
                    format!("entry {name} may not have the extra record {id:#06x}, or not twice"),
                );
            }
            None => return refused(requirement, format!("the extra field of entry {name} is cut short")),
        }
    }
    Ok(records)
}

fn extra_record<'a>(fields: &mut Fields<'a>) -> Option<(u16, &'a [u8])> {
    let id = fields.u16()?;
    let nbytes = fields.u16()?.into();
    Some((id, fields.bytes(nbytes)?))
}

/// The full values of fields. The zip64 record has the values of exactly those fields that are full.
fn in_full<const N: usize>(
    shorts: [u32; N],
    zip64: Option<&[u8]>,
    requirement: &'static str,
    name: Shown,
) -> Result<[u64; N]> {
    let mut values = shorts.map(u64::from);
    let mut fields = Fields::of(zip64.unwrap_or_default());
    let mut is_needed = false;
    for value in values.iter_mut().filter(|value| **value == u32::MAX.into()) {
        is_needed = true;
        match fields.u64() {
            Some(long) if long >= u32::MAX.into() => *value = long,
            Some(long) => {
                return refused(requirement, format!("zip64 of entry {name} has {long}, which needs none"));
            }
            None => return refused(requirement, format!("zip64 of entry {name} lacks a value")),
        }
    }
    require(is_needed == zip64.is_some() && fields.rest().is_empty(), requirement, || {
        format!("zip64 of entry {name} has a value that needs none")
    })?;
    Ok(values)
}

/// Whether the attributes are those of a file. The lowest byte is for MS-DOS, the upper half for Unix.
fn is_file(external_attributes: u32) -> bool {
    const DIRECTORY_OR_VOLUME_LABEL: u32 = 0x18;
    let unix_kind = external_attributes >> 28;
    external_attributes & DIRECTORY_OR_VOLUME_LABEL == 0 && matches!(unix_kind, 0 | 8)
}

fn signature(fields: &mut Fields, expected: &[u8; 4]) -> Option<()> {
    (fields.bytes(4)? == expected).then_some(())
}
