"""The files for Prometheus and Grafana: what they ask for is served, and a rank that hangs fires an alert."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from job_support import LIMIT, SCRIPT, Launched, environment, needs_mpi

from trireme.observe.metrics import ABOUT

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus" / "rules.yml", json.loads((DEPLOY / "grafana" / "trireme.json").read_text())
has_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: deploy/setup.sh prometheus")


def of_dashboard() -> list[str]:
    """The dashboard's expressions, for all jobs."""
    return [target["expr"].replace("$job", ".*").replace("$instance", ".*") for panel in DASHBOARD["panels"] for target in panel["targets"]]


def of_rules() -> list[str]:
    return re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.M)


def watched(expression: str) -> list[str]:
    """What an alert compares: it has a value as long as the job runs, also where nothing is wrong."""
    return [part.rpartition(" > ")[0] or part.rpartition(" == ")[0] for part in expression.split(" and ")]


def test_what_the_files_ask_for_is_served() -> None:
    asked = [*of_dashboard(), *of_rules(), *(one["definition"] for one in DASHBOARD["templating"]["list"] if "definition" in one)]
    assert len(asked) > 20
    assert {name for text in asked for name in re.findall(r"trireme_\w+", text)} <= set(ABOUT)


def test_no_panel_hides_another() -> None:
    places = [(panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y) for panel in DASHBOARD["panels"]
              for x in range(panel["gridPos"]["w"]) for y in range(panel["gridPos"]["h"])]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(panel["title"] and panel["description"] for panel in DASHBOARD["panels"])


def lost(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """The places of a document that another one lacks, or has otherwise."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after.get(key), f"{at}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{at}[{i}]")
    elif before != after:
        yield f"{at}: {before!r} became {after!r}"


def test_the_models_of_grafana_read_the_dashboard_and_write_it_again() -> None:
    """All but the variables' `definition`, a text for people: what is asked for stands in `query`, too."""
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="pip install grafana-foundation-sdk")
    from grafana_foundation_sdk.cog import encoder, plugins

    plugins.register_default_plugins()
    written = json.loads(json.dumps(models.Dashboard.from_json(DASHBOARD), cls=encoder.JSONEncoder))
    assert [one for one in lost(DASHBOARD, written) if ".definition:" not in one] == []
    assert all(one["query"]["query"] == one["definition"] for one in DASHBOARD["templating"]["list"] if "definition" in one)


@has_promtool
def test_promtool_accepts_the_files_and_alerts_fire_when_they_should(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(of_dashboard())]
    (tmp_path / "dashboard.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))       # JSON is YAML
    for words in (("check", "rules", RULES), ("check", "rules", tmp_path / "dashboard.yml"),
                  ("check", "config", RULES.with_name("prometheus.yml")), ("test", "rules", RULES.with_name("rules_test.yml"))):
        done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# -- a job that is scraped --------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[int], Callable[..., Any]]]:
    """Return what starts a Prometheus for a port, with rules that fire soon, and returns what asks it."""
    started = []

    def start(target: int) -> Callable[..., Any]:
        rules = RULES.read_text().replace("last_line_seconds > 45", "last_line_seconds > 5").replace("for: 15s", "for: 1s")
        (tmp_path / "rules.yml").write_text(rules)
        config = RULES.with_name("prometheus.yml").read_text().replace("5s", "1s").replace("9464", str(target), 1)
        (tmp_path / "prometheus.yml").write_text(config)
        port = free_port()
        started.append(subprocess.Popen(["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                                         f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def ask(what: str, **words: str) -> Any:
            where = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(words)}"
            return json.loads(urllib.request.urlopen(where, timeout=LIMIT).read())["data"]

        return ask

    yield start
    for process in started:
        process.terminate()
        process.wait(LIMIT)


def until(what: Callable[[], Any], about: str) -> Any:
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except OSError:                                # Prometheus is starting
            pass
        time.sleep(0.5)
    pytest.fail(f"{about} has not come within {LIMIT} s")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus: deploy/setup.sh prometheus")
def test_prometheus_scrapes_a_job_and_a_stopped_trainer_fires_an_alert(prometheus: Callable[[int], Callable[..., Any]]) -> None:
    job = Launched(2, 2, "--steps", 1000000, "--sleep", 0.02, script=SCRIPT.with_name("paced.py"), replacements=True,
                   options=("--metrics-port", 0), env=environment(TRIREME_TIMEOUT="600"))
    ask = prometheus(int(re.search(r":(\d+)/metrics", job.process.stdout.readline())[1]))
    ranks = job.ranks()
    for expression in [*of_dashboard(), *(part for rule in of_rules() for part in watched(rule))]:
        until(lambda: ask("query", query=expression)["result"], expression)
    assert [one["labels"]["alertname"] for one in ask("alerts")["alerts"]] == []
    os.kill(ranks.known[3].pid, signal.SIGSTOP)

    def fired() -> list[dict[str, str]]:
        return [one["labels"] for one in ask("alerts")["alerts"] if one["state"] == "firing"]

    try:
        alerts = until(fired, "an alert")
    finally:
        os.kill(ranks.known[3].pid, signal.SIGCONT)
    assert [(one["alertname"], one["role"], one["index"]) for one in alerts] == [("TriremeRankHangs", "trainer", "1")]
    job.process.send_signal(signal.SIGINT)
    assert job.end()[0] == 128 + signal.SIGINT
