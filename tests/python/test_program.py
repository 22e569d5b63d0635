"""Programs, blocks and operators: what the design documents promise of them."""

import gc
import re

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers


def linear_model():
    x, y = layers.data("x", [3]), layers.data("y", [1])
    prediction = layers.fc(x, 1)
    return prediction, layers.mean(layers.square_error_cost(prediction, y))


def types(program, block=0):
    return [op.type for op in program.block(block).ops]


def test_names_follow_fluid():
    x = layers.data("x", [8])
    layers.fc(layers.fc(x, 4, act="relu"), 2)
    names = list(fluid.default_main_program().global_block().vars)
    assert names == ["x", "fc_0.w_0", "fc_0.tmp_0", "fc_0.b_0", "fc_0.tmp_1", "fc_0.tmp_2",
                     "fc_1.w_0", "fc_1.tmp_0", "fc_1.b_0", "fc_1.tmp_1"]


def test_guard_chooses_where_layers_go_and_gives_back():
    before = fluid.default_main_program(), fluid.default_startup_program()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        assert fluid.default_main_program() is main and fluid.default_startup_program() is startup
        layers.fc(layers.data("x", [2]), 1)
    assert (fluid.default_main_program(), fluid.default_startup_program()) == before
    assert types(main) == ["mul", "elementwise_add"]
    assert sorted(types(startup)) == ["fill_constant", "uniform_random"]
    with pytest.raises(KeyError):
        with fluid.program_guard(main):
            raise KeyError
    assert fluid.default_main_program() is before[0]


def test_blocks_nest_and_names_resolve_outward():
    program = fluid.default_main_program()
    outer = program.global_block()
    x = outer.create_var(name="x", shape=[2], dtype="float32")
    inner = program.create_block()
    assert program.current_block() is inner and inner.parent is outer and outer.parent is None
    assert inner.parent_idx == 0 and outer.parent_idx == -1
    assert inner.var_recursive("x") is x and not inner.has_var("x")
    local = inner.create_var(name="x", shape=[3], dtype="int64")
    assert inner.var_recursive("x") is local and outer.var("x") is x
    program.rollback()
    assert program.current_block() is outer


def test_a_parameter_belongs_to_the_global_block_from_any_block():
    program = fluid.default_main_program()
    inner = program.create_block()
    w = inner.create_parameter(shape=[2, 3], dtype="float32", name="w")
    v = inner.create_global_var(name="v", shape=[1], dtype="float32")
    program.rollback()
    assert w.block is program.global_block() and v.block is program.global_block()
    assert not inner.has_var("w") and w.persistable and w.trainable
    assert program.all_parameters() == [w]


def test_operators_are_appended_and_prepended():
    block = fluid.default_main_program().global_block()
    for name in "ab":
        block.create_var(name=name)
    block.append_operator(type="fill_constant", outputs={"Out": "a"}, attrs={"shape": [2], "value": 1.0, "dtype": 5})
    op = block.prepend_operator(type="fill_constant", outputs={"Out": "b"}, attrs={"shape": [3], "dtype": 5})
    assert [one.output("Out") for one in block.ops] == [["b"], ["a"]] and op.idx == 0
    assert block.var("a").shape == (2,) and block.var("b").shape == (3,)


def test_an_operator_reads_its_description_from_the_core():
    x = layers.data("x", [4])
    layers.scale(x, scale=3.0)
    op = fluid.default_main_program().global_block().ops[-1]
    assert op.type == "scale"
    assert op.input_names == ["X"] and op.input("X") == ["x"] and op.input_arg_names == ["x"]
    assert op.output("Out") == ["scale_0.tmp_0"]
    assert op.attr("scale") == 3.0 and op.attr("bias") == 0.0 and op.attr("bias_after_scale") is True
    assert "test_program.py:" in op.attr("op_callstack")[0]
    assert op.attr("op_role") == core.OpRole.Forward
    with pytest.raises(KeyError, match="has no attribute 'slope'; it has"):
        op.attr("slope")
    assert repr(op).startswith("{Out=scale_0.tmp_0} = scale(X=x)")


def test_roles_say_what_an_operator_is_for():
    _, loss = linear_model()
    _, pairs = fluid.optimizer.SGD(layers.exponential_decay(0.1, 10, 0.5)).minimize(loss)
    ops = fluid.default_main_program().global_block().ops
    role = {op.type: op.attr("op_role") for op in ops}
    assert role["mul"] == core.OpRole.Forward
    assert role["mean"] == core.OpRole.Forward | core.OpRole.Loss
    assert role["mul_grad"] == core.OpRole.Backward
    assert role["sgd"] == core.OpRole.Optimize
    assert role["increment"] == core.OpRole.LRSched
    updates = {op.input("Param")[0]: op.attr("op_role_var") for op in ops if op.type == "sgd"}
    assert updates == {param.name: [param.name, grad.name] for param, grad in pairs}


def test_name_scope_is_kept_in_the_operators():
    x = layers.data("x", [2])
    with fluid.name_scope("encoder"):
        with fluid.name_scope("first"):
            layers.exp(x)
        layers.exp(x)
    layers.exp(x)
    ops = fluid.default_main_program().global_block().ops
    assert [op.attr("op_namescope") for op in ops[:2]] == ["/encoder/first/", "/encoder/"]
    assert not ops[2].has_attr("op_namescope") or ops[2].attr("op_namescope") == ""
    with pytest.raises(ValueError, match="a word without '/', got 'a/b'"):
        with fluid.name_scope("a/b"):
            pass


def test_a_program_prints_itself():
    layers.scale(layers.data("x", [4]), scale=2.0)
    assert str(fluid.default_main_program()) == ("x : float32[?, 4]\n"
                                                 "scale_0.tmp_0 : float32[?, 4] = scale(x) {scale=2.0}\n")


def test_bytes_and_back():
    linear_model()
    program = fluid.default_main_program()
    data = program.serialize_to_string()
    again = fluid.Program.parse_from_string(data)
    assert again.serialize_to_string() == data and str(again) == str(program)


def test_a_clone_for_tests_leaves_training_out():
    x, label = layers.data("x", [4]), layers.data("y", [1])
    hidden = layers.dropout(layers.fc(x, 4), 0.5)
    loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1), label))
    before = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    program = fluid.default_main_program()
    after = program.clone(for_test=True)
    assert types(after) == types(before)
    drop = next(op for op in after.global_block().ops if op.type == "dropout")
    assert drop.attr("is_test") is True
    assert not next(op for op in program.global_block().ops if op.type == "dropout").attr("is_test")
    assert not any("GRAD" in name or "velocity" in name for name in after.global_block().vars)
    assert [p.name for p in after.all_parameters()] == [p.name for p in program.all_parameters()]
    copy = program.clone()
    assert types(copy) == types(program) and copy.all_parameters()[0] is not program.all_parameters()[0]


def test_a_clone_works_on_the_same_values(exe):
    prediction, loss = linear_model()
    test = fluid.default_main_program().clone(for_test=True)
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((2, 3), "float32"), "y": np.zeros((2, 1), "float32")}
    a, = exe.run(feed=feed, fetch_list=[prediction])
    b, = exe.run(test, feed=feed, fetch_list=[prediction])
    assert np.array_equal(a, b)


def test_pruning_keeps_what_the_targets_need():
    prediction, _ = linear_model()
    pruned = fluid.default_main_program().prune([prediction])
    assert types(pruned) == ["mul", "elementwise_add"]
    assert set(pruned.global_block().vars) == {"x", "fc_0.w_0", "fc_0.b_0", "fc_0.tmp_0", "fc_0.tmp_1"}
    with pytest.raises(ValueError, match="no variable 'fc_0.tmp_7'; did you mean"):
        fluid.default_main_program().prune(["fc_0.tmp_7"])


def test_operators_that_the_core_adds_are_seen():
    _, loss = linear_model()
    block = fluid.default_main_program().global_block()
    assert not block.has_var("fc_0.w_0@GRAD")
    count = len(block.ops)
    fluid.backward.append_backward(loss)
    assert block.var("fc_0.w_0@GRAD").shape == (3, 1)
    assert len(block.ops) > count and block.ops[-1].type.endswith("_grad")


def test_renaming_reaches_the_operators():
    x = layers.data("x", [2])
    y = layers.exp(x)
    y.name = "answer"
    block = fluid.default_main_program().global_block()
    assert block.ops[-1].output("Out") == ["answer"] and block.var("answer") is y
    assert not block.has_var("exp_0.tmp_0")


def test_a_removed_operator_cannot_be_used():
    layers.exp(layers.data("x", [2]))
    block = fluid.default_main_program().global_block()
    op = block.ops[-1]
    block._remove_op(0)
    with pytest.raises(fluid.errors.InvalidArgumentError,
                       match=r"this OpDesc was removed from its program[^$]*your line: .*test_program.py"):
        op.type
    var = block.var("exp_0.tmp_0")
    block._remove_var("exp_0.tmp_0")
    with pytest.raises(fluid.errors.InvalidArgumentError, match="this VarDesc was removed from its program"):
        var.shape


def test_handles_are_unique():
    desc = core.ProgramDesc()
    block = desc.block(0)
    assert block is desc.block(0)
    assert block.var("a") is block.find_var("a") is block.all_vars()[0]
    assert block.find_var("b") is None
    child = desc.append_block(block)
    assert child.parent == 0 and desc.num_blocks() == 2
    op = core.OpDesc("fill_constant")
    op.set_output("Out", ["a"])
    op.set_attr("shape", [2])
    block.append_op(op)
    assert block.op(0) is op and op.attr("shape") == [2] and op.attr("value") == 0.0
    with pytest.raises(ValueError, match="is in a block already"):
        child.append_op(op)
    with pytest.raises(IndexError, match="has 2 blocks, there is no number 7"):
        desc.block(7)


def test_programs_and_executors_may_go_in_any_order():
    for _ in range(3):
        program, exe, scope = fluid.Program(), fluid.Executor(), fluid.Scope()
        with fluid.program_guard(program, fluid.Program()):
            y = layers.fill_constant([2], "float32", 3.0)
        kept, = exe.run(program, fetch_list=[y], scope=scope)
        del exe, scope
        gc.collect()
        del program, y
        gc.collect()
        assert kept.tolist() == [3.0, 3.0]


def test_the_protos_describe_every_operator():
    protos = {proto.type: proto for proto in core.get_all_op_protos()}
    assert set(protos) == set(core.op_types())
    mul = protos["mul"]
    assert [slot.name for slot in mul.inputs] == ["X", "Y"] and [slot.name for slot in mul.outputs] == ["Out"]
    assert mul.attrs["x_num_col_dims"].default == "1" and mul.attrs["x_num_col_dims"].range
    assert mul.has_grad and mul.comment
    assert mul.serialize_to_string().startswith(b"\n\x03mul")


def test_operators_are_read_at_once_as_they_are_one_by_one():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.layers.data("x", [4])
        y = fluid.layers.fc([x, x], 3, act="relu")
        fluid.layers.concat([y, fluid.layers.scale(y, 1 / 3, bias=-0.5)], axis=1)
        fluid.layers.split(y, 3, dim=1)
        with_zero = program.global_block().append_op(type="assign", inputs={"X": x}, outputs={"Out": "z"})
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(y))
    with_zero.desc.set_attr("op_namescope", "a\0b")
    block = program.global_block()
    for index, (view, op) in enumerate(zip(block.read_ops(), block.ops, strict=True)):
        assert (view.index, view.type, view.role, repr(view)) == (index, op.type, op.role, repr(op))
        assert (view.inputs, view.outputs) == (op.desc.inputs(), op.desc.outputs())
        assert (view.input_arg_names, view.output_arg_names) == (op.input_arg_names, op.output_arg_names)
        assert view.attrs == {name: value for name, value in op.all_attrs().items() if name != "op_callstack"}
        assert view.block_attrs == op.block_attrs


def _three_operators():
    program = fluid.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[2, 3], dtype="float32")
    ops = [("scale", {"X": ["x"]}, {"Out": ["y"]}, {"scale": 1 / 3, "bias_after_scale": False, "op_role": 1}),
           ("concat", {"X": ["x", "y"]}, {"Out": ["z"]}, {"axis": 0, "op_role": 4}),
           ("reshape", {"X": ["z"]}, {"Out": ["é"]}, {"shape": [-1, 2], "op_namescope": "/a b/", "op_role": 0})]
    return program, block, ops


def test_operators_are_appended_at_once_as_one_by_one():
    one_by_one, block, ops = _three_operators()
    for op in ops:
        block.append_op(*op)
    at_once, block, ops = _three_operators()
    assert len(block.ops) == 0 and block.read_ops() == []
    block._append_ops(ops)
    line = r"test_program.py:\d+"
    assert re.sub(line, "", str(at_once)) == re.sub(line, "", str(one_by_one))
    assert [op.desc.attr("op_callstack") for op in block.ops] == [block.ops[0].desc.attr("op_callstack")] * 3
    assert [view.type for view in block.read_ops()] == [op.type for op in block.ops] == ["scale", "concat", "reshape"]
    assert block.var("é").shape == (6, 2) and list(block.vars) == ["x", "y", "z", "é"]


def test_an_operator_that_is_refused_ends_the_appending():
    _, block, ops = _three_operators()
    with pytest.raises(fluid.core.EnforceNotMet, match="concat"):
        block._append_ops([ops[0], (*ops[1][:3], {"axis": 7}), ops[2]])
    assert [op.type for op in block.ops] == ["scale"]
    with pytest.raises(fluid.core.EnforceNotMet, match=r"'a\\x00b' is no possible name"):
        block._append_ops([("scale", {"X": ["x"]}, {"Out": ["a\0b"]}, {})])
    with pytest.raises(TypeError, match="not a whole number"):
        block._append_ops([("concat", {"X": ["x"]}, {"Out": ["w"]}, {"axis": 0.5})])


def test_a_damaged_text_of_operators_is_refused():
    from trireme.program.op_words import joined, op_words

    whole = joined(op_words("scale", {"X": ["x"]}, {"Out": ["y"]}, {"scale": 2.0, "op_role_var": ["a", "b"]}))
    for damaged in [whole[:cut] for cut in range(1, len(whole))] + [whole.replace(b"2.0", b"two"), b"scale\x00-1\x00",
                                                                    whole.replace(b"\x005\x002\x00a", b"\x0077\x002\x00a")]:
        block = fluid.Program().global_block()
        block.create_var(name="x", shape=[2], dtype="float32")
        with pytest.raises(fluid.core.FormatError, match="the text of operators is damaged at byte"):
            block.desc.append_ops(damaged)
        assert block.desc.op_size() == 0


def test_views_of_operators_follow_every_change():
    program = fluid.Program()
    block = program.global_block()

    def seen():
        for one in (block, program.clone().global_block()):
            assert [(repr(view), view.role, view.index) for view in one.read_ops()] == [
                (repr(op), op.role, index) for index, op in enumerate(one.ops)]
        return [view.output_arg_names for view in block.read_ops()]

    block.create_var(name="x", shape=[2], dtype="float32")
    for out in "abc":
        block.append_op(type="scale", inputs={"X": "x"}, outputs={"Out": out}, attrs={"scale": 2.0})
        seen()
    block.prepend_op(type="scale", inputs={"X": "x"}, outputs={"Out": "first"})
    assert seen() == [["first"], ["a"], ["b"], ["c"]]
    block.ops[1]._set_attr("scale", 3.0)
    assert seen() and block.read_ops()[1].attr("scale") == 3.0
    block._arrange([3, 1, 0])
    assert seen() == [["c"], ["a"], ["first"]]
    block._remove_op(1)
    block._rename_vars({"c": "d"})
    assert seen() == [["d"], ["first"]]


def test_a_variable_that_exists_is_not_declared_again():
    desc = fluid.Program().global_block().desc
    desc.declare_var("v", fluid.core.VarType.LOD_TENSOR, fluid.core.VarType.FP32, [-1, 3], persistable=True)
    var = desc.find_var("v")
    assert (var.shape(), var.dtype(), var.persistable()) == ([-1, 3], fluid.core.VarType.FP32, True)
    with pytest.raises(fluid.core.ExistsError, match="has a variable 'v' already"):
        desc.declare_var("v", fluid.core.VarType.LOD_TENSOR, None, [])
    with pytest.raises(fluid.core.ShapeError, match="'w': dimension 0 is -2"):
        desc.declare_var("w", fluid.core.VarType.LOD_TENSOR, None, [-2])
    assert desc.find_var("w") is None
