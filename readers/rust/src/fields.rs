//! Little-endian fields, one after another.

/// The fields of a part of the file that were not read yet. Beyond the end of the part, the result is `None`.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }

    /// The fields in the `nbytes` bytes at `offset`, or `None` if the file ends before the last of these bytes.
    pub fn at(file: &'a [u8], offset: u64, nbytes: u64) -> Option<Self> {
        let end = offset.checked_add(nbytes)?;
        Some(Fields(file.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)?))
    }

    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn bytes(&mut self, nbytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(nbytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.first_chunk().copied().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.first_chunk().copied().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.first_chunk().copied().map(u64::from_le_bytes)
    }
}
