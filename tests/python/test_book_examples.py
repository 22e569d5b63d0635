"""The chapters of Fluid's book that were not examples before, and the Transformer: a few steps of each, alone and in a job."""

import subprocess
import sys

import numpy as np
import pytest
from job_support import environment, needs_mpi
from test_sequence_examples import EXAMPLES, alone, in_job, points

import trireme as fluid

SHORT = {
    "images": ("--pictures", 480, "--tests", 50, "--epochs", 3, "--batch", 32, "--curve", 15, "--channels", 4, "--rate", 0.01,
               "--at-least", 0),
    "semantic_roles": ("--sentences", 384, "--tests", 100, "--epochs", 3, "--curve", 6, "--width", 16, "--depth", 2, "--at-least", 0),
    "transformer": ("--epochs", 1, "--steps", 40, "--batch", 16, "--width", 32, "--depth", 1, "--warmup", 20, "--curve", 10, "--tests", 20,
                    "--at-least", 0),
    "recommender": ("--ratings", 3000, "--epochs", 2, "--curve", 3, "--at-most", 9),
}


@pytest.fixture
def films():
    try:
        return fluid.dataset.movielens_small.films()
    except fluid.dataset.common.DataSetError as error:
        pytest.skip(str(error))


def assert_learns(output, fall):
    losses = list(points(output, "loss").values())
    assert len(losses) > 2 and losses[-1] < fall * losses[0], losses


def test_pictures_are_learnt():
    assert_learns(alone("images", *SHORT["images"]), 0.95)


def test_vgg_runs():
    output = alone("images", "--network", "vgg", "--pictures", 64, "--tests", 20, "--epochs", 1, "--curve", 1, "--channels", 4,
                   "--at-least", 0)
    assert "of 20 other pictures" in output


def test_roles_are_learnt():
    output = alone("semantic_roles", *SHORT["semantic_roles"])
    assert_learns(output, 0.7)
    assert "B-V" in output and "roles of 100 other sentences" in output


def test_a_transformer_learns():
    output = alone("transformer", *SHORT["transformer"])
    assert_learns(output, 0.8)
    assert output.count("  ->  ") == 5 and "of 20 texts" in output


def test_ratings_are_learnt(films):
    output = alone("recommender", *SHORT["recommender"])
    wrong = points(output, "rmse")
    assert wrong[12] < wrong[6] and wrong[12] < 1.05


def test_films_are_read(films):
    number, genres, words = films[1]
    assert (number, [fluid.dataset.movielens_small.GENRES[genre] for genre in genres]) == (0, ["Adventure", "Animation", "Children",
                                                                                               "Comedy", "Fantasy"])
    assert len(films) == fluid.dataset.movielens_small.FILMS and 0 < max(max(words) for _, _, words in films.values()) < 2000
    train, test = list(fluid.dataset.movielens_small.train()()), list(fluid.dataset.movielens_small.test()())
    assert len(train) + len(test) == 100004 and 9500 < len(test) < 10500
    assert {sample[4] for sample in train} == {0.5 * i for i in range(1, 11)} and max(sample[0] for sample in train) == 671


@needs_mpi
@pytest.mark.mpi
def test_tables_of_films_live_on_the_servers(films):
    args = SHORT["recommender"]
    mine, theirs = points(alone("recommender", *args), "rmse"), points(in_job("recommender", *args), "rmse")
    assert theirs == pytest.approx(mine, rel=1e-3)


@pytest.mark.soak
@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("name", ["images", "semantic_roles", "transformer"])
def test_the_others_learn_in_a_job(name):
    assert_learns(in_job(name, *SHORT[name]), 0.95)


@pytest.mark.soak
@pytest.mark.parametrize("args", [("images", "--network", "vgg"), ("images",), ("semantic_roles",), ("transformer",), ("recommender",)],
                         ids=" ".join)
def test_an_example_learns_all_that_its_data_hold(args, films):
    done = subprocess.run([sys.executable, EXAMPLES / args[0] / "train.py", *args[1:]], check=False, env=environment(), capture_output=True,
                          text=True, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_beam_finds_what_is_best():
    sys.path.insert(0, str(EXAMPLES / "attention"))
    sys.path.insert(0, str(EXAMPLES / "transformer"))
    try:
        import network
        import search
        import tasks
    finally:
        del sys.path[:2]
        for name in ("network", "search", "tasks"):    # other examples have modules of these names
            sys.modules.pop(name, None)
    sizes, main, startup = (16, 2, 1), fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        bias = fluid.layers.data("bias", [1, 1, 8])
        memory = network.encoder(fluid.layers.data("given", [8, 1], dtype="int64"), bias, 8, sizes)
        network.decoder(fluid.layers.data("before", [3, 1], dtype="int64"), memory, bias, 3, sizes)
    startup.random_seed = 3
    fluid.Executor().run(startup)
    wide, narrow = (search.Writer(sizes, 8, 3, beam) for beam in (200, 1))
    text = "may 3"

    def logs(writer, answer):
        """The log of the probability of an answer of letters and its end."""
        ids, hidden = search.padded([tasks.encode(text)], 8)
        memory, = writer.exe.run(writer.encoder, feed={"given": ids, "bias": hidden}, fetch_list=[writer.memory])
        letters = [*tasks.encode(answer), tasks.END][:3]
        before = np.array([[tasks.BEGIN, *letters[:2], tasks.END][:3]]).reshape(1, 3, 1)
        scores, = writer.exe.run(writer.decoder, feed={"before": before, "memory": memory, "bias": hidden}, fetch_list=[writer.scores])
        return sum(scores[0, i, letter] for i, letter in enumerate(letters))

    best, greedy = wide.best([text])[0], narrow.best([text])[0]
    assert logs(wide, best) >= logs(wide, greedy) - 1e-6
    others = ["", *tasks.LETTERS[:8], *(a + b for a in tasks.LETTERS[:8] for b in tasks.LETTERS[:8])]
    assert all(logs(wide, best) >= logs(wide, other) - 1e-6 for other in others)
