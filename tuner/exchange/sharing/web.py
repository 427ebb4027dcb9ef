"""A shared store on a web server, read over HTTPS. Nothing else in the package speaks HTTP."""

from __future__ import annotations

import base64
import http.client
import os
import re
import ssl
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final

from tuner.errors import EnvironmentTrouble, RequestError
from tuner.exchange.sharing.files import Damaged, TooLong
from tuner.quoting import shown
from tuner.version import VERSION

PATIENCE_SECONDS: Final = 30.0  # for each answer and each part of it
SLOWEST: Final = 10_000  # bytes per second of a file, after the patience
MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_CHUNK: Final = 1 << 16


class Web:
    """A shared store below an https:// address.

    One connection serves many files. A redirect is followed to other https:// addresses alone. The server's certificate
    is checked against the authorities of the system, or those in the file that SSL_CERT_FILE names.
    """

    def __init__(self, url: str) -> None:
        """Raises RequestError if the address has a user, a query or a fragment, or is none."""
        self._root = _checked(url.rstrip("/"), "the address")
        self.bytes_read = 0
        self._context = ssl.create_default_context()
        self._connections: dict[str, http.client.HTTPSConnection] = {}
        self._through = ""  # which proxy the last new connection uses, as the end of a message

    def __str__(self) -> str:
        return shown(self._root)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def read(self, path: str, most: int) -> bytes:
        url, where = f"{self._root}/{path}", f"{self}/{path}"
        for _ in range(MOST_REDIRECTS + 1):
            try:
                response = self._asked(url)
                if response.status not in _REDIRECTS:
                    return self._body(response, where, most)
                location = response.getheader("Location", "")
                if response.length is not None and response.length <= _CHUNK:
                    response.read()  # so that the connection serves other files
                else:
                    self.close()
            except ssl.SSLCertVerificationError as error:
                advice = "if you trust it, set SSL_CERT_FILE to a file with the certificate of its authority"
                authorities = os.environ.get("SSL_CERT_FILE")
                if authorities and not Path(authorities).is_file():
                    advice = f"SSL_CERT_FILE names {shown(authorities)}, which is no file; correct it"
                why = shown(error.verify_message)
                raise RequestError(f"{where}: the server's certificate is not trusted: {why}; {advice}") from None
            except TimeoutError:
                self.close()
                raise _trouble(f"{where}: no answer for {PATIENCE_SECONDS:.0f} s{self._through}") from None
            except (OSError, UnicodeError, http.client.HTTPException) as error:
                self.close()
                why = shown(error) or type(error).__name__
                raise _trouble(f"{where}: cannot be read: {why}{self._through}") from None
            url = _checked(location, f"{where}: the address of a redirect", base=url)
        raise RequestError(f"{where}: more than {MOST_REDIRECTS} redirects, one after the other; name the last address")

    def _asked(self, url: str) -> http.client.HTTPResponse:
        """The answer of a server, whose body is not read yet. A connection that the server has closed is made again."""
        parts = urllib.parse.urlsplit(url)
        path = urllib.parse.quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
        target = f"{path}?{parts.query}" if parts.query else path
        headers = {"User-Agent": f"tuner/{VERSION}", "Accept-Encoding": "identity"}
        is_kept = parts.netloc in self._connections
        for is_again in (False, True):
            connection = self._connections.get(parts.netloc) or self._connection(parts)
            self._connections[parts.netloc] = connection
            try:
                connection.request("GET", target, headers=headers)
                return connection.getresponse()
            except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.BadStatusLine):
                connection.close()
                del self._connections[parts.netloc]
                if is_again or not is_kept:
                    raise
        raise AssertionError("unreachable")

    def _connection(self, parts: urllib.parse.SplitResult) -> http.client.HTTPSConnection:
        """A connection to a host, through the proxy that HTTPS_PROXY names, unless NO_PROXY names the host."""
        host, port = parts.hostname or "", parts.port or http.client.HTTPS_PORT
        self._through = ""
        proxy = urllib.request.getproxies_environment().get("https", "")
        if not proxy or urllib.request.proxy_bypass(f"{host}:{port}"):
            return http.client.HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=self._context)
        try:
            through = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            to = through.hostname or "", through.port or http.client.HTTP_PORT
        except ValueError:
            to = "", 0
        if not to[0]:
            raise RequestError("HTTPS_PROXY names no proxy; set it to http://HOST:PORT")
        self._through = f", through the proxy {shown(to[0])}:{to[1]} that HTTPS_PROXY names"
        connection = http.client.HTTPSConnection(*to, timeout=PATIENCE_SECONDS, context=self._context)
        user = urllib.parse.unquote(f"{through.username}:{through.password or ''}") if through.username else ""
        login = {"Proxy-Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user else {}
        connection.set_tunnel(host, port, login)
        return connection

    def _body(self, response: http.client.HTTPResponse, where: str, most: int) -> bytes:
        """The body of an answer, at most `most` bytes. What is longer is not read."""
        if response.status != 200:
            reason = f"the server answers {response.status} {shown(response.reason)[:80]}".rstrip()
            self.close()
            if response.status >= 500 or response.status == 429:  # of the server's, and of this hour
                raise _trouble(f"{where}: {reason}")
            raise Damaged(f"{where}: {reason}")
        length = response.length
        data, begin = bytearray(), time.monotonic()
        while (length is None or length <= most) and len(data) <= most:
            try:
                chunk = response.read1(min(_CHUNK, most + 1 - len(data)))
            except http.client.IncompleteRead:
                break
            if not chunk:
                break
            data += chunk
            self.bytes_read += len(chunk)
            if time.monotonic() - begin > PATIENCE_SECONDS + len(data) / SLOWEST:
                raise _trouble(f"{where}: the server sends fewer than {SLOWEST} bytes per second")
        if len(data) == length:
            response.read()  # nothing, so that the connection serves other files
        if not response.isclosed():
            self.close()
        if len(data) > most or (length or 0) > most:
            size = f"has {length} bytes" if length is not None else "is longer"
            raise TooLong(f"{where}: {size}; at most {most} are allowed")
        if length is not None and len(data) < length:
            raise Damaged(f"{where}: ended after {len(data)} of {length} bytes")
        return bytes(data)


def _trouble(message: str) -> EnvironmentTrouble:
    return EnvironmentTrouble(f"{message}; what was pulled before stays; pull again later", "network trouble")


def _checked(url: str, what: str, base: str = "") -> str:
    """An https:// address, which may be relative to a `base`. Raises RequestError for any other, such as one of a
    redirect to http:// or a file."""
    try:
        url = urllib.parse.urljoin(base, url)
        parts = urllib.parse.urlsplit(url)
        is_web = parts.scheme.lower() == "https" and bool(parts.hostname) and (parts.port or 443) > 0
    except ValueError:
        raise RequestError(f"{what} is no URL; write https://HOST/FOLDER") from None
    if not is_web:
        raise RequestError(f"{what} begins with {shown(parts.scheme)[:20]}://; only https://HOST/FOLDER is read")
    if parts.username is not None or parts.password is not None:
        raise RequestError(f"{what} holds a user or password; only public addresses are read")
    if parts.fragment or (parts.query and not base):
        raise RequestError(f"{what} has a query or fragment; name the folder that holds index.json")
    if not re.fullmatch(r"[!-~]+", parts.netloc + parts.query):
        raise RequestError(f"{what} has characters that no URL has; write https://HOST/FOLDER")
    return url
