"""What is beside the package for those who run it: it names only what the package has."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app
from dyncrp.version import __version__

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\bdyncrp_[a-z_]+")


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """The names of what /metrics prints."""
    pytest.importorskip("starlette")
    from serving import serving

    with serving(tmp_path_factory.mktemp("data")) as (client, _):
        return set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE))


def test_the_dashboard(metrics):
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert {name for query in queries for name in METRIC.findall(query)} == metrics  # each is shown
    assert METRIC.findall(json.dumps(dashboard["templating"])) == ["dyncrp_stream_rows"] * 2
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_alert_rules(metrics):
    text = (DEPLOY / "alerts.yml").read_text(encoding="utf-8")
    names = set(METRIC.findall(text))
    assert names
    assert names <= metrics
    counters = {name for name in names if name.endswith("_total")}
    assert counters == set(re.findall(r"rate\((\w+)", text))
    assert text.count("- alert:") == text.count("expr:") == text.count("summary:") == text.count("severity:")
    assert "alerts.yml" in (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")


def test_the_dockerfile():
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    copied = [name for step, rest in steps if step == "COPY" for name in rest.split()[:-1]]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert all((ROOT / name).exists() for name in copied)
    assert {f"!{name}" for name in copied} <= set(ignored)
    (entry,) = (json.loads(rest) for step, rest in steps if step == "ENTRYPOINT")
    help = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert entry[:2] == ["dyncrp", "serve"]
    assert all(option in help for option in entry if option.startswith("--"))
    (port,) = (rest for step, rest in steps if step == "EXPOSE")
    assert entry[entry.index("--port") + 1] == port
    (check,) = (rest for step, rest in steps if step == "HEALTHCHECK")
    program = json.loads(check[check.index("CMD") + 3 :])[2]
    compile(program, "healthcheck", "exec")
    assert f"http://localhost:{port}/health" in program
    assert all(shlex.split(rest) for step, rest in steps if step == "RUN")


def test_the_conda_recipe():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needs = {re.sub(r"\s", "", line) for line in re.findall(r"^    - (.*)$", text, re.MULTILINE)}
    wanted = {*project["project"]["dependencies"], *project["build-system"]["requires"]}
    wanted.add(f"python{project['project']['requires-python']}")
    assert wanted <= needs
    path, pattern = re.search(r"load_file_regex\(\"(.*?)\", '(.*?)'", text).groups()
    assert re.search(pattern, (ROOT / "conda" / path).read_text(encoding="utf-8"))[1] == __version__


def test_the_program_for_the_proxy_reads_the_configuration_of_the_page(tmp_path):
    from proxy_serve import configuration

    text = configuration(tmp_path, 1, 2)
    assert "listen 127.0.0.1:1 ssl;" in text
    assert "proxy_pass http://127.0.0.1:2;" in text
    assert text.count("{") == text.count("}")
