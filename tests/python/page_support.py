"""Pages whose commands run: their files are written into a folder, and their commands are typed there, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from job_support import LIMIT, environment

TREE = Path(__file__).resolve().parents[2]
STEP = re.compile(r"^<!-- (?:file: (?P<file>\S+)|run) -->\n\n?```\w*\n(?P<text>.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


@dataclass
class Command:
    text: str
    shown: list[str]                                   # the lines of output that the page shows


def steps(page: Path):
    """The files, as (name, text), and commands of a page, in its order."""
    for found in STEP.finditer(page.read_text()):
        if found["file"]:
            yield found["file"], found["text"]
        else:
            yield from commands(found["text"])


def commands(block: str):
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        lines = re.sub(r"\\\n", " ", part).splitlines()
        yield Command(lines[0], lines[1:])


def form(line: str) -> str:
    """A line without its numbers and what they are near to."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip()


def missing(command: Command, output: str) -> list[str]:
    """The shown lines that are not in the output, whatever their numbers. "..." stands for any text."""
    lines = [form(line) for line in output.splitlines()]
    return [line for line in command.shown if line.strip() not in ("", "...")
            and not any(re.fullmatch(".*".join(map(re.escape, form(line).split("..."))), one) for one in lines)]


def bin_folder(folder: Path) -> Path:
    """A folder with the commands ``python`` and ``trireme`` of this interpreter and this tree."""
    folder.mkdir()
    for name, module in (("python", ""), ("trireme", " -m trireme")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def play(page: Path, folder: Path) -> list[str]:
    """Write the files and run the commands of a page; return the commands. A command that fails, or prints other lines than shown, fails
    the test."""
    path = f"{bin_folder(folder / '.bin')}:{os.environ['PATH']}"
    played = []
    for step in steps(page):
        if isinstance(step, tuple):
            (folder / step[0]).parent.mkdir(exist_ok=True, parents=True)
            (folder / step[0]).write_text(step[1])
            continue
        done = subprocess.run(["bash", "-c", step.text], cwd=folder, env=environment(PATH=path, TREE=str(TREE)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=2 * LIMIT, check=False)
        assert done.returncode == 0, f"$ {step.text}\n{done.stdout}"
        assert not (lost := missing(step, done.stdout)), f"$ {step.text}\n{done.stdout}\nnot found: {lost}"
        played.append(step.text)
    return played
