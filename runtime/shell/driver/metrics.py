"""The driver's port: the status of a run as Prometheus metrics, and the live page (``live_page``).

Each scrape gets a new status (``status``); nothing is counted here.
"""

from __future__ import annotations

import errno
import io
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.shell.driver.live_page import MOST, STREAMS, LivePage
from sparkcohort.runtime.shell.driver.metric_specs import COHORT_UP, METRICS, MetricSpec
from sparkcohort.runtime.shell.driver.metric_values import MOST_PARTITIONS, Samples, Status, values
from sparkcohort.runtime.shell.rpc.process_identity import current_place
from sparkcohort.runtime.shell.rpc.threads import in_context

log = logging.getLogger("sparkcohort.metrics")

POLL_S: Final = 0.1
"""How often the loop checks whether the endpoint is closed."""
READ_S: Final = 10.0
"""How long a silent client keeps its thread: Prometheus' default scrape_timeout."""
CONNECTIONS: Final = STREAMS + 2 * MOST
"""One more is closed at once."""


class StatusCollector(Collector):
    """Makes metrics of the status at each scrape; ``cohort_up 0`` where the coordinator does not answer."""

    def __init__(self, status: Callable[[], Status], most_partitions: int = MOST_PARTITIONS) -> None:
        """With more than ``most_partitions`` there are no series by partition."""
        self._status, self._most_partitions = status, most_partitions
        self._group_id = ""

    def describe(self) -> list[Metric]:
        """No metrics before the first scrape (prometheus_client calls this at registration)."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        try:
            status = self._status()
        except (CohortError, TimeoutError, OSError) as error:
            log.warning("a scrape got no status from the coordinator: %s", str(error) or type(error).__name__)
            status = {}
        if not status:  # no answer, or the run is ending
            yield _family(COHORT_UP, self._group_id, [((), 0.0)])
            return
        self._group_id, samples = status["group"], values(status, self._most_partitions)
        for spec in METRICS:
            make = _histogram if spec.kind == "histogram" else _family
            yield make(spec, self._group_id, samples[spec.name])


def _family(spec: MetricSpec, group_id: str, samples: Samples) -> Metric:
    kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    family = kind(spec.name, spec.help, labels=("group", *spec.labels))
    for labels, value in samples:
        family.add_metric((group_id, *labels), value)
    return family


def _histogram(spec: MetricSpec, group_id: str, samples: Samples) -> Metric:
    family = HistogramMetricFamily(spec.name, spec.help, labels=("group", *spec.labels))
    for labels, totals in samples:
        buckets = [(str(bound / 1000), count) for bound, count in totals["buckets"]]
        family.add_metric((group_id, *labels), [*buckets, ("+Inf", totals["count"])], totals["sum_ms"] / 1000)
    return family


class _ScrapeHandler(WSGIRequestHandler):
    """One scrape."""

    timeout = READ_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's signature
        """Log nothing for a scrape."""

    def get_stderr(self) -> Any:
        """A viewer that reads too slowly is dropped without a traceback."""
        return io.StringIO()


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection, ``CONNECTIONS`` at a time."""

    daemon_threads = True
    allow_reuse_port = False  # a second endpoint on the port is an error, not a lottery

    def __init__(self, address: tuple[str, int], family: int) -> None:
        """Bind and listen.  Raises OSError."""
        self.address_family = family
        self._free = threading.Semaphore(CONNECTIONS)
        super().__init__(address, _ScrapeHandler)

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the address that http.server would make."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the scrape's thread, or close the connection (socketserver calls this)."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The scrape's thread (socketserver calls this)."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  socketserver's signature
        """A client hung up: log no traceback."""
        log.debug("a scrape from %s broke off", client_address)


class MetricsEndpoint:
    """Serves metrics and page over HTTP on ``address:port`` from ``start`` to ``close``.

    ``status`` gives the run's document, ``rebalance`` one of its rebalances by generation; both may be called from any thread.
    Port 0 takes a free one.
    """

    def __init__(
        self,
        address: str,
        port: int,
        status: Callable[[], Status],
        most_partitions: int = MOST_PARTITIONS,
        rebalance: Callable[[int], Status] = lambda _: {"known": []},
    ) -> None:
        self._address = address
        self.port = port
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(StatusCollector(status, most_partitions))
        self._status, self._rebalance = status, rebalance
        self._application: LivePage | None = None
        self._server: _MetricsServer | None = None

    def start(self) -> None:
        """Bind the port and serve.  Raises OptionError naming ``metrics.port`` or ``metrics.address``."""
        try:
            family, *_, (host, *_more) = socket.getaddrinfo(self._address, self.port, type=socket.SOCK_STREAM)[0]
            self._server = _MetricsServer((str(host), self.port), family)
        except (OSError, UnicodeError) as error:
            os_error = error if isinstance(error, OSError) else OSError("not a host name")
            raise _refused(self._address, self.port, os_error) from None
        loopback = ip_address(host).is_loopback
        self._application = LivePage(make_wsgi_app(self._registry), self._status, self._rebalance, loopback=loopback)
        self._server.set_app(self._application)
        self.port = self._server.server_port
        loop = in_context(self._server.serve_forever, POLL_S)
        threading.Thread(target=loop, name="cohort-metrics", daemon=True).start()
        log.info("the group's page is at %s, its metrics at /metrics", self.page)

    @property
    def page(self) -> str:
        """The address of the page, as a browser on this host asks for it."""
        unspecified = self._address in ("0.0.0.0", "::")  # noqa: S104  compared with, not listened on
        return f"http://{joined(current_place().host if unspecified else self._address, self.port)}/"

    def close(self) -> None:
        """Stop serving and close the socket, if started."""
        if self._application is not None:
            self._application.close()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


def _refused(address: str, port: int, error: OSError) -> OptionError:
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        reason = "is in use" if error.errno == errno.EADDRINUSE else "needs privileges that this process does not have"
        return OptionError(
            f"metrics.port={port}: the port {reason} on {address}; give every query a port of its own, "
            "or leave metrics.port out to run without metrics"
        )
    return OptionError(
        f"metrics.address={address}: cannot listen there ({error.strerror or error}); use 127.0.0.1 (the default), "
        "0.0.0.0, or an address of the driver's host"
    )
