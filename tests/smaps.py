"""Linux's report of the memory of a process, mapping by mapping."""

from __future__ import annotations


def fields_of(smaps: str, name: str) -> dict[str, int]:
    """Return the sums of the sizes in bytes that the system reports for the mappings of a file."""
    sums: dict[str, int] = {}
    inside = False
    for line in smaps.splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[-1].endswith(name)
        elif inside and words[-1] == "kB":
            key = words[0].removesuffix(":")
            sums[key] = sums.get(key, 0) + (int(words[1]) << 10)
    return sums
