"""Where the ranks of Horovod find each other: what `horovodrun` would set up, on the loopback interface alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rendezvous(ranks: int) -> Iterator[list[dict[str, str]]]:
    """Each rank's environment."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    server = RendezvousHTTPServer(("127.0.0.1", 0), RendezvousHandler, 0)
    slots = get_host_assignments(parse_hosts(f"127.0.0.1:{ranks}"), ranks)
    server.init(slots)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    shared = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.server_address[1]),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo" if sys.platform == "linux" else "lo0",
        "HOROVOD_HOSTNAME": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
    }
    own = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    try:
        yield [{**shared, **{f"HOROVOD_{name.upper()}": str(getattr(slot, name)) for name in own}} for slot in slots]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
