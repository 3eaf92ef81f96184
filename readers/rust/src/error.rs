//! The reason why an archive was not read.

use std::fmt;
use std::io;

/// The reason why an archive was not read: the system refused, or the file breaks a requirement of the specification.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or mapped.
    Io(io::Error),
    /// The bytes are not an archive that a reader may accept.
    Refused {
        /// The requirement that they break, by its number in the specification, such as `Z7`.
        requirement: &'static str,
        /// What was found, and what was expected.
        message: String,
    },
}

/// A value, or an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The number of the requirement that the archive breaks, or `None` if the system refused.
    pub fn requirement(&self) -> Option<&'static str> {
        match self {
            Error::Io(_) => None,
            Error::Refused { requirement, .. } => Some(requirement),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Refused { requirement, message } => write!(f, "{message} ({requirement})"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            Error::Refused { .. } => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

pub(crate) fn refused<T>(requirement: &'static str, message: impl Into<String>) -> Result<T> {
    Err(Error::Refused { requirement, message: message.into() })
}

/// Refuses the archive, unless `holds`.
pub(crate) fn require(
    holds: bool,
    requirement: &'static str,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if holds { Ok(()) } else { refused(requirement, message()) }
}

/// A name from a file in a printable form: in quotes, and escaped.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}
