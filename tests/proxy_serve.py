"""``python tests/proxy_serve.py``: the service behind nginx with TLS, as docs/production.md configures it.

It takes the configuration from that page, with nothing changed but ports and the places of the certificate, makes a
certificate, and starts nginx and ``dyncrp serve`` on ports of this machine. Then it asks through the proxy what others
would ask. It prints a line for each thing that it looked at, and ends with 1 if one of them is not as it should be.

It needs nginx and openssl (``apt-get install nginx-light openssl``). With chromium and playwright the page is opened in
a browser, too. A number says for how many seconds a reader of events waits without one, by default 70: longer than
nginx waits for an answer.
"""

import contextlib
import grp
import http.client
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "production.md"
NAME = "streams.example.org"
SECONDS = 30.0  # in which something must answer
SECONDS_OF_AN_EVENT = 2.0  # from the answer to its rows; a proxy that collects events would hold it for a minute
MIB = 2**20
SETTINGS = {
    "family": "gaussian",
    "dynamics": "stationary()",
    "alpha": 0.1,
    "alarm_rate": None,
    "set": {"variance": 1.0, "prior_variance": 1e6},
    "features": ["x", "y"],
}
AROUND = """
daemon off;
worker_processes 1;
user {user} {group};
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def replaced(text, before, after):
    """Return a text with the only place of ``before`` replaced."""
    if text.count(before) != 1:
        sys.exit(f"{PAGE} does not have {before!r} once in its configuration of nginx: mend this program, too")
    return text.replace(before, after)


def configuration(folder, port, behind):
    """Return the configuration of the page, on other ports."""
    (server,) = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    server = replaced(server, "listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;")
    server = replaced(server, "/etc/ssl/streams.crt", f"{folder}/streams.crt")
    server = replaced(server, "/etc/ssl/streams.key", f"{folder}/streams.key")
    server = replaced(server, "http://127.0.0.1:8000", f"http://127.0.0.1:{behind}")
    names = {"user": pwd.getpwuid(os.getuid()).pw_name, "group": grp.getgrgid(os.getgid()).gr_name}
    return AROUND.format(folder=folder, server=server, **names)


class Processes:
    """What was started, with a log each, and is ended."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def start(self, name, command, port):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(int(SECONDS / 0.05)):
            if self.running[name].poll() is not None:
                break
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    return
            time.sleep(0.05)
        sys.exit(f"{name} does not start: {(self.folder / f'{name}.log').read_text()}")

    def stop(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(SECONDS)

    def stop_all(self):
        for name in [*self.running]:
            self.stop(name)


class Client:
    """Asks through the proxy, by its name, and checks its certificate."""

    def __init__(self, port, certificate):
        self.port = port
        self.context = ssl.create_default_context(cafile=str(certificate))

    def connect(self):
        asking = http.client.HTTPConnection(NAME, timeout=SECONDS)
        asking.sock = self.context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), SECONDS), server_hostname=NAME
        )
        return contextlib.closing(asking)

    def __call__(self, method, path, body=None, token=None, **headers):
        """Return the status and the content of an answer. body: bytes, parts of bytes, or what becomes JSON."""
        if isinstance(body, dict):
            body, headers = json.dumps(body).encode(), {"content-type": "application/json"} | headers
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        with self.connect() as asking:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            asking.request(method, path, body, named, encode_chunked=body is not None and not isinstance(body, bytes))
            answer = asking.getresponse()
            return answer.status, answer.read()

    @contextlib.contextmanager
    def follow(self, path, token):
        """Yield the lines of server-sent events as they come, with the connection that can be waited for."""
        with self.connect() as asking:
            asking.request("GET", path, headers={"accept": "text/event-stream", "authorization": f"Bearer {token}"})
            answer = asking.getresponse()
            assert answer.status == 200, answer.status
            yield answer

    @staticmethod
    def next_of(answer, kind):
        """Return the next event of a kind: its data."""
        while line := answer.readline():
            if line.strip() == f"event: {kind}".encode():
                return json.loads(answer.readline().partition(b"data:")[2])
        raise AssertionError(f"the feed ended without {kind}")


class Report:
    """What was looked at, and how many were not as they should be."""

    def __init__(self):
        self.n, self.bad = 0, []

    def see(self, what, fact, told=""):
        self.n += 1
        print(f"{'ok    ' if fact else 'WRONG '} {what}{f': {told}' if told != '' else ''}", flush=True)
        if not fact:
            self.bad.append(what)


def chunks(n_bytes, unit=b" " * 65536):
    for _ in range(n_bytes // len(unit)):
        yield unit


def look_with_token(report, ask, token, wait):
    """What a server with a token answers through the proxy."""
    status, content = ask("GET", "/")
    report.see("the page comes without a token", status == 200 and b"<!doctype html" in content.lower(), status)
    report.see("so does /health", ask("GET", "/health")[0] == 200)
    told = [ask("GET", "/streams", token=given)[0] for given in (None, "wrong-" + token, token)]
    report.see("streams without a token, with a wrong one, with the right one", told == [401, 401, 200], told)
    report.see("a stream is made", ask("PUT", "/streams/a", SETTINGS, token)[0] == 201)
    where = "/streams/a/rows?client=me&sequence="
    first = ask("POST", f"{where}1", {"rows": [[0, 0], [1000, 0]]}, token)
    report.see("rows are learned", first[0] == 200 and json.loads(first[1])["labels"] == [0, 1], first[1][:60].decode())
    report.see(
        "a request again has the same answer", ask("POST", f"{where}1", {"rows": [[0, 0], [1000, 0]]}, token) == first
    )
    lines = b"x,y\n" + b"0.12345678901234567,0.12345678901234567\n" * 90_000
    status, content = ask("POST", "/streams/a/rows", lines, token, content_type="text/csv")
    report.see(f"a body of {len(lines):,} bytes", status == 200, status)
    parts = [lines[at : at + 10_000] for at in range(0, len(lines), 10_000)]
    status, content = ask("POST", "/streams/a/rows", parts, token, content_type="text/csv")
    report.see("the same in chunks, without its length", status == 200, status)
    for how, body in (("with its length", b" " * (33 * MIB)), ("in chunks", chunks(40 * MIB))):
        status, content = ask("POST", "/streams/a/rows", body, token, content_type="application/json")
        report.see(f"a body that is too large, {how}", status == 413, status)
    status, content = ask("POST", "/streams/a/rename", b" " * (5 * MIB), token, content_type="application/json")
    report.see("one that the server itself refuses", status == 413 and b"may have" in content, content.decode()[:60])
    status, _ = ask("POST", "/streams/a/rename", {"table": 0, "name": "door"}, token, origin=f"https://{NAME}")
    report.see("the page may write", status == 200, status)
    look_at_feeds(report, ask, token, wait)


def look_at_feeds(report, ask, token, wait):
    """Whether events and what the page draws come as they happen."""
    with ask.follow("/streams/a/live", token) as live:
        ask.next_of(live, "beat")
        longest = 0.0
        for i in range(10):
            begin = time.monotonic()
            status, _ = ask("POST", "/streams/a/rows", {"rows": [[-1000 * (i + 1), 500]]}, token)
            assert status == 200
            ask.next_of(live, "rows")
            longest = max(longest, time.monotonic() - begin)
        report.see("rows come to the page", longest < SECONDS_OF_AN_EVENT, f"{longest:.3f} s at most")
    last = json.loads(ask("GET", "/streams/a/events?limit=10000", token=token)[1])["events"][-1]["id"]
    with ask.follow(f"/streams/a/events?after={last}", token) as events:
        longest = 0.0
        for i in range(10):
            if i == 9:
                print(f"       waiting for {wait:g} s", flush=True)
                time.sleep(wait)
            begin = time.monotonic()
            status, content = ask("POST", "/streams/a/rows", {"rows": [[1000 * (i + 2), 9000]]}, token)
            assert status == 200
            event = ask.next_of(events, "opened")
            assert event["row"] == json.loads(content)["first_row"], event
            longest = max(longest, time.monotonic() - begin)
        report.see("events come as they happen", longest < SECONDS_OF_AN_EVENT, f"{longest:.3f} s at most")


def look_in_browser(report, ask, token, restart):
    """Open the page in a browser, give it the token, and see rows come, also after a restart."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("       no browser was tried: it needs chromium and playwright")
        return
    said = []
    with sync_playwright() as started:
        arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"]
        browser = started.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.on("console", lambda one: one.type in ("error", "warning") and said.append(one.text))
        page.goto(f"https://{NAME}:{ask.port}/#a")
        page.get_by_role("textbox", name="Token").fill(token)
        page.get_by_role("textbox", name="Token").press("Enter")
        state = page.locator("#state:is([data-state=live], [data-state=quiet])")
        expect(state).to_be_visible(timeout=1000 * SECONDS)

        def shows_a_row(place):
            assert ask("POST", "/streams/a/rows", {"rows": [[0, place]]}, token)[0] == 200
            tables = json.loads(ask("GET", "/streams/a/tables", token=token)[1])["tables"]
            newest = max(table["id"] for table in tables)
            expect(page.locator(f'#tables tr[data-id="{newest}"]')).to_be_visible(timeout=1000 * SECONDS)
            expect(page.locator("#state[data-state=live]")).to_be_visible(timeout=1000 * SECONDS)

        shows_a_row(-7000)
        report.see("the page in a browser is live", True)
        report.see("the address has no token", token not in page.url)
        said = [text for text in said if "401" not in text]  # which asks for the token
        report.see("its console says nothing", not said, "; ".join(said)[:200])
        restart()
        shows_a_row(-8000)
        report.see("it is live again after a restart", True)
        browser.close()


def look_without_token(report, ask):
    """What a server without a token answers through the proxy: nothing, since it goes by another name."""
    status, content = ask("GET", "/streams")
    report.see("without a token, the name of the proxy is refused", status == 403, content.decode())


def look_as_localhost(report, ask):
    """What a server without a token answers if the proxy says that it is localhost, as the page warns."""
    report.see("as localhost, everybody may write", ask("PUT", "/streams/b", SETTINGS)[0] == 201)
    for origin in (f"https://{NAME}", "https://elsewhere.example"):
        status, content = ask("POST", "/streams/b/rename", {"table": 0, "name": "x"}, origin=origin)
        report.see(f"but no page of {origin}", status == 403, content.decode())


def main(wait):
    for needed in ("nginx", "openssl"):
        if shutil.which(needed, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            sys.exit(f"there is no {needed}: `apt-get install nginx-light openssl` gives both")
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    report, token = Report(), "token-" + secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        port, behind = free_port(), free_port()
        made = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-keyout",
            "streams.key",
            "-out",
            "streams.crt",
        ]
        made += ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder)
        ask, processes = Client(port, folder / "streams.crt"), Processes(folder)
        text = configuration(folder, port, behind)
        (folder / "nginx.conf").write_text(text)
        proxy = [nginx, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
        serve = [sys.executable, "-m", "dyncrp", "serve", str(folder / "data"), "--port", str(behind)]
        os.environ.pop("DYNCRP_TOKEN", None)
        try:
            processes.start("nginx", proxy, port)
            os.environ["DYNCRP_TOKEN"] = token
            processes.start("dyncrp", serve, behind)
            look_with_token(report, ask, token, wait)

            def restart():
                processes.stop("dyncrp")
                time.sleep(2.0)  # in which the page asks, and is answered 502
                processes.start("dyncrp", serve, behind)

            look_in_browser(report, ask, token, restart)
            with ask.follow("/streams/a/events", token) as events:
                events.readline()  # a comment
                time.sleep(1.0)
                code = processes.stop("dyncrp")
                while events.read(4096):
                    pass
            report.see("the server stops, and its readers see the end", code == 0, code)
            status, _ = ask("GET", "/streams", token=token)
            report.see("while it is away, the proxy answers 502, after which a client may ask again", status == 502)
            del os.environ["DYNCRP_TOKEN"]
            processes.start("dyncrp", serve, behind)
            look_without_token(report, ask)
            processes.stop("nginx")
            (folder / "nginx.conf").write_text(replaced(text, "Host $host", "Host localhost"))
            processes.start("nginx", proxy, port)
            look_as_localhost(report, ask)
        finally:
            processes.stop_all()
        for log in sorted(folder.glob("*.log")):
            content = log.read_text(errors="replace")
            report.see(f"no token in {log.name}", "token-" not in content, f"{len(content):,} characters")
    print(f"{report.n} looked at, {len(report.bad)} wrong")
    return 1 if report.bad else 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2] or ["70"])))
