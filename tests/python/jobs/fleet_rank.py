"""Pairwise ranking in the manner of public scripts of Fleet: two towers that share their weights, and a program compiled for threads.

fleet_rank.py MODE FOLDER: saves the tower in FOLDER/tower.
"""

import os
import sys

import numpy as np

import trireme as fluid
from trireme.incubate.fleet.base.role_maker import MPISymetricRoleMaker
from trireme.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet


def tower(query, title):
    both = []
    for name, ids in (("query", query), ("title", title)):
        rows = fluid.layers.embedding(input=ids, size=[100, 8], is_sparse=True, param_attr=fluid.ParamAttr(name="words"))
        pooled = fluid.layers.sequence_pool(input=rows, pool_type="average")
        both.append(fluid.layers.fc(input=pooled, size=8, act="tanh", param_attr=fluid.ParamAttr(name=f"{name}_w"),
                                    bias_attr=fluid.ParamAttr(name=f"{name}_b")))
    return fluid.layers.cos_sim(*both)


def network():
    query, good, bad = (fluid.layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in ("query", "good", "bad"))
    better, worse = tower(query, good), tower(query, bad)
    ones = fluid.layers.fill_constant_batch_size_like(better, shape=[-1, 1], value=1.0, dtype="float32")
    cost = fluid.layers.reduce_mean(fluid.layers.margin_rank_loss(ones, left=better, right=worse, margin=0.4))
    right = fluid.layers.reduce_mean(fluid.layers.cast(fluid.layers.less_than(worse, better), "float32"))
    return [query, good, bad], better, cost, right


def batch(random):
    """Titles that fit have words of the query's topic."""
    topics = random.randint(10, size=(16, 1))

    def words(topic):
        lengths = random.randint(1, 5, size=16)
        rows = np.concatenate([topic[i] * 10 + random.randint(10, size=(n, 1)) for i, n in enumerate(lengths)])
        return fluid.create_lod_tensor(rows.astype("int64"), [lengths.tolist()], fluid.CPUPlace())
    return {"query": words(topics), "good": words(topics), "bad": words((topics + random.randint(1, 10, size=(16, 1))) % 10)}


def train(mode, folder):
    inputs, score, cost, right = network()
    fleet.init(MPISymetricRoleMaker())
    made = {"sync": StrategyFactory.create_sync_strategy, "async": StrategyFactory.create_async_strategy,
            "geo": lambda: StrategyFactory.create_geo_strategy(4)}[mode]()
    optimizer = fleet.distributed_optimizer(fluid.optimizer.Adagrad(learning_rate=0.2), made)
    optimizer.minimize([cost])
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fluid.default_startup_program())
    compiled = fluid.CompiledProgram(fleet.main_program).with_data_parallel(
        loss_name=cost.name, build_strategy=made.get_build_strategy(), exec_strategy=made.get_execute_strategy())
    random = np.random.RandomState(fleet.worker_index())
    seen = []
    for _ in range(60):
        value, share = exe.run(compiled, feed=batch(random), fetch_list=[cost.name, right.name])
        seen.append((np.mean(value), np.mean(share)))
    (first, _), (last, share) = np.mean(seen[:5], axis=0), np.mean(seen[-10:], axis=0)
    total = np.zeros(1)
    fleet.all_reduce_worker(np.array([share]), total)
    fleet.barrier_worker()
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()}: cost {first:.3f}, then {last:.3f}; "
          f"{total[0] / fleet.worker_num():.2f} in order")
    if fleet.is_first_worker():
        fleet.save_inference_model(exe, os.path.join(folder, "tower"), ["query", "good"], [score], fleet._origin_program)
    fleet.stop_worker()


if __name__ == "__main__":
    train(*sys.argv[1:3])
