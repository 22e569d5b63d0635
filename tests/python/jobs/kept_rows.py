"""A trainer whose rows count updates: what it reads of a row says which updates were in it. Into a file for each trainer."""

import argparse

import numpy as np

import trireme as fluid
from trireme._core import ffi, lib
from trireme.job.session import session

STEPS, WIDTH = 40, 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=int)
    parser.add_argument("--zipf", action="store_true", help="many keys, some of them frequent")
    parser.add_argument("--out")
    args = parser.parse_args()
    job = fluid.distributed
    job.set_row_cache(rows=3000, staleness=args.keep)
    keys = fluid.layers.data("keys", [1], dtype="int64")
    who = fluid.layers.data("who", [WIDTH])
    rows = fluid.layers.embedding(keys, [10**6, WIDTH], is_distributed=True,
                                  param_attr=fluid.ParamAttr("counts", initializer=fluid.initializer.Constant(0.0)))
    # Of the mean over a batch of n rows: each row that is used moves by 1 in the column of its trainer.
    loss = fluid.layers.mean(fluid.layers.reduce_sum(rows * who, dim=1))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    me, random, read = job.trainer_index(), np.random.RandomState(job.trainer_index() + 1), []
    for _ in range(STEPS):
        used = random.zipf(1.3, (500, 1)) if args.zipf else np.full((1, 1), 7)
        one = np.zeros((len(used), WIDTH), "float32")
        one[:, me] = -len(used)
        read.append(exe.run(feed={"keys": used, "who": one}, fetch_list=[rows])[0][0])
    last, = exe.run(test, feed={"keys": np.full((1, 1), 7), "who": np.zeros((1, WIDTH), "float32")}, fetch_list=[rows])
    stats = ffi.new("tr_job_stats *")
    lib.tr_job_get_stats(session.native_job, stats)
    read, steps = np.array(read), np.arange(STEPS)
    others = [i for i in range(job.trainer_count()) if i != me]
    lag = steps - read[:, me]
    # Another trainer is at most where it is; it may have left early, but not before its last step.
    behind = (steps - read[:, others].min(1)).clip(0) if others else np.zeros(STEPS)
    np.savez(f"{args.out}.{me}.npz", read=read, last=last[0], lag=lag, others=behind, cached=stats.rows_cached, wanted=stats.rows_wanted,
             bytes=stats.bytes_received)


if __name__ == "__main__":
    main()
