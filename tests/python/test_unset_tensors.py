"""A tensor that was never set has no values: whatever reads them says so by name, instead of returning memory that was freed last."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.errors import EnforceNotMet, InvalidArgumentError, NotFoundError

FEED = {"x": np.ones((2, 4), "float32")}


def in_array():
    array = fluid.LoDTensorArray()
    array.append(fluid.LoDTensor())
    return array[0]


def erased():
    scope = fluid.Scope()
    tensor = scope.var("gone").get_tensor()
    tensor.set(np.ones(3, "float32"))
    scope.erase(["gone"])
    return tensor


UNSET = {
    "a new one": (fluid.LoDTensor, "the tensor"),
    "a copy": (lambda: copy.copy(fluid.Scope().var("n").get_tensor()), "the tensor of variable 'n'"),
    "a deep copy": (lambda: copy.deepcopy(fluid.LoDTensor()), "the tensor"),
    "a variable's": (lambda: fluid.Scope().var("n").get_tensor(), "the tensor of variable 'n'"),
    "an erased variable's": (erased, "the tensor of variable 'gone'"),
    "an array's": (in_array, "element 0 of the array"),
    "rows": (lambda: fluid.core.SelectedRows([4, 7], 10), "the tensor"),
    "a variable's rows": (lambda: fluid.Scope().var("n").get_selected_rows(), "the tensor of variable 'n'"),
    "values of rows": (lambda: fluid.core.SelectedRows([4, 7], 10).get_tensor(), "the tensor"),
}
READS = {
    "np.array": np.array,
    "np.asarray": np.asarray,
    "np.asarray of a type": lambda it: np.asarray(it, "int64"),
    "numpy": lambda it: it.numpy(),
    "dlpack": np.from_dlpack,
    "a ufunc": lambda it: np.add(it, 1),
    "as_numpy": fluid.executor.as_numpy,
    "its type": lambda it: it._dtype(),
    "a number": lambda it: it[0],
    "a slice": lambda it: it[0:1],
    "a loop": list,
    "an element": lambda it: it._get_float_element(0),
    "setting an element": lambda it: it._set_float_element(0, 1.0),
    "setting another": lambda it: fluid.LoDTensor().set(it),
    "rows": lambda it: it.to_dense(),
}


@pytest.mark.parametrize("what", UNSET)
def test_every_way_to_read_it_says_that_it_was_never_set(what):
    make, name = UNSET[what]
    for way, read in READS.items():
        one = make()
        rows_only, tensor_only = way == "rows", way in ("a number", "a slice", "a loop", "an element", "setting an element")
        if isinstance(one, fluid.core.SelectedRows) if tensor_only else rows_only and not isinstance(one, fluid.core.SelectedRows):
            continue
        with pytest.raises(InvalidArgumentError, match=rf"^{name} was never set: .*set\(array\)(.|\n)*your line: .*test_unset_tensors.py"):
            pytest.fail(f"{way} of {what} gives {read(one)!r}")
    assert "not set" in repr(make())


def test_unset_rows_have_no_values_to_count():
    assert fluid.core.SelectedRows([4, 7], 10).numel() == 0


def test_a_tensor_that_was_set_with_no_rows_or_no_dimensions_is_read():
    for shape in ((0, 3), (0,), (2, 0, 4), ()):
        tensor = fluid.LoDTensor()
        tensor.set(np.zeros(shape, "float32"))
        assert np.array(tensor).shape == shape and np.array(tensor).dtype == "float32"
    rows = fluid.core.SelectedRows()
    rows.set(np.zeros((0, 3), "float32"), [], 5)
    assert rows.numpy().shape == (0, 3) and rows.to_dense().shape == (5, 3)


def test_a_variable_that_holds_no_tensor_says_so():
    scope = fluid.Scope()
    scope.var("list").get_lod_tensor_array().append(fluid.LoDTensor())
    with pytest.raises(InvalidArgumentError, match="variable 'list', which holds an array of tensors and no tensor, was never set"):
        np.array(scope.find_var("list").get_tensor())


def test_a_run_that_lacks_a_variable_leaves_nothing_to_read():
    loss = layers.mean(layers.fc(layers.data("x", [4]), 3, param_attr="w"))
    exe, scope = fluid.Executor(), fluid.global_scope()
    exe.run(fluid.default_startup_program())
    scope.erase(["w"])
    with pytest.raises(NotFoundError, match="'w' has no value yet"):
        exe.run(feed=FEED, fetch_list=[loss])
    with pytest.raises(NotFoundError, match="'w' has no value yet"):
        exe.run(fetch_list=["w"], feed=FEED)
    with pytest.raises(InvalidArgumentError, match="variable 'w' was never set"):
        np.array(scope.var("w").get_tensor())
    with pytest.raises(NotFoundError, match="no variable 'w' with a value"):
        fluid.executor.fetch_var("w")


def test_a_feed_that_was_never_set_is_refused_by_name(tmp_path):
    y = layers.scale(layers.data("x", [4]), 2.0)
    exe, unset = fluid.Executor(), {"x": fluid.LoDTensor()}
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe)
    prepared = exe.prepare(fluid.default_main_program(), feed=["x"], fetch_list=[y])
    predictor = fluid.serving.Predictor(tmp_path)
    for run in (lambda feed: exe.run(feed=feed, fetch_list=[y]), prepared.run, predictor.run):
        with pytest.raises(InvalidArgumentError, match="feed 'x' was never set"):
            run(unset)
        assert np.array(run(FEED)[0]).sum() == 16
    with pytest.raises(InvalidArgumentError, match=r"PaddleTensor 'x': data has 0 values, shape \[\] is for 1"):
        fluid.core.PaddleTensor(name="x").as_ndarray()


def test_a_function_of_the_script_may_not_return_one():
    x = layers.data("x", [4])
    out = fluid.default_main_program().current_block().create_var(name="out", shape=[2, 4], dtype="float32")
    layers.py_func(lambda x: fluid.LoDTensor(), x, out)
    with pytest.raises(EnforceNotMet, match="py_func(.|\n)*the tensor was never set"):
        fluid.Executor().run(feed=FEED, fetch_list=[out])
