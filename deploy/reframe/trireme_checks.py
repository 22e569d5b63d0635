"""Checks of ReFrame for a site that installs Trireme: the ways between nodes, and a job that must learn.

    reframe -C SITE.py -c deploy/reframe -r                     # with the site's settings
    reframe ... -S trireme_nodes=8 -S modules=trireme           # on more nodes, by the site's module
"""

from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import performance_function, run_after, run_before, sanity_function, variable

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class InAllocation(rfm.RunOnlyRegressionTest):
    """`trireme launch` is started once, and finds the allocation's nodes itself."""

    trireme_nodes = variable(int, value=2)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks_per_node = 3
    time_limit = "10m"
    executable = "trireme"

    @run_after("init")
    def take_nodes(self):
        self.num_tasks = self.trireme_nodes * self.num_tasks_per_node

    @run_before("run")
    def start_once(self):
        self.job.launcher = getlauncher("local")()


@rfm.simple_test
class TriremeDoctor(InAllocation):
    """Every byte between all ranks of all nodes is right, and no way is much slower than the others."""

    trireme_slack = variable(float, value=3.0)                # how many times slower than the best

    @run_after("init")
    def name_the_slack(self):
        self.executable_opts = ["doctor", "--slack", f"{self.trireme_slack:g}"]

    @sanity_function
    def all_bytes_are_right(self):
        return sn.assert_found(r"ways between \d+ ranks, all bytes right", self.stdout)


@rfm.simple_test
class TriremeLearns(InAllocation):
    """A server and two trainers on each node learn from lines that are made up; the AUC is shown."""

    sourcesdir = str(EXAMPLES / "dlrm")

    @run_after("init")
    def name_the_ranks(self):
        self.executable_opts = ["launch", "--servers", str(self.trireme_nodes), "--trainers", str(2 * self.trireme_nodes),
                                "train.py", "--rows", "20000", "--epochs", "1"]

    @performance_function("AUC")
    def auc(self):
        return sn.extractsingle(r'"auc": ([\d.]+)', self.stdout, 1, float)

    @sanity_function
    def it_has_learnt(self):
        return sn.assert_gt(self.auc(), 0.65)
