"""A browser without a window: Chromium, driven over a pipe by the DevTools protocol."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_SECONDS = 60.0
DRAWN = "Object.keys(document.documentElement?.dataset ?? {}).length"  # in a page of `tune report`
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


def program() -> str | None:
    """The browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Visit:
    """What a page did: its requests for other addresses, and what it wrote to the console as errors or warnings."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Browser:
    """Chromium with one tab."""

    def __init__(self, profile: Path) -> None:
        inbound, self._out = os.pipe()
        self._in, outbound = os.pipe()
        command = [str(program()), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        script = f'exec "$@" 3<&{inbound} 4>&{outbound}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(inbound, outbound),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(inbound)
        os.close(outbound)
        self._numbers, self._rest = itertools.count(1), b""
        self._events: list[dict[str, Any]] = []
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(info["targetId"] for info in targets if info["type"] == "page")
        self._session: str | None = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")

    _session = None

    def visit(self, page: Path | str, width: int, dark: bool = False, until: str = DRAWN) -> Visit:
        """Open a page, by its path or address, `width` pixels wide, and wait `until` it has drawn everything."""
        address = page.as_uri() if isinstance(page, Path) else page
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=scheme)
        self._events.clear()
        self._ask("Page.navigate", url=address)
        self.wait(until)
        return self._report(address)

    def wait(self, until: str) -> None:
        """Wait until this JavaScript is true in the page."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.value(until):
            assert time.monotonic() < deadline, f"the page never reaches {until}"
            time.sleep(0.02)

    def _report(self, address: str) -> Visit:
        visit = Visit()
        for event in self._events:
            params = event["params"]
            if event["method"] == "Network.requestWillBeSent" and params["request"]["url"] != address:
                visit.requests.append(params["request"]["url"])
            if event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                visit.errors.append(str([arg.get("value", arg.get("description")) for arg in params["args"]]))
            if event["method"] == "Runtime.exceptionThrown":
                visit.errors.append(str(params["exceptionDetails"]))
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                visit.errors.append(params["entry"]["text"])
        return visit

    def value(self, expression: str) -> Any:
        """The value of JavaScript in the page."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key, as Tab or ArrowDown."""
        code = {"Tab": 9, "Enter": 13, "ArrowDown": 40}[key]
        for kind in ("rawKeyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self._events.append(answer)
        raise AssertionError("the browser has gone")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" in self._rest:
                message, self._rest = self._rest.split(b"\0", 1)
                yield json.loads(message)
            ready, _, _ = select.select([self._in], [], [], PATIENCE_SECONDS)
            data = os.read(self._in, 1 << 16) if ready else b""
            if not data:
                return
            self._rest += data
