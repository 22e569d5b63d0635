"""``trireme simulate``: its messages are those of jobs, and simulated jobs take what computing, processors and links take."""

import json
from dataclasses import replace

import numpy as np
import pytest
from job_support import SCRIPT, launch

from trireme.errors import InvalidArgumentError, NotFoundError, TriremeError
from trireme.distributed.placement import Item
from trireme.job.mode import parse
from trireme.launch import cli
from trireme.launch.logs import read
from trireme.simulate.costs import Costs, free, load, save
from trireme.simulate.facts import Facts, Moment, Table, growth
from trireme.simulate.fit import Point, errors, fit
from trireme.simulate.hosts import looks
from trireme.simulate.probe import run_script_apart
from trireme.simulate.schedule import Options, merged, schedule_of
from trireme.simulate.simulation import Cluster, best_servers, simulate

SIZED = SCRIPT.with_name("sized.py")
CLASSES = ("gradients", "small_gradients", "compressed", "parameters")


@pytest.fixture(scope="module")
def facts():
    return run_script_apart(str(SIZED), ["--steps", "40"], steps=5)


@pytest.fixture(scope="module")
def table_facts():
    return run_script_apart(str(SIZED), ["--steps", "40", "--table", "--optimizer", "Adam"], steps=5)


def traffic_of_a_step(folder, servers, trainers, *args, options=()):
    """Messages and bytes of trainer 0 in a step, by class: the difference of two jobs that differ in their steps alone."""
    found = []
    for steps in (10, 20):
        launch(servers, trainers, "--steps", steps, *args, script=SIZED, options=("--log", folder / str(steps), *options))
        totals = read(folder / str(steps)).trainers[0].totals
        found.append((totals["messages_by_class"], totals["bytes_by_class"]))
    return {name: tuple((last[name] - first[name]) / 10 for first, last in zip(*found)) for name in found[0][0]}


@pytest.mark.parametrize("servers,trainers,how,options", [
    (1, 1, (), Options()), (2, 2, (), Options()), (3, 1, (), Options()), (1, 2, ("--mode", "async"), Options()),
    (2, 1, ("--compress", "bf16"), Options("bf16")), (2, 1, ("--compress", "int8"), Options("int8")),
    (1, 1, ("--compress", "topk(0.01)"), Options("topk(0.01)")), (2, 1, ("--compress-parameters", "bf16"), Options(rounds=True))])
def test_messages_and_bytes_of_a_step_are_those_of_a_job(tmp_path, facts, servers, trainers, how, options):
    real = traffic_of_a_step(tmp_path, servers, trainers, options=how)
    expected = schedule_of(facts, servers, options, averages="async" not in how).totals()
    for name in CLASSES:
        assert real[name] == expected.get(name, (0, 0)), name


def test_bytes_of_rows_are_those_of_a_job(tmp_path, table_facts):
    """Small messages share bundles, which have a class of their own: so bytes are compared."""
    real = traffic_of_a_step(tmp_path, 1, 1, "--table", "--optimizer", "Adam")
    expected = schedule_of(table_facts, 1).totals()
    for name in ("rows", "keys", "row_gradients", *CLASSES):
        assert real[name][1] == expected.get(name, (0, 0))[1], name


def test_a_script_is_measured_as_it_is(table_facts):
    assert table_facts.optimizer == "adam" and table_facts.states == 2
    assert [item.bytes for item in table_facts.items if item.bytes > 1 << 19] == [300 * 700 * 4]
    table, = table_facts.tables
    assert (table.name, table.row_bytes, table.keys, table.overlap) == ("rows", 32, 32.0, 0.0)
    assert table_facts.computing > 0 and len(table_facts.spread) == 5
    sends, waits = ([name for one in table_facts.moments if one.is_send is send for name in one.names] for send in (True, False))
    assert set(waits) == {item.name for item in table_facts.items} and {*waits, "rows"} < {*sends}
    assert sends.index("fc_2.w_0") < sends.index("fc_0.w_0")           # backwards


def test_a_script_that_fails_or_trains_nothing_is_told(tmp_path, capfd):
    script = tmp_path / "no.py"
    for text, said in (("1 / 0", "ZeroDivisionError"), ("import sys\nsys.exit(3)", "exit code 3"), ("pass", "0 training steps")):
        script.write_text(text)
        with pytest.raises(InvalidArgumentError, match="could not be measured"):
            run_script_apart(str(script), [])
        assert said in capfd.readouterr().err


# -- made-up jobs ---------------------------------------------------------------------------------------------------


def made_up(computing=0.01, megabytes=4, spread=(1.0,), tables=()):
    items = [Item(f"w{i}", 1 << 8, megabytes << 10) for i in range(4)]
    moments = [Moment(0.1 * i, (item.name,), False) for i, item in enumerate(items)]
    moments += [Moment(0.6 + 0.1 * i, (item.name,), True) for i, item in enumerate(reversed(items))]
    moments.append(Moment(1.0, ("loss",), True))
    return Facts(items=items, averaged={"loss": 4}, moments=moments, computing=computing, script=0.0,
                 spread=list(spread), tables=list(tables))


FAST = Cluster(bandwidth=1e15, latency=0.0, trainers_per_host=64, is_shared=True)     # one host, whose ranks ring each other


def test_without_costs_a_step_is_computing():
    for mode in ("sync", "async", "ssp(2)", "sync(backups=1)", "sync(degraded)"):
        assert simulate(made_up(), free(), FAST, parse(mode), Options(), 4, 2).step == pytest.approx(0.01, rel=1e-3), mode


@pytest.mark.parametrize("trainers", [1, 8, 64])
def test_a_server_behind_a_link_takes_what_its_bytes_take(trainers):
    """All gradients of a step go into one server, all parameters come out; what is sent early is sent while trainers compute."""
    job, cluster = made_up(computing=1e-5), Cluster(bandwidth=1e9, latency=0.0)
    wire = 2 * job.dense_bytes * trainers / 1e9
    step = simulate(job, free(), cluster, parse("sync"), Options(), trainers, 1).step
    assert 0.5 * wire <= step <= 1.1 * wire + 2e-3
    halves = simulate(job, free(), cluster, parse("sync"), Options("bf16", True), trainers, 1).step
    assert halves == pytest.approx(step / 2, rel=0.3)


def test_more_servers_share_the_bytes_and_auto_finds_enough():
    job, cluster = made_up(megabytes=16), Cluster(bandwidth=1e9, latency=1e-5)
    one, four = (simulate(job, free(), cluster, parse("sync"), Options(), 8, servers) for servers in (1, 4))
    assert one.step > 3 * four.step and "servers' hosts" in one.bottleneck
    best = best_servers(job, free(), cluster, parse("sync"), Options(), 8, 64)
    assert best.servers >= 4 and best.step <= 1.02 * four.step


def test_ranks_of_a_host_share_its_cores_and_its_link():
    cores = Cluster(1e15, 0.0, trainers_per_host=4, cores=2)
    assert simulate(made_up(), free(), cores, parse("sync"), Options(), 4, 1).step == pytest.approx(0.02, rel=0.02)
    job, apart, together = made_up(computing=1e-5), Cluster(1e9, 0.0), Cluster(1e9, 0.0, trainers_per_host=4)
    alone, shared = (simulate(job, free(), one, parse("async"), Options(), 4, 4).step for one in (apart, together))
    assert shared > 1.8 * alone                        # one way is used while the other one is


@pytest.mark.parametrize("mode, least, most", [("sync", 0.9, 1.2), ("sync(backups=1)", 2.5, 4.2), ("async", 1.8, 4.2)])
def test_trainers_of_a_host_send_one_gradient_where_there_is_a_common_sum(mode, least, most):
    table = Table("t", 64, 4000, 1.0)                  # no trainer has another's keys
    job, together = made_up(computing=1e-5, tables=[table]), Cluster(1e9, 0.0, trainers_per_host=4)
    one, four = (simulate(job, free(), together, parse(mode), Options(), trainers, 1).step for trainers in (1, 4))
    assert least < four / one < most


def test_what_a_host_adds_up_is_no_work_of_servers():
    costs = free()
    costs.units |= {"add": 1e-9}
    job = made_up(computing=1e-5)
    apart, together = (simulate(job, costs, Cluster(1e15, 0.0, trainers_per_host=each), parse("sync"), Options(), 8, 1) for each in (1, 4))
    assert apart.of_server == pytest.approx(7 * job.dense_bytes * 1e-9, rel=0.01)
    assert together.of_server == pytest.approx(job.dense_bytes * 1e-9, rel=0.01)
    assert together.of_trainer == pytest.approx(2 * 3 / 8 * job.dense_bytes * 1e-9, rel=0.05)


def test_sync_waits_for_the_slowest_and_async_does_not():
    job = made_up(spread=[1.0] * 7 + [3.0])
    sync, alone = (simulate(job, free(), FAST, parse(mode), Options(), 32, 1).step for mode in ("sync", "async"))
    assert sync > 0.025 and alone < 0.015


def test_costs_of_servers_count(tmp_path):
    costs = free()
    costs.units |= {"add": 1e-9, "apply.sgd": 1e-9}
    job = made_up(computing=1e-5)
    steps = [simulate(job, costs, FAST, parse("sync"), Options(), trainers, 1) for trainers in (1, 2, 4)]
    assert [one.step for one in steps] == pytest.approx([job.dense_bytes * 1e-9 * n for n in (1, 2, 4)], rel=0.05)
    assert steps[2].bottleneck == "a server's CPU"


def test_tables_cost_rows_that_are_shared():
    costs = free()
    costs.units["row_apply.sgd"] = 1e-6
    for overlap, rows in ((1.0, 4000), (0.0, 1000)):
        job = made_up(computing=1e-5, megabytes=1, tables=[Table("t", 64, 1000, overlap)])
        step = simulate(job, costs, FAST, parse("sync"), Options(), 4, 1).step
        assert step == pytest.approx(rows * 1e-6, rel=0.05)


def test_many_messages_travel_together_without_losing_a_byte():
    pushes = schedule_of(made_up(), 3).pushes
    for most in (1, 2, 5, 1000):
        fewer = merged(pushes, most)
        for what in ("bytes", "messages", "values", "entries"):
            assert sum(getattr(one, what) for one in fewer) == sum(getattr(one, what) for one in pushes)
        assert max(sum(one.server == server for one in fewer) for server in range(3)) <= max(most + 1, 2)


def test_the_same_job_is_simulated_alike():
    first, again = (simulate(made_up(spread=[1, 2, 3]), Costs(), Cluster(1e9, 1e-5, 4), parse("async"), Options(), 16, 2) for _ in range(2))
    assert first == again


def test_keys_that_trainers_share():
    assert growth([np.arange(100), np.arange(50, 150)]) == pytest.approx(np.log2(1.5))


# -- what work is made of -----------------------------------------------------------------------------------------------


def test_small_messages_about_many_tables_travel_in_bundles():
    """52 tables of few keys: a step has as many messages as with two."""
    few, many = (schedule_of(made_up(tables=[Table(f"t{i}", 4, 20, 0.5) for i in range(count)]), 1) for count in (2, 52))
    assert few.travels()[0] == many.travels()[0]
    assert many.totals()["keys"][0] == many.totals()["rows"][0] == many.totals()["row_gradients"][0] == 52


def test_costs_that_made_cpu_times_are_found_again():
    """Calibration: the simulation says what ranks did, and the fit says what it costs."""
    true = Costs(units={name: 3 * cost for name, cost in Costs().units.items()})
    points = []
    for megabytes, trainers in ((0.01, 1), (1, 1), (16, 1), (0.01, 2), (1, 2), (16, 2)):
        job = made_up(computing=1e-5, megabytes=megabytes) if megabytes >= 1 else made_up(computing=1e-5, megabytes=0)
        for tally in simulate(job, Costs(), FAST, parse("sync"), Options(), trainers, 1).tally.values():
            points.append(Point(tally, true.seconds(tally)))
    assert max(map(abs, errors(points, fit(points, Costs().units)))) < 0.05


def test_messages_of_other_hosts_are_seen_late():
    """Naps last an eighth of the time that a thread has waited, and 5 ms at most."""
    for waited in (1e-6, 3e-5, 1e-3, 0.1, 3.0):
        naps, late = looks(waited)
        assert naps >= 0 and 0 <= late <= min(max(waited / 8, 2e-5), 5e-3) * 1.01
    apart = Cluster(bandwidth=1e15, latency=0.0)
    near, far = (simulate(made_up(spread=[0.5, 1.5]), free(), one, parse("sync"), Options(), 4, 1).step for one in (FAST, apart))
    assert near < far < 1.15 * near


def test_a_servers_threads_share_its_work():
    costs = free()
    costs.units["apply.sgd"] = 1e-9
    one, two = (simulate(made_up(computing=1e-5), costs, replace(FAST, server_threads=threads), parse("sync"), Options(), 1, 1)
                for threads in (1, 2))
    assert two.step == pytest.approx(one.step / 1.6, rel=0.02) and two.of_server == one.of_server


def test_a_trainer_computes_while_another_thread_sends_where_cores_are_free():
    costs = free()
    costs.units["tcp.byte"] = 1e-9
    job = made_up(computing=0.05)
    steps = [simulate(job, costs, Cluster(1e15, 0.0, cores=cores), parse("sync"), Options(), 1, 1).step for cores in (1, 2)]
    assert steps[1] < steps[0] - 0.002


def test_all_modes_and_compressions_are_simulated():
    job = made_up(tables=[Table("t", 64, 1000, 0.5)])
    job.filled = dict.fromkeys((item.name for item in job.items), 0.25)
    steps = {mode: simulate(job, Costs(), Cluster(1e9, 1e-5), parse(mode), Options(), 4, 2).step
             for mode in ("sync", "geo(10)", "average(10)")}
    assert steps["geo(10)"] < 10 * steps["sync"] and steps["average(10)"] < 10 * steps["sync"]
    sizes = [schedule_of(job, 2, Options(method)).travels()[1] for method in ("none", "nonzero")]
    assert 0.5 < sizes[1] / sizes[0] < 0.8                 # parameters come back as they are


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_row_for_each_number_of_trainers(tmp_path, capfd):
    costs, out, picture = tmp_path / "costs", tmp_path / "out.json", tmp_path / "curve.svg"
    save(Costs(cpu="another"), costs)
    assert cli.main(["simulate", "--costs", str(costs), "--trainers", "1,4,16", "--json", str(out), "--plot", str(picture), "--steps", "5",
                     str(SIZED)]) == 0
    text = capfd.readouterr().out
    assert "simulated: mode sync" in text and "note: the costs are those of another" in text
    assert [line.split()[0] for line in text.splitlines()[-3:]] == ["1", "4", "16"]
    assert [row["trainers"] for row in json.loads(out.read_text())["results"]] == [1, 4, 16]
    assert picture.read_text().startswith("<svg")


def test_mistakes_are_told(tmp_path, capsys):
    damaged = tmp_path / "damaged"
    for text in ("", "[]", '{"schema": 1}', '{"schema": 9}'):
        damaged.write_text(text)
        with pytest.raises(TriremeError, match="--calibrate"):
            load(damaged)
    with pytest.raises(NotFoundError, match="--calibrate"):
        load(tmp_path / "none")
    for words, said in ((["simulate"], "script"), (["simulate", "--link", "25", "x.py"], "25Gbit,20us"),
                        (["simulate", "--trainers", "1,x", "x.py"], "whole number"),
                        (["simulate", "--servers", "0", "x.py"], "whole number")):
        with pytest.raises(SystemExit):
            cli.main(words)
        assert said in capsys.readouterr().err
    save(Costs(), damaged)
    assert cli.main(["simulate", "--costs", str(damaged), "no-such.py"]) == 2
    assert cli.main(["simulate", "--costs", str(damaged), "--mode", "asink", str(SIZED)]) == 2


def test_costs_survive_their_file(tmp_path):
    costs = Costs(cpu="x", units={**free().units, "add": 2.0}, sent={"memory": 0.0, "tcp": 0.5})
    save(costs, tmp_path / "a" / "costs")
    assert load(tmp_path / "a" / "costs") == costs
