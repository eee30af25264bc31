"""A real Prometheus on a port that the system chooses, and promtool; ``make prometheus`` brings both.

Usage::

    with Prometheus(tmp_path, ["127.0.0.1:9404"], rules=[path], scrape_s=1) as server:
        server.query("cohort_up")
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from sparkcohort import dashboards
from tests.kit.jars import ROOT
from tests.kit.waiting import wait_until

UNPACKED: Final = ROOT / ".cache" / "prometheus" / "usr" / "bin"
READY_S: Final = 60.0
STOP_S: Final = 30.0
ALERT_S: Final = 240.0
_ADDRESS: Final = re.compile(r'msg="?Listening on"? address=(\S+)')

Labels = dict[str, str]


def program(name: str) -> str:
    """``prometheus`` or ``promtool``: the machine's own, else the unpacked one; raises FileNotFoundError without."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        raise FileNotFoundError(f"no {name}: run `make prometheus`")
    return found


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end."""
    command = [program("promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def quick_rules(folder: Path) -> Path:
    """The rules as shipped, with their limits and windows, but that ``for`` is four seconds instead of minutes."""
    path = folder / "cohort.yml"
    path.write_text(re.sub(r"\bfor: \d+m", "for: 4s", dashboards.text(dashboards.RULES)))
    return path


class Prometheus:
    """A server that scrapes ``targets`` every ``scrape_s`` seconds as job ``spark`` and evaluates ``rules`` as often."""

    def __init__(
        self, directory: Path, targets: Sequence[str], *, rules: Sequence[Path] = (), scrape_s: int = 1
    ) -> None:
        """Nothing runs before ``with``."""
        self._directory, self._log = directory, directory / "prometheus.log"
        directory.mkdir(parents=True, exist_ok=True)
        config = {
            "global": {"scrape_interval": f"{scrape_s}s", "evaluation_interval": f"{scrape_s}s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": "spark", "static_configs": [{"targets": list(targets)}]}],
        }
        (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        command = [program("prometheus"), f"--config.file={self._directory / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={self._directory / 'data'}", "--web.listen-address=127.0.0.1:0"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.address = wait_until(self._listens, READY_S, f"Prometheus ({self._log})")
        wait_until(self._ready, READY_S, f"Prometheus' storage ({self._log})")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            finally:
                self._process.kill()

    def _listens(self) -> str | None:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"Prometheus ended: {self._log.read_text()[-2000:]}")
        found = _ADDRESS.search(self._log.read_text())
        return found.group(1) if found else None

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def _get(self, path: str, **arguments: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]

    def query(self, expression: str) -> list[tuple[Labels, float]]:
        """The samples of now; raises HTTPError for an expression that can't be read."""
        found = self._get("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {labels["alertname"] for labels, _ in self.query('ALERTS{alertstate="firing"}')}

    def wait_for_alert(self, name: str, limit_s: float = ALERT_S) -> None:
        """Wait until it fires."""
        wait_until(lambda: name in self.firing(), limit_s, f"{name} to fire, not only {self.firing()}", every_s=1.0)

    def rules(self) -> list[dict[str, Any]]:
        """Each rule with its ``health`` and its ``lastError``."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]


def alerting(folder: Path, *ports: int, scrape_s: int = 5) -> Prometheus:
    """A server that scrapes the drivers at these ports, with the rules of ``quick_rules``."""
    targets = [f"127.0.0.1:{port}" for port in ports]
    return Prometheus(folder / "prometheus", targets, rules=[quick_rules(folder)], scrape_s=scrape_s)
