"""What belongs before the first step is said after it: prints how each is refused, and the loss of the next step."""

import sys

import numpy as np

import trireme as fluid
from trireme.errors import InvalidArgumentError

distributed = fluid.distributed
x = fluid.layers.data("x", [4])
hidden = fluid.layers.mean(fluid.layers.fc(x, 3))
loss = fluid.layers.mean(fluid.layers.square(hidden))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
distributed.set_mode("async")
distributed.all_mean(loss)
feed = {"x": np.ones((2, 4), "float32")}
exe.run(feed=feed, fetch_list=[loss])
distributed.set_mode("async")                          # as it is: nothing is to be changed
distributed.set_compression("none")
distributed.set_row_cache(rows=0, staleness=0)
distributed.all_mean(loss)
for late in (lambda: distributed.set_mode("ssp(3)"), lambda: distributed.set_compression("int8"),
             lambda: distributed.set_row_cache(rows=10, staleness=2), lambda: distributed.checkpoint(sys.argv[1]),
             lambda: distributed.all_mean(hidden)):
    try:
        late()
    except InvalidArgumentError as error:
        print(str(error).partition("\n")[0])
    else:
        print("accepted")
print("then", np.isfinite(exe.run(feed=feed, fetch_list=[loss])[0]).all())
