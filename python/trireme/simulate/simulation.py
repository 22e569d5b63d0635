"""Simulates a job: hosts, links, servers and trainers for some steps of virtual time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..job.mode import Mode
from ..native.errors import InvalidArgumentError
from .carriers import Carrier
from .costs import Costs, Tally
from .facts import Facts
from .hosts import Clock, Host, Link, Network, Price, Rank
from .memory import Memory, memory_of
from .prices import Prices
from .ranks import Server, Trainer, Work
from .schedule import Options, merged, schedule_of

_WARM, _LEAST_WARM = 2, 1
_PACKETS = 16_000                      # in a step of all ranks: beyond that, messages of a pair travel together
_MOST_STEPS, _LEAST_STEPS, _PAIRS = 16, 2, 4096       # steps of a job; of so many pairs of ranks together
_TRAINERS_OF_A_SERVER = 32             # fewer servers than one for so many are not tried
_CLOSE = 1.02                          # fewer servers are better than some that make a job this little faster


@dataclass(frozen=True)
class Cluster:
    """Hosts and their links. ``bandwidth`` is in bytes a second and direction, ``latency`` in seconds."""

    bandwidth: float
    latency: float
    trainers_per_host: int = 1
    servers_per_host: int = 1
    cores: int = 0                     # of a host; 0: one for each thread that computes
    is_shared: bool = False            # servers live on the trainers' hosts
    server_threads: int = 1


@dataclass(frozen=True)
class Result:
    """A simulated job. Times are seconds."""

    trainers: int
    servers: int
    step: float
    bottleneck: str
    load: float                        # of the bottleneck: the share of the time in which it works
    messages: float                    # of a trainer in a step, both ways
    bytes: float
    memory: Memory
    of_trainer: float                  # CPU seconds of a trainer in its step, and of a server meanwhile: the mean
    of_server: float
    tally: dict[str, Tally] = field(default_factory=dict, compare=False)       # what that work is made of: of "trainer" and "server"

    @property
    def rate(self) -> float:
        """Steps of all trainers in a second."""
        return self.trainers / self.step


def simulate(facts: Facts, costs: Costs, cluster: Cluster, mode: Mode, options: Options, trainers: int, servers: int,
             seed: int = 1) -> Result:
    """Simulate some steps of a job."""
    options = replace(options, period=mode.period if mode.trains_copies else 1)
    schedule = schedule_of(facts, servers, options, mode.is_lockstep and not mode.trains_copies)
    pairs = max(1, _PACKETS // max(trainers * servers, 1))
    pushed = merged(schedule.pushes, max(pairs // 2, 1))
    steps = max(_LEAST_STEPS, min(_MOST_STEPS, _PAIRS // max(trainers * servers, 1)))
    warm = _WARM if trainers * servers < _PAIRS else _LEAST_WARM
    clock = Clock()
    prices = Prices(facts, costs, options, mode, schedule, trainers, cluster.server_threads)
    work = Work(facts, prices, mode, clock, Network(clock, cluster.latency), steps, warm, random.Random(seed),
                [[one for one in pushed if one.server == server] for server in range(servers)],
                merged(schedule.answers, max(pairs // 2, 1)), schedule)
    made, served, hosts = _ranks(work, costs, cluster, trainers, servers)
    since = _Since(clock, made, served, [host for some in hosts.values() for host in some])
    work.counted = since.begin
    for one in made:
        one.begin()
    clock.run()
    load, name = max(_loads(made, served, hosts, clock.now - since.time))
    messages, size = schedule.travels()
    return Result(trainers, servers, (clock.now - since.time) / max(since.steps(), 1e-9), name, load, float(messages), float(size),
                  memory_of(facts, schedule, mode, options, trainers), **_works(made, served, since.steps()))


def _ranks(work: Work, costs: Costs, cluster: Cluster, trainers: int,
           servers: int) -> tuple[list[Trainer], list[Server], dict[str, list[Host]]]:
    def hosts(ranks: int, each: int, threads: int) -> list[Host]:
        cores = cluster.cores or max(each, 1) * threads
        return [Host(work.clock, cores, Link(cluster.bandwidth), Link(cluster.bandwidth)) for _ in range(-(-ranks // each))]

    of_trainers = hosts(trainers, cluster.trainers_per_host, work.facts.threads)
    of_servers = of_trainers if cluster.is_shared else hosts(servers, cluster.servers_per_host, cluster.server_threads)
    if cluster.is_shared and not cluster.cores:
        for host in of_trainers:
            host.cores += -(-servers // len(of_trainers)) * cluster.server_threads
    wake = work.prices.of({"wake": 1.0}), work.prices.of({"wake": 1.0, "cold": 1.0})
    nap = work.prices.of({"nap": 1.0})
    if len(of_trainers) == 1 and cluster.is_shared:
        nap = Price(0.0, 0.0)                          # all ranks of this job ring each other

    def rank(host: Host) -> Rank:
        return Rank(work.clock, host, wake, nap, costs.delay)

    made = []
    for index in range(trainers):
        main = rank(of_trainers[index // cluster.trainers_per_host])
        made.append(Trainer(work, main, rank(main.host) if cluster.cores else main, index))
    served = []
    for index in range(servers):
        host = of_servers[index % len(of_servers) if cluster.is_shared else index // cluster.servers_per_host]
        served.append(Server(work, rank(host), index, made))
    for one in made:
        one.servers, one.carriers = served, [None] * servers
    if work.mode.has_carriers:
        _add_carriers(work, made, served)
    return made, served, {"trainers' hosts": of_trainers, "servers' hosts": [] if cluster.is_shared else of_servers}


def _add_carriers(work: Work, trainers: list[Trainer], servers: list[Server]) -> None:
    """Let one trainer of each host of several carry requests to each server of another host."""
    groups: dict[int, list[Trainer]] = {}
    for one in trainers:
        groups.setdefault(id(one.mover.host), []).append(one)
    for server in servers:
        for group in groups.values():
            if len(group) > 1 and group[0].mover.host is not server.rank.host:
                carrier = Carrier(work, server, group)
                server.carriers.append(carrier)
                for one in group:
                    one.carriers[server.index] = carrier


class _Since:
    """Counts what happens after the first steps: all ranks forget what they did before."""

    def __init__(self, clock: Clock, trainers: list[Trainer], servers: list[Server], hosts: list[Host]) -> None:
        self._clock, self._trainers, self._servers, self._hosts = clock, trainers, servers, hosts
        self.time, self._ended = 0.0, 0

    def begin(self) -> None:
        self.time, self._ended = self._clock.now, sum(one.ended for one in self._trainers)
        for one in self._trainers:
            one.computed = 0.0
        for rank in [rank for one in self._trainers for rank in (one.rank, one.mover)] + [one.rank for one in self._servers]:
            rank.forget()
        for host in self._hosts:
            host.out.busy = host.into.busy = 0.0

    def steps(self) -> float:
        """Return the steps of a trainer since then: the mean."""
        return (sum(one.ended for one in self._trainers) - self._ended) / len(self._trainers)


def _works(trainers: Sequence[Trainer], servers: Sequence[Server], steps: float) -> dict[str, Any]:
    """Return what ranks have worked in a step of each trainer."""
    tally = {"trainer": _mean([_sum([rank.tally() for rank in {one.rank, one.mover}]) for one in trainers], steps),
             "server": _mean([one.rank.tally() for one in servers], steps)}
    return {"of_trainer": sum(one.busy for one in trainers) / len(trainers) / steps,
            "of_server": sum(one.rank.busy for one in servers) / len(servers) / steps, "tally": tally}


def _sum(tallies: Sequence[Tally]) -> Tally:
    found: Tally = {}
    for tally in tallies:
        for name, count in tally.items():
            found[name] = found.get(name, 0.0) + count
    return found


def _mean(tallies: Sequence[Tally], steps: float) -> Tally:
    return {name: count / len(tallies) / steps for name, count in _sum(tallies).items()}


def _loads(trainers: Sequence[Trainer], servers: Sequence[Server], hosts: dict[str, list[Host]], seconds: float) -> list[tuple[float, str]]:
    """Return what share of the time each kind of resource works, the busiest of its kind."""
    found = [(max(one.computed for one in trainers), "computing"),
             (max(one.busy - one.computed for one in trainers), "a trainer's messages"),
             (max(one.rank.busy for one in servers), "a server's CPU")]
    for name, some in hosts.items():
        if some:
            found += [(max(one.out.busy for one in some), f"link out of {name}"), (max(one.into.busy for one in some), f"link into {name}")]
    return [(busy / seconds if seconds else 0.0, name) for busy, name in found]


def best_servers(facts: Facts, costs: Costs, cluster: Cluster, mode: Mode, options: Options, trainers: int, most: int) -> Result:
    """Simulate with more and more servers; return the job with the fewest servers that is not notably slower than the fastest."""
    tried: dict[int, Result] = {}

    def step(servers: int) -> float:
        if servers not in tried:
            tried[servers] = simulate(facts, costs, cluster, mode, options, trainers, servers)
        return tried[servers].step

    limit, count = max(1, min(most, trainers)), max(1 << (trainers // _TRAINERS_OF_A_SERVER).bit_length() >> 1, 1)
    while count < limit and (not tried or step(count) < step(count // 2) / _CLOSE or step(count // 2) > 1.5 * facts.computing):
        step(count)
        count = min(2 * count, limit)
        if len(tried) > 1 and step(count) > 1.2 * min(one.step for one in tried.values()):
            break
    step(count)
    fastest = min(one.step for one in tried.values())
    good = min(servers for servers, one in tried.items() if one.step <= _CLOSE * fastest)
    between = (good // 2 + good) // 2
    if good > 2 and step(between) <= _CLOSE * fastest:
        good = between
    return tried[good]


def alone(facts: Facts) -> float:
    """Return the time of a step of one process without servers."""
    return facts.computing + facts.looking + facts.updating + facts.script


def check(cluster: Cluster) -> None:
    if cluster.is_shared and cluster.servers_per_host != 1:
        raise InvalidArgumentError("trireme simulate: --servers-per-host is of servers on hosts of their own, and --servers-on trainers "
                                   "puts them beside trainers: give one of the two")
