"""The URLs of storages, and how to hide the passwords in them."""

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, unquote_plus

DATABASES = ("postgresql", "mysql", "sqlite")
KINDS = (*DATABASES, "grpc")
EXAMPLES = "postgresql+psycopg://user@host/name, mysql+pymysql://user@host/name, sqlite:///file.db, grpc://host:13000"
_START = re.compile(r"([A-Za-z][\w+.-]*:)?//")
_USER = re.compile(r"[\w.~+-]*")
_PLAIN = re.compile(r"[\w./~+-]*")  # cannot contain another option or a password
_HOST_AND_PORT = re.compile(r"(\[[^]]*\]|[^:]*)(:\d*)?")
_SHOWN_OPTIONS = frozenset((
    "application_name", "charset", "connect_timeout", "dbname", "host", "mode", "port", "sslmode", "timeout",
    "unix_socket", "uri", "user",
))  # fmt: skip
_ARG_START = 45  # index of arg_start among the fields of /proc/self/stat after the name; arg_end follows


def kind(url: str) -> str:
    """The kind of storage: `postgresql` for `postgresql+psycopg://host/name`."""
    return url.partition(":")[0].partition("+")[0]


def masked(url: str) -> str:
    """`url` for a message, with passwords replaced by ***, even if the URL is malformed."""
    return _replaced(url, lambda secret: "***")


def scrubbed(text: str, url: str) -> str:
    """A third-party message with the passwords of `url` replaced by ***."""
    secrets = [url[begin:end] for begin, end in _secrets(url)]
    # A driver that parses the URL in another way shows parts of a password.
    parts = [part for secret in secrets for part in re.split("[@/?&=:#]", secret) if len(part) > 3]
    forms = {form(secret) for secret in (*secrets, *parts) for form in (str, unquote, unquote_plus)} - {""}
    for secret in sorted(forms, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def conceal(url: str) -> None:
    """Overwrite the passwords of `url` in this process's command line, which all users of the machine can read."""
    with contextlib.suppress(OSError, ValueError, IndexError):  # if there is no /proc
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        begin, end = int(fields[_ARG_START]), int(fields[_ARG_START + 1])
        arguments = ctypes.string_at(begin, end - begin)
        stars = _replaced(url, lambda secret: "*" * len(os.fsencode(secret)))
        ctypes.memmove(begin, arguments.replace(os.fsencode(url), os.fsencode(stars)), end - begin)


def _replaced(url: str, stand_in: Callable[[str], str]) -> str:
    parts, position = [], 0
    for begin, end in _secrets(url):
        parts += [url[position:begin], stand_in(url[begin:end])]
        position = end
    return "".join(parts) + url[position:]


def _secrets(url: str) -> Iterator[tuple[int, int]]:
    """The ranges of `url` that are or may be passwords. In doubt, a range is too large rather than too small."""
    start = _START.match(url)
    at = url.rfind("@")
    if start is None:
        begin = url.find(":") + 1 if at < 0 or kind(url) in KINDS else 0
        if begin or at >= 0:
            yield begin, at if at >= 0 else len(url)
        return
    tail = start.end()
    if at >= tail:
        user = _USER.match(url, tail)
        assert user is not None
        begin = user.end() + (url[user.end()] == ":")
        if "?" in url[tail:at]:  # either a password with a question mark, or an option with an @
            yield begin, len(url)
            return
        if user.end() < at:
            yield begin, at
        tail = at + 1
    query = min(url.find(mark, tail) % (len(url) + 1) for mark in "?#")  # if not found, -1 becomes len(url)
    authority = url[tail:query].partition("/")[0]
    host = _HOST_AND_PORT.match(authority)
    assert host is not None
    if host.end() < len(authority):  # the host is not followed by a port number, but perhaps by a password
        yield tail + host.end(), len(url)
        return
    for option in re.finditer(r"[^&;]+", url[query + 1 :]):
        name, _, value = option[0].partition("=")
        if name.lower() not in _SHOWN_OPTIONS or not _PLAIN.fullmatch(value):
            yield query + 1 + option.end() - len(value or name), query + 1 + option.end()
