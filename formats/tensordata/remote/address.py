"""Addresses of files elsewhere, such as `s3://bucket/model.onnx`: paths that no system call accepts.

The text of an address contains no secrets, such as a password or a signature, because errors, reports and manifests
contain this text. This module opens nothing; `remote_file.py` does.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, unquote

from formats.errors import OptionError
from formats.tensordata.file import AddressMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    _Path = Path
else:
    _Path = type(Path())  # before Python 3.12 only this can have subclasses

HIDDEN = "***"
LOCAL = ("file", "local")
ARCHIVES = ("zip", "tar", "libarchive")
WEB = ("http", "https")
# In these protocols, the text before an @ is a container, a repository or a revision, not a user with a password.
_NO_USERS = frozenset(("abfs", "abfss", "adl", "wasb", "wasbs", "az", "git", "github", "hf", "s3", "s3a", "gs", "gcs"))
_NAMED_USERS = frozenset(("git", "github"))  # of an organisation and a repository, with a colon between them
_LINK = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^\s'\"`<>|]+")  # a path of an address has one slash there
_SECRET_PARAMETER = re.compile(r"(?i)([?&;#][\w.-]*(?:token|key|sig|secret|pass|auth|cred)[\w.-]*=)[^?&;#\s'\"]*")
# The value of a parameter, as in ;token=... and ?key=...; the version of an object is none.
_PARAMETER = re.compile(r"([?&;#](?!versionId=)[\w.-]+=)([^&;#]*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?=://|::)")  # at least two letters: one letter is a drive of Windows
_QUERY = re.compile(r"[?#]")
_VERSION = re.compile(r"\?versionId=")
# Options of stores whose values are not secret, and are useful in a message.
_HARMLESS = re.compile("url|endpoint|region|protocol|type|block|size|project|profile|version|policy|cache", re.I)
_SECRET_LETTERS = 4  # the least length of a value that is searched for in messages


def has_scheme(text: str) -> bool:
    """Whether a text is an address, and not the name of a file of this system."""
    return _SCHEME.match(text) is not None


def parse_address(text: str) -> Path:
    """The path for an address; that of a `file:` address is one of this system.

    Raises: OptionError if there is nothing after the scheme.

    Spec: RFC 8089; fsspec, "URL chaining".
    """
    scheme, separator, rest = text.partition("://")
    if separator and not rest.strip("/") and "::" not in text:
        place = "server" if scheme.lower().startswith("http") else "bucket"
        raise OptionError(f"{_redacted(text)} names no file; write an address such as {scheme}://{place}/model.onnx")
    if separator and scheme.lower() in LOCAL and "::" not in text:
        name = unquote(re.sub(r"^localhost(?=/)", "", rest))
        return Path(name[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", name) else name)
    return _not_local(Address(text))


def of_universal(path: Any) -> Path:
    """The path for a `UPath` of the package universal-pathlib, with its storage options."""
    if path.protocol in ("", *LOCAL):
        return Path(path.path)
    return _not_local(Address(str(path), dict(path.storage_options)))


def _not_local(address: Address) -> Address:
    """The address, unless it leads to files of this system in a roundabout way, where links lead anywhere.

    Raises: OptionError if it does; files in an archive of this system are no such files.
    """
    first, *others = address.protocols
    if first in LOCAL or (first not in ARCHIVES and {*others} & {*LOCAL}):
        raise OptionError(f"{address} is a file of this system; give its path, without a chain")
    return address


class Address(_Path, AddressMark):
    """Where a file is in a store of objects or on another machine; all its parts are compared.

    `storage_options` are those of fsspec. `retries` is how often a request is repeated that failed for a
    temporary reason. An address is a path with a `name`, a `parent` and so on, but no system call can open it.
    """

    def __new__(cls, url: str, *_: Any, **__: Any) -> Address:
        """An address; for `pathlib` it is a path with the same text, which is not used."""
        return super().__new__(cls, PurePosixPath(url.replace("\0", "")))

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None, retries: int = 0) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(PurePosixPath(url.replace("\0", "")))
        links = url.split("::")
        index = next((number for number, link in enumerate(links) if "://" in link), len(links) - 1)
        self._before, self._after = links[:index], links[index + 1 :]
        self.scheme, _, rest = links[index].partition("://")
        self.scheme = self.scheme.lower()
        query = _QUERY.search(rest) if self.scheme in WEB else _VERSION.search(rest)
        self._body, self._query = (rest[: query.start()], rest[query.start() :]) if query else (rest, "")
        self.storage_options = dict(storage_options or {})
        self.retries = retries

    @property
    def url(self) -> str:
        """The address itself, with all its secrets."""
        return "::".join((*self._before, f"{self.scheme}://{self._body}{self._query}", *self._after))

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols of all links of the chain."""
        links = (*self._before, self.scheme, *self._after)
        return tuple(link.partition("://")[0].lower() for link in links)

    def with_options(self, storage_options: Mapping[str, Any] | None, retries: int) -> Address:
        """The same address with these options of the store, too; its own, as from a `UPath`, count more."""
        return Address(self.url, {**(storage_options or {}), **self.storage_options}, max(retries, self.retries))

    def options_of_store(self, known_protocols: Iterable[str]) -> dict[str, Any]:
        """The options for fsspec: those of other protocols, by `known` names, left out; `s3.anon` means one of `s3`."""
        result: dict[str, Any] = {}
        names = set(known_protocols)
        for key, value in self.storage_options.items():
            protocol, dot, name = key.partition(".")
            if dot and protocol in names:
                if protocol in self.protocols:
                    result.setdefault(protocol, {})[name] = value
            elif key not in names or not hasattr(value, "keys"):
                result[key] = value
            elif key in self.protocols:
                result.setdefault(key, {}).update(value)
        return result

    def secrets(self) -> Iterator[str]:
        """The secret texts in this address, one by one."""
        for link in (*self._before, f"{self.scheme}://{self._body}{self._query}", *self._after):
            yield from _secrets_in(link)
        yield from _secret_values(self.storage_options)

    def redact(self, text: str) -> str:
        """A text from another source, without the secrets of this address."""
        for secret in sorted({*self.secrets()}, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return re.sub(r"([?&][\w.-]+=)[^&\s'\")]+", rf"\1{HIDDEN}", text)

    # The attributes of a path

    @property
    def name(self) -> str:
        """The last part."""
        name = self._body.rpartition("/")[2] if "/" in self._body else "" if self.scheme in WEB else self._body
        return unquote(name) if self.scheme in WEB else name

    @property
    def suffix(self) -> str:
        """The extension of the name."""
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        """The name without its extension."""
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> Address:
        """The folder; a query stays, because it can give access; only the version of one object is removed."""
        above = self._body.rstrip("/").rpartition("/")[0]
        return self._with_body(above or (self._body if self.scheme in WEB else ""))

    def with_name(self, name: str) -> Address:
        """The file of that name in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> Address:
        """The file in the same folder with another extension."""
        return self.with_name(self.stem + suffix)

    def __truediv__(self, other: Any) -> Address:
        inner = other.as_posix() if isinstance(other, PurePath) else str(other)
        inner = quote(inner, safe="/") if self.scheme in WEB else inner
        return self._with_body(f"{self._body.rstrip('/')}/{inner}" if self._body else inner)

    def _with_body(self, body: str) -> Address:
        query = self._query if self.scheme in WEB else ""
        url = "::".join((*self._before, f"{self.scheme}://{body}{query}", *self._after))
        return Address(url, self.storage_options, self.retries)

    def with_segments(self, *segments: Any) -> Path:
        """The path that `pathlib` makes of parts of the address; it is not an address."""
        return Path(*segments)

    def absolute(self) -> Address:
        """The address, which is always absolute."""
        return self

    def is_symlink(self) -> bool:
        """Never: stores have no links."""
        return False

    def exists(self, **_: Any) -> bool:
        """Whether there is a file or a folder."""
        return self._kind() is not None

    def is_dir(self, **_: Any) -> bool:
        """Whether there is a folder."""
        return self._kind() == "directory"

    def _kind(self) -> str | None:
        from formats.tensordata.remote.remote_file import kind_at  # which imports this module

        return kind_at(self)

    def __str__(self) -> str:
        link = _redacted(f"{self.scheme}://{self._body}{self._query}")
        return "::".join((*map(_redacted, self._before), link, *map(_redacted, self._after)))

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __fspath__(self) -> NoReturn:
        raise TypeError(f"{self} is an address; only functions that read or convert a model accept one")

    def _identity(self) -> tuple[object, ...]:
        return self.url, self.storage_options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self.url)

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return Address, (self.url, self.storage_options, self.retries)


def without_secrets(text: str) -> str:
    """A text with addresses in it, such as an error or a command line, without their possible secrets."""
    text = _LINK.sub(lambda chain: "::".join(map(_redacted, chain[0].split("::"))), text)
    return _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", text)


def _redacted(link: str) -> str:
    """One link of a chain, without its possible secrets."""
    match = re.fullmatch(r"([^:]+)(:/+)(.*)", link, re.DOTALL)
    if match is None:
        return link
    scheme, separator, rest = match.groups()
    user = _user(scheme, rest)
    rest = f"{HIDDEN}@{rest[len(user) + 1 :]}" if user else rest
    mark = query = ""
    if scheme.lower() in WEB:
        rest, mark, query = rest.partition("#")[0].partition("?")
    pairs = (part.partition("=") for part in query.split("&"))
    shown = "&".join(f"{name}={HIDDEN}" if equals else HIDDEN for name, equals, _ in pairs) if mark else ""
    place = _PARAMETER.sub(rf"\1{HIDDEN}", rest)
    return f"{scheme}{separator}{place}{mark}{shown}"


def _user(scheme: str, rest: str) -> str:
    """What stands before the server, an @ between them, and may be secret: a user, a password or a token.

    A slash in a password should be escaped. If it is not, what looks like the port is no number, and all up to the last
    @ is taken for secret.
    """
    place = _QUERY.split(rest)[0]
    authority = place.partition("/")[0]
    user, at, _ = authority.rpartition("@")
    has_users = scheme.lower() not in _NO_USERS
    if at and (has_users or (":" in user and scheme.lower() not in _NAMED_USERS)):
        return user
    _, colon, port = authority.partition(":")
    if not at and colon and not port.isdecimal() and "@" in place and scheme.lower() not in _NAMED_USERS:
        return place.rpartition("@")[0]
    return ""


def _secrets_in(link: str) -> Iterator[str]:
    scheme, _, rest = link.partition("://")
    if user := _user(scheme, rest):
        yield from _long_enough(user, *user.split(":"))
    for match in _PARAMETER.finditer(rest):
        yield from _long_enough(match[2], unquote(match[2]))
    if scheme.lower() in WEB:
        for part in re.split(r"[?&#]", rest)[1:]:
            value = part.partition("=")[2] or part
            yield from _long_enough(value, unquote(value))


def _secret_values(value: Any, key: str = "") -> Iterator[str]:
    if hasattr(value, "items"):
        for name, inner in value.items():
            yield from _secret_values(inner, str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secret_values(inner, key)
    elif isinstance(value, str) and (not _HARMLESS.search(key) or "@" in value):
        yield from _long_enough(value)


def _long_enough(*texts: str) -> Iterator[str]:
    return (text for text in texts if len(text) >= _SECRET_LETTERS)
