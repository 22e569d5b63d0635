"""What leaves a host of several trainers, and a step, with one stream for each server and with one for each trainer and server: two hosts
of namespaces, of which one has the servers, the other the trainers.

    python benchmarks/host_streams.py [--trainers 1,2,4,8] [--mbit 1000] [--servers 1] [--steps 20]      as root

The trainers' link is limited to so many Mbit/s each way; mode sync. A step of mlpbig_sgd pushes 7.4 MB of gradients and pulls as many
bytes of parameters. Prints a line for each number of trainers: the median step without carriers (TRIREME_CARRIERS=0) and with them, both
ratios to one trainer's bytes, counted by the kernel at the host's interface, and the first trainer's open descriptors.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import slow_link

HERE = Path(__file__).resolve().parent


def counted() -> list[int]:
    """Bytes out and in at the host's interface."""
    return [int(Path(f"/sys/class/net/eth0/statistics/{way}_bytes").read_text()) for way in ("tx", "rx")]


def work(steps: int) -> None:
    """The trainer."""
    import trireme as fluid

    ms, (out, into) = slow_link.train(8, steps, counted)
    if fluid.distributed.trainer_index() == 0:
        print(json.dumps({"ms": ms, "out": out, "in": into, "descriptors": len(os.listdir("/proc/self/fd"))}), flush=True)


def measure(hosts, hostfile: Path, trainers: int, servers: int, carriers: int, steps: int) -> dict:
    command = [sys.executable, "-m", "trireme", "launch", "--hostfile", hostfile, "--ssh", hosts.ssh, "--servers", servers,
               "--trainers", trainers, "--standbys", 0, "--restarts", 0, HERE / "host_streams.py", "--worker", "--steps", steps]
    done = subprocess.run(hosts.command(["env", f"TRIREME_CARRIERS={carriers}", "TRIREME_NUM_THREADS=1", *command], folder=HERE.parent),
                          capture_output=True, text=True, timeout=900, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"the job ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--trainers", default="1,2,4,8")
    options.add_argument("--mbit", type=int, default=1000)
    options.add_argument("--servers", type=int, default=1)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.worker:
        work(options.steps)
        return
    sys.path.insert(0, str(HERE.parent / "tests" / "python"))
    import cluster

    reason = cluster.missing()
    if reason:
        sys.exit(f"host_streams: {reason}")
    with cluster.Cluster(2, (cluster.ROOT, Path.cwd())) as hosts:
        hosts.limit("h2", options.mbit)
        one = None
        for trainers in map(int, options.trainers.split(",")):
            hostfile = hosts.folder / "streams"
            hostfile.write_text(f"h1 slots={options.servers}\nh2 slots={options.servers + trainers}\n")
            found = [measure(hosts, hostfile, trainers, options.servers, carriers, options.steps) for carriers in (0, 1)]
            one = one or found[0]
            print(f"{trainers:>3} trainers  " + "   ".join(
                f"{name} {f['ms']:8.1f} ms  out {f['out'] / one['out']:5.2f}  in {f['in'] / one['in']:5.2f}  fds {f['descriptors']}"
                for name, f in zip(("apart", "carried"), found)) + f"   {found[0]['ms'] / found[1]['ms']:5.2f} times faster", flush=True)


if __name__ == "__main__":
    main()
