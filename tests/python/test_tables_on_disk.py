"""Sparse tables of which a part lies on disk: the bits of a table in memory, in every call that has rows."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from job_support import SCRIPT, Launched, ended, environment, launch, needs_mpi, results

import trireme as fluid
from trireme import layers
from trireme.errors import InvalidArgumentError, NotFoundError, TriremeError
from trireme.launch.mpi import Layout
from trireme.launch.supervisor import Launch
from trireme.native.sizes import parse_bytes

KEYS = 4000
MEMORY = 200 * 120                                     # some 200 rows


def click_model(minimizes=True, **options):
    ids = layers.data("ids", [4, 1], dtype="int64")
    rows = layers.embedding(ids, [KEYS, 8], is_distributed=True, param_attr="clicks", **options)
    loss = layers.mean(layers.square(layers.fc(layers.reshape(rows, [-1, 32]), 1) - 0.5))
    if minimizes:
        fluid.optimizer.Adam(0.05).minimize(loss)
    return loss


class Run:
    """A click model and its scope; ``options`` are those of the table."""

    def __init__(self, **options):
        self.main, self.startup, self.scope, self.exe = fluid.Program(), fluid.Program(), fluid.Scope(), fluid.Executor()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.loss = click_model(**options)
        self.exe.run(self.startup, scope=self.scope)

    def train(self, steps, seed):
        random = np.random.RandomState(seed)
        return [self.exe.run(self.main, feed={"ids": random.randint(0, KEYS, (16, 4, 1)) ** 2 // KEYS}, fetch_list=[self.loss],
                             scope=self.scope)[0].tobytes() for _ in range(steps)]

    def part(self):
        return fluid.distributed.table_report(self.main, self.scope)[0].parts[0]


def on_disk(folder):
    return {"memory": MEMORY, "spill": str(folder)}


def test_a_table_on_disk_trains_and_is_saved_and_loaded_with_the_bits_of_one_in_memory(tmp_path):
    plain, spilled = Run(), Run(**on_disk(tmp_path))
    assert plain.train(60, 1) == spilled.train(60, 1)
    part = spilled.part()
    assert part.rows == plain.part().rows and part.disk.rows > 500
    assert part.disk.reads > 0 and part.disk.found_in_memory < part.disk.looked_up and plain.part().disk is None
    with fluid.scope_guard(spilled.scope):
        fluid.io.save_persistables(spilled.exe, str(tmp_path / "saved"), spilled.main)
    for run in (plain, spilled):                       # into a table that has other rows by now
        run.train(5, 2)
        with fluid.scope_guard(run.scope):
            fluid.io.load_persistables(run.exe, str(tmp_path / "saved"), run.main)
    assert plain.train(30, 3) == spilled.train(30, 3)
    assert spilled.part().disk.rows > 500           # the loaded table has a spill folder, too


def test_announced_rows_are_read_ahead_and_change_no_bit(tmp_path):
    random = np.random.RandomState(5)
    feeds = [{"ids": random.randint(0, KEYS, (16, 4, 1))} for _ in range(60)]
    losses, disks = [], []
    for announces in (False, True):
        run = Run(**on_disk(tmp_path))
        announced = fluid.distributed.prefetched(feeds, program=run.main, scope=run.scope) if announces else feeds
        losses.append([run.exe.run(run.main, feed=feed, fetch_list=[run.loss], scope=run.scope)[0].tobytes() for feed in announced])
        disks.append(run.part().disk)
    assert losses[0] == losses[1]
    assert disks[0].reads_ahead == 0 and disks[1].reads_ahead > 0.8 * disks[1].reads > 0


def test_a_trainer_with_a_program_and_a_scope_of_its_own_reads_rows_ahead(tmp_path):
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = click_model(**on_disk(tmp_path), minimizes=False)
        trainer = fluid.Trainer(loss, fluid.optimizer.Adam(0.05), startup_program=startup, scope=scope)
    random = np.random.RandomState(8)
    trainer.train(lambda: ([(random.randint(0, KEYS, (4, 1)),) for _ in range(16)] for _ in range(60)))
    disk = fluid.distributed.table_report(main, scope)[0].parts[0].disk
    assert disk.reads_ahead > 0.5 * disk.reads > 0


def test_a_loop_over_a_data_set_reads_rows_ahead(tmp_path):
    run, file = Run(**on_disk(tmp_path)), tmp_path / "lines.txt"
    keys = np.random.RandomState(6).randint(0, KEYS, (2000, 4))
    file.write_text("".join(f"4 {' '.join(map(str, line))}\n" for line in keys))
    with fluid.scope_guard(run.scope), fluid.program_guard(run.main, run.startup):
        data = fluid.DatasetFactory().create_dataset("QueueDataset")
        data.set_use_var([run.main.global_block().var("ids")])
        data.set_batch_size(16)
        data.set_filelist([str(file)])
        run.exe.train_from_dataset(run.main, data)
    disk = run.part().disk
    assert disk.reads_ahead > 0.5 * disk.reads > 0


def test_checkpoints_have_the_rows_on_disk(tmp_path):
    plain, spilled = Run(), Run(**on_disk(tmp_path))
    for run, folder in ((plain, "a"), (spilled, "b")):
        run.train(40, 1)
        with fluid.scope_guard(run.scope):
            fluid.io.save_checkpoint(run.exe, str(tmp_path / folder), main_program=run.main)
    again = Run(**on_disk(tmp_path))
    with fluid.scope_guard(again.scope):
        fluid.io.load_checkpoint(again.exe, str(tmp_path / "b"), main_program=again.main)
    assert again.part().rows == plain.part().rows and again.part().disk.rows > 500
    assert plain.train(20, 2) == again.train(20, 2)


def test_a_report_says_what_lies_on_disk(tmp_path):
    run = Run(**on_disk(tmp_path))
    run.train(30, 1)
    line = str(fluid.distributed.table_report(run.main, run.scope)).splitlines()[3]
    assert line.startswith("       0 on disk: ") and "keys found in memory" in line and "MB written" in line


@pytest.mark.parametrize("options, error, text", [
    ({"memory": "8GB"}, ValueError, "give both or none"),
    ({"memory": "much", "spill": "."}, ValueError, "memory must be a number of bytes such as '8GB'"),
    ({"memory": 1 << 20, "spill": 5}, TypeError, "spill must be a folder"),
])
def test_mistakes_about_the_disk_are_explained(options, error, text):
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.raises(error, match=text):
        click_model(**options)


def test_a_folder_that_is_missing_is_named(tmp_path):
    run = Run(memory=MEMORY, spill=str(tmp_path / "none"))
    with pytest.raises(NotFoundError, match="folder '.*none'"):
        run.train(1, 1)


def test_bytes_are_read_as_people_write_them():
    assert [parse_bytes("m", size) for size in (7, "8GB", "1.5 kb", "2TB")] == [7, 8 * 10**9, 1500, 2 * 10**12]
    for wrong in (0, -1, True, "GB", "8 GiB", None):
        with pytest.raises(ValueError, match="m must be"):
            parse_bytes("m", wrong)


def test_a_failed_disk_ends_the_step_and_not_the_table(tmp_path):
    import resource

    run, plain = Run(**on_disk(tmp_path)), Run()
    assert run.train(20, 1) == plain.train(20, 1)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, old[1]))
    try:
        with pytest.raises(TriremeError, match=f"in folder '{tmp_path}'"):
            run.train(20, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, before)
    rows = run.part().rows
    run.train(5, 3)
    assert run.part().rows >= rows


# -- on the servers of a job ----------------------------------------------------------------------------------------------

TABLES = SCRIPT.with_name("tables.py")
RARE = ("--optimizer", "adam", "--rare", 400)


def few_rows(folder):
    """Each server keeps some 60 rows in memory."""
    return environment(TRIREME_TABLE_MEMORY="9000", TRIREME_TABLE_SPILL=str(folder))


def assert_same(one, other, text=""):
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(results(other)[name], results(one)[name], err_msg=name + text)


def test_a_job_with_rows_on_disk_has_the_bits_of_one_in_memory_and_goes_on_from_its_checkpoint(tmp_path):
    spill, kept = tmp_path / "spill", ("--checkpoint", tmp_path / "kept", "--checkpoint-steps", 6)
    spill.mkdir()
    launch(2, 2, *RARE, "--steps", 24, "--out", tmp_path / "whole.npz", script=TABLES)
    launch(2, 2, *RARE, "--steps", 12, "--out", tmp_path / "half.npz", script=TABLES, options=kept, env=few_rows(spill))
    launch(3, 2, *RARE, "--steps", 24, "--out", tmp_path / "r.npz", script=TABLES, options=(*kept, "--resume"),
           env=few_rows(spill))
    assert_same(tmp_path / "whole.npz", tmp_path / "r.npz")


def test_a_job_removes_old_rows_from_disk_as_from_memory(tmp_path):
    spill, old = tmp_path / "spill", ("--steps", 1100, "--max-age", 20, "--keep-count", 4)
    spill.mkdir()
    launch(2, 2, *RARE, *old, "--out", tmp_path / "whole.npz", script=TABLES)
    launch(2, 2, *RARE, *old, "--out", tmp_path / "r.npz", script=TABLES, env=few_rows(spill))
    assert_same(tmp_path / "whole.npz", tmp_path / "r.npz")


@pytest.mark.parametrize("env", [{}, {"TRIREME_TABLE_MEMORY": "9000", "TRIREME_TABLE_SPILL": "/tmp"}])
def test_a_job_refuses_by_name_what_does_not_work_with_rows_on_disk(env, tmp_path):
    options = "" if env else "memory='1MB', spill='/tmp'"
    script = tmp_path / "job.py"
    script.write_text(f"""
import numpy as np
import trireme as fluid
ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [99, 4], is_distributed=True, param_attr="clicks", {options})
loss = fluid.layers.mean(rows)
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
exe.run(feed={{"ids": np.zeros((2, 1), "int64")}}, fetch_list=[loss])
""")
    code, said = ended(1, 1, script=script, options=("--mode", "geo(2)"), env=environment(**env))
    assert code != 0 and "table 'clicks' has rows on disk (spill='/tmp'), which does not work with modes geo and average yet" in said, said


def test_a_job_names_the_folder_that_its_servers_lack(tmp_path):
    code, said = ended(1, 1, *RARE, script=TABLES, env=few_rows(tmp_path / "none"))
    assert code != 0 and f"folder '{tmp_path}/none'" in said, said


@pytest.mark.parametrize("memory, folder, text", [
    ("8GB", None, "give both or none"),
    ("8 GiB", "/tmp", "--table-memory must be a number of bytes"),
])
def test_the_launcher_explains_mistakes_about_the_disk(memory, folder, text):
    with pytest.raises(InvalidArgumentError, match=text):
        Launch(Layout(servers=1, trainers=1), ["job.py"], table_memory=memory, table_spill=folder)


@needs_mpi
@pytest.mark.mpi
def test_a_killed_server_costs_no_bit_of_a_table_on_disk(tmp_path):
    spill, args = tmp_path / "spill", (*RARE, "--steps", 80, "--pause", 0.005, "--ahead")
    spill.mkdir()
    launch(2, 2, *args, "--out", tmp_path / "whole.npz", script=TABLES)
    job = Launched(2, 2, *args, "--out", tmp_path / "r.npz", "--mark", tmp_path / "begun", script=TABLES,
                   options=("--table-memory", "9KB", "--table-spill", spill))
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    job.wait_for(lambda: sum(file.stat().st_blocks * 512 > 8192 for file in spill.glob("*.cold")) >= 2, "rows on disk")
    os.kill(ranks.known[0].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "died; the others go on" in text, text
    assert_same(tmp_path / "whole.npz", tmp_path / "r.npz", text)
    assert not list(spill.iterdir()) and not list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*"))
