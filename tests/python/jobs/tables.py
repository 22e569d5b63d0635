"""A click model over sparse tables, in one process or in a job: losses, and rows looked up at the end, into a file."""

import argparse
import os
import signal
import time
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme import checkpoint
from trireme._core import ffi, lib
from trireme.job.session import session

OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(0.3),
    "momentum": lambda: fluid.optimizer.Momentum(0.05, 0.9),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.1, initial_accumulator_value=0.1),
    "adam": lambda: fluid.optimizer.Adam(fluid.layers.exponential_decay(0.05, 3, 0.8)),
    "decayed": lambda: fluid.optimizer.Adagrad(0.1, regularization=fluid.regularizer.L2Decay(0.01)),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.02),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1, l1=0.01),
}
CLIPS = {"value": fluid.clip.GradientClipByValue, "norm": fluid.clip.GradientClipByNorm, "global": fluid.clip.GradientClipByGlobalNorm}
KEYS = np.array([0, 1, 2, 3, -1, -7, 2**62 + 5, -2**63, 2**63 - 1, 12345678901, 99, -99], np.int64)


def batches(steps, size, count):
    """``count``: so many keys more, each of which is used now and then."""
    random = np.random.RandomState(5)
    for step in range(steps):
        rows = size - step % 3
        words = random.choice(KEYS, (rows, 3, 1))                               # repeated keys in plenty
        if count:
            words = np.where(random.rand(*words.shape) < 0.5, random.randint(1000, 1000 + count, words.shape), words)
        yield {"words": words,
               "user": random.choice(KEYS, (rows, 1)) * 3 + step % 2,
               "clicked": random.rand(rows, 1).astype("float32")}


def build(args):
    words = fluid.layers.data("words", [3, 1], dtype="int64")
    user = fluid.layers.data("user", [1], dtype="int64")
    clicked = fluid.layers.data("clicked", [1])
    options = dict(is_sparse=True, is_distributed=True, row_dtype=args.row_dtype, entry_count=args.entry_count, max_age=args.max_age,
                   entry_probability=args.entry_probability, keep_count=args.keep_count, max_rows=args.max_rows)
    first = fluid.layers.embedding(words, [1000, 6], param_attr=fluid.ParamAttr("words.table", learning_rate=0.5), padding_idx=2,
                                   **options)
    # A second lookup of the same table, and a table of another width.
    again = fluid.layers.embedding(user, [1000, 6], param_attr=fluid.ParamAttr("words.table"), padding_idx=2, **options)
    other = fluid.layers.embedding(user, [1000, 3], is_distributed=True,
                                   param_attr=fluid.ParamAttr("user.table", initializer=fluid.initializer.Normal(0.0, 0.2)))
    joined = fluid.layers.concat([fluid.layers.reshape(first, [-1, 18]), again, other], axis=1)
    hidden = fluid.layers.fc(joined, 8, act="tanh")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), clicked))
    test = fluid.default_main_program().clone(for_test=True)
    if args.clip:
        fluid.clip.set_gradient_clip(CLIPS[args.clip](args.limit))
    OPTIMIZERS[args.optimizer]().minimize(loss)
    return loss, test, [first, other]


def wait_for_checkpoint(step):
    end = time.monotonic() + 30
    while checkpoint.steps(os.environ["TRIREME_CHECKPOINT"])[:1] < [step // 3 * 3] and time.monotonic() < end:
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", default="sgd", choices=OPTIMIZERS)
    parser.add_argument("--clip", choices=CLIPS)
    parser.add_argument("--limit", type=float, default=0.02)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=9)
    parser.add_argument("--row-dtype", default="float32")
    parser.add_argument("--entry-count", type=int, default=0)
    parser.add_argument("--max-age", type=int, default=0)
    parser.add_argument("--entry-probability", type=float, default=1.0)
    parser.add_argument("--keep-count", type=int, default=0)
    parser.add_argument("--max-rows", type=int, default=0)
    parser.add_argument("--rare", type=int, default=0, help="so many keys more, each used now and then")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--row-cache", type=int, nargs=2, default=[0, 0], metavar=("ROWS", "STALENESS"))
    parser.add_argument("--ahead", action="store_true")
    parser.add_argument("--mark", type=Path)           # made after the first step
    parser.add_argument("--report", type=Path)         # trainer 0 alone
    parser.add_argument("--save")
    parser.add_argument("--load")
    parser.add_argument("--checkpoints")               # folder: one process goes on from the newest, keeping one after each step
    parser.add_argument("--ask", type=int, metavar="KEEP")     # after every third step one of the script's own, where the job keeps its own
    parser.add_argument("--kill", type=int)            # trainer 0 dies before this step, the first time
    parser.add_argument("--out")
    args = parser.parse_args()

    fluid.distributed.set_row_cache(*args.row_cache)
    fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 11
    loss, test, looked_up = build(args)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    if args.load:
        fluid.io.load_persistables(exe, args.load)
    job, losses, first = fluid.distributed, [], 0
    if args.checkpoints and checkpoint.steps(args.checkpoints):
        first = fluid.io.load_checkpoint(exe, args.checkpoints).step
    mine = ((step, job.slice_of(batch, job.trainer_index(), job.trainer_count()))
            for step, batch in enumerate(batches(args.steps, args.batch, args.rare)) if step >= first)
    for step, feed in job.prefetched(mine, lambda item: item[1]) if args.ahead else mine:
        if step == args.kill and job.trainer_index() == 0 and os.environ.get("TRIREME_ATTEMPT", "0") == "0":
            wait_for_checkpoint(step)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(args.pause)
        losses.append(float(exe.run(feed=feed, fetch_list=[loss])[0][0]))
        if args.mark:
            args.mark.touch()
        if args.checkpoints:
            fluid.io.save_checkpoint(exe, args.checkpoints)
        if args.ask is not None and step % 3 == 0:
            fluid.io.save_checkpoint(exe, os.environ["TRIREME_CHECKPOINT"], step=step + 1, keep=args.ask)
    if args.save:
        fluid.io.save_persistables(exe, args.save)
    every = {"words": np.repeat(KEYS[:, None, None], 3, 1), "user": KEYS[:, None] * 3,
             "clicked": np.zeros((len(KEYS), 1), "float32")}
    if args.report and job.trainer_index() == 0:
        reports = fluid.distributed.table_report()
        assert str(reports[0]).count("\n") >= 2 + len(reports[0].parts), str(reports[0])
        parts = [[(part.rows, part.row_bytes, part.value_bytes, part.state_bytes) for part in report.parts] for report in reports]
        args.report.write_text(repr([(report.name, report.hot_keys, np.sum(part, 0).tolist(), len(part))
                                     for report, part in zip(reports, parts)]))
    rows = exe.run(test, feed=every, fetch_list=looked_up)
    stats = ffi.new("tr_job_stats *")
    if session.native_job:
        lib.tr_job_get_stats(session.native_job, stats)
    if args.out and job.trainer_index() == 0:
        np.savez(args.out, losses=losses, words=rows[0], user=rows[1], wanted=stats.rows_wanted, ahead=stats.rows_ahead,
                 cached=stats.rows_cached, fc=np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor()))


if __name__ == "__main__":
    main()
