"""A net over a dataset: written as a job (--write), or trained by this process, alone or as a trainer of a job."""

import argparse

import trireme as fluid
from trireme._core import ffi, lib
from trireme.distributed import transpiler
from trireme.job.session import session

parser = argparse.ArgumentParser()
parser.add_argument("--print", type=int, default=3, dest="period", help="steps between two lines of a saved job")
parser.add_argument("data")
parser.add_argument("--write", help="the job's file")
parser.add_argument("--servers", type=int, nargs="*", default=[])
parser.add_argument("--mode")
parser.add_argument("--split", default="batches")
parser.add_argument("--debug", action="store_true")
parser.add_argument("--save", help="folder for the parameters")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--optimizer", default="adam")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--table", action="store_true")
parser.add_argument("--by-variable", action="store_true",
                    help="the text of earlier jobs: rows are looked up in the table's variable, and a server's gradient has no name")
parser.add_argument("--width", type=int, default=9)
parser.add_argument("--compress")
parser.add_argument("--pipe")
parser.add_argument("--lease", type=float, default=300.0)
parser.add_argument("--in-memory", action="store_true")
args = parser.parse_args()

if args.by_variable:
    transpiler._pull_rows = lambda program, tables: None
    copy_update = transpiler.copy_update

    def without_gradient(op, program, *how):
        copy_update(op, program, *how)
        block = program.global_block()
        block.desc.op(block.desc.op_size() - 1).set_input("Grad", [])

    transpiler.copy_update = without_gradient
if args.compress:
    fluid.distributed.set_compression(args.compress)
fluid.default_startup_program().random_seed = 5
fluid.default_main_program().random_seed = 5
x = fluid.layers.data("x", [6])
words = fluid.layers.data("words", [1], dtype="int64", lod_level=1)
label = fluid.layers.data("label", [1], dtype="int64")
pooled = fluid.layers.sequence_pool(fluid.layers.embedding(words, [40, 6], is_distributed=args.table), "sum")
hidden = fluid.layers.fc([x, pooled], args.width, act="tanh")
if args.dropout:
    hidden = fluid.layers.dropout(hidden, args.dropout)
loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(hidden, 5, act="softmax"), label))
{"adam": lambda: fluid.optimizer.Adam(fluid.layers.exponential_decay(0.05, 5, 0.7)),
 "dgc": lambda: fluid.optimizer.DGCMomentumOptimizer(0.05, 0.9, 2, 4, [0.75, 0.99]),
 "sgd": lambda: fluid.optimizer.SGD(0.1)}[args.optimizer]().minimize(loss)
data = fluid.Dataset(args.data, slots=[label, x, words], batch_size=12, split=args.split, threads=2, task_bytes=2000,
                     lease=args.lease, pipe_command=args.pipe)

if args.write:
    fluid.io.save_job(args.write, data, fetch_list=[loss], fetch_info=["cost"], print_period=args.period, epochs=args.epochs,
                      servers=args.servers, mode=args.mode, in_memory=args.in_memory,
                      shuffle_seed=7 if args.in_memory else None, save_folder=args.save)
else:
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    for epoch in range(args.epochs) if args.in_memory else [None]:
        if args.in_memory:
            if epoch == 0:
                data.load_into_memory()
            data.local_shuffle(seed=7 + epoch)
        exe.train_from_dataset(dataset=data, epochs=1 if args.in_memory else args.epochs, fetch_list=[loss],
                               fetch_info=["cost"], print_period=3, debug=args.debug)
    if args.table and session.native_job:
        stats = ffi.new("tr_job_stats *")
        lib.tr_job_get_stats(session.native_job, stats)
        print(f"{stats.rows_ahead} of {stats.rows_wanted} rows ahead", flush=True)
    if args.save:
        fluid.io.save_params(exe, args.save)
