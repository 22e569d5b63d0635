"""Rows of tables that come from elsewhere: by key, from a dense embedding, and into one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trireme as fluid

WORDS = np.arange(40, dtype="float32").reshape(10, 4)
IDS = {"ids": np.array([[3], [9]])}


def net(is_table: bool, optimizer: fluid.optimizer.Optimizer | None = None,
        **how: object) -> tuple[fluid.Program, fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        rows = fluid.layers.embedding(fluid.layers.data("ids", [1], dtype="int64"), [10, 4], is_distributed=is_table,
                                      param_attr=fluid.ParamAttr(name="words", **how))
        loss = fluid.layers.mean(rows)
        test = main.clone(for_test=True)
        (optimizer or fluid.optimizer.SGD(0.1)).minimize(loss)
    return main, startup, test, rows


@pytest.fixture(autouse=True)
def scope() -> object:
    with fluid.scope_guard(fluid.Scope()):
        yield


def test_rows_by_key_are_those_that_were_given_and_train_from_there() -> None:
    exe = fluid.Executor()
    values = {}
    for is_table in (True, False):
        with fluid.scope_guard(fluid.Scope()):
            main, startup, test, rows = net(is_table, fluid.optimizer.Adagrad(0.1), initializer=fluid.initializer.Constant(2.0))
            exe.run(startup)
            if is_table:
                fluid.io.set_table_rows("words", [9, 1 << 40], WORDS[:2])
            else:
                fluid.global_scope().find_var("words").get_tensor().set(np.concatenate([np.full((9, 4), 2, "float32"), WORDS[:1]]))
            for _ in range(3):
                exe.run(main, feed=IDS)
            values[is_table], = exe.run(test, feed=IDS, fetch_list=[rows])
            if is_table:
                assert exe.run(test, feed={"ids": np.array([[1 << 40]])}, fetch_list=[rows])[0].tolist() == [WORDS[1].tolist()]
    assert values[True].tobytes() == values[False].tobytes()


@pytest.mark.parametrize("row_dtype", ["float32", "float16", "bfloat16"])
def test_rows_by_key_are_rounded_to_the_tables_type(row_dtype: str) -> None:
    ids = fluid.layers.data("ids", [1], dtype="int64")
    rows = fluid.layers.embedding(ids, [10, 4], is_distributed=True, param_attr="words", row_dtype=row_dtype)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.set_table_rows("words", np.arange(10), WORDS)
    assert exe.run(feed=IDS, fetch_list=[rows])[0].tolist() == WORDS[[3, 9]].tolist()


def test_mistakes_of_rows_by_key_are_explained() -> None:
    exe = fluid.Executor()
    _, startup, _, _ = net(True)
    with pytest.raises(fluid.core.TriremeError, match="the scope has no sparse table 'words': run the startup program"):
        fluid.io.set_table_rows("words", [1], WORDS[:1])
    exe.run(startup)
    with pytest.raises(fluid.core.TriremeError, match="2 rows of 4 numbers are wanted for 'words', got float32\\[1, 4\\]"):
        fluid.io.set_table_rows("words", [1, 2], WORDS[:1])
    with pytest.raises(fluid.core.TriremeError, match="keys must be different integers"):
        fluid.io.set_table_rows("words", [1, 1], WORDS[:2])
    with pytest.raises(fluid.core.TriremeError, match=r"fluid.io.set_table_rows\('words', np.arange\(len\(rows\)\), rows\)"):
        net(True, initializer=fluid.initializer.NumpyArrayInitializer(WORDS))


def test_a_dense_embedding_is_loaded_into_a_table(tmp_path: Path) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        main, startup, _, _ = net(False, initializer=fluid.initializer.NumpyArrayInitializer(WORDS))
        exe.run(startup)
        fluid.io.save_params(exe, str(tmp_path), main)
    main, startup, test, rows = net(True)
    exe.run(startup)
    fluid.io.load_params(exe, str(tmp_path), main)
    assert exe.run(test, feed=IDS, fetch_list=[rows])[0].tolist() == WORDS[[3, 9]].tolist()


def test_a_table_is_loaded_into_a_dense_embedding(tmp_path: Path) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        main, startup, _, _ = net(True, initializer=fluid.initializer.Constant(2.0))
        exe.run(startup)
        fluid.io.set_table_rows("words", [3], WORDS[3:4])
        fluid.io.save_params(exe, str(tmp_path), main)
    main, startup, test, rows = net(False)
    exe.run(startup)
    fluid.io.load_params(exe, str(tmp_path), main)
    assert exe.run(test, feed=IDS, fetch_list=[rows])[0].tolist() == [WORDS[3].tolist(), [2.0] * 4]
