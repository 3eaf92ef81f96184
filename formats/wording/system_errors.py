"""What to do about an error of the system, for the library and the commands.

It is imported in advance: if no more files can be opened, nothing can be imported.
"""

from __future__ import annotations

import errno
import os

MEMORY = "there is not enough memory"
# What to do, by the name of the error; not every system has all of them.
REMEDIES = {
    "ENOSPC": "free some space, or write to another disk",
    "EDQUOT": "free some space, or write to another disk",
    "EROFS": "write to another folder",
    "ENAMETOOLONG": "use a shorter name",
    "ELOOP": "a link leads back to itself: name the file itself",
    "ESTALE": "another machine has replaced the file: run again",
    "EIO": "the disk, or the connection to it, may be damaged",
    "EBUSY": "another program uses it",
    "ETXTBSY": "another program uses it",
}


def explain(error: OSError) -> None:
    """Make an error of the system say what to do: which limit was reached, or what helps."""
    words = words_of(error)
    if words is not None and words != error.strerror:
        error.strerror = words
        error.args = (error.errno, words, *error.args[2:])  # a pickle has these


def words_of(error: OSError) -> str | None:
    """What is wrong and what to do; `None` if the system's own words say all."""
    if error.errno == errno.ENOMEM:
        return f"{MEMORY}{soft_limit('RLIMIT_AS', 'bytes of addresses', 'ulimit -v')}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open{soft_limit('RLIMIT_NOFILE', 'open files', 'ulimit -n')}"
    if error.errno == errno.EFBIG:
        return f"the file would be too large{soft_limit('RLIMIT_FSIZE', 'bytes in a file', 'ulimit -f')}"
    if error.errno is None or error.strerror != os.strerror(error.errno):  # it has words of its own
        return None
    remedy = REMEDIES.get(errno.errorcode.get(error.errno, ""))
    return None if remedy is None else f"{error.strerror}; {remedy}"


def soft_limit(name: str, what: str, command: str) -> str:
    """The limit of the process for a resource, if the system reports it."""
    try:
        import resource
    except ImportError:  # on Windows, for example
        return ""
    limit = resource.getrlimit(getattr(resource, name))[0]
    return "" if limit == resource.RLIM_INFINITY else f": the limit is {limit} {what} ({command})"
