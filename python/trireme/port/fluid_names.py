"""Public names of Fluid 1.x (1.0 to 1.7): facts of its interface, names alone.

Each line of NAMES: a module, then names of it; a module may have several lines. ``fluid`` is the package itself, ``reader`` and
``dataset`` stand for paddle.reader and paddle.dataset.
"""

from __future__ import annotations

from collections import defaultdict

NAMES = """
fluid: average backward clip contrib core data_feeder dataset dygraph evaluator executor framework incubate initializer install_check io
fluid: layers lod_tensor metrics nets optimizer param_attr profiler recordio_writer regularizer transpiler unique_name
fluid: BuildStrategy CompiledProgram cpu_places CPUPlace create_lod_tensor create_random_int_lodtensor cuda_pinned_places cuda_places
fluid: CUDAPinnedPlace CUDAPlace data DataFeedDesc DataFeeder DatasetFactory default_main_program default_startup_program device_guard
fluid: disable_dygraph DistributeTranspiler DistributeTranspilerConfig embedding enable_dygraph ExecutionStrategy Executor get_flags
fluid: global_scope gradients in_dygraph_mode is_compiled_with_cuda load load_op_library LoDTensor LoDTensorArray memory_optimize
fluid: name_scope one_hot ParallelExecutor ParamAttr Program program_guard release_memory require_version save Scope scope_guard set_flags
fluid: Tensor Variable WeightNormParamAttr
layers: abs accuracy acos adaptive_pool2d adaptive_pool3d add_position_encoding affine_channel affine_grid anchor_generator argmax argmin
layers: argsort array_length array_read array_write asin assign atan auc autoincreased_step_counter batch batch_norm beam_search
layers: beam_search_decode BeamSearchDecoder bilinear_tensor_product bipartite_match box_clip box_coder box_decoder_and_assign bpr_loss
layers: brelu case cast Categorical ceil center_loss chunk_eval clip clip_by_norm collect_fpn_proposals concat cond
layers: continuous_value_model conv2d conv2d_transpose conv3d conv3d_transpose cos cos_sim cosine_decay create_array create_global_var
layers: create_parameter create_py_reader_by_data create_tensor crf_decoding crop crop_tensor cross_entropy ctc_greedy_decoder cumsum data
layers: data_norm Decoder deformable_conv deformable_roi_pooling density_prior_box detection_map detection_output diag dice_loss
layers: distribute_fpn_proposals double_buffer dropout dynamic_decode dynamic_gru dynamic_lstm dynamic_lstmp DynamicRNN edit_distance
layers: elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min elementwise_mod elementwise_mul
layers: elementwise_pow elementwise_sub elu embedding equal erf exp expand expand_as exponential_decay eye fc fill_constant
layers: fill_constant_batch_size_like filter_by_instag flatten floor fsp_matrix gather gather_nd gather_tree gaussian_random
layers: gaussian_random_batch_size_like gelu generate_mask_labels generate_proposal_labels generate_proposals
layers: get_tensor_from_selected_rows greater_equal greater_than grid_sampler group_norm gru_unit GRUCell hard_shrink hard_sigmoid
layers: hard_swish has_inf has_nan hash hsigmoid huber_loss IfElse im2sequence image_resize image_resize_short increment instance_norm
layers: inverse_time_decay iou_similarity is_empty isfinite kldiv_loss l2_normalize label_smooth layer_norm leaky_relu less_equal
layers: less_than linear_chain_crf linear_lr_warmup linspace load lod_append lod_reset log log_loss logical_and logical_not logical_or
layers: logical_xor logsigmoid lrn lstm lstm_unit LSTMCell margin_rank_loss matmul maxout mean mean_iou merge_selected_rows mse_loss mul
layers: multi_box_head multiclass_nms multiplex MultivariateNormalDiag natural_exp_decay nce noam_decay Normal not_equal npair_loss
layers: one_hot ones ones_like open_files pad pad2d pad_constant_like piecewise_decay pixel_shuffle polygon_box_transform
layers: polynomial_decay pool2d pool3d pow prelu Preprocessor Print prior_box prroi_pool psroi_pool py_func py_reader random_crop
layers: random_data_generator range rank rank_loss read_file reciprocal reduce_all reduce_any reduce_max reduce_mean reduce_min
layers: reduce_prod reduce_sum relu relu6 reorder_lod_tensor_by_rank reshape resize_bilinear resize_nearest resize_trilinear
layers: retinanet_detection_output retinanet_target_assign reverse rnn RNNCell roi_align roi_perspective_transform roi_pool round row_conv
layers: rpn_target_assign rsqrt sampled_softmax_with_cross_entropy sampling_id scale scatter scatter_nd scatter_nd_add selu
layers: sequence_concat sequence_conv sequence_enumerate sequence_expand sequence_expand_as sequence_first_step sequence_last_step
layers: sequence_mask sequence_pad sequence_pool sequence_reshape sequence_reverse sequence_scatter sequence_slice sequence_softmax
layers: sequence_unpad shape shard_index shuffle shuffle_channel sigmoid sigmoid_cross_entropy_with_logits sigmoid_focal_loss sign
layers: similarity_focus sin size slice smooth_l1 soft_relu softmax softmax_with_cross_entropy softplus softshrink softsign
layers: space_to_depth spectral_norm split sqrt square square_error_cost squeeze ssd_loss stack stanh StaticRNN strided_slice sum sums
layers: swish Switch switch_case tanh tanh_shrink target_assign teacher_student_sigmoid_loss temporal_shift tensor_array_to_tensor
layers: thresholded_relu topk transpose tree_conv unfold Uniform uniform_random uniform_random_batch_size_like unique unique_with_counts
layers: unsqueeze unstack warpctc where While while_loop yolo_box yolov3_loss zeros zeros_like
optimizer: Adadelta AdadeltaOptimizer Adagrad AdagradOptimizer Adam Adamax AdamaxOptimizer AdamOptimizer DecayedAdagrad
optimizer: DecayedAdagradOptimizer DGCMomentumOptimizer Dpsgd DpsgdOptimizer ExponentialMovingAverage Ftrl FtrlOptimizer LambOptimizer
optimizer: LarsMomentum LarsMomentumOptimizer LookaheadOptimizer ModelAverage Momentum MomentumOptimizer RecomputeOptimizer
optimizer: RMSPropOptimizer SGD SGDOptimizer
initializer: Bilinear BilinearInitializer Constant ConstantInitializer force_init_on_cpu init_on_cpu MSRA MSRAInitializer Normal
initializer: NormalInitializer NumpyArrayInitializer TruncatedNormal TruncatedNormalInitializer Uniform UniformInitializer Xavier
initializer: XavierInitializer
average: WeightedAverage
contrib: BeamSearchDecoder Compressor convert_dist_to_sparse_program InitState load_persistables_for_increment
contrib: load_persistables_for_inference StateCell TrainingDecoder
contrib: basic_gru basic_lstm BasicGRUUnit BasicLSTMUnit Calibrator decoder distributed_batch_reader extend_optimizer
contrib: extend_with_decoupled_weight_decay HDFSClient inferencer layers memory_usage mixed_precision multi_download multi_upload
contrib: op_freq_statistic quantize QuantizeTranspiler reader slim summary trainer utils
evaluator: ChunkEvaluator DetectionMAP EditDistance
transpiler: details DistributeTranspiler DistributeTranspilerConfig HashName InferenceTranspiler memory_optimize release_memory RoundRobin
transpiler: distribute_transpiler
transpiler.distribute_transpiler: DistributeTranspiler DistributeTranspilerConfig ServerRuntimeConfig
incubate: data_generator fleet
incubate.data_generator: MultiSlotDataGenerator MultiSlotStringDataGenerator
incubate.fleet: base collective parameter_server utils
incubate.fleet.base: fleet_base role_maker
incubate.fleet.base.fleet_base: DistributedOptimizer Fleet Mode
incubate.fleet.base.role_maker: GeneralRoleMaker MPISymetricRoleMaker PaddleCloudRoleMaker Role RoleMakerBase
incubate.fleet.base.role_maker: UserDefinedCollectiveRoleMaker UserDefinedRoleMaker
incubate.fleet.parameter_server: distribute_transpiler pslib
incubate.fleet.parameter_server.distribute_transpiler: AsyncStrategy DistributedStrategy DistributeTranspilerConfig fleet GeoStrategy
incubate.fleet.parameter_server.distribute_transpiler: HalfAsyncStrategy StrategyFactory SyncStrategy TrainerRuntimeConfig
incubate.fleet.parameter_server.distribute_transpiler.fleet: all_reduce_worker barrier_worker distributed_optimizer init init_server
incubate.fleet.parameter_server.distribute_transpiler.fleet: init_worker is_first_worker is_server is_worker main_program run_server
incubate.fleet.parameter_server.distribute_transpiler.fleet: save_inference_model save_persistables server_endpoints server_index
incubate.fleet.parameter_server.distribute_transpiler.fleet: server_num split_files startup_program stop_worker worker_endpoints
incubate.fleet.parameter_server.distribute_transpiler.fleet: worker_index worker_num
incubate.fleet.parameter_server.pslib: fleet
incubate.fleet.parameter_server.pslib.fleet: clear_model load_one_table print_table_stat save_cache_model set_pull_local_thread_num
incubate.fleet.parameter_server.pslib.fleet: shrink_dense_table shrink_sparse_table

metrics: Accuracy Auc ChunkEvaluator CompositeMetric DetectionMAP EditDistance MetricBase Precision Recall
io: batch buffered cache chain compose ComposeNotAligned DataLoader firstn get_program_parameter get_program_persistable_vars load
io: load_inference_model load_params load_persistables load_program_state load_vars map_readers multiprocess_reader PyReader save
io: save_inference_model save_params save_persistables save_vars set_program_state shuffle xmap_readers
nets: glu img_conv_group scaled_dot_product_attention sequence_conv_pool simple_img_conv_pool
clip: ErrorClipByValue GradientClipByGlobalNorm GradientClipByNorm GradientClipByValue set_gradient_clip
regularizer: L1Decay L1DecayRegularizer L2Decay L2DecayRegularizer
profiler: cuda_profiler profiler reset_profiler start_profiler stop_profiler
backward: append_backward gradients
unique_name: generate guard switch
reader: buffered cache chain compose ComposeNotAligned creator Fake firstn map_readers multiprocess_reader PipeReader shuffle xmap_readers
dataset: cifar common conll05 flowers image imdb imikolov mnist movielens mq2007 sentiment uci_housing voc2012 wmt14 wmt16
"""


def names_of_fluid() -> dict[str, set[str]]:
    """Return the names of each module."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in NAMES.splitlines():
        module, _, names = line.partition(":")
        if names:
            found[module] |= set(names.split())
    return dict(found)
