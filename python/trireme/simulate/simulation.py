"""Simulates a job: hosts, links, servers and trainers for some steps of virtual time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..job.mode import Mode
from ..native.errors import InvalidArgumentError
from .costs import Costs
from .facts import Facts
from .hosts import Clock, Host, Link, Network, Rank
from .memory import Memory, memory_of
from .ranks import Server, Trainer, Work
from .schedule import Options, merged, schedule_of

_WARM = 2
_PACKETS = 16_000                      # in a step of all ranks: beyond that, messages of a pair travel together
_MOST_STEPS, _LEAST_STEPS = 16, 3
_CLOSE = 1.02                          # fewer servers are better than some that make a job this little faster


@dataclass(frozen=True)
class Cluster:
    """Hosts and their links. ``bandwidth`` is in bytes a second and direction, ``latency`` in seconds."""

    bandwidth: float
    latency: float
    trainers_per_host: int = 1
    servers_per_host: int = 1
    cores: int = 0                     # of a host; 0: one for each rank
    is_shared: bool = False            # servers live on the trainers' hosts


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
    work: float                        # CPU seconds of all ranks in a step of each trainer

    @property
    def rate(self) -> float:
        """Steps of all trainers in a second."""
        return self.trainers / self.step


def simulate(facts: Facts, costs: Costs, cluster: Cluster, mode: Mode, options: Options, trainers: int, servers: int,
             seed: int = 1) -> Result:
    """Simulate some steps of a job."""
    schedule = schedule_of(facts, servers, options, mode.is_lockstep and not mode.trains_copies)
    pairs = max(1, _PACKETS // max(trainers * servers, 1))
    pushed = merged(schedule.pushes, max(pairs // 2, 1))
    steps = max(_LEAST_STEPS, min(_MOST_STEPS, 2 * _PACKETS // max(trainers * servers, 1)))
    clock = Clock()
    work = Work(facts, costs, options, mode, clock, Network(clock, costs, cluster.latency), _WARM + steps, random.Random(seed),
                [[one for one in pushed if one.server == server] for server in range(servers)],
                merged(schedule.answers, max(pairs // 2, 1)), schedule)
    made, served, hosts = _ranks(work, cluster, trainers, servers)
    for one in made:
        one.begin()
    clock.run()
    step = _step_time(made)
    load, name = max(_loads(made, served, hosts, clock.now))
    totals = schedule.totals().values()
    return Result(trainers, servers, step, name, load, sum(count for count, _ in totals), float(sum(size for _, size in totals)),
                  memory_of(facts, schedule, mode, options, trainers), _work(made, served))


def _ranks(work: Work, cluster: Cluster, trainers: int, servers: int) -> tuple[list[Trainer], list[Server], dict[str, list[Host]]]:
    def hosts(ranks: int, each: int) -> list[Host]:
        cores = cluster.cores or max(each, 1) * work.facts.threads
        return [Host(work.clock, cores, Link(cluster.bandwidth), Link(cluster.bandwidth)) for _ in range(-(-ranks // each))]

    of_trainers = hosts(trainers, cluster.trainers_per_host)
    of_servers = of_trainers if cluster.is_shared else hosts(servers, cluster.servers_per_host)
    if cluster.is_shared and not cluster.cores:
        for host in of_trainers:
            host.cores += -(-servers // len(of_trainers))
    wake = work.costs.wake
    made = [Trainer(work, Rank(work.clock, of_trainers[index // cluster.trainers_per_host], wake), index) for index in range(trainers)]
    served = []
    for index in range(servers):
        host = of_servers[index % len(of_servers) if cluster.is_shared else index // cluster.servers_per_host]
        served.append(Server(work, Rank(work.clock, host, wake, work.costs.rouse), index, made))
    for one in made:
        one.servers = served
    return made, served, {"trainers' hosts": of_trainers, "servers' hosts": [] if cluster.is_shared else of_servers}


def _step_time(trainers: Sequence[Trainer]) -> float:
    """Return the time of a step: as many of them as trainers pass in it as steps of the job."""
    times = [(one.ended[-1] - one.ended[_WARM - 1]) / (len(one.ended) - _WARM) for one in trainers if len(one.ended) > _WARM]
    return len(times) / sum(1.0 / max(one, 1e-12) for one in times)


def _work(trainers: Sequence[Trainer], servers: Sequence[Server]) -> float:
    steps = sum(len(one.ended) for one in trainers) / len(trainers)
    return (sum(one.computed + one.handled for one in trainers) + sum(one.rank.busy for one in servers)) / steps


def _loads(trainers: Sequence[Trainer], servers: Sequence[Server], hosts: dict[str, list[Host]], seconds: float) -> list[tuple[float, str]]:
    """Return what share of the time each kind of resource works, the busiest of its kind."""
    found = [(max(one.computed for one in trainers), "computing"), (max(one.handled for one in trainers), "a trainer's messages"),
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

    limit, count = max(1, min(most, trainers)), 1
    while count < limit and (count == 1 or step(count) < step(count // 2) / _CLOSE or step(count // 2) > 1.5 * facts.computing):
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
    return facts.computing + facts.updating + facts.script


def check(cluster: Cluster) -> None:
    if cluster.is_shared and cluster.servers_per_host != 1:
        raise InvalidArgumentError("trireme simulate: --servers-per-host is of servers on hosts of their own, and --servers-on trainers "
                                   "puts them beside trainers: give one of the two")
