"""Clusters that do conversions: the only module that uses Dask."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from formats.errors import OptionError
from formats.extras import needed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """An executor whose jobs are done by the workers of a Dask cluster.

    `address` is that of the scheduler, such as tcp://10.0.0.1:8786, or the name of the file that it wrote with
    `--scheduler-file`. Every job is executed, even if Dask already has a result for it.

    Raises: MissingPackageError if Dask is not installed; OptionError if `address` is not valid; OSError if no
    scheduler answers there.
    """
    with needed("distributed", "jobs on a Dask cluster"):
        from distributed import Client
    try:
        client = Client(scheduler_file=address) if os.path.isfile(address) else Client(address)  # noqa: PTH113 - as typed
    except ValueError as error:
        raise OptionError(f"`dask` is {address!r}, and must be the address of a scheduler: {error}") from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
