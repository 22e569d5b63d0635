"""What of Fluid differs here or has another name: rows of the tables of docs/fluid.md, which a test compares with these."""

from __future__ import annotations

# Names, without "fluid.", and what differs; the rows of "What differs" that begin with names.
DIFFERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("layers.data",), ("an unknown dimension is `None` in `Variable.shape`; `-1`, and any other negative number, is understood. "
                          "A feed must have as many dimensions as were declared")),
    (("backward.calc_gradient", "gradients"), "`backward.calc_gradient` with one input returns its gradient, `gradients` always a list"),
    (("layers.nce",),
     ("a `seed` of its own gives other draws, never the same ones in each step; `log_uniform` is a distribution over all classes, "
                       "the last one included")),
    (("layers.hsigmoid",),
     ("the cost is of the turns on a class's path alone, so `exp(-cost)` is its probability; Fluid adds log 2 for each node "
                            "that a path is shorter than the longest")),
    (("ParallelExecutor", "CompiledProgram", "core.ParallelExecutor"),
     ("replicas of a program on the threads of one process, with one set of parameters "
      "([threads.md](threads.md)); more processes are trainers of a job")),
    (("memory_optimize", "release_memory", "transpiler.memory_optimize", "transpiler.release_memory"),
     "they do nothing, and say so once: a plan shares memory by itself"),
    (("transpiler.InferenceTranspiler", "InferenceTranspiler"),
     "it does nothing, and says so once: operators are fused when a program runs"),
    (("layers.ParallelDo", "profiler.cuda_profiler"), "using it is refused with a message that names what there is"),
    (("layers.nn", "layers.control_flow", "layers.ops", "layers.tensor", "layers.io", "layers.metric_op"),
     "these modules answer for every layer, however Fluid cuts them"),
    (("WeightNormParamAttr",), "the parameters have Fluid's names and shapes; `v` is made before `g`"),
    (("core.AnalysisConfig", "core.create_paddle_predictor"),
     "a predictor of Fluid's inference library is a `serving.Predictor` behind its names; its switches change nothing"),
    (("CUDAPlace", "CUDAPinnedPlace", "cuda_places", "cuda_pinned_places", "core.CUDAPlace"),
     "making one is refused, naming one behind `if use_gpu` is not; `core.get_cuda_device_count()` is 0"),
    (("DistributeTranspiler", "DistributeTranspilerConfig", "transpiler.DistributeTranspiler", "transpiler.DistributeTranspilerConfig"),
     ("`sync_mode=False` is mode `async`; `geo_sgd_mode` with `geo_sgd_need_push_nums=N` is mode `geo(N)`; `config.mode` names any mode; "
      "`is_distributed=True` makes a sparse table, and `entry_count` says which keys get rows "
      "([distributed.md](distributed.md#sparse-tables))")),
    (("layers.open_files", "recordio_writer.convert_reader_to_recordio_file", "recordio_writer.convert_reader_to_recordio_files"),
     "RecordIO files are written without compression, and files compressed by Snappy are not read"),
    (("DatasetFactory", "AsyncExecutor"), "batches are taken by 1 thread unless `thread` is given ([data.md](data.md))"),
    (("layers.sequence_conv",), "`padding_start` stands before `bias_attr`, as in Fluid since 1.6: give what follows by name"),
    (("layers.softshrink",), "`alpha` stands before `name`, as in Fluid since 1.6"),
    (("contrib.mixed_precision.decorate",),
     ("`amp_lists` is the second argument, as in Fluid since 1.6; the loss is scaled for float16 alone "
                                             "([precision.md](precision.md))")),
    (("profiler.profiler", "profiler.stop_profiler"),
     "without `profile_path` each process writes a file of its own in the folder for temporary files"),
    (("layers.While",), "loop-carried variables are differentiated without arrays"),
    (("layers.IfElse",), "both blocks run, on the rows that are theirs, perhaps none"),
    (("optimizer.DGCMomentumOptimizer",),
     ("only the zeros of gradients are left out on the wire; a job of several trainers keeps checkpoints with it in all modes but "
      "`sync(degraded)` ([checkpoints.md](checkpoints.md#what-each-trainer-has-of-its-own))")),
    (("initializer.NumpyArrayInitializer",),
     "not for a distributed embedding, whose rows have first values by key: `io.set_table_rows` gives keys their rows"),
    (("layers.py_func",), "the function gets copies of the values, and may not run a program; a saved model that holds one is not loaded"),
    (("incubate.fleet.parameter_server.distribute_transpiler.fleet.init_server",
      "incubate.fleet.parameter_server.pslib.fleet.init_server"),
     ("servers run no script, so it does nothing. In the place of `init_server(model_dir)` all trainers call "
      "`fluid.io.load_persistables(exe, model_dir, fleet.main_program)` after the startup program")),
    (("incubate.fleet.parameter_server.distribute_transpiler.fleet.run_server", "incubate.fleet.parameter_server.pslib.fleet.run_server"),
     "it does nothing: servers run no script, and `fleet.is_server()` is false in every process that does"),
    (("incubate.fleet.parameter_server.distribute_transpiler.StrategyFactory.create_half_async_strategy",
      "incubate.fleet.parameter_server.distribute_transpiler.HalfAsyncStrategy"),
     "it is mode `async`: a trainer has one thread, and waits for it"),
    (("incubate.fleet.parameter_server.distribute_transpiler.TrainerRuntimeConfig", "transpiler.distribute_transpiler.ServerRuntimeConfig"),
     "its settings are kept and change nothing"),
    (("incubate.fleet.base.role_maker.UserDefinedRoleMaker",),
     "a role, a number of trainers or of servers that the job does not have is refused; it knows them without this"),
    (("incubate.fleet.base.role_maker.UserDefinedCollectiveRoleMaker",), "making one is refused: servers sum gradients up"),
)

# Names of Fluid that are absent, and what does the same; the rows of the second table of "What is missing".
COUNTERPARTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("data", "embedding", "one_hot"), "`fluid.layers.data`, `fluid.layers.embedding`, `fluid.layers.one_hot`"),
    (("save", "load", "io.save", "io.load"), "`fluid.io.save_persistables`, `load_persistables`; [checkpoints](checkpoints.md)"),
    (("incubate.fleet.collective",), "`fluid.incubate.fleet.parameter_server.distribute_transpiler`, mode `sync`"),
    (("incubate.fleet.utils",),
     "`fluid.distributed.merge_auc` for an area under the curve of all trainers; [stores](stores.md) for remote files"),
    (("layers.cond", "layers.case", "layers.switch_case", "layers.while_loop"), "`layers.IfElse`, `layers.Switch`, `layers.While`"),
)

# What stands outside of Fluid, by the dotted name that a script writes.
OUTSIDE: dict[str, tuple[str, str]] = {
    "paddle.v2": ("missing", "the interface of before Fluid is not here"),
    "paddle.trainer": ("missing", "the interface of before Fluid is not here"),
    "paddle.trainer_config_helpers": ("missing", "the interface of before Fluid is not here"),
    "paddle.utils": ("missing", "it is not here"),
    "paddle.tensor": ("missing", "the interface of Paddle 2 is not here"),
    "paddle.nn": ("missing", "the interface of Paddle 2 is not here"),
    "paddle.static": ("missing", "the interface of Paddle 2 is not here"),
    "paddle.distributed": ("missing", "the interface of Paddle 2 is not here; jobs are started by `trireme launch`"),
}


def rendered(names: tuple[str, ...], text: str, prefix: str = "") -> str:
    """Return a row as it stands in docs/fluid.md."""
    return f"| {', '.join(f'`{prefix}{name}`' for name in names)} | {text} |"
