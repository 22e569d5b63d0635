"""Skip-gram with negative samples in the manner of public scripts of Fleet: a reader, DataFeeder, and Fluid's flags of a transpiler.

fleet_word2vec.py MODE FOLDER: saves the words' vectors in FOLDER/vectors.
"""

import os
import sys

import numpy as np

import trireme as fluid
import trireme.incubate.fleet.base.role_maker as role_maker
from trireme.incubate.fleet.parameter_server.distribute_transpiler import fleet
from trireme.transpiler.distribute_transpiler import DistributeTranspilerConfig

WORDS, NEGATIVES, SIZE = 60, 4, 8


def strategy(mode):
    config = DistributeTranspilerConfig()
    config.sync_mode = mode == "sync"
    config.runtime_split_send_recv = mode != "sync"
    config.geo_sgd_mode = mode == "geo"
    config.geo_sgd_need_push_nums = 8
    config.min_block_size = 128                         # so that the small table is cut
    return config


def skip_gram():
    word, context = (fluid.layers.data(name=name, shape=[1], dtype="int64") for name in ("word", "context"))
    others = fluid.layers.data(name="others", shape=[NEGATIVES, 1], dtype="int64")
    first = fluid.initializer.Uniform(-0.5, 0.5)
    vector = fluid.layers.embedding(word, size=[WORDS, SIZE], is_sparse=True, param_attr=fluid.ParamAttr(name="emb", initializer=first))
    right = fluid.layers.embedding(context, size=[WORDS, SIZE], is_sparse=True, param_attr=fluid.ParamAttr(name="emb_w", initializer=first))
    wrong = fluid.layers.embedding(others, size=[WORDS, SIZE], is_sparse=True, param_attr=fluid.ParamAttr(name="emb_w", initializer=first))
    good = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(vector, right), dim=1, keep_dim=True)
    bad = fluid.layers.reshape(fluid.layers.matmul(wrong, fluid.layers.unsqueeze(vector, axes=[2])), shape=[-1, NEGATIVES])
    ones = fluid.layers.fill_constant_batch_size_like(good, shape=[-1, 1], value=1.0, dtype="float32")
    zeros = fluid.layers.fill_constant_batch_size_like(good, shape=[-1, NEGATIVES], value=0.0, dtype="float32")
    cost = fluid.layers.elementwise_add(
        fluid.layers.reduce_sum(fluid.layers.sigmoid_cross_entropy_with_logits(good, ones), dim=1),
        fluid.layers.reduce_sum(fluid.layers.sigmoid_cross_entropy_with_logits(bad, zeros), dim=1))
    return [word, context, others], fluid.layers.reduce_mean(cost)


def pairs(worker):
    """A language in which words of one topic of ten stand beside each other."""
    random = np.random.RandomState(worker)

    def reader():
        for _ in range(3000):
            word = random.randint(WORDS)
            yield [word], [word // 10 * 10 + random.randint(10)], random.randint(WORDS, size=(NEGATIVES, 1))
    return reader


def train(mode, folder):
    inputs, cost = skip_gram()
    fleet.init(role_maker.UserDefinedRoleMaker(current_id=fluid.distributed.trainer_index(), role=role_maker.Role.WORKER,
                                               worker_num=fluid.distributed.trainer_count(), server_endpoints=[]))
    optimizer = fleet.distributed_optimizer(fluid.optimizer.Adagrad(learning_rate=0.5), strategy(mode))
    optimizer.minimize(cost)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    elif fleet.is_worker():
        fleet.init_worker()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fleet.startup_program)
        feeder = fluid.DataFeeder(feed_list=inputs, place=fluid.CPUPlace())
        costs = [exe.run(fleet.main_program, feed=feeder.feed(batch), fetch_list=[cost])[0].item()
                 for batch in fluid.batch(pairs(fleet.worker_index()), batch_size=50)()]
        print(f"worker {fleet.worker_index()} of {fleet.worker_num()}: cost {np.mean(costs[:5]):.3f}, then {np.mean(costs[-5:]):.3f}")
        if fleet.is_first_worker():
            fleet.save_persistables(executor=exe, dirname=os.path.join(folder, "vectors"))
        fleet.stop_worker()


if __name__ == "__main__":
    train(*sys.argv[1:3])
