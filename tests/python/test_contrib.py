"""contrib: a trainer of functions, its checkpoints, an inferencer; decoders against all sentences that there can be."""

import itertools

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.contrib import decoder as decoders
from trireme.contrib import trainer as trainers
from trireme.contrib.inferencer import Inferencer

BATCHES = [[(np.array([a, b]), np.array([a - 2 * b])) for a in (0.0, 1.0)] for b in (0.0, 1.0, 2.0)]


def network():
    x, y = layers.data("x", [2]), layers.data("y", [1])
    guess = layers.fc(x, 1, param_attr="w", bias_attr=fluid.ParamAttr(name="b"))
    cost = layers.mean(layers.square_error_cost(guess, y))
    return [cost, layers.mean(guess), guess]


def new_trainer(**options):
    return trainers.Trainer(network, lambda: fluid.optimizer.Momentum(0.05, 0.9), place=fluid.CPUPlace(), **options)


def parameter(trainer):
    with fluid.scope_guard(trainer.scope):
        return fluid.executor.fetch_var("w")


# -- trainer and inferencer ------------------------------------------------------------------------


def test_events_come_in_order_and_metrics_are_what_the_function_returns():
    seen, trainer = [], new_trainer()

    def handler(event):
        if isinstance(event, trainers.BeginStepEvent):
            event.fetch_metrics = event.step != 1
        metrics = len(event.metrics) if isinstance(event, trainers.EndStepEvent) else ""
        seen.append(f"{type(event).__name__[:-5]} {event.epoch} {getattr(event, 'step', '')} {metrics}".strip())

    trainer.train(1, handler, lambda: BATCHES[:2], feed_order={"y": 1, "x": 0})
    assert [" ".join(line.split()) for line in seen] == ["BeginEpoch 0", "BeginStep 0 0", "EndStep 0 0 3", "BeginStep 0 1", "EndStep 0 1 0",
                                                         "EndEpoch 0"]


def test_a_trainer_learns_tests_saves_and_infers(tmp_path):
    trainer = new_trainer()
    before = trainer.test(lambda: BATCHES, ["x", "y"])[0]
    trainer.train(200, lambda event: None, lambda: BATCHES, ["x", "y"])
    assert trainer.test(lambda: BATCHES, ["x", "y"])[0] < 1e-3 < before
    trainer.save_params(str(tmp_path / "params"))
    other = new_trainer(param_path=str(tmp_path / "params"))
    np.testing.assert_array_equal(parameter(other), parameter(trainer))
    guess, = Inferencer(lambda: network()[2], str(tmp_path / "params"), fluid.CPUPlace()).infer({"x": np.array([[3, 1]], "float32")})
    np.testing.assert_allclose(guess, [[1.0]], atol=0.1)
    trainer.save_inference_model(str(tmp_path / "model"), ["x"], [2])
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor()
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path / "model"), exe)
        np.testing.assert_allclose(exe.run(program, feed={feeds[0]: np.array([[3, 1]], "float32")}, fetch_list=fetches)[0], guess,
                                   rtol=1e-6)


def stop_at(trainer, steps):
    left = [steps]

    def handler(event):
        left[0] -= isinstance(event, trainers.EndStepEvent)
        if left[0] == 0:
            trainer.stop()
    return handler


def test_a_stopped_trainer_goes_on_by_itself():
    whole, parts = new_trainer(), new_trainer()
    whole.train(3, lambda event: None, lambda: BATCHES, ["x", "y"])
    parts.train(3, stop_at(parts, 4), lambda: BATCHES, ["x", "y"])
    assert not np.array_equal(parameter(parts), parameter(whole))
    parts.train(3, lambda event: None, lambda: BATCHES, ["x", "y"])
    np.testing.assert_array_equal(parameter(parts), parameter(whole))


@pytest.mark.parametrize("steps", [2, 4, 5, 6, 7])
def test_a_trainer_goes_on_from_its_checkpoint(tmp_path, steps):
    whole = new_trainer()
    whole.train(3, lambda event: None, lambda: BATCHES, ["x", "y"])
    config = trainers.CheckpointConfig(str(tmp_path), max_num_checkpoints=2, step_interval=2)
    first = new_trainer(checkpoint_config=config)
    first.train(3, stop_at(first, steps), lambda: BATCHES, ["x", "y"])
    second, seen = new_trainer(checkpoint_config=config), []
    second.train(3, lambda event: seen.append(event), lambda: BATCHES, ["x", "y"])
    np.testing.assert_array_equal(parameter(second), parameter(whole))
    made = sum(isinstance(event, trainers.EndStepEvent) for event in seen)
    assert 0 < made < 9 and len(list(tmp_path.iterdir())) <= 3
    third, seen = new_trainer(checkpoint_config=config), []
    third.train(3, lambda event: seen.append(event), lambda: BATCHES, ["x", "y"])
    assert not seen                                      # all of it was done
    np.testing.assert_array_equal(parameter(third), parameter(whole))


@pytest.mark.parametrize("call, text", [
    (lambda: new_trainer(checkpoint_config="here"), "must be a CheckpointConfig"),
    (lambda: trainers.CheckpointConfig("x", step_interval=0), "step_interval=0; a whole number from 1"),
    (lambda: trainers.Trainer(network, lambda: 0.1), "optimizer_func must return an Optimizer"),
    (lambda: new_trainer().train(1, lambda event: None), "reader is missing"),
    (lambda: new_trainer().test(list, ["x", "y"]), "gave no samples"),
    (lambda: new_trainer().test(lambda: BATCHES, {"x": 1, "y": 2}), "places must be 0 .. 1"),
    (lambda: new_trainer().test(lambda: BATCHES, "x"), "feed_order must be a list"),
])
def test_mistakes_are_explained(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call()


# -- decoders --------------------------------------------------------------------------------------

WORDS, WIDTH, END, LONGEST = 4, 3, 0, 3


def cell_of(first, context):
    cell = decoders.StateCell({"x": None, "c": context}, {"h": decoders.InitState(first, need_reorder=True)}, out_state="h")

    @cell.state_updater
    def update(cell):
        cell.set_state("h", layers.fc([cell.get_input("x"), cell.get_input("c"), cell.get_state("h")], WIDTH, act="tanh",
                                      param_attr=[fluid.ParamAttr(name=name) for name in ("wx", "wc", "wh")], bias_attr="bh"))

    return cell


def values(rng):
    shapes = {"emb": (WORDS, WIDTH), "wx": (WIDTH, WIDTH), "wc": (WIDTH, WIDTH), "wh": (WIDTH, WIDTH), "bh": (WIDTH,), "ws": (WIDTH, WORDS),
              "bs": (WORDS,)}
    return {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def place(parameters):
    for name, value in parameters.items():
        fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())


def chances_of(p, first, context, words):
    """Return the probabilities of each next word, after each of the words."""
    h, result = first, []
    for word in words:
        h = np.tanh(p["emb"][word] @ p["wx"] + context @ p["wc"] + h @ p["wh"] + p["bh"])
        scores = np.exp(h @ p["ws"] + p["bs"])
        result.append(scores / scores.sum())
    return np.array(result)


def test_a_training_decoder_computes_what_its_words_say(exe, rng):
    words, first, context = layers.data("words", [1], dtype="int64",
                                        lod_level=1), layers.data("first", [WIDTH]), layers.data("context", [WIDTH])
    embedded = layers.embedding(words, [WORDS, WIDTH], param_attr="emb")
    decoder = decoders.TrainingDecoder(cell_of(first, None))
    with decoder.block():
        decoder.state_cell.compute_state({"x": decoder.step_input(embedded), "c": decoder.static_input(context)})
        decoder.output(layers.fc(decoder.state_cell.get_state("h"), WORDS, act="softmax", param_attr="ws", bias_attr="bs"))
        decoder.state_cell.update_states()
    out = decoder()
    grad, = fluid.gradients(layers.reduce_sum(layers.square(out)), fluid.framework._get_var("wh"))
    exe.run(fluid.default_startup_program())
    p = values(rng)
    place(p)
    firsts, contexts = rng.normal(size=(2, 3, WIDTH)).astype("float32")
    sentences = [[1, 2], [3, 1, 0, 2], [2]]
    feed = {"words": fluid.create_lod_tensor(sentences, [[2, 4, 1]]), "first": firsts, "context": contexts}
    got, slope = exe.run(feed=feed, fetch_list=[out, grad], return_numpy=False)
    expected = np.concatenate([chances_of(p, firsts[i], contexts[i], sentences[i]) for i in range(3)])
    np.testing.assert_allclose(np.array(got), expected, rtol=1e-4)
    assert got.recursive_sequence_lengths() == [[2, 4, 1]] and np.abs(np.array(slope)).max() > 0


def search(exe, p, firsts, contexts, beam):
    first, context = layers.data("first", [WIDTH], lod_level=0), layers.data("context", [WIDTH])
    ids, scores = layers.data("ids", [1], dtype="int64", lod_level=2), layers.data("scores", [1], lod_level=2)
    decoder = decoders.BeamSearchDecoder(cell_of(first, None), ids, scores, WORDS, WIDTH, input_var_dict={"c": context}, topk_size=WORDS,
                                         max_len=LONGEST, beam_size=beam, end_id=END, embedding_attr="emb", score_attr="ws",
                                         score_bias_attr="bs")
    decoder.decode()
    sentences, sums = decoder()
    exe.run(fluid.default_startup_program())
    place(p)
    count = len(firsts)
    lengths = [[1] * count, [1] * count]
    feed = {"first": firsts, "context": contexts, "ids": fluid.create_lod_tensor(np.full((count, 1), 1, "int64"), lengths),
            "scores": fluid.create_lod_tensor(np.zeros((count, 1), "float32"), lengths)}
    sentences, sums = exe.run(feed=feed, fetch_list=[sentences, sums], return_numpy=False)
    (sources, lasts), words, scores = sentences.lod(), np.array(sentences).ravel(), np.array(sums).ravel()
    found = [(words[a:b].tolist(), scores[b - 1]) for a, b in zip(lasts, lasts[1:])]
    return [found[a:b] for a, b in zip(sources, sources[1:])]


def best_of_all(p, first, context):
    """Return all sentences with the logs of their probabilities, the best first: they end with END, or at the longest."""
    all_of_them = []
    for length in range(1, LONGEST + 1):
        for rest in itertools.product(range(WORDS), repeat=length):
            if END in rest[:-1] or (length < LONGEST and rest[-1] != END):
                continue
            chances = chances_of(p, first, context, [1, *rest[:-1]])
            all_of_them.append(([1, *rest], float(np.log(chances[range(length), list(rest)]).sum())))
    return sorted(all_of_them, key=lambda one: -one[1])


def test_a_beam_that_holds_all_finds_the_best_sentences(exe, rng):
    p = values(rng)
    firsts, contexts = rng.normal(size=(2, 2, WIDTH)).astype("float32")
    found = search(exe, p, firsts, contexts, beam=WORDS ** LONGEST)
    for i, source in enumerate(found):
        expected = best_of_all(p, firsts[i], contexts[i])
        assert len(source) == len(expected)
        for (words, score), (true_words, true_score) in zip(source[:5], expected):
            assert words == true_words and score == pytest.approx(true_score, rel=1e-4)


def test_a_beam_of_one_is_greedy(exe, rng):
    p = values(rng)
    firsts, contexts = rng.normal(size=(2, 3, WIDTH)).astype("float32")
    for i, ((words, _),) in enumerate(search(exe, p, firsts, contexts, beam=1)):
        for at in range(1, len(words)):
            assert words[at] == chances_of(p, firsts[i], contexts[i], words[:at])[-1].argmax()


def test_wrong_decoders_are_explained():
    first = layers.data("first", [WIDTH])
    init = decoders.InitState(init_boot=first, shape=[-1, WIDTH])
    assert init.value.shape == (None, WIDTH)
    for call, text in [(lambda: decoders.InitState(), "init or init_boot is needed"),
                       (lambda: decoders.InitState(init_boot=first), "a shape"),
                       (lambda: decoders.StateCell({}, {"h": first}, "h"), "must be an InitState"),
                       (lambda: decoders.StateCell({}, {"h": init}, "g"), "out_state must be one of h"),
                       (lambda: cell_of(first, None).get_state("h"), "inside of a decoder's block")]:
        with pytest.raises(ValueError, match=text):
            call()
    cell = cell_of(first, None)
    decoder = decoders.TrainingDecoder(cell)
    with pytest.raises(ValueError, match="already"):
        decoders.TrainingDecoder(cell)
    with decoder.block():
        decoder.step_input(layers.data("words", [WIDTH], lod_level=1))
        with pytest.raises(ValueError, match="there is no input 'z'; there are x, c"):
            decoder.state_cell.compute_state({"z": first})
        with pytest.raises(ValueError, match="there is no state 'g'"):
            decoder.state_cell.get_state("g")
        with pytest.raises(ValueError, match="input 'x' has no value"):
            decoder.state_cell.get_input("x")
        decoder.output(decoder.state_cell.get_state("h"))
    with pytest.raises(ValueError, match="state_cell must stand inside the block"):
        decoder.state_cell
    ids = layers.data("ids", [1], dtype="int64", lod_level=2)
    with pytest.raises(ValueError, match="no input 'y'; it has x, c"):
        decoders.BeamSearchDecoder(cell_of(first, None), ids, ids, WORDS, WIDTH, {"y": first})
    beam = decoders.BeamSearchDecoder(cell_of(first, None), ids, ids, WORDS, WIDTH)
    with pytest.raises(ValueError, match="call decode first"):
        beam()
    with pytest.raises(ValueError, match="early_stop must stand inside"):
        beam.early_stop()
