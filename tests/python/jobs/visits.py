"""A training whose data lie in a store: one large sparse table, loops of the core over tasks of text, and nothing else that is shared."""

import argparse
import os
import time

import trireme as fluid
from trireme import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("data", help="a pattern of URIs: a line is ids between spaces, a comma, and 0 or 1")
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--batch", type=int, default=20)
parser.add_argument("--task-bytes", type=int, default=8000)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--print", type=int, default=2, help="steps between two lines")
parser.add_argument("--halt", action="store_true", help="in the first start trainer 0 goes on to the second checkpoint, and no further")
args = parser.parse_args()

fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
label = fluid.layers.data("label", [1])
rows = fluid.layers.embedding(ids, [1 << 40, args.width], is_distributed=True,
                              param_attr=fluid.ParamAttr("visits", initializer=fluid.initializer.Uniform(-0.1, 0.1)))
hidden = fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 16, act="tanh")
loss = fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(fluid.layers.fc(hidden, 1), label))
fluid.optimizer.Adagrad(0.05).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())


class Halt(fluid.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        is_ours = args.halt and os.environ["TRIREME_ATTEMPT"] == "0" and fluid.distributed.trainer_index() == 0
        if is_ours and len(checkpoint.steps(os.environ["TRIREME_CHECKPOINT"])) > 1:
            print("two checkpoints are there", flush=True)
            time.sleep(3600)


data = fluid.Dataset(args.data, "csv", batch_size=args.batch, slots=[ids, label], split="tasks", task_bytes=args.task_bytes)
exe.train_from_dataset(dataset=data, epochs=args.epochs, fetch_list=[loss], fetch_info=["loss"], print_period=args.print,
                       callbacks=[Halt()])
