"""Every operator: in a program that is saved, loaded and run; with its gradient in a program that is trained, in one process and in a
job."""

import sys

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, own_of
from operator_cases import Case, cases_of, run_case, scope_of

import trireme as fluid
from trireme.core import op_types
from trireme.errors import TriremeError

JOB = SCRIPT.with_name("every_operator.py")
sys.path.insert(0, str(JOB.parent))
import every_operator  # noqa: E402 - the job's script

# Operators without a case that runs by itself, and what saves and runs them, or why nothing does.
ELSEWHERE = {
    "another process": ("exchange_deltas", "exchange_squares", "fetch_barrier", "keep_variables", "listen_and_serv", "prefetch",
                        "pull_sparse", "push_sparse", "pushed_rows",
                        "recv", "recv_wait", "send", "send_barrier", "send_sets"),
    "files, which test_io writes and reads": ("load", "load_combine", "save", "save_combine"),
    "what Executor.run adds to a program": ("fetch",),
    "what loops run beside a program with rows on disk, as test_tables_on_disk does": ("expect_rows",),
    "a function of Python, which a saved program does not have": ("py_func",),
    "arrays and tables of ranks, which no feed can be: nets of test_sequence_examples are saved with them": (
        "lod_tensor_to_array", "read_from_array", "reorder_lod_tensor_by_rank", "rnn_memory_helper"),
    "sparse tables, which test_tables saves and loads": ("lookup_sparse_table", "lookup_sparse_table_init", "lookup_sparse_table_update"),
    "selected rows, which no feed can be": ("get_tensor_from_selected_rows", "split_selected_rows"),
    "an optimizer that test_optimizers saves": ("adam",),
}


def forward_types():
    return [type_ for type_ in op_types() if not type_.endswith(("_grad", "_grad2"))]


def constant():
    """assign_value has no inputs, and no case among the others."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        out = fluid.layers.assign(np.array([[1.5, -2.0]], "float32"))
    return Case("assign_value", program, program.global_block().ops[0], fetches=[out.name])


def runs(case):
    """What the case computes; None where it is a mistake."""
    try:
        return run_case(case.program, case, case.fetches)
    except TriremeError:
        return None


def saved_and_loaded(case, folder):
    """The program and its values, by way of files."""
    for name in set(case.values) - case.fed:
        case.program.global_block().var(name).persistable = True
    with fluid.scope_guard(scope_of(case)):
        fluid.io.save_vars(fluid.Executor(), str(folder), case.program,
                           vars=[case.program.global_block().var(name) for name in set(case.values) - case.fed])
    (folder / "program").write_bytes(case.program.desc.serialize_to_string())
    program, scope = fluid.io.load_program(str(folder / "program"), allow_io=True), fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.io.load_vars(fluid.Executor(), str(folder), program,
                           vars=[program.global_block().var(name) for name in set(case.values) - case.fed])
    return program, scope


def same(one, other):
    if isinstance(one, fluid.core.SelectedRows):
        return one.rows() == other.rows() and same(one.get_tensor(), other.get_tensor())
    return one.lod() == other.lod() and np.array(one).tobytes() == np.array(other).tobytes()


def test_a_saved_program_with_any_operator_is_loaded_and_runs_as_before(tmp_path):
    left, wrong = [], []
    for type_ in forward_types():
        cases = [constant()] if type_ == "assign_value" else cases_of(type_, tmp_path)
        case = next((case for case in cases if runs(case)), None)
        if case is None or type_ == "py_func":         # which runs if a test before this one has left a function, and no file has that
            left.append(type_)
            continue
        folder = tmp_path / type_
        folder.mkdir()
        program, scope = saved_and_loaded(case, folder)
        got, want = run_case(program, case, case.fetches, scope), runs(case)
        wrong += [] if str(program) == str(case.program) and all(map(same, got, want)) else [type_]
    assert not wrong
    assert sorted(left) == sorted(name for names in ELSEWHERE.values() for name in names)


def test_every_operator_with_a_gradient_is_trained():
    loss, feeds = every_operator.build()
    fluid.optimizer.SGD(every_operator.RATE).minimize(loss)
    types = {op.type for block in fluid.default_main_program().blocks for op in block.read_ops()}
    assert not set(every_operator.trainable_types()) - types
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    costs = [exe.run(feed=feeds, fetch_list=[loss])[0].item() for _ in range(3)]
    assert costs[2] < costs[1] < costs[0]


@needs_mpi
@pytest.mark.mpi
def test_a_job_trains_every_operator_as_one_process_does(tmp_path):
    alone("--out", tmp_path / "one", script=JOB)
    launch(2, 2, "--out", tmp_path / "job", script=JOB)
    want, got = own_of(tmp_path / "one", 1), own_of(tmp_path / "job", 2)
    assert len(want) > 200 and len(got) == 2 * len(want)
    for trainer in range(2):
        for (_, name), array in want.items():
            np.testing.assert_allclose(got[trainer, name], array, rtol=1e-4, atol=1e-7, err_msg=name)
