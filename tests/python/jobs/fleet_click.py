"""A click model in the manner of public scripts of Fleet: files of its own for each trainer, a command that reads them, a strategy by name.

fleet_click.py MODE FOLDER: trains on FOLDER/part-*, and saves a model and all parameters there.
"""

import glob
import os
import sys

import trireme as fluid
from trireme.incubate.fleet.base import role_maker
from trireme.incubate.fleet.parameter_server.distribute_transpiler import fleet
from trireme.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

STRATEGIES = {"sync": StrategyFactory.create_sync_strategy, "async": StrategyFactory.create_async_strategy,
              "half_async": StrategyFactory.create_half_async_strategy, "geo": lambda: StrategyFactory.create_geo_strategy(5)}


def network():
    words = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    weight = fluid.layers.data(name="weight", shape=[1], dtype="float32")
    click = fluid.layers.data(name="click", shape=[1], dtype="int64")
    rows = fluid.layers.embedding(input=words, size=[1000, 8], is_sparse=True,
                                  param_attr=fluid.ParamAttr(name="words_emb", initializer=fluid.initializer.Uniform(-0.1, 0.1)))
    pooled = fluid.layers.sequence_pool(input=rows, pool_type="sum")
    hidden = fluid.layers.fc(input=fluid.layers.concat([pooled, weight], axis=1), size=16, act="relu")
    predict = fluid.layers.fc(input=hidden, size=2, act="softmax")
    cost = fluid.layers.reduce_mean(fluid.layers.cross_entropy(input=predict, label=click))
    return [words, weight, click], predict, cost


def dataset(inputs, files):
    data = fluid.DatasetFactory().create_dataset("QueueDataset")
    data.set_use_var(inputs)
    data.set_batch_size(16)
    data.set_thread(1)
    data.set_pipe_command(f"{sys.executable} {os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fleet_lines.py')}")
    data.set_filelist(files)
    return data


def mean_cost(exe, program, cost, inputs, files):
    values = [exe.run(program, feed=batch, fetch_list=[cost])[0].item() for batch in dataset(inputs, files)]
    return sum(values) / len(values)


def train(mode, folder):
    inputs, predict, cost = network()
    test_program = fluid.default_main_program().clone(for_test=True)
    fleet.init(role_maker.PaddleCloudRoleMaker())
    optimizer = fleet.distributed_optimizer(fluid.optimizer.Adam(learning_rate=0.02), STRATEGIES[mode]())
    optimizer.minimize(cost)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    files = fleet.split_files(sorted(glob.glob(os.path.join(folder, "part-*"))))
    before = mean_cost(exe, test_program, cost, inputs, files)
    for _ in range(4):
        exe.train_from_dataset(program=fleet.main_program, dataset=dataset(inputs, files), fetch_list=[cost], fetch_info=["cost"],
                               print_period=1000, debug=False)
    after = mean_cost(exe, test_program, cost, inputs, files)
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()}, {len(files)} files: cost {before:.3f}, then {after:.3f}")
    if fleet.is_first_worker():
        fleet.save_persistables(exe, os.path.join(folder, "all"))
        fleet.save_inference_model(exe, os.path.join(folder, "model"), ["words", "weight"], [predict])
    fleet.stop_worker()


if __name__ == "__main__":
    train(*sys.argv[1:3])
