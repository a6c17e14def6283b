"""A server in a thread of the tests, on a free port of this machine."""

import asyncio
import threading
from contextlib import contextmanager

import httpx

from cases import PATIENCE
from dyncrp.serve.app import Service
from dyncrp.serve.server import Server, listen

KNOWN = {
    "family": "gaussian",
    "dynamics": "stationary()",
    "alpha": 1.0,
    "set": {"variance": 1.0, "prior_variance": 100.0},
}


@contextmanager
def serving(folder, limits=None, *, token=None, **options):
    """Yield a client of a server and the service behind it."""
    service = Service(folder, limits, token=token, **options)
    ready = threading.Event()
    server = Server(service, ready.set)
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])))
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE) as client:
                yield client, service
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def post(client, rows, name="s", **more):
    """Send rows to a stream and return the answer."""
    answer = client.post(f"/streams/{name}/rows", json={"rows": rows, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()
