"""Metrics of a whole job: what trainer 0 finds is printed as one line."""

import json

import numpy as np

import trireme as fluid

distributed = fluid.distributed
rng = np.random.default_rng(5)
batches = [(rng.random((12, 2), "float32"), rng.integers(0, 2, (12, 1))) for _ in range(6)]
x, label = fluid.layers.data("x", [2]), fluid.layers.data("label", [1], dtype="int64")
shown = fluid.layers.softmax(x * 3.0)
area, _, states = fluid.layers.auc(shown, label)
loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(x, 2, act="softmax"), label))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
auc, precision, both = fluid.metrics.Auc(), fluid.metrics.Precision(), fluid.metrics.CompositeMetric()
for metric in (fluid.metrics.Precision(), fluid.metrics.Recall()):
    both.add_metric(metric)
for rows, labels in batches:
    rows, labels = (distributed.slice_of(part, distributed.trainer_index(), distributed.trainer_count()) for part in (rows, labels))
    own, = exe.run(feed={"x": rows, "label": labels}, fetch_list=[shown])
    for metric in (auc, precision, both):
        metric.update(own[:, 1], labels)
found = {"auc": distributed.merge_metric(auc).eval(), "precision": distributed.merge_metric(precision).eval(),
         "both": distributed.merge_metric(both).eval(), "layer": distributed.merge_auc(states)}
alone = auc.eval()
if distributed.trainer_index() == 0:
    print(json.dumps(found), flush=True)
    print(f"own {alone}", flush=True)
