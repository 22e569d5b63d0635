"""The command ``trireme``; ``python -m trireme`` is the same.

    trireme launch --servers 2 --trainers 4 train.py --epochs 3
    trireme explain logs
    trireme doctor --hosts h1,h2
    trireme checkpoint list checkpoints
    trireme port fluid_script.py
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from ..native.errors import InvalidArgumentError, TriremeError
from ..native.suggest import did_you_mean, near
from .option_types import number_from, text_of, threads, whole_from

if TYPE_CHECKING:
    from .mpi import Layout

AS_JSON = "print the same as JSON (docs/json.md)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code."""
    _hold_descriptors()
    with contextlib.suppress(ValueError):              # not in the main thread
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignored it hands this on, and then no child's exit code is known
    words = sys.argv[1:] if argv is None else argv
    parser = command_parser(*words[:1])
    options, unknown = parser.parse_known_args(words)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{options.parser.near(unknown)}")
    if options.command is None:                        # then it helps to see the commands
        parser.print_help(sys.stderr)
        return 2
    try:
        code = options.run(options)
        if sys.stdout:                                 # it is None where it was closed
            sys.stdout.flush()
        return int(code)
    except TriremeError as error:
        text = str(error)                              # of the launcher it says so itself
        print(text if text.startswith("trireme") else f"trireme: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:                            # `trireme explain logs | head`
        _write_no_more()
        return 128 + signal.SIGPIPE
    except OSError as error:                           # a full disk
        _write_no_more()
        what = f"{error.filename}: {error.strerror}" if error.filename else f"cannot write standard output: {error.strerror}"
        print(f"trireme: {what}", file=sys.stderr)
        return 2


def _write_no_more() -> None:
    """Let the rest of what was to be written go nowhere: Python writes it at the end of the process."""
    if sys.stdout:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_parser(command: str = "") -> _Parser:
    """Return the parser of the command line: with this command alone, or with all commands if there is none of that name. The
    reference of commands is made of it, too."""
    parser = _Parser(prog="trireme", description="Train on parameter servers over MPI.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    parser.set_defaults(parser=parser)
    add = {"launch": add_launch, "explain": add_explain, "doctor": add_doctor, "checkpoint": add_checkpoint, "port": add_port,
           "predict": add_predict, "serve": add_serve, **dict.fromkeys(("top", "metrics", "plot", "trace"), add_observers),
           **dict.fromkeys(("cat", "store"), add_stores), "simulate": add_simulation, "dataset": add_data_sets}
    for function in [add[command]] if command in add else dict.fromkeys(add.values()):
        function(commands)
    return parser


def _hold_descriptors() -> None:
    """Of standard input, output and error those that are closed: a file that is opened later must not become one of them. What is written
    there still fails."""
    with contextlib.suppress(OSError):
        while (fd := os.open(os.devnull, os.O_RDONLY)) <= 2:
            continue
        os.close(fd)


class _Parser(argparse.ArgumentParser):
    """What is wrong comes first, without the list of all options before it. An option has its whole name: a shorter one may be another's
    tomorrow."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += did_you_mean(found[1], [word.strip(" '") for word in found[2].split(",")])
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` lists what is possible)\n")

    def near(self, words: Sequence[str]) -> str:
        """Return a question for the options that were perhaps meant by misspelled ones."""
        found = [match for word in words if word.startswith("--") for match in near(word.partition("=")[0], self._option_string_actions, 1)]
        return f"; did you mean {' and '.join(found)}?" if found else ""

    def own_among(self, words: Sequence[str]) -> list[str]:
        """Return the options of this parser that are among the words, which are another program's."""
        names = [word.partition("=")[0] for word in itertools.takewhile(lambda word: word != "--", words)]
        return [name for name in dict.fromkeys(names) if name.startswith("--") and name in self._option_string_actions and name != "--help"]


class _Version(argparse.Action):
    """The compiled library says it, which is loaded for that alone."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from ..native.threads import __version__

        print(f"trireme {__version__}")
        parser.exit()


def add_launch(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "launch", help="run a script or a saved job on trainers and parameter servers",
        description="Run a script, or a saved job, in trainer processes, beside parameter servers, and watch over them. The exit code is 0 "
                    "when every rank has left the job well, but for those whose death it survived. The same script runs in one process by "
                    "`python SCRIPT`.")
    parser.add_argument("--servers", type=whole_from(1), default=1, metavar="S", help="parameter servers (default: 1)")
    parser.add_argument("--trainers", type=whole_from(1), default=1, metavar="T", help="processes that run the script (default: 1)")
    parser.add_argument("--standbys", type=whole_from(0), default=1, metavar="N", help="processes on each host that wait to take the place "
                        "of a process that dies there (default: 1)")
    parser.add_argument("--standbys-for", choices=["all", "servers"], default="all", help="whose places they take: trainers', too, or "
                        "servers' alone (default: all)")
    parser.add_argument("--replicas", type=whole_from(0), default=0, metavar="N", help="1: what a server has is kept on another host, too, "
                        "and outlives its own (default: 0)")
    parser.add_argument("--server-threads", type=threads, default=0, metavar="N", help="threads of each server, which add and apply "
                        "gradients and look rows up; the results are the same for any number (default: auto: a host's cores are divided "
                        "among its servers where it has no trainers; elsewhere as many as a trainer has)")
    parser.add_argument("--table-memory", type=text_of("size"), metavar="BYTES", help="how much of its sparse tables each server keeps in "
                        "memory, such as 8GB, for all of its tables together (default: all, or what the script says)")
    parser.add_argument("--table-spill", type=text_of("folder"), metavar="DIR", help="folder on each server's own disk for all other rows; "
                        "with --table-memory")
    parser.add_argument("--mode", type=text_of("mode"), metavar="MODE",
                        help="consistency: a text such as ssp(3); docs/distributed.md lists them (default: what the script says, else "
                             "sync)")
    parser.add_argument("--compress", type=text_of("method"), metavar="METHOD",
                        help="how gradients travel: none, fp16, bf16, int8, nonzero or topk(SHARE) "
                        "(default: what the script says, else none)")
    parser.add_argument("--compress-parameters", type=text_of("method"), metavar="METHOD",
                        help="how parameters come back from the servers: none "
                        "(in their type) or bf16 (half the bytes) (default: what the script says, else none)")
    parser.add_argument("--on-nan", type=text_of("word"), metavar="WORD",
                        help="where a gradient or the loss is NaN or infinite: stop, skip (leave that "
                        "trainer's step out) or ignore (default: what the script says, else stop)")
    parser.add_argument("--matmul-precision", type=text_of("precision"), metavar="P",
                        help="how matrices of float32 are multiplied: float32 or bfloat16 "
                        "(default: what the script says, else float32)")
    parser.add_argument("--check-nan", action="store_true",
                        help="look at what every operator writes, and name the first that makes NaN or infinity")
    parser.add_argument("--checkpoint", type=text_of("folder"), metavar="DIR", help="keep checkpoints in this folder, which all hosts see")
    parser.add_argument("--checkpoint-steps", type=whole_from(1), metavar="N", help="one every N steps")
    parser.add_argument("--checkpoint-seconds", type=number_from(0, True), metavar="S", help="one every S seconds (default: 600)")
    parser.add_argument("--checkpoint-keep", type=whole_from(1), metavar="K", help="the newest K stay (default: 3)")
    parser.add_argument("--checkpoint-full-every", type=whole_from(1), metavar="N", help="of N in a row one is full, the others have only "
                        "rows of sparse tables that have changed (default: 1)")
    parser.add_argument("--checkpoint-rows", choices=("exact", "int8"), help="rows of sparse tables exactly, or in 8 bits a number "
                        "(default: exact)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on from the newest valid checkpoint of the folder; a folder without any is "
                                                           "refused")
    how.add_argument("--resume=auto", action="store_true", dest="resume_or_begin",
                     help="go on if the folder holds checkpoints of the same script with the same arguments, "
                     "begin if it holds none; a line says which")
    how.add_argument("--anew", action="store_true", help="begin, and move another run's checkpoints into DIR/aside-DATE (default: such a "
                                                         "folder is refused)")
    add_where(parser)
    parser.add_argument("--timeout", type=number_from(0, True), metavar="SECONDS", help="end the job after so long (default: never)")
    parser.add_argument("--restarts", type=whole_from(0), default=3, metavar="N",
                        help="start the job again so often when a process has died (default: 3)")
    parser.add_argument("--tag-output", action="store_true", help="begin each line of output with its rank")
    parser.add_argument("--log", type=text_of("folder"), metavar="DIR",
                        help="each rank writes JSON lines about itself there, which trireme explain reads")
    parser.add_argument("--progress", type=number_from(0), metavar="SECONDS",
                        help="a line about the job so often, 0 for none (default: 1 on a "
                        "terminal, where it is rewritten in place, else 30)")
    parser.add_argument("--metrics-port", type=whole_from(0), metavar="N",
                        help="serve the job's numbers to Prometheus at http://ADDRESS:N/metrics while it runs (default: not; 0: any port)")
    parser.add_argument("--metrics-address", type=text_of("address"), default="127.0.0.1", metavar="A",
                        help="to listen on (default: 127.0.0.1, this host alone; 0.0.0.0 is every network)")
    parser.add_argument("--dry-run", action="store_true", help="print the mpirun line and stop")
    parser.add_argument("script", help="Python script, or a saved job for trireme-trainer")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run_launch, parser=parser)


def add_explain(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "explain", help="say where the time of a job's steps went",
        description="Read the logs that `trireme launch --log DIR` has written, also while the job runs or after it was killed: where a "
                    "step's time went, which rank was waited for, and lines of advice with what each could bring at most.")
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--json", action="store_true", help=AS_JSON)
    parser.set_defaults(run=run_explain, parser=parser)


def add_stores(commands: argparse._SubParsersAction[_Parser]) -> None:
    from .store_commands import add_store_commands

    add_store_commands(commands)


def add_data_sets(commands: argparse._SubParsersAction[_Parser]) -> None:
    from .dataset_command import add_dataset

    add_dataset(commands)


def add_simulation(commands: argparse._SubParsersAction[_Parser]) -> None:
    from .simulate_command import add_simulate

    add_simulate(commands)


def add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--hosts", type=text_of("list of hosts"), metavar="H1,H2",
                       help="hosts to start on (default: the nodes of Slurm's allocation, if "
                       "there are several, else this one)")
    where.add_argument("--hostfile", type=text_of("file"), metavar="FILE", help="the same, a host in each line")
    parser.add_argument("--ssh", type=text_of("command"), metavar="COMMAND", help="how to reach other hosts, with options (default: srun "
                        "among the nodes of Slurm's allocation, else ssh)")
    parser.add_argument("--transport", choices=["auto", "tcp", "ucx", "ofi"], default="auto",
                        help="how messages travel between hosts: TCP, UCX (InfiniBand, RoCE) or "
                        "libfabric (default: auto, which is shared memory on one host, and on several TCP or what Open MPI finds for a "
                        "fabric)")
    parser.add_argument("--mpirun", type=text_of("program"), metavar="PATH",
                        help="mpirun to use (default: this environment's, else the PATH's)")


def add_doctor(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "doctor", help="check this installation and the ways between hosts",
        description="Look at the installation on this host, then start ranks and measure latency and speed between each two, over "
                    "the transport that jobs use. The exit code is 0 when all is well.")
    add_where(parser)
    parser.add_argument("--ranks", type=whole_from(0), default=0, metavar="N", help="ranks to measure between (default: one on each host)")
    parser.add_argument("--slack", type=number_from(1), metavar="FACTOR",
                        help="how many times slower than the best a way may be (default: 3)")
    parser.add_argument("--timeout", type=number_from(0, True), metavar="SECONDS", help="end the measurement after so long")
    parser.add_argument("--json", action="store_true", help=AS_JSON)
    parser.set_defaults(run=run_doctor, parser=parser)


def add_checkpoint(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("checkpoint", help="look at checkpoints",
                                 description="Look at the checkpoints of a folder, or at one: DIR/step-000000123.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="one line for each, the newest first")
    verify = actions.add_parser("verify", help="read them to the last byte; exit code 1 when one is damaged")
    export = actions.add_parser("export", help="write one's arrays as NumPy .npz or .safetensors")
    compact = actions.add_parser("compact", help="write one anew in its place, so that it builds on no other")
    diff = actions.add_parser("diff", help="say what differs between two; exit code 1 when something does")
    for action in (listing, verify, export, compact, diff):
        action.add_argument("folder", metavar="DIR")
    listing.add_argument("--json", action="store_true", help=AS_JSON)
    for action in (verify, export, compact):
        action.add_argument("--step", type=whole_from(0), metavar="N", help="which one (verify: all; else the newest valid one)")
    diff.add_argument("other", metavar="DIR", help="another folder, or another checkpoint, DIR/step-000000123")
    export.add_argument("-o", "--out", required=True, metavar="FILE", help="file to write: NAME.npz or NAME.safetensors")
    export.add_argument("--parameters", action="store_true", help="the parameters alone, without the optimizers' state")
    parser.set_defaults(run=run_checkpoint, parser=parser)


def add_observers(commands: argparse._SubParsersAction[_Parser]) -> None:
    """The commands of observe/."""
    top = commands.add_parser("top", help="watch a job in the terminal",
                              description="Show the ranks of a job that `trireme launch --log DIR` runs: steps a second, "
                              "who waits, memory, staleness. Ctrl-C ends the view, not the job.")
    top.add_argument("folder", metavar="DIR")
    top.add_argument("--every", type=number_from(0, True), default=1.0, metavar="S", help="look so often (default: 1)")
    top.add_argument("--once", action="store_true", help="print it as it is, and stop")
    top.set_defaults(run=lambda options: _observer("top").command(options.folder, options.every, options.once), parser=top)
    metrics = commands.add_parser("metrics", help="serve a job's numbers to Prometheus",
                                  description="Serve the numbers of a job that `trireme launch --log DIR` "
                                  "runs at http://ADDRESS:PORT/metrics.")
    metrics.add_argument("folder", metavar="DIR")
    metrics.add_argument("--port", type=whole_from(0), default=9464, metavar="N", help="(default: 9464; 0: any)")
    metrics.add_argument("--address", type=text_of("address"), default="127.0.0.1", metavar="A",
                         help="to listen on (default: 127.0.0.1, this host alone; "
                         "0.0.0.0 is every network)")
    metrics.add_argument("--json", action="store_true", help=AS_JSON + ", and serve nothing")
    metrics.set_defaults(run=lambda options: _observer("metrics").command(options.folder, options.port, options.address, options.json),
                         parser=metrics)
    plot = commands.add_parser("plot", help="make a report with pictures of a job",
                               description="Draw what the logs of `trireme launch --log DIR` hold, as one HTML file.")
    plot.add_argument("folder", metavar="DIR")
    plot.add_argument("-o", "--out", type=text_of("file"), default="report.html", metavar="FILE", help="(default: report.html)")
    plot.set_defaults(run=lambda options: _observer("plot").command(options.folder, options.out), parser=plot)
    trace = commands.add_parser("trace", help="make one Chrome trace of several",
                                description="Put the traces that TRIREME_PROFILE=DIR or fluid.profiler wrote on one clock.")
    trace.add_argument("sources", nargs="+", metavar="DIR", help="folders or files of traces")
    trace.add_argument("-o", "--out", type=text_of("file"), default="trace.json", metavar="FILE", help="(default: trace.json)")
    trace.set_defaults(run=lambda options: _observer("traces").command(options.sources, options.out), parser=trace)


def _observer(module: str) -> Any:
    import importlib  # loaded when it is first used

    return importlib.import_module(f"trireme.observe.{module}")


def add_predict(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "predict", help="run a model on lines of standard input",
        description="Run a model of save_inference_model, or one that a training exports to, on each line of standard input; print a line "
                    "of JSON for each.")
    parser.add_argument("model", metavar="MODEL", type=text_of("folder"), help="its folder")
    parser.add_argument("--format", choices=["json", "csv", "multislot"], default="json",
                        help="of the lines: an object with the feeds by name, or a list of them; "
                        "numbers between delimiters; for each feed a count and so many numbers (default: json)")
    parser.add_argument("--raw", type=text_of("file"), metavar="FILE",
                        help="rows of raw values instead, such as {\"user\": \"u7\"}: a file with a JSON object on each line, or - for "
                        "standard input. The model was saved with its slots")
    parser.add_argument("--delimiter", default=",", metavar="C", help="between the fields of csv (default: a comma)")
    parser.add_argument("--batch", type=whole_from(1), default=64, metavar="N", help="lines that are run at once, at most (default: 64)")
    parser.add_argument("--follow", type=number_from(0, True), metavar="S", help="look every so many seconds for a newer export")
    parser.add_argument("--wait", type=number_from(0), default=0.0, metavar="S",
                        help="wait so many seconds for a model to appear in the folder (default: 0)")
    parser.set_defaults(run=run_predict, parser=parser)


def run_predict(options: argparse.Namespace) -> int:
    from ..serving import predict

    if options.raw is not None and options.format != "json":
        raise InvalidArgumentError(f"trireme predict: --raw reads lines of JSON; leave out --format {options.format}")
    return predict.command(options.model, options.format, options.batch, options.delimiter, options.follow, options.wait, options.raw)


def add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    from .serve_command import add_serve_command

    add_serve_command(commands)


def add_port(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "port", help="say what of a script of Fluid 1.x is here",
        description="Read scripts that use paddle.fluid, without running them, and say line by line which names are there, which differ "
                    "and which are missing. Python 2 is understood where it is a matter of single lines. The exit code is 1 when something "
                    "is missing.")
    parser.add_argument("--brief", action="store_true", help="leave out what is there as it is")
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT")
    parser.set_defaults(run=run_port, parser=parser)


def run_port(options: argparse.Namespace) -> int:
    from .. import port

    return port.command(options.scripts, not options.brief)


def run_checkpoint(options: argparse.Namespace) -> int:
    from ..checkpoint import command
    from ..checkpoint.kinds import KINDS

    if options.action == "list":
        return command.command_list(options.folder, options.json)
    if options.action == "verify":
        return command.command_verify(options.folder, options.step)
    if options.action == "compact":
        return command.command_compact(options.folder, options.step)
    if options.action == "diff":
        return command.command_diff(options.folder, options.other)
    kinds = ("parameter",) if options.parameters else KINDS
    return command.command_export(options.folder, options.step, options.out, kinds)


def run_explain(options: argparse.Namespace) -> int:
    from . import explain

    return explain.command(options.folder, options.json)


def run_doctor(options: argparse.Namespace) -> int:
    from . import doctor

    if options.ranks < 0 or options.ranks == 1:
        raise InvalidArgumentError(f"trireme doctor: {options.ranks} ranks have no way between them")
    layout = replace(where(options), trainers=options.ranks)
    return doctor.diagnose(layout, mpirun=options.mpirun, timeout=options.timeout, is_json=options.json,
                           **{} if options.slack is None else {"slack": options.slack})


def where(options: argparse.Namespace) -> Layout:
    """The hosts, and how they are reached, as far as a job of no ranks has them: those that were asked for, else Slurm's."""
    from . import slurm
    from .mpi import Layout

    layout = Layout(0, 0, options.hosts, options.hostfile, ssh_command(options.ssh), transport=options.transport)
    given = slurm.allocation(os.environ)
    if given is None:
        return layout
    if not layout.is_remote:
        layout = replace(layout, hosts=given.hosts())
    if options.ssh is None and slurm.has_srun() and given.has(layout.slots()):
        layout = replace(layout, ssh=slurm.SRUN)
    if not (options.hosts or options.hostfile):
        how = "srun" if layout.ssh == slurm.SRUN else layout.ssh.split()[0]
        print(f"trireme {options.command}: {given}, reached by {how}", file=sys.stderr)
    return layout


def ssh_command(asked: str | None) -> str:
    """What was asked for, with the options without which a dead host would hold it for ever."""
    from .mpi import SSH

    program, _, limits = SSH.partition(" ")
    try:
        if not shlex.split(asked or program):
            raise ValueError("this is no command")
    except ValueError as error:
        raise InvalidArgumentError(f"trireme: --ssh {asked!r}: {error}") from None
    return f"{asked or program} {limits}"


def progress_seconds(asked: float | None) -> float:
    from .console import Console
    from .progress import IN_LOG, ON_TERMINAL

    if asked is not None:
        return asked
    return ON_TERMINAL if Console.is_terminal() else IN_LOG


def run_launch(options: argparse.Namespace) -> int:
    from .supervisor import Launch
    from .states import Checkpoints

    checkpoints = Checkpoints(options.checkpoint, options.checkpoint_steps, options.checkpoint_seconds,
                              options.checkpoint_keep, options.checkpoint_full_every, options.checkpoint_rows, options.resume,
                              options.resume_or_begin, options.anew)
    layout = replace(where(options), servers=options.servers, trainers=options.trainers, standbys=options.standbys,
                     replicas=options.replicas)
    launch = Launch(layout, [options.script, *options.args], mpirun=options.mpirun, timeout=options.timeout,
                    tag_output=options.tag_output, mode=options.mode, compress=options.compress,
                    compress_parameters=options.compress_parameters, restarts=options.restarts, checkpoints=checkpoints, log=options.log,
                    progress=progress_seconds(options.progress), standbys_for=options.standbys_for, on_nan=options.on_nan,
                    check_nan=options.check_nan,
                    matmul_precision=options.matmul_precision, server_threads=options.server_threads,
                    table_memory=options.table_memory, table_spill=options.table_spill,
                    serving=None if options.metrics_port is None else functools.partial(
                        _observer("metrics").serving, port=options.metrics_port, address=options.metrics_address))
    if behind := options.parser.own_among(options.args):
        print(f"trireme launch: {', '.join(behind)} after {options.script} goes to the script; an option of the launcher stands before it: "
              f"trireme launch {behind[0]} ... {options.script}", file=sys.stderr)
    if options.dry_run:
        print(shlex.join(launch.command(launch.environment("."), None, None)))
        return 0
    return launch.run()


if __name__ == "__main__":
    sys.exit(main())
