"""A job as people see it: the terminal's view, metrics, reports, traces, TensorBoard, notebooks."""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import threading
import sys
import subprocess
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from json_support import checked
from trireme.native import errors, optional
from trireme.launch.cli import main
from trireme.launch import logs
from trireme.observe import charts, metrics, plot, traces, view

pytest.importorskip("rich")
pytest.importorskip("prometheus_client")


def write_logs(folder: Path, mode: str = "sync", ends: bool = False) -> Path:
    """Logs of two trainers, the second of which is slow, and a server: 10 s, 100 steps."""
    folder.mkdir()
    now, host = time.time(), socket.gethostname()

    def write(name: str, *lines: dict) -> None:
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    for index in (0, 1):
        joined = {"t_s": now - 10, "event": "joined", "schema": 1, "role": "trainer", "index": index, "rank": 1 + index, "host": host,
                  "pid": os.getpid(),
                  "attempt": 0, "servers": 1, "trainers": 2}
        lines = [{"t_s": now - 10 + at, "event": "steps", "doing": "wait", "step": 10 * at, "steps": 10 * at, "step_ms": 1000.0 * at,
                  "compute_ms": 400.0 * at,
                  "wait_ms": 500.0 * at, "script_ms": 100.0 * at, "wait_by_server_ms": [500.0 * at], "sent_bytes": 1000 * at,
                  "received_bytes": 2000 * at,
                  "loss": 1 / (1 + at), "skipped": index} for at in (1, 5, 10)]
        end = [{**lines[-1], "event": "summary", "end": "well"}] if ends else []
        write(f"trainer-{index}.jsonl", joined, {"t_s": now - 10, "event": "began", "mode": mode, "step": 0, "blocks": 1, "tables": 0,
                                                 "compress": "none"}, *lines, *end)
    server = {"t_s": now - 10, "event": "joined", "schema": 1, "role": "server", "index": 0, "rank": 0, "host": host, "pid": 1,
              "attempt": 0, "servers": 1, "trainers": 2}
    lines = [{"t_s": now - 10 + at, "event": "steps", "server": 0, "updates": 10 * at, "apply_ms": 100.0 * at, "idle_ms": 800.0 * at,
              "steps_by_trainer": [10 * at, 10 * at],
              "late_by_trainer_ms": [0.0, 300.0 * at], "kept_by_trainer_ms": [300.0 * at, 0.0], "held_by_trainer_ms": [0.0, 0.0],
              "staleness": [50 * at, 10 * at, at],
              "sent_bytes": 4000 * at, "received_bytes": 2000 * at} for at in (1, 5, 10)]
    write("server-0.jsonl", server, *lines)
    return folder


def test_a_view_has_rates_waits_and_who_is_waited_for(tmp_path: Path) -> None:
    job = view.view_of(write_logs(tmp_path / "logs"))
    assert (job.step, round(job.rate), round(job.loss, 3)) == (100, 10, 0.091)
    assert job.waited_for.name == "trainer 1"
    trainer, server = job.of("trainer")[0], job.of("server")[0]
    assert round(trainer.wait, 2) == 0.5 and trainer.memory > 1 << 20 and round(server.wait, 2) == 0.8
    assert job.staleness == "0 (max 3)"
    assert round(view.view_of(write_logs(tmp_path / "async", "async")).rate) == 20
    assert round(view.view_of(write_logs(tmp_path / "average", "average(10)")).rate) == 10           # they make their steps together, too
    for number, odd in enumerate(("a mode of nobody", "ssp(99999999999)", "geo(0)", "sync\0")):
        assert round(view.view_of(write_logs(tmp_path / f"odd-{number}", odd)).rate) == 10


def test_top_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["top", str(write_logs(tmp_path / "logs")), "--once"]) == 0
    out = capsys.readouterr().out
    assert "step 100  10.0 steps/s  mode sync  loss 0.0909" in out
    row = next(line for line in out.splitlines() if line.strip().startswith("trainer 1 *"))
    assert "waits for servers" in row and "50%" in row
    assert main(["top", str(tmp_path / "none"), "--once"]) == 2


def test_a_narrow_terminal_cuts_no_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["top", str(write_logs(tmp_path / "logs")), "--once"]) == 0
    out = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in out and all(len(line) <= 80 for line in out.splitlines())
    row = next(line for line in out.splitlines() if line.strip().startswith("trainer 1 *"))
    assert "50%" in row and "100" in row.split()


def served(folder: Path, port: int = 0) -> tuple:
    return metrics.serve(lambda: metrics.of_logs(str(folder)), port, metrics.ADDRESS, "trireme metrics")


def test_prometheus_is_served_on_this_host_alone(tmp_path: Path) -> None:
    server, thread, port = served(write_logs(tmp_path / "logs"))
    try:
        assert server.server_address[0] == "127.0.0.1"
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
        with pytest.raises(errors.FileError, match=f"cannot listen on 127.0.0.1, port {port}"):
            served(tmp_path / "logs", port)
    finally:
        server.shutdown()
        thread.join(20)
    host = socket.gethostname()
    assert f'trireme_steps_total{{host="{host}",index="0",role="trainer"}} 100.0' in text
    assert f'trireme_loss{{host="{host}",index="0",role="trainer"}} 0.0909' in text
    assert 'trireme_skipped_steps_total' in text and "trireme_restarts_total 0.0" in text


def test_metrics_print_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(write_logs(tmp_path / "logs")), "--json"]) == 0
    told = checked("metrics", capsys.readouterr().out)
    assert [(one["role"], one["index"], one["steps_total"], one["skipped_steps_total"]) for one in told["ranks"]] == [
        ("trainer", 0, 100, 0), ("trainer", 1, 100, 1), ("server", 0, 100, None)]
    assert all(one["last_line_seconds"] is not None for one in told["ranks"])
    assert main(["metrics", str(write_logs(tmp_path / "over", ends=True)), "--json"]) == 0
    assert [one["last_line_seconds"] for one in checked("metrics", capsys.readouterr().out)["ranks"][:2]] == [None, None]
    assert main(["metrics", str(tmp_path), "--json"]) == 0
    assert checked("metrics", capsys.readouterr().out)["ranks"] == []


def test_the_page_of_metrics_lists_each_of_them() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "seeing.md").read_text()
    assert set(re.findall(r"`(trireme_\w+)`", page)) == set(metrics.ABOUT)


def strange_logs(folder: Path) -> Path:
    """Good logs, and among them files that never end, or that nobody writes to."""
    write_logs(folder)
    os.mkfifo(folder / "trainer-7.jsonl")
    (folder / "server-7.jsonl").symlink_to("/dev/zero")
    (folder / "standby-7.jsonl").mkdir()
    os.mkfifo(folder / "launcher.jsonl")
    with open(folder / "replica-7.jsonl", "wb") as file:
        file.truncate(1 << 41)
    return folder


@pytest.mark.parametrize("command", [["explain", "{}"], ["plot", "{}", "-o", "{}.html"], ["top", "{}", "--once"],
                                     ["trace", "{}/trainer-7.jsonl"], ["trace", "{}/server-7.jsonl"]])
def test_observers_read_regular_files_alone(tmp_path: Path, command: list[str]) -> None:
    folder = str(strange_logs(tmp_path / "logs"))
    done = subprocess.run([sys.executable, "-m", "trireme", *(word.format(folder) for word in command)], check=False, capture_output=True,
                          text=True, timeout=60)
    if command[0] == "trace":
        assert done.returncode == 2 and "is no regular file, but a " in done.stderr
        return
    assert done.returncode == 0, done
    text = done.stdout if command[0] == "explain" else Path(f"{folder}.html").read_text() if command[0] == "plot" else ("trainer-7 a FIFO "
                                                                                                                        "a device a folder bytes")
    assert all(word in text for word in ("trainer-7", "a FIFO", "a device", "a folder", "bytes"))


def test_prometheus_reads_regular_files_alone(tmp_path: Path) -> None:
    server, thread, port = served(strange_logs(tmp_path / "logs"))
    try:
        assert "trireme_steps_total" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
    finally:
        server.shutdown()
        thread.join(20)


def test_silent_connections_end_and_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics._Handler, "timeout", 0.2)
    monkeypatch.setattr(metrics._Server, "_places", threading.BoundedSemaphore(4))
    server, thread, port = served(write_logs(tmp_path / "logs"))
    try:
        silent = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(40)]
        silent[0].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        assert all(one.recv(100) in (b"", b"HTTP/1.0 200 OK\r\n") for one in silent)       # each is closed by the server
        for one in silent:
            one.close()
        assert b"trireme_steps_total" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read()
    finally:
        server.shutdown()
        thread.join(20)


def test_a_share_of_time_is_a_share(tmp_path: Path) -> None:
    """A wait counts when it ends: one that began long before the last line is compared with the step that it belongs to."""
    folder = write_logs(tmp_path / "logs")
    lines = [json.loads(line) for line in (folder / "trainer-0.jsonl").read_text().splitlines()]
    late = {**lines[-1], "t_s": lines[-1]["t_s"] + 1, "steps": 101, "step_ms": lines[-1]["step_ms"] + 60e3,
            "wait_ms": lines[-1]["wait_ms"] + 59e3}
    idle = {**lines[-1], "t_s": lines[-1]["t_s"] + 0.5}
    (folder / "trainer-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, idle, late]))
    points = plot._waits(logs.read(folder).trainers[0], 0.0)
    assert all(0 <= share <= 1 for _, share in points) and points[-1][1] == pytest.approx(59 / 60) and len(points) == 4


def test_a_report_says_what_ran_where_and_when(tmp_path: Path) -> None:
    folder = write_logs(tmp_path / "logs")
    (folder / "launcher.jsonl").write_text(json.dumps({"t_s": 0, "event": "start", "command": ["trireme-pserver", ":", "python", "-m", "x",
                                                                                               "train.py", "--lr", "<1>"]}) + "\n")
    text = plot.report(str(folder))
    assert f"<h1>train.py --lr &#x27;&lt;1&gt;&#x27; on {socket.gethostname()}, {time.strftime('%Y-')}" in text
    assert text.count('width="960"') >= 4 and "svg{width:100%" in text


def test_top_shows_one_step_in_sync(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for mode, shown in (("sync", {"100"}), ("async", {"100", "50"})):
        folder = write_logs(tmp_path / mode, mode)
        lines = (folder / "trainer-1.jsonl").read_text().splitlines()
        (folder / "trainer-1.jsonl").write_text("\n".join(lines[:-1]) + "\n")
        assert main(["top", str(folder), "--once"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines() if "trainer " in line]
        assert {word for row in rows for word in row if word in ("100", "50")} == shown


def test_a_report_has_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert main(["plot", str(write_logs(tmp_path / "a<b", "async", ends=True)), "--out", str(out)]) == 0
    text = out.read_text()
    assert text.count("<svg") == text.count("</svg>") >= 5 and "a&lt;b" in text and "a<b" not in text
    for title in ("The loss", "Steps a second", "What a step is made of", "Staleness"):
        assert f"<h2>{title}" in text
    assert main(["plot", str(tmp_path), "--out", str(out)]) == 2
    assert "no log of a trainer" in capsys.readouterr().err


def test_charts_have_round_numbers_and_survive_odd_points() -> None:
    assert charts.ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert charts.line_chart({"a": [(0, 1)]}, "x", "y") == "" == charts.stacked_bars([], "ms")
    assert "<polyline" in charts.line_chart({"a": [(0, 1), (1, float("nan")), (2, 1)]}, "x", "y")


def test_names_in_a_legend_stand_beside_each_other_where_they_fit() -> None:
    for letters, rows in ((5, 1), (50, 2), (100, 4)):
        svg = charts.line_chart({f"{number}{'n' * letters}": [(0, 1), (1, 2)] for number in range(4)}, "x", "y")
        found = [(float(u), float(v), len(name)) for u, v, name in re.findall(r'<text x="([\d.]+)" y="([\d.]+)">(\dn+)</text>', svg)]
        assert len({v for _, v, _ in found}) == rows
        assert all(one[0] + 5.5 * one[2] < other[0] for one, other in itertools.pairwise(found) if one[1] == other[1]), svg


def test_traces_of_two_hosts_are_on_one_clock(tmp_path: Path) -> None:
    for name, zero, start in (("trainer-0", 5_000_000.0, 100.0), ("server-0", 4_000_000.0, 1_000_050.0)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"otherData": {"zero_us": zero}, "traceEvents": [
            {"ph": "X", "pid": 7, "tid": 1, "ts": start, "dur": 5.0, "cat": "op", "name": f"op of {name}"}]}))
    out = tmp_path / "merged" / "trace.json"
    out.parent.mkdir()
    assert traces.command([str(tmp_path)], str(out)) == 0
    events = json.loads(out.read_text())["traceEvents"]
    starts = {event["name"]: event["ts"] for event in events if event["ph"] == "X"}
    assert starts == {"op of server-0": 0.0, "op of trainer-0": 50.0}
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {"server-0", "trainer-0"}
    assert len({event["pid"] for event in events}) == 2                # both ranks had the same process number
    (tmp_path / "bad.json").write_text("[1")
    with pytest.raises(errors.FormatError, match="bad.json' is no trace"):
        traces.merge([str(tmp_path / "bad.json")])
    with pytest.raises(errors.NotFoundError, match="has no traces"):
        traces.command([_empty(tmp_path)], str(out))


def _empty(folder: Path) -> str:
    (folder / "empty").mkdir()
    return str(folder / "empty")


def test_the_profiler_says_when_its_clock_began(tmp_path: Path) -> None:
    x = fluid.layers.data("x", [2])
    y, exe = fluid.layers.relu(x), fluid.Executor()
    begin = time.time()
    with fluid.profiler.profiler(profile_path=str(tmp_path / "one.json")):
        exe.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=[y])
    trace = json.loads((tmp_path / "one.json").read_text())
    event = next(event for event in trace["traceEvents"] if event["ph"] == "X")
    assert begin <= (trace["otherData"]["zero_us"] + event["ts"]) / 1e6 <= time.time()


def test_tensorboard_reads_what_a_training_writes(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    trainer = fluid.Trainer(loss, fluid.optimizer.SGD(0.1))
    history = trainer.train(lambda: [[([1.0], [2.0])], [([2.0], [4.0])]], epochs=3,
                            callbacks=[fluid.callbacks.TensorBoard(tmp_path, every=2)])
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"epoch/loss", "batch/loss"}
    points = events.Scalars("epoch/loss")
    assert [point.step for point in points] == [1, 2, 3]
    assert np.allclose([point.value for point in points], history.history["loss"])
    assert [point.step for point in events.Scalars("batch/loss")] == [2, 4, 6]


def test_tensorboard_has_the_steps_of_a_loop_over_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (tmp_path / "lines.csv").write_text("1,2\n" * 7)
    x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    data = fluid.Dataset(str(tmp_path / "lines.csv"), "csv", batch_size=1, slots=[x, y])
    exe.train_from_dataset(dataset=data, epochs=2, fetch_list=[loss], fetch_info=["loss"], print_period=3,
                           callbacks=[fluid.callbacks.TensorBoard(tmp_path)])
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [point.step for point in events.Scalars("batch/loss")] == [3, 6, 10, 13]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all("samples/s" in line for line in lines), lines


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich", None)
    with pytest.raises(errors.MissingLibraryError, match=r"trireme top needs the library rich, which is not installed: pip install "
                                                         r"'\.\[tools\]' in a clone"):
        optional.load("rich", "trireme top")


def test_a_notebook_shows_a_program() -> None:
    fluid.layers.fc(fluid.layers.data("x", [2]), 1, act="relu")
    program = fluid.default_main_program()
    text = program._repr_html_()
    assert re.findall(r"<b>(\w+)</b>", text) == [op.type for op in program.global_block().ops] and "fc_0.w_0" in text
    drawn = program._repr_svg_()
    assert drawn is None or drawn.startswith("<svg")
