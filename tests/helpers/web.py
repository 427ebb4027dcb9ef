"""A web server over HTTPS on this machine, with a certificate that it has signed itself, and a proxy."""

from __future__ import annotations

import contextlib
import functools
import http.server
import select
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder. The `answers` of the server come first: by the end of a path, what to do in place of that."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        for end, answer in self.server.answers.items():
            if self.path.endswith(end):
                answer(self)
                break
        else:
            super().do_GET()

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        pass

    def redirect(self, location: str) -> None:
        """Send the client elsewhere."""
        self.send_response(302)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, content: bytes, length: int | None) -> None:
        """Send this content, with a `length` that may be wrong, and close the connection; None: chunks that never
        end."""
        self.send_response(200)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client hangs up
            if length is not None:
                self.wfile.write(content)
            while length is None:
                self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


class Server(http.server.ThreadingHTTPServer):
    """A server of a folder at `url`. `certificate` is its own, `paths` are those that were asked for, `connections`
    counts those that clients have made."""

    daemon_threads = True

    def __init__(self, folder: Path, place: Path) -> None:
        """`place` is a folder for the key and the certificate."""
        self.answers: dict[str, Callable[[Handler], None]] = {}
        self.paths: list[str] = []
        self.connections = 0
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        key, self.certificate = place / "key.pem", place / "certificate.pem"
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        name = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run([*make.split(), *name], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._context = context
        self.url = f"https://localhost:{self.server_address[1]}"

    def get_request(self) -> tuple[ssl.SSLSocket, object]:
        """A connection. Its handshake takes place in the thread that serves it."""
        connection, address = super().get_request()
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may hang up."""


class _Tunnel(socketserver.BaseRequestHandler):
    """Answers CONNECT, and copies what both sides say."""

    server: Proxy

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.request.recv(1)
        self.server.heads.append(head.decode())
        host, _, port = head.split()[1].decode().rpartition(":")
        with socket.create_connection((host, int(port))) as there, contextlib.suppress(OSError):
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ends = {self.request: there, there: self.request}
            while readable := select.select([*ends], [], [], 30)[0]:
                for end in readable:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)


class Proxy(socketserver.ThreadingTCPServer):
    """A proxy for HTTPS at `address`. `heads` are the requests for tunnels that it has got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.heads: list[str] = []
        self.address = f"127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """The server answers."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def served(folder: Path, place: Path) -> Iterator[Server]:
    """A running server of this folder."""
    with Server(folder, place) as server, running(server):
        yield server
