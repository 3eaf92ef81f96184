"""All operators that `formats.rten` knows, and those that a `.rten` file can hold."""

from __future__ import annotations

from formats.rten.operators import BY_DOMAIN, SPECS

ALL_SPECS = tuple(BY_DOMAIN.values())
HELD = {name: spec for name, spec in sorted(SPECS.items()) if spec.to_rten.row is not None}
