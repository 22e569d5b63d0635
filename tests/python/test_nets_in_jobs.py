"""Every net of jobs/nets.py: saved and loaded it computes the same, and a job learns what one process does."""

import sys

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, results

import trireme as fluid

NETS = SCRIPT.with_name("nets.py")
sys.path.insert(0, str(NETS.parent))
import nets  # noqa: E402 - the job's script says what there is

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("name", nets.NETS)
def test_a_saved_program_trains_as_the_first_one(exe, name, tmp_path):
    losses = nets.build({name: nets.NETS[name]})
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    fluid.io.save_program(main, str(tmp_path / "main"))
    loaded = fluid.io.load_program(str(tmp_path / "main"))
    startup.random_seed = 4
    curves = []
    for program in (main, loaded):
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            batch = next(nets.batches(1, 10))
            curves.append([exe.run(program, feed=batch, fetch_list=[losses[name].name])[0].item() for _ in range(9)])
    assert curves[0] == curves[1] and np.isfinite(curves[0]).all()
    assert curves[0][-1] < curves[0][0]


@needs_mpi
def test_two_servers_and_two_trainers_learn_what_one_process_does(tmp_path):
    alone("--out", tmp_path / "alone.npz", script=NETS)
    launch(2, 2, "--out", tmp_path / "job.npz", script=NETS)
    want, got = results(tmp_path / "alone.npz"), results(tmp_path / "job.npz")
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
