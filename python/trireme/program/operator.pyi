# Types of trireme/program/operator.py, whose functions are made when they are first asked for.
# Made by docs/make_stubs.py: change the operators' records (kernels/, pserver/ops/), then `make operators`.
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

from .block import Block
from .op_protos import OpProto
from .variable import Variable
from ..native.dtypes import DTypeLike

Slot: TypeAlias = Variable | str | Sequence[Variable | str]
Output: TypeAlias = Variable | str | Sequence[Variable | str] | int | None

class Common(TypedDict, total=False):
    """Arguments that every operator takes."""

    op_role: int
    op_role_var: Sequence[str]
    op_namescope: str
    name: str | None

def create_operator(type: str, input: Slot | dict[str, Any] | None = ..., output: Slot | dict[str, Any] | None = ...,
                    attrs: dict[str, Any] | None = ...) -> Any: ...
def doc_of(proto: OpProto) -> str: ...

def abs(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = |X|."""

abs_grad: Callable[..., Any]
def accuracy(Out: Slot, Indices: Slot, Label: Slot, *, Accuracy: Output = ..., Correct: Output = ...,
             Total: Output = ..., num_classes: int = 0, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """The share of rows whose label is among their guesses, as top_k gives them."""

def acos(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = arc cosine of X."""

acos_grad: Callable[..., Any]
def adadelta(Param: Slot, Grad: Slot, AvgSquaredGrad: Slot, AvgSquaredUpdate: Slot, *, ParamOut: Output = ...,
             AvgSquaredGradOut: Output = ..., AvgSquaredUpdateOut: Output = ..., rho: float = 0.95,
             epsilon: float = 1e-06, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """S = rho * S + (1 - rho) * Grad^2; step = -sqrt((U + epsilon) / (S + epsilon)) * Grad; U = rho * U + (1 - rho) * step^2; ParamOut = Param + step; S is AvgSquaredGrad, U AvgSquaredUpdate."""

def adagrad(Param: Slot, Grad: Slot, Moment: Slot, LearningRate: Slot, *, ParamOut: Output = ...,
            MomentOut: Output = ..., epsilon: float = 1e-06, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Moment += Grad^2; ParamOut = Param - LearningRate * Grad / (sqrt(Moment) + epsilon)."""

def adam(Param: Slot, Grad: Slot, LearningRate: Slot, Moment1: Slot, Moment2: Slot, Beta1Pow: Slot, Beta2Pow: Slot, *,
         ParamOut: Output = ..., Moment1Out: Output = ..., Moment2Out: Output = ..., beta1: float = 0.9,
         beta2: float = 0.999, epsilon: float = 1e-08, lazy_mode: bool = False,
         min_row_size_to_use_multithread: int = 1000, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Moment1 and Moment2 are running means of Grad and Grad^2; ParamOut = Param - rate * Moment1 / (sqrt(Moment2) + epsilon), rate = LearningRate * sqrt(1 - Beta2Pow) / (1 - Beta1Pow)."""

def adamax(Param: Slot, Grad: Slot, LearningRate: Slot, Moment: Slot, InfNorm: Slot, Beta1Pow: Slot, *,
           ParamOut: Output = ..., MomentOut: Output = ..., InfNormOut: Output = ..., beta1: float = 0.9,
           beta2: float = 0.999, epsilon: float = 1e-08, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Moment = beta1 * Moment + (1 - beta1) * Grad; InfNorm = max(|Grad|, beta2 * InfNorm + epsilon); ParamOut = Param - LearningRate / (1 - Beta1Pow) * Moment / InfNorm."""

def add_position_encoding(X: Slot, *, Out: Output = ..., alpha: float = 1.0, beta: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = alpha X + beta P, P the sines and cosines of each row's place."""

add_position_encoding_grad: Callable[..., Any]
def affine_channel(X: Slot, Scale: Slot, Bias: Slot, *, Out: Output = ..., data_layout: str = 'AnyLayout',
                   **common: Unpack[Common]) -> Variable:
    """Out = Scale X + Bias, a pair of numbers for each channel."""

affine_channel_grad: Callable[..., Any]
def affine_grid(Theta: Slot, OutputShape: Slot | None = None, *, Output: Output = ..., use_cudnn: bool = True,
                output_shape: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """A grid of places in an image, each the place in the new image times a matrix."""

affine_grid_grad: Callable[..., Any]
def arg_max(X: Slot, *, Out: Output = ..., axis: int, **common: Unpack[Common]) -> Variable:
    """Where along the axis the largest element stands; of equal ones the first."""

def arg_min(X: Slot, *, Out: Output = ..., axis: int, **common: Unpack[Common]) -> Variable:
    """Where along the axis the smallest element stands; of equal ones the first."""

def argsort(X: Slot, *, Out: Output = ..., Indices: Output = ..., axis: int = -1, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Sorts along an axis, the smallest first, and says where each element stood."""

def array_to_lod_tensor(X: Slot, RankTable: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Puts together again what lod_tensor_to_array takes apart: sequence i of Out has, step by step, what the elements of X have of it."""

array_to_lod_tensor_grad: Callable[..., Any]
def asin(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = arc sine of X."""

asin_grad: Callable[..., Any]
def assign(X: Slot | None = None, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X."""

def assign_value(*, Out: Output = ..., shape: Sequence[int], dtype: DTypeLike, fp32_values: Sequence[float] = (),
                 int32_values: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """Out = the values that the attributes give."""

def atan(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = arc tangent of X."""

atan_grad: Callable[..., Any]
def attention_lstm(X: Slot, C0: Slot, H0: Slot | None = None, AttentionWeight: Slot = ...,
                   AttentionBias: Slot | None = None, AttentionScalar: Slot | None = None,
                   AttentionScalarBias: Slot | None = None, LSTMWeight: Slot = ..., LSTMBias: Slot = ..., *,
                   Hidden: Output = ..., Cell: Output = ..., AttentionedX: Output = ..., AttentionFCOut: Output = ...,
                   LSTMX: Output = ..., LSTMOUT: Output = ..., gate_activation: str = 'sigmoid',
                   cell_activation: str = 'tanh', candidate_activation: str = 'tanh', **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """A long short-term memory whose input at each step is a mixture of all rows of its sequence, weighed by attention."""

def auc(Predict: Slot, Label: Slot, StatPos: Slot, StatNeg: Slot, *, AUC: Output = ..., StatPosOut: Output = ...,
        StatNegOut: Output = ..., curve: str = 'ROC', num_thresholds: int = 8191, slide_steps: int = 1,
        **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """The area under the curve of yes-or-no predictions, over all batches or a window of them."""

def average_accumulates(param: Slot, in_sum_1: Slot, in_sum_2: Slot, in_sum_3: Slot, in_num_accumulates: Slot,
                        in_old_num_accumulates: Slot, in_num_updates: Slot, *, out_sum_1: Output = ...,
                        out_sum_2: Output = ..., out_sum_3: Output = ..., out_num_accumulates: Output = ...,
                        out_old_num_accumulates: Output = ..., out_num_updates: Output = ...,
                        average_window: float = 0.0, max_average_window: int, min_average_window: int = 10000,
                        **common: Unpack[Common]) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """Adds a parameter to the sums of its last values."""

def batch_norm(X: Slot, Scale: Slot, Bias: Slot, Mean: Slot, Variance: Slot, *, Y: Output = ..., MeanOut: Output = ...,
               VarianceOut: Output = ..., SavedMean: Output = ..., SavedVariance: Output = ..., is_test: bool = False,
               momentum: float = 0.9, epsilon: float = 1e-05, data_layout: str = 'NCHW', use_mkldnn: bool = False,
               fuse_with_relu: bool = False, use_global_stats: bool = False, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias for each channel."""

batch_norm_grad: Callable[..., Any]
def beam_search(pre_ids: Slot, pre_scores: Slot, ids: Slot | None = None, scores: Slot = ..., *,
                selected_ids: Output = ..., selected_scores: Output = ..., parent_idx: Output = ..., level: int,
                beam_size: int, end_id: int, is_accumulated: bool = True, **common: Unpack[Common]) -> Any:
    """Selects, for each source, the best beam_size of the candidates that continue its prefixes."""

def beam_search_decode(Ids: Slot, Scores: Slot, *, SentenceIds: Output = ..., SentenceScores: Output = ...,
                       beam_size: int, end_id: int, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """The sentences of a beam search, the best of each source first, each beginning with its first word."""

def bicubic_interp(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None, *,
                   Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0, scale: float = 0.0,
                   interp_method: str = 'bilinear', data_layout: str = 'NCHW', align_corners: bool = True,
                   align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Images in another size: each element is mixed of the sixteen nearest ones of X."""

bicubic_interp_grad: Callable[..., Any]
def bicubic_interp_v2(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None,
                      *, Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0, scale: Sequence[float] = (),
                      interp_method: str = 'bicubic', data_layout: str = 'NCHW', align_corners: bool = True,
                      align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Images in another size: each element is mixed of the sixteen nearest ones of X."""

bicubic_interp_v2_grad: Callable[..., Any]
def bilinear_interp(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None, *,
                    Out: Output = ..., out_d: int = 0, out_h: int, out_w: int, scale: float = 0.0,
                    interp_method: str = 'bilinear', data_layout: str = 'NCHW', align_corners: bool = True,
                    align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Images in another size: each element is mixed of the four nearest ones of X."""

bilinear_interp_grad: Callable[..., Any]
def bilinear_interp_v2(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None,
                       *, Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0,
                       scale: Sequence[float] = (), interp_method: str = 'bilinear', data_layout: str = 'NCHW',
                       align_corners: bool = True, align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Images in another size: each element is mixed of the four nearest ones of X."""

bilinear_interp_v2_grad: Callable[..., Any]
def bilinear_tensor_product(X: Slot, Y: Slot, Weight: Slot, Bias: Slot | None = None, *, Out: Output = ...,
                            **common: Unpack[Common]) -> Variable:
    """Out[n,i] = X[n] Weight[i] Y[n]^T + Bias[i]."""

bilinear_tensor_product_grad: Callable[..., Any]
def bmm(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out[i] = X[i] Y[i], products of as many matrices as both have."""

bmm_grad: Callable[..., Any]
def bpr_loss(X: Slot, Label: Slot, *, Y: Output = ..., **common: Unpack[Common]) -> Variable:
    """Pairwise ranking: Y[i] is the mean over the other classes j of log(1 + exp(X[i][j] - X[i][Label[i]]))."""

bpr_loss_grad: Callable[..., Any]
def brelu(X: Slot, *, Out: Output = ..., t_min: float = 0.0, t_max: float = 24.0, **common: Unpack[Common]) -> Variable:
    """Out = min(max(X, t_min), t_max)."""

brelu_grad: Callable[..., Any]
def cast(X: Slot, *, Out: Output = ..., in_dtype: int, out_dtype: int, **common: Unpack[Common]) -> Variable:
    """Out = X as another data type."""

def ceil(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the smallest whole number >= X; the gradient is 0."""

ceil_grad: Callable[..., Any]
def check_finite_and_unscale(X: Slot, Scale: Slot, *, Out: Output = ..., FoundInfinite: Output = ...,
                             **common: Unpack[Common]) -> tuple[list[Variable], Variable]:
    """Out = X / Scale, for each X."""

chunk_eval: Callable[..., Any]
def clip(X: Slot, *, Out: Output = ..., min: float, max: float, **common: Unpack[Common]) -> Variable:
    """Out = min(max(X, min), max)."""

def clip_by_norm(X: Slot, *, Out: Output = ..., max_norm: float, **common: Unpack[Common]) -> Variable:
    """Out = X where its l2 norm is at most max_norm, else X scaled down to that norm."""

clip_grad: Callable[..., Any]
def concat(X: Slot, *args: Variable | str, Out: Output = ..., use_mkldnn: bool = False, axis: int = 0,
           **common: Unpack[Common]) -> Variable:
    """Joins tensors along `axis`."""

concat_grad: Callable[..., Any]
def conditional_block(Cond: Slot, Input: Slot | None = None, *, Out: Output = ..., Scope: Output = ...,
                      sub_block: Block | int, is_scalar_condition: bool = False, **common: Unpack[Common]) -> Any:
    """Runs sub_block if the condition holds: with is_scalar_condition if the one element of Cond is true, otherwise if no tensor of Cond is empty."""

conditional_block_grad: Callable[..., Any]
def conv2d(Input: Slot, Filter: Slot, Bias: Slot | None = None, ResidualData: Slot | None = None, *,
           Output: Output = ..., is_test: bool = False, strides: Sequence[int] = (1, 1),
           paddings: Sequence[int] = (0, 0), groups: int = 1, dilations: Sequence[int] = (1, 1),
           use_cudnn: bool = False, fuse_relu_before_depthwise_conv: bool = False, use_mkldnn: bool = False,
           use_quantizer: bool = False, fuse_relu: bool = False, fuse_residual_connection: bool = False,
           Scale_in: float = 1.0, Scale_out: float = 1.0, Scale_in_eltwise: float = 1.0,
           Scale_weights: Sequence[float] = (1.0,), force_fp32_output: bool = False, data_format: str = 'AnyLayout',
           workspace_size_MB: int = 4096, exhaustive_search: bool = False, **common: Unpack[Common]) -> Variable:
    """Convolution of images: Output = Input * Filter + Bias."""

def conv2d_fusion(Input: Slot, Filter: Slot, Bias: Slot | None = None, ResidualData: Slot | None = None,
                  AlgoCache: Slot | None = None, *, Output: Output = ..., Outputs: Output = ..., is_test: bool = False,
                  strides: Sequence[int] = (1, 1), paddings: Sequence[int] = (0, 0), groups: int = 1,
                  dilations: Sequence[int] = (1, 1), use_cudnn: bool = False,
                  fuse_relu_before_depthwise_conv: bool = False, use_mkldnn: bool = False, use_quantizer: bool = False,
                  fuse_relu: bool = False, fuse_residual_connection: bool = False, Scale_in: float = 1.0,
                  Scale_out: float = 1.0, Scale_in_eltwise: float = 1.0, Scale_weights: Sequence[float] = (1.0,),
                  force_fp32_output: bool = False, data_format: str = 'AnyLayout', workspace_size_MB: int = 4096,
                  exhaustive_search: bool = False, activation: str = 'relu', split_channels: Sequence[int] = (),
                  search_times: int = -1, **common: Unpack[Common]) -> Any:
    """Output = activation(Input * Filter + ResidualData + Bias), and its channels apart."""

conv2d_grad: Callable[..., Any]
def conv2d_transpose(Input: Slot, Filter: Slot, Bias: Slot | None = None, *, Output: Output = ...,
                     is_test: bool = False, output_size: Sequence[int] = (), strides: Sequence[int] = (1, 1),
                     paddings: Sequence[int] = (0, 0), groups: int = 1, dilations: Sequence[int] = (1, 1),
                     use_cudnn: bool = False, use_mkldnn: bool = False, fuse_relu: bool = False,
                     data_format: str = 'AnyLayout', workspace_size_MB: int = 4096, **common: Unpack[Common]) -> Variable:
    """Transposed convolution of images: the gradient of a convolution's input, and Bias."""

conv2d_transpose_grad: Callable[..., Any]
def conv3d(Input: Slot, Filter: Slot, Bias: Slot | None = None, ResidualData: Slot | None = None, *,
           Output: Output = ..., is_test: bool = False, strides: Sequence[int] = (1, 1, 1),
           paddings: Sequence[int] = (0, 0, 0), groups: int = 1, dilations: Sequence[int] = (1, 1, 1),
           use_cudnn: bool = False, use_mkldnn: bool = False, fuse_relu: bool = False,
           fuse_residual_connection: bool = False, data_format: str = 'AnyLayout', force_fp32_output: bool = False,
           workspace_size_MB: int = 4096, exhaustive_search: bool = False, **common: Unpack[Common]) -> Variable:
    """Convolution of volumes: Output = Input * Filter + Bias."""

conv3d_grad: Callable[..., Any]
def conv3d_transpose(Input: Slot, Filter: Slot, Bias: Slot | None = None, *, Output: Output = ...,
                     output_size: Sequence[int] = (), strides: Sequence[int] = (1, 1, 1),
                     paddings: Sequence[int] = (0, 0, 0), groups: int = 1, dilations: Sequence[int] = (1, 1, 1),
                     use_cudnn: bool = False, use_mkldnn: bool = False, data_format: str = 'AnyLayout',
                     workspace_size_MB: int = 4096, **common: Unpack[Common]) -> Variable:
    """Transposed convolution of volumes: the gradient of a convolution's input."""

conv3d_transpose_grad: Callable[..., Any]
def conv_shift(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Circular convolution of rows: Out[i,j] = sum_k X[i, (j + k - (n - 1) / 2) mod m] Y[i,k]."""

conv_shift_grad: Callable[..., Any]
def cos(X: Slot, *, Out: Output = ..., scale: float = 1.0, use_mkldnn: bool = False, use_cudnn: bool = False,
        **common: Unpack[Common]) -> Variable:
    """Out = cos(scale * X)."""

cos_grad: Callable[..., Any]
def cos_sim(X: Slot, Y: Slot, *, Out: Output = ..., XNorm: Output = ..., YNorm: Output = ..., **common: Unpack[Common]) -> Variable:
    """The cosines of the angles between rows: Out = X Y / (|X| |Y|), sums over each row."""

cos_sim_grad: Callable[..., Any]
def crf_decoding(Emission: Slot, Transition: Slot, Label: Slot | None = None, *, ViterbiPath: Output = ...,
                 **common: Unpack[Common]) -> Variable:
    """The likeliest tags under a conditional random field; with Label, 1 where they are right and 0 where not."""

def crop(X: Slot, Y: Slot | None = None, Offsets: Slot | None = None, *, Out: Output = ..., offsets: Sequence[int] = (),
         shape: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """A box of X."""

crop_grad: Callable[..., Any]
def cross_entropy(X: Slot, Label: Slot, *, Y: Output = ..., soft_label: bool = False, ignore_index: int = -100,
                  **common: Unpack[Common]) -> Variable:
    """The cross entropy between rows of probabilities and labels: Y[i] = -log X[i][Label[i]]."""

def cross_entropy2(X: Slot, Label: Slot, *, Y: Output = ..., XShape: Output = ..., MatchX: Output = ...,
                   ignore_index: int = -100, **common: Unpack[Common]) -> Variable:
    """The cross entropy of class numbers as cross_entropy computes it, with a gradient that needs nothing of X but MatchX."""

cross_entropy_grad: Callable[..., Any]
cross_entropy_grad2: Callable[..., Any]
def ctc_align(Input: Slot, *, Output: Output = ..., blank: int = 0, merge_repeated: bool = True,
              **common: Unpack[Common]) -> Variable:
    """What the classes of rows say (connectionist temporal classification): repetitions left out, then blanks."""

def cumsum(X: Slot, *, Out: Output = ..., axis: int = -1, exclusive: bool = False, reverse: bool = False,
           **common: Unpack[Common]) -> Variable:
    """Running sums along an axis."""

def cvm(X: Slot, CVM: Slot, *, Y: Output = ..., use_cvm: bool = True, **common: Unpack[Common]) -> Variable:
    """The first two columns of X, which count shows and clicks, as logs: Y[0] = log(X[0] + 1), Y[1] = log(X[1] + 1) - Y[0]; or left out."""

cvm_grad: Callable[..., Any]
def data_norm(X: Slot, BatchSize: Slot, BatchSum: Slot, BatchSquareSum: Slot, *, Y: Output = ..., Means: Output = ...,
              Scales: Output = ..., BatchSizeOut: Output = ..., BatchSumOut: Output = ...,
              BatchSquareSumOut: Output = ..., epsilon: float = 0.0001, summary_decay_rate: float = 0.9999999,
              is_test: bool = False, data_layout: str = 'NCHW', **common: Unpack[Common]) -> Any:
    """Y = (X - BatchSum / BatchSize) sqrt(BatchSize / BatchSquareSum) for each column; X as it is where there are no rows so far."""

data_norm_grad: Callable[..., Any]
def decayed_adagrad(Param: Slot, Grad: Slot, Moment: Slot, LearningRate: Slot, *, ParamOut: Output = ...,
                    MomentOut: Output = ..., decay: float = 0.95, epsilon: float = 1e-06, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Moment = decay * Moment + (1 - decay) * Grad^2; ParamOut = Param - LearningRate * Grad / (sqrt(Moment) + epsilon)."""

def delete_var(X: Slot, *args: Variable | str, **common: Unpack[Common]) -> None:
    """Says that X is not needed any more."""

def depthwise_conv2d(Input: Slot, Filter: Slot, Bias: Slot | None = None, ResidualData: Slot | None = None, *,
                     Output: Output = ..., is_test: bool = False, strides: Sequence[int] = (1, 1),
                     paddings: Sequence[int] = (0, 0), groups: int = 1, dilations: Sequence[int] = (1, 1),
                     use_cudnn: bool = False, fuse_relu_before_depthwise_conv: bool = False, use_mkldnn: bool = False,
                     use_quantizer: bool = False, fuse_relu: bool = False, fuse_residual_connection: bool = False,
                     Scale_in: float = 1.0, Scale_out: float = 1.0, Scale_in_eltwise: float = 1.0,
                     Scale_weights: Sequence[float] = (1.0,), force_fp32_output: bool = False,
                     data_format: str = 'AnyLayout', workspace_size_MB: int = 4096, exhaustive_search: bool = False,
                     **common: Unpack[Common]) -> Variable:
    """Convolution of images: Output = Input * Filter + Bias."""

depthwise_conv2d_grad: Callable[..., Any]
def depthwise_conv2d_transpose(Input: Slot, Filter: Slot, Bias: Slot | None = None, *, Output: Output = ...,
                               is_test: bool = False, output_size: Sequence[int] = (), strides: Sequence[int] = (1, 1),
                               paddings: Sequence[int] = (0, 0), groups: int = 1, dilations: Sequence[int] = (1, 1),
                               use_cudnn: bool = False, use_mkldnn: bool = False, fuse_relu: bool = False,
                               data_format: str = 'AnyLayout', workspace_size_MB: int = 4096, **common: Unpack[Common]) -> Variable:
    """Transposed convolution of images: the gradient of a convolution's input, and Bias."""

depthwise_conv2d_transpose_grad: Callable[..., Any]
def dgc(U: Slot, V: Slot, Grad: Slot, current_step: Slot, *, U_out: Output = ..., V_out: Output = ...,
        EncodeGrad: Output = ..., Grad_out: Output = ..., k: Output = ..., m: float = 0.9, use_nesterov: bool = True,
        sparsity: Sequence[float], rampup_begin_step: float = 0.0, rampup_step: float, **common: Unpack[Common]) -> Any:
    """U = m U + Grad, V = V + U; the largest values of V are Grad_out, and become 0 in U and V."""

def dgc_clip_by_norm(X: Slot, current_step: Slot, *, Out: Output = ..., max_norm: float,
                     rampup_begin_step: float = -1.0, **common: Unpack[Common]) -> Variable:
    """Out = X before rampup_begin_step."""

def dropout(X: Slot, *, Out: Output = ..., Mask: Output = ..., dropout_prob: float = 0.5, is_test: bool = False,
            fix_seed: bool = False, seed: int = 0, dropout_implementation: str = 'downgrade_in_infer',
            **common: Unpack[Common]) -> Variable:
    """Sets each element of X to 0 with probability dropout_prob."""

dropout_grad: Callable[..., Any]
def edit_distance(Hyps: Slot, Refs: Slot, *, SequenceNum: Output = ..., Out: Output = ..., normalized: bool = False,
                  **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """How many words must at least be put in, taken out or changed to make each reference (Levenshtein distance)."""

def elementwise_add(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = X + Y."""

elementwise_add_grad: Callable[..., Any]
def elementwise_div(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = X / Y; of integers cut towards 0, and 0 where Y is 0."""

elementwise_div_grad: Callable[..., Any]
def elementwise_floordiv(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                         x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = the largest whole number <= X / Y; 0 where Y is 0."""

def elementwise_max(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = max(X, Y); where they are equal the gradient is Y's."""

elementwise_max_grad: Callable[..., Any]
def elementwise_min(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = min(X, Y); where they are equal the gradient is Y's."""

elementwise_min_grad: Callable[..., Any]
def elementwise_mod(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = the remainder of X / Y, with the sign of Y; 0 where Y is 0."""

def elementwise_mul(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = X * Y."""

elementwise_mul_grad: Callable[..., Any]
def elementwise_pow(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = X to the power of Y."""

elementwise_pow_grad: Callable[..., Any]
def elementwise_sub(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, use_mkldnn: bool = False,
                    x_data_format: str = '', y_data_format: str = '', **common: Unpack[Common]) -> Variable:
    """Out = X - Y."""

elementwise_sub_grad: Callable[..., Any]
def elu(X: Slot, *, Out: Output = ..., alpha: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = X where X > 0, else alpha * (e^X - 1)."""

elu_grad: Callable[..., Any]
def equal(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, force_cpu: bool = True, **common: Unpack[Common]) -> Variable:
    """Out = X equals Y."""

def erf(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = erf(X), the integral of 2 e^(-t^2) / sqrt(pi) from 0 to X."""

erf_grad: Callable[..., Any]
def exchange_deltas(Param: Slot | None = None, Base: Slot | None = None, Count: Slot = ..., *, ParamOut: Output = ...,
                    BaseOut: Output = ..., CountOut: Output = ..., period: int = 1, blocks: Sequence[str] = (),
                    parts: Sequence[int] = (), **common: Unpack[Common]) -> Any:
    """Counts its runs; in every period-th it adds its share of Param - Base to the servers' blocks, and sets Param and Base to what is there then; the same of the job's sparse tables, row by row."""

def exchange_squares(X: Slot | None = None, *args: Variable | str, Out: Output = ..., dtype: DTypeLike = 5,
                     **common: Unpack[Common]) -> Variable:
    """In a parameter server: sum_of_squares over the X of all servers of the job, which wait for each other."""

def exp(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = e^X."""

exp_grad: Callable[..., Any]
def expand(X: Slot, *, Out: Output = ..., expand_times: Sequence[int], **common: Unpack[Common]) -> Variable:
    """Repeats X along its dimensions, as tiles."""

def expand_as(X: Slot, target_tensor: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Repeats X along its dimensions, as tiles, until it is as large as another tensor."""

expand_as_grad: Callable[..., Any]
def expand_as_v2(X: Slot, target_tensor: Slot | None = None, Y: Slot | None = None, *, Out: Output = ...,
                 target_shape: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """Repeats X along its dimensions of 1 until it is as large as another tensor, which may have more dimensions, in front."""

expand_as_v2_grad: Callable[..., Any]
expand_grad: Callable[..., Any]
def expand_v2(X: Slot, *, Out: Output = ..., shape: Sequence[int], **common: Unpack[Common]) -> Variable:
    """Repeats X along its dimensions of 1."""

expand_v2_grad: Callable[..., Any]
def expect_rows(W: Slot, Ids: Slot, **common: Unpack[Common]) -> None:
    """Says which rows of a table lookups will want soon."""

def fc(Input: Slot, W: Slot, Bias: Slot | None = None, *, Out: Output = ..., in_num_col_dims: int = 1,
       activation_type: str = '', use_mkldnn: bool = False, **common: Unpack[Common]) -> Variable:
    """A fully connected layer: Out = activation(Input W + Bias)."""

fc_grad: Callable[..., Any]
def feed(X: Slot, *, Out: Output = ..., col: int, **common: Unpack[Common]) -> Variable:
    """Out = item col of the list of arrays given to the run."""

def fetch(X: Slot, *, Out: Output = ..., col: int, **common: Unpack[Common]) -> Variable:
    """Item col of the list of the run's results = X."""

def fetch_barrier(X: Slot | None = None, *args: Variable | str, Out: Output = ..., waits: bool = True,
                  trainer_id: int = 0, endpoints: Sequence[str] = (), **common: Unpack[Common]) -> Any:
    """Returns when all that recv asked for is here."""

def fill(*, Out: Output = ..., value: Sequence[float], shape: Sequence[int], dtype: DTypeLike = 5,
         force_cpu: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the numbers of `value`, in their order."""

def fill_any_like(X: Slot, *, Out: Output = ..., value: float = 0.0, dtype: DTypeLike = -1, **common: Unpack[Common]) -> Variable:
    """A tensor of X's shape that is full of one number."""

def fill_constant(*, Out: Output = ..., dtype: DTypeLike = 5, shape: Sequence[int], value: float = 0.0,
                  force_cpu: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = value, everywhere."""

def fill_constant_batch_size_like(Input: Slot, *, Out: Output = ..., shape: Sequence[int], input_dim_idx: int = 0,
                                  output_dim_idx: int = 0, dtype: DTypeLike = 5, value: float = 0.0,
                                  **common: Unpack[Common]) -> Variable:
    """Out = value, everywhere, with one dimension of Input's."""

def fill_zeros_like(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = 0, everywhere, in the shape of X."""

def fill_zeros_like2(X: Slot, *, Out: Output = ..., dtype: DTypeLike = 5, **common: Unpack[Common]) -> Variable:
    """Out = 0, everywhere, in the shape of X, of a type of its own."""

def flatten(X: Slot, *, Out: Output = ..., axis: int = 1, **common: Unpack[Common]) -> Variable:
    """X as a matrix."""

def flatten2(X: Slot, *, Out: Output = ..., XShape: Output = ..., axis: int = 1, **common: Unpack[Common]) -> Variable:
    """X as a matrix."""

flatten2_grad: Callable[..., Any]
def flatten_contiguous_range(X: Slot, *, Out: Output = ..., XShape: Output = ..., start_axis: int = 1,
                             stop_axis: int = -1, **common: Unpack[Common]) -> Variable:
    """X with the dimensions from start_axis to stop_axis made one."""

flatten_contiguous_range_grad: Callable[..., Any]
flatten_grad: Callable[..., Any]
def flip(X: Slot, *, Out: Output = ..., axis: Sequence[int], **common: Unpack[Common]) -> Variable:
    """X with its elements along some axes in the opposite order."""

flip_grad: Callable[..., Any]
def floor(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the largest whole number <= X; the gradient is 0."""

floor_grad: Callable[..., Any]
def fsp(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """The flow between two layers: Out[n,i,j] is the mean over all pixels of X[n,i] Y[n,j]."""

fsp_grad: Callable[..., Any]
def ftrl(Param: Slot, SquaredAccumulator: Slot, LinearAccumulator: Slot, Grad: Slot, LearningRate: Slot, *,
         ParamOut: Output = ..., SquaredAccumOut: Output = ..., LinearAccumOut: Output = ..., l1: float = 0.0,
         l2: float = 0.0, lr_power: float = -0.5, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Minimises the sum of the linearised losses so far plus l1 * |Param| + l2 * Param^2 and a term that keeps it near its past."""

def fused_elemwise_activation(X: Slot, Y: Slot, *, Out: Output = ..., IntermediateOut: Output = ..., axis: int = -1,
                              scale: float = 0.0, save_intermediate_out: bool = False, functor_list: Sequence[str],
                              **common: Unpack[Common]) -> Variable:
    """Out = outer(X, inner(Y)) where the first function takes two tensors, outer(inner(X, Y)) where the second does."""

fused_elemwise_activation_grad: Callable[..., Any]
def fused_embedding_fc_lstm(Ids: Slot, Embeddings: Slot, WeightH: Slot, Bias: Slot, H0: Slot | None = None,
                            C0: Slot | None = None, *, Hidden: Output = ..., Cell: Output = ..., XX: Output = ...,
                            BatchedInput: Output = ..., BatchedHidden: Output = ..., BatchedCell: Output = ...,
                            ReorderedH0: Output = ..., ReorderedC0: Output = ..., use_peepholes: bool = True,
                            is_reverse: bool = False, use_seq: bool = True, gate_activation: str = 'sigmoid',
                            cell_activation: str = 'tanh', candidate_activation: str = 'tanh', **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """lstm whose projected input, biases included, is looked up in a table."""

def fused_embedding_seq_pool(W: Slot, Ids: Slot, *, Out: Output = ..., combiner: str = 'sum',
                             grad_inplace: bool = False, is_sparse: bool = False, **common: Unpack[Common]) -> Variable:
    """The sums of the rows that sequences of ids look up in a table."""

fused_embedding_seq_pool_grad: Callable[..., Any]
def fusion_gru(X: Slot, H0: Slot | None = None, WeightX: Slot = ..., WeightH: Slot = ..., Bias: Slot | None = None, *,
               ReorderedH0: Output = ..., XX: Output = ..., BatchedInput: Output = ..., BatchedOut: Output = ...,
               Hidden: Output = ..., activation: str = 'tanh', gate_activation: str = 'sigmoid',
               is_reverse: bool = False, use_seq: bool = True, **common: Unpack[Common]) -> Variable:
    """gru with its input's projection: gru(X WeightX)."""

def fusion_lstm(X: Slot, WeightX: Slot, WeightH: Slot, Bias: Slot, H0: Slot | None = None, C0: Slot | None = None, *,
                Hidden: Output = ..., Cell: Output = ..., XX: Output = ..., BatchedInput: Output = ...,
                BatchedHidden: Output = ..., BatchedCell: Output = ..., ReorderedH0: Output = ...,
                ReorderedC0: Output = ..., CheckedCell: Output = ..., use_peepholes: bool = True,
                is_reverse: bool = False, use_seq: bool = True, gate_activation: str = 'sigmoid',
                cell_activation: str = 'tanh', candidate_activation: str = 'tanh', **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """lstm with its input's projection: lstm(X WeightX)."""

def fusion_repeated_fc_relu(X: Slot, W: Slot, Bias: Slot, *, ReluOut: Output = ..., Out: Output = ...,
                            **common: Unpack[Common]) -> Variable:
    """Fully connected layers with relu, one after the other: relu(."""

def fusion_seqconv_eltadd_relu(X: Slot, Filter: Slot, Bias: Slot, *, Out: Output = ..., ColMat: Output = ...,
                               contextLength: int, contextStart: int = 0, contextStride: int = 1,
                               **common: Unpack[Common]) -> Variable:
    """Out = relu(sequence_conv(X, Filter) + Bias)."""

def fusion_seqexpand_concat_fc(X: Slot, FCWeight: Slot, FCBias: Slot | None = None, *, Out: Output = ...,
                               FCOut: Output = ..., fc_activation: str = 'identity', **common: Unpack[Common]) -> Variable:
    """Repeats the rows of X[1], ."""

def fusion_seqpool_concat(X: Slot, *args: Variable | str, Out: Output = ..., pooltype: str = 'SUM', axis: int = 1,
                          **common: Unpack[Common]) -> Variable:
    """Pools each of several tensors of sequences and lays the results side by side."""

def fusion_squared_mat_sub(X: Slot, Y: Slot, *, SquaredX: Output = ..., SquaredY: Output = ..., SquaredXY: Output = ...,
                           Out: Output = ..., scalar: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = scalar ((X Y)^2 - X^2 Y^2), squares element by element."""

def fusion_transpose_flatten_concat(X: Slot, *args: Variable | str, Out: Output = ..., trans_axis: Sequence[int],
                                    flatten_axis: int, concat_axis: int, **common: Unpack[Common]) -> Variable:
    """Transposes several tensors, flattens each to a matrix and lays the matrices side by side."""

def gather(X: Slot, Index: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Takes rows of X: Out[i] = X[Index[i]]."""

gather_grad: Callable[..., Any]
def gather_nd(X: Slot, Index: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Takes elements or slices of X by several numbers each: Out[i...] = X[Index[i...]]."""

gather_nd_grad: Callable[..., Any]
def gaussian_random(*, Out: Output = ..., shape: Sequence[int], mean: float = 0.0, std: float = 1.0, seed: int = 0,
                    dtype: DTypeLike = 5, use_mkldnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = normally distributed numbers."""

def gaussian_random_batch_size_like(Input: Slot, *, Out: Output = ..., shape: Sequence[int], input_dim_idx: int = 0,
                                    output_dim_idx: int = 0, dtype: DTypeLike = 5, mean: float = 0.0, std: float = 1.0,
                                    seed: int = 0, **common: Unpack[Common]) -> Variable:
    """Out = normally distributed numbers, with one dimension of Input's."""

def gelu(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = X * P(N(0, 1) <= X) = X * (1 + erf(X / sqrt(2))) / 2."""

gelu_grad: Callable[..., Any]
def get_tensor_from_selected_rows(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the values of the rows that X holds, one after the other."""

def greater_equal(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, force_cpu: bool = True,
                  **common: Unpack[Common]) -> Variable:
    """Out = X is greater than Y or equal."""

def greater_than(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, force_cpu: bool = True,
                 **common: Unpack[Common]) -> Variable:
    """Out = X is greater than Y."""

def grid_sampler(X: Slot, Grid: Slot, *, Output: Output = ..., use_cudnn: bool = True, **common: Unpack[Common]) -> Variable:
    """Samples images at the places of a grid, bilinearly."""

grid_sampler_grad: Callable[..., Any]
def group_norm(X: Slot, Scale: Slot | None = None, Bias: Slot | None = None, *, Y: Output = ..., Mean: Output = ...,
               Variance: Output = ..., epsilon: float = 1e-05, groups: int, **common: Unpack[Common]) -> Variable:
    """Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias, with the mean and variance of each group of channels of an image."""

group_norm_grad: Callable[..., Any]
def gru(Input: Slot, H0: Slot | None = None, Weight: Slot = ..., Bias: Slot | None = None, *, BatchGate: Output = ...,
        BatchResetHiddenPrev: Output = ..., BatchHidden: Output = ..., Hidden: Output = ..., activation: str = 'tanh',
        gate_activation: str = 'sigmoid', is_reverse: bool = False, origin_mode: bool = False, **common: Unpack[Common]) -> Variable:
    """Gated recurrent units: with update u, candidate c and the state before h', Hidden = (1 - u) h' + u c."""

gru_grad: Callable[..., Any]
def gru_unit(Input: Slot, HiddenPrev: Slot, Weight: Slot, Bias: Slot | None = None, *, Gate: Output = ...,
             ResetHiddenPrev: Output = ..., Hidden: Output = ..., activation: int = 2, gate_activation: int = 1,
             origin_mode: bool = False, **common: Unpack[Common]) -> Variable:
    """One step of gated recurrent units, for a batch of rows: see gru."""

gru_unit_grad: Callable[..., Any]
def hard_shrink(X: Slot, *, Out: Output = ..., threshold: float = 0.5, **common: Unpack[Common]) -> Variable:
    """Out = X where |X| > threshold, else 0."""

hard_shrink_grad: Callable[..., Any]
def hard_sigmoid(X: Slot, *, Out: Output = ..., slope: float = 0.2, offset: float = 0.5, **common: Unpack[Common]) -> Variable:
    """Out = min(max(slope * X + offset, 0), 1)."""

hard_sigmoid_grad: Callable[..., Any]
def hard_swish(X: Slot, *, Out: Output = ..., threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0,
               **common: Unpack[Common]) -> Variable:
    """Out = X min(max(X + offset, 0), threshold) / scale."""

hard_swish_grad: Callable[..., Any]
def hash(X: Slot, *, Out: Output = ..., num_hash: int = 1, mod_by: int = 100000, **common: Unpack[Common]) -> Variable:
    """Hashes each row of ids num_hash times: Out[i,h,0] = XXH64 of the first 4 n bytes of the row, with seed h, modulo mod_by."""

def hierarchical_sigmoid(X: Slot, W: Slot, Label: Slot, PathTable: Slot | None = None, PathCode: Slot | None = None,
                         Bias: Slot | None = None, *, Out: Output = ..., PreOut: Output = ..., W_Out: Output = ...,
                         num_classes: int = 2, remote_prefetch: bool = False, trainer_id: int = 0,
                         height_sections: Sequence[int] = (), epmap: Sequence[str] = (),
                         table_names: Sequence[str] = (), is_sparse: bool = False, **common: Unpack[Common]) -> Variable:
    """Minus the log of the probability of a class that is a leaf of a binary tree: of the turns on the way to it, where the turn at a node is 1 with probability sigmoid(X ."""

hierarchical_sigmoid_grad: Callable[..., Any]
def hinge_loss(Logits: Slot, Labels: Slot, *, Loss: Output = ..., **common: Unpack[Common]) -> Variable:
    """Loss = max(1 - (2 Labels - 1) Logits, 0)."""

hinge_loss_grad: Callable[..., Any]
def huber_loss(X: Slot, Y: Slot, *, Residual: Output = ..., Out: Output = ..., delta: float, **common: Unpack[Common]) -> Variable:
    """With r = Y - X: Out = r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2)."""

huber_loss_grad: Callable[..., Any]
def im2sequence(X: Slot, Y: Slot | None = None, *, Out: Output = ..., kernels: Sequence[int],
                strides: Sequence[int] = (1, 1), paddings: Sequence[int] = (0, 0, 0, 0),
                out_stride: Sequence[int] = (1, 1), **common: Unpack[Common]) -> Variable:
    """Makes a sequence of each image: one row for each window."""

im2sequence_grad: Callable[..., Any]
def increment(X: Slot, *, Out: Output = ..., step: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = X + step, of one number."""

def index_select(X: Slot, Index: Slot, *, Out: Output = ..., dim: int = 0, **common: Unpack[Common]) -> Variable:
    """Elements of X along a dimension, by number: Out[i] = X[Index[i]] where dim is 0."""

index_select_grad: Callable[..., Any]
def is_empty(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X has no elements."""

def isfinite(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = no element of X is infinite or NaN."""

def isinf(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = some element of X is infinite."""

def isnan(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = some element of X is NaN."""

def keep_variables(X: Slot, Count: Slot | None = None, *, period: int = 1, **common: Unpack[Common]) -> None:
    """Keeps X, variables that this trainer alone has, beyond the process: a job that is started again goes on with them."""

def kldiv_loss(X: Slot, Target: Slot, *, Loss: Output = ..., reduction: str = 'mean', **common: Unpack[Common]) -> Variable:
    """The Kullback-Leibler divergence of Target from exp(X): Loss = Target (log(Target) - X), where Target > 0, else 0."""

kldiv_loss_grad: Callable[..., Any]
def l1_norm(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the sum of |X|."""

l1_norm_grad: Callable[..., Any]
def label_smooth(X: Slot, PriorDist: Slot | None = None, *, Out: Output = ..., epsilon: float = 0.0,
                 **common: Unpack[Common]) -> Variable:
    """Out = (1 - epsilon) X + epsilon PriorDist; without PriorDist all classes are as likely."""

label_smooth_grad: Callable[..., Any]
def lamb(Param: Slot, Grad: Slot, LearningRate: Slot, Moment1: Slot, Moment2: Slot, Beta1Pow: Slot, Beta2Pow: Slot, *,
         ParamOut: Output = ..., Moment1Out: Output = ..., Moment2Out: Output = ..., weight_decay: float = 0.01,
         beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06, per_row: bool = False,
         **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Adam with weight decay, whose step is scaled to |Param| for each parameter, for large batches."""

def lars_momentum(Param: Slot, Grad: Slot, Velocity: Slot, LearningRate: Slot, *, ParamOut: Output = ...,
                  VelocityOut: Output = ..., mu: float, lars_coeff: float = 0.001, lars_weight_decay: float = 0.0005,
                  per_row: bool = False, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Momentum whose learning rate for a whole parameter is scaled by |Param| / |Grad|, for large batches."""

def layer_norm(X: Slot, Scale: Slot | None = None, Bias: Slot | None = None, *, Y: Output = ..., Mean: Output = ...,
               Variance: Output = ..., epsilon: float = 1e-05, begin_norm_axis: int = 1, **common: Unpack[Common]) -> Variable:
    """Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias for each row of X."""

layer_norm_grad: Callable[..., Any]
def leaky_relu(X: Slot, *, Out: Output = ..., alpha: float = 0.02, **common: Unpack[Common]) -> Variable:
    """Out = X where X > 0, else alpha * X."""

leaky_relu_grad: Callable[..., Any]
def less_equal(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, force_cpu: bool = True, **common: Unpack[Common]) -> Variable:
    """Out = X is less than Y or equal."""

def less_than(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, force_cpu: bool = True, **common: Unpack[Common]) -> Variable:
    """Out = X is less than Y."""

def linear_chain_crf(Emission: Slot, Transition: Slot, Label: Slot, *, Alpha: Output = ..., EmissionExps: Output = ...,
                     TransitionExps: Output = ..., LogLikelihood: Output = ..., **common: Unpack[Common]) -> Variable:
    """Minus the log of the probability that a conditional random field gives each sequence of labels."""

linear_chain_crf_grad: Callable[..., Any]
def linear_interp(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None, *,
                  Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0, scale: float = 0.0,
                  interp_method: str = 'bilinear', data_layout: str = 'NCHW', align_corners: bool = True,
                  align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Lines in another length: each element is mixed of the two nearest ones of X."""

linear_interp_grad: Callable[..., Any]
def linear_interp_v2(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None, *,
                     Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0, scale: Sequence[float] = (),
                     interp_method: str = 'linear', data_layout: str = 'NCHW', align_corners: bool = True,
                     align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Lines in another length: each element is mixed of the two nearest ones of X."""

linear_interp_v2_grad: Callable[..., Any]
def linspace(Start: Slot, Stop: Slot, Num: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Num numbers at equal distances from Start to Stop, both included."""

def listen_and_serv(X: Slot | None = None, *args: Variable | str, endpoint: str = '',
                    grad_to_block_id: Sequence[str] = (), sync_mode: bool = True, dc_asgd: bool = False,
                    optimize_blocks: Sequence[Block | int] = (), prefetch_var_name_to_block_id: Sequence[str] = (),
                    sparse_grad_to_param: Sequence[str] = (), Fanin: int = 1, checkpint_block_id: int = -1,
                    **common: Unpack[Common]) -> None:
    """Serves until every trainer has said goodbye."""

def load(*, Out: Output = ..., load_as_fp16: bool = False, file_path: str, **common: Unpack[Common]) -> Variable:
    """Reads Out from the file file_path, which save wrote."""

def load_combine(*, Out: Output = ..., load_as_fp16: bool = False, model_from_memory: bool = False, file_path: str,
                 **common: Unpack[Common]) -> list[Variable]:
    """Reads all of Out from one file, which save_combine wrote with the same variables in the same order."""

def lod_array_length(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the number of elements of X."""

def lod_rank_table(X: Slot, *, Out: Output = ..., level: int = 0, **common: Unpack[Common]) -> Variable:
    """The sequences of X from the longest to the shortest."""

def lod_reset(X: Slot, Y: Slot | None = None, *, Out: Output = ..., target_lod: Sequence[int] = (),
              **common: Unpack[Common]) -> Variable:
    """Out is X with other sequences: those of Y, those whose offsets Y holds, or those of target_lod."""

lod_reset_grad: Callable[..., Any]
def lod_tensor_to_array(X: Slot, RankTable: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out[t] = step t of every sequence of X that is longer than t, the longest sequence first."""

lod_tensor_to_array_grad: Callable[..., Any]
def log(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = natural logarithm of X."""

log_grad: Callable[..., Any]
def log_loss(Predicted: Slot, Labels: Slot, *, Loss: Output = ..., epsilon: float, **common: Unpack[Common]) -> Variable:
    """The negative log likelihood of yes-or-no Labels under the probabilities Predicted."""

log_loss_grad: Callable[..., Any]
def log_softmax(X: Slot, *, Out: Output = ..., axis: int = -1, **common: Unpack[Common]) -> Variable:
    """The logarithm of softmax along an axis: Out = X - log(sum(exp(X)))."""

log_softmax_grad: Callable[..., Any]
def logical_and(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X and Y."""

def logical_not(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = not X."""

def logical_or(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X or Y, or both."""

def logical_xor(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = either X or Y."""

def logsigmoid(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False,
               **common: Unpack[Common]) -> Variable:
    """Out = log(1 / (1 + e^-X))."""

logsigmoid_grad: Callable[..., Any]
def lookup_sparse_table(W: Slot, Ids: Slot, *, Out: Output = ..., padding_idx: int = -1, width: int = 0,
                        auto_grown_table: bool = True, is_test: bool = False, **common: Unpack[Common]) -> Variable:
    """Looks rows up in a sparse table: Out[i] = the row of key Ids[i]."""

lookup_sparse_table_grad: Callable[..., Any]
def lookup_sparse_table_init(*, Out: Output = ..., dtype: DTypeLike = 5, width: int, init: str = 'constant',
                             a: float = 0.0, b: float = 0.0, seed: int = 0, state_values: Sequence[float] = (),
                             entry_count: int = 0, entry_probability: float = 1.0, max_age: int = 0,
                             keep_count: int = 0, max_rows: int = 0, memory: int = 0, spill: str = '',
                             **common: Unpack[Common]) -> Variable:
    """Makes an empty sparse table of rows by int64 keys."""

def lookup_sparse_table_update(W: Slot, Grad: Slot, Numbers: Slot | None = None, *, sub_block: Block | int, param: str,
                               grad: str, states: Sequence[str] = (), is_merged: bool = False, **common: Unpack[Common]) -> None:
    """Updates the rows of a sparse table that Grad names, by the operators of sub_block, some rows at a time."""

def lookup_table(W: Slot, Ids: Slot, *, Out: Output = ..., is_sparse: bool = False, is_distributed: bool = False,
                 padding_idx: int = -1, grad_inplace: bool = False, remote_prefetch: bool = False, trainer_id: int = 0,
                 height_sections: Sequence[int] = (), epmap: Sequence[str] = (), table_names: Sequence[str] = (),
                 **common: Unpack[Common]) -> Variable:
    """Looks rows up in an embedding table: Out[i] = W[Ids[i]]."""

lookup_table_grad: Callable[..., Any]
def lookup_table_v2(W: Slot, Ids: Slot, *, Out: Output = ..., is_sparse: bool = False, padding_idx: int = -1,
                    is_distributed: bool = False, grad_inplace: bool = False, remote_prefetch: bool = False,
                    trainer_id: int = 0, height_sections: Sequence[int] = (), epmap: Sequence[str] = (),
                    table_names: Sequence[str] = (), **common: Unpack[Common]) -> Variable:
    """Looks rows up in an embedding table: Out[i] = W[Ids[i]]."""

lookup_table_v2_grad: Callable[..., Any]
def lrn(X: Slot, *, Out: Output = ..., MidOut: Output = ..., n: int = 5, k: float = 2.0, alpha: float = 0.0001,
        beta: float = 0.75, use_mkldnn: bool = False, data_format: str = 'AnyLayout', is_test: bool = False,
        **common: Unpack[Common]) -> Variable:
    """Local response normalization across channels: Out = X (k + alpha sum X^2)^-beta, the sum over n neighbouring channels."""

lrn_grad: Callable[..., Any]
def lstm(Input: Slot, H0: Slot | None = None, C0: Slot | None = None, Weight: Slot = ..., Bias: Slot = ..., *,
         Hidden: Output = ..., Cell: Output = ..., BatchGate: Output = ..., BatchCellPreAct: Output = ...,
         use_peepholes: bool = True, is_reverse: bool = False, gate_activation: str = 'sigmoid',
         cell_activation: str = 'tanh', candidate_activation: str = 'tanh', **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Long short-term memory: c = candidate * input + c' * forget; Hidden = output * cell_activation(c)."""

lstm_grad: Callable[..., Any]
def lstm_unit(X: Slot, C_prev: Slot, *, C: Output = ..., H: Output = ..., forget_bias: float = 0.0,
              **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """With X as i, f, o, j: C = C_prev sigmoid(f + forget_bias) + sigmoid(i) tanh(j); H = tanh(C) sigmoid(o)."""

lstm_unit_grad: Callable[..., Any]
def lstmp(Input: Slot, H0: Slot | None = None, C0: Slot | None = None, Weight: Slot = ..., ProjWeight: Slot = ...,
          Bias: Slot = ..., *, Projection: Output = ..., Cell: Output = ..., BatchGate: Output = ...,
          BatchCellPreAct: Output = ..., BatchHidden: Output = ..., use_peepholes: bool = True,
          is_reverse: bool = False, gate_activation: str = 'sigmoid', cell_activation: str = 'tanh',
          candidate_activation: str = 'tanh', cell_clip: float = 0.0, proj_clip: float = 0.0,
          proj_activation: str = 'tanh', **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Long short-term memory that feeds back, and puts out, a projection of its hidden state."""

lstmp_grad: Callable[..., Any]
def margin_rank_loss(X1: Slot, X2: Slot, Label: Slot, *, Activated: Output = ..., Out: Output = ...,
                     margin: float = 0.0, **common: Unpack[Common]) -> Variable:
    """Out = max(margin - Label (X1 - X2), 0)."""

margin_rank_loss_grad: Callable[..., Any]
def matmul(X: Slot, Y: Slot, *, Out: Output = ..., transpose_X: bool = False, transpose_Y: bool = False,
           alpha: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = alpha X Y, the product of matrices, or of as many matrices as the dimensions before the last two count."""

matmul_grad: Callable[..., Any]
def matmul_v2(X: Slot, Y: Slot, *, Out: Output = ..., trans_x: bool = False, trans_y: bool = False,
              **common: Unpack[Common]) -> Variable:
    """Out = X Y of matrices, of stacks of matrices, spread over each other as NumPy's are, or of vectors."""

matmul_v2_grad: Callable[..., Any]
def max_pool2d_with_index(X: Slot, *, Out: Output = ..., Mask: Output = ..., ksize: Sequence[int],
                          global_pooling: bool = False, strides: Sequence[int] = (1, 1),
                          paddings: Sequence[int] = (0, 0), adaptive: bool = False, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Takes the maximum of each window of each channel, and says where it is."""

max_pool2d_with_index_grad: Callable[..., Any]
def max_pool3d_with_index(X: Slot, *, Out: Output = ..., Mask: Output = ..., ksize: Sequence[int],
                          global_pooling: bool = False, strides: Sequence[int] = (1, 1, 1),
                          paddings: Sequence[int] = (0, 0, 0), adaptive: bool = False, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Takes the maximum of each window of each channel, and says where it is."""

max_pool3d_with_index_grad: Callable[..., Any]
def max_sequence_len(RankTable: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the length of the longest sequence."""

def maxout(X: Slot, *, Out: Output = ..., groups: int, **common: Unpack[Common]) -> Variable:
    """Takes the largest of each group of channels."""

maxout_grad: Callable[..., Any]
def mean(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the mean of all elements of X."""

mean_grad: Callable[..., Any]
def mean_iou(Predictions: Slot, Labels: Slot, InWrongs: Slot | None = None, InCorrects: Slot | None = None,
             InMeanIou: Slot | None = None, *, OutMeanIou: Output = ..., OutWrong: Output = ...,
             OutCorrect: Output = ..., num_classes: int, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """The mean over classes of intersection over union: OutCorrect / (OutCorrect + OutWrong), of classes that occur."""

def merge_ids(Ids: Slot, Rows: Slot, X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> list[Variable]:
    """Puts together what parts of a table gave: Out[i] has, for each id of Ids[i], its row of X, which Rows say the numbers of."""

def merge_lod_tensor(X: Slot, Mask: Slot, InTrue: Slot, InFalse: Slot, *, Out: Output = ..., level: int = 0,
                     **common: Unpack[Common]) -> Variable:
    """Out = the rows (or sequences) of InTrue where Mask is true, those of InFalse elsewhere, each in their order."""

merge_lod_tensor_grad: Callable[..., Any]
def merge_selected_rows(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X with rows of equal numbers added up, in ascending order."""

def minus(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X - Y."""

def mish(X: Slot, *, Out: Output = ..., threshold: float = 20.0, **common: Unpack[Common]) -> Variable:
    """Out = X tanh(softplus(X))."""

mish_grad: Callable[..., Any]
def modified_huber_loss(X: Slot, Y: Slot, *, IntermediateVal: Output = ..., Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """With z = (2 Y - 1) X: Out = -4 z where z < -1, else max(1 - z, 0)^2."""

modified_huber_loss_grad: Callable[..., Any]
def momentum(Param: Slot, Grad: Slot, Velocity: Slot, LearningRate: Slot, *, ParamOut: Output = ...,
             VelocityOut: Output = ..., mu: float, use_nesterov: bool = False, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Velocity = mu * Velocity + Grad; ParamOut = Param - LearningRate * Velocity."""

def mul(X: Slot, Y: Slot, *, Out: Output = ..., x_num_col_dims: int = 1, y_num_col_dims: int = 1,
        **common: Unpack[Common]) -> Variable:
    """Out = X Y, the product of matrices."""

mul_grad: Callable[..., Any]
mul_grad_sgd: Callable[..., Any]
def multiplex(Ids: Slot, X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Takes each row from one of several tensors: Out[i] = X[Ids[i]][i]."""

multiplex_grad: Callable[..., Any]
def nce(Input: Slot, Label: Slot, Weight: Slot, Bias: Slot | None = None, SampleWeight: Slot | None = None,
        CustomDistProbs: Slot | None = None, CustomDistAlias: Slot | None = None,
        CustomDistAliasProbs: Slot | None = None, *, Cost: Output = ..., SampleLogits: Output = ...,
        SampleLabels: Output = ..., num_total_classes: int, num_neg_samples: int = 10, sampler: int = 0, seed: int = 0,
        is_sparse: bool = False, remote_prefetch: bool = False, trainer_id: int = 0,
        height_sections: Sequence[int] = (), epmap: Sequence[str] = (), table_names: Sequence[str] = (),
        custom_neg_classes: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """The cost of noise-contrastive estimation."""

nce_grad: Callable[..., Any]
def nearest_interp(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None, *,
                   Out: Output = ..., out_d: int = 0, out_h: int, out_w: int, scale: float = 0.0,
                   interp_method: str = 'bilinear', data_layout: str = 'NCHW', align_corners: bool = True,
                   align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Images in another size: each element is the nearest one of X."""

nearest_interp_grad: Callable[..., Any]
def nearest_interp_v2(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None,
                      *, Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0, scale: Sequence[float] = (),
                      interp_method: str = 'nearest', data_layout: str = 'NCHW', align_corners: bool = True,
                      align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Images in another size: each element is the nearest one of X."""

nearest_interp_v2_grad: Callable[..., Any]
def nonzero_rows(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the rows of X in which a value is not zero."""

def norm(X: Slot, *, Norm: Output = ..., Out: Output = ..., axis: int, epsilon: float = 1e-10, **common: Unpack[Common]) -> Variable:
    """Divides vectors along an axis by their lengths: Out = X / sqrt(sum X^2 + epsilon)."""

norm_grad: Callable[..., Any]
def not_equal(X: Slot, Y: Slot, *, Out: Output = ..., axis: int = -1, force_cpu: bool = True, **common: Unpack[Common]) -> Variable:
    """Out = X differs from Y."""

def one_hot(X: Slot, *, Out: Output = ..., depth: int, dtype: DTypeLike = 5, **common: Unpack[Common]) -> Variable:
    """Numbers as rows that hold a 1 at the number's place and 0 elsewhere."""

def one_hot_v2(X: Slot, *, Out: Output = ..., depth: int, dtype: DTypeLike = 5, allow_out_of_range: bool = False,
               **common: Unpack[Common]) -> Variable:
    """Numbers as rows that hold a 1 at the number's place and 0 elsewhere."""

def p_norm(X: Slot, *, Out: Output = ..., porder: float = 2.0, axis: int = -1, epsilon: float = 1e-12,
           keepdim: bool = False, asvector: bool = False, **common: Unpack[Common]) -> Variable:
    """The p-norm of vectors along an axis: Out = (sum |X|^p)^(1/p); the largest or the smallest |X| where p is infinite, how many are not 0 where p is 0."""

p_norm_grad: Callable[..., Any]
def pad(X: Slot, *, Out: Output = ..., paddings: Sequence[int], pad_value: float = 0.0, **common: Unpack[Common]) -> Variable:
    """X with pad_value before and after each dimension."""

def pad2d(X: Slot, Paddings: Slot | None = None, *, Out: Output = ..., paddings: Sequence[int] = (0, 0, 0, 0),
          pad_value: float = 0.0, mode: str = 'constant', data_format: str = 'NCHW', **common: Unpack[Common]) -> Variable:
    """Images with rows and columns added."""

pad2d_grad: Callable[..., Any]
def pad_constant_like(X: Slot, Y: Slot, *, Out: Output = ..., pad_value: float = 0.0, **common: Unpack[Common]) -> Variable:
    """Y at the front of a tensor like X, which is pad_value elsewhere."""

pad_constant_like_grad: Callable[..., Any]
pad_grad: Callable[..., Any]
def pixel_shuffle(X: Slot, *, Out: Output = ..., upscale_factor: int = 1, **common: Unpack[Common]) -> Variable:
    """Makes r x r pixels of one with r^2 times as many channels: Out[n, c, r y + i, r x + j] = X[n, c r^2 + i r + j, y, x]."""

pixel_shuffle_grad: Callable[..., Any]
def pool2d(X: Slot, *, Out: Output = ..., ksize: Sequence[int], global_pooling: bool = False,
           strides: Sequence[int] = (1, 1), paddings: Sequence[int] = (0, 0), adaptive: bool = False, pooling_type: str,
           exclusive: bool = True, ceil_mode: bool = False, use_cudnn: bool = False, use_mkldnn: bool = False,
           is_test: bool = False, use_quantizer: bool = False, data_format: str = 'AnyLayout', **common: Unpack[Common]) -> Variable:
    """Takes the maximum or the average of each window of each channel."""

pool2d_grad: Callable[..., Any]
def pool3d(X: Slot, *, Out: Output = ..., ksize: Sequence[int], global_pooling: bool = False,
           strides: Sequence[int] = (1, 1, 1), paddings: Sequence[int] = (0, 0, 0), adaptive: bool = False,
           pooling_type: str, exclusive: bool = True, ceil_mode: bool = False, use_cudnn: bool = False,
           use_mkldnn: bool = False, is_test: bool = False, data_format: str = 'AnyLayout', **common: Unpack[Common]) -> Variable:
    """Takes the maximum or the average of each window of each channel."""

pool3d_grad: Callable[..., Any]
def positive_negative_pair(Score: Slot, Label: Slot, QueryID: Slot, AccumulatePositivePair: Slot | None = None,
                           AccumulateNegativePair: Slot | None = None, AccumulateNeutralPair: Slot | None = None,
                           Weight: Slot | None = None, *, PositivePair: Output = ..., NegativePair: Output = ...,
                           NeutralPair: Output = ..., column: int = 0, **common: Unpack[Common]) -> Any:
    """Counts pairs of rows of one query: with the scores in the order of the labels, in the opposite order, and with equal scores."""

def pow(X: Slot, *, Out: Output = ..., factor: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = X^factor."""

pow_grad: Callable[..., Any]
def precision_recall(MaxProbs: Slot, Indices: Slot, Labels: Slot, Weights: Slot | None = None,
                     StatesInfo: Slot | None = None, *, BatchMetrics: Output = ..., AccumMetrics: Output = ...,
                     AccumStatesInfo: Output = ..., class_number: int, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Precision, recall and F1 score: the first three are means over classes, the last three of all cases together."""

def prefetch(X: Slot, *args: Variable | str, Out: Output = ..., table_names: Sequence[str] = (), is_next: bool = False,
             trainer_id: int = 0, epmap: Sequence[str] = (), **common: Unpack[Common]) -> Any:
    """Asks the servers for the rows that lookups further down will want, and returns: they come while other operators run."""

def prelu(X: Slot, Alpha: Slot, *, Out: Output = ..., mode: str = 'all', **common: Unpack[Common]) -> Variable:
    """Out = X > 0 ? X : Alpha X."""

prelu_grad: Callable[..., Any]
def print(In: Slot, *, Out: Output = ..., first_n: int = -1, message: str = '', summarize: int = -1,
          print_tensor_name: bool = True, print_tensor_type: bool = True, print_tensor_shape: bool = True,
          print_tensor_lod: bool = True, print_phase: str = 'BOTH', is_forward: bool = True, **common: Unpack[Common]) -> Any:
    """Shows In on standard output: message, name, shape, type, sequences and values."""

def proximal_adagrad(Param: Slot, Moment: Slot, Grad: Slot, LearningRate: Slot, *, ParamOut: Output = ...,
                     MomentOut: Output = ..., l1: float = 0.0, l2: float = 0.0, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Moment += Grad^2; q = Param - LearningRate * Grad / sqrt(Moment); ParamOut = sign(q) * max(|q| - LearningRate * l1, 0) / (1 + LearningRate * l2)."""

def proximal_gd(Param: Slot, Grad: Slot, LearningRate: Slot, *, ParamOut: Output = ..., l1: float = 0.0,
                l2: float = 0.0, **common: Unpack[Common]) -> Variable:
    """q = Param - LearningRate * Grad; ParamOut = sign(q) * max(|q| - LearningRate * l1, 0) / (1 + LearningRate * l2)."""

def pull_sparse(Ids: Slot, *, Out: Output = ..., table: str, padding_idx: int = -1, width: int, **common: Unpack[Common]) -> Variable:
    """Looks rows up in a sparse table that the servers have: Out[i] = the row of key Ids[i]."""

def push_sparse(Grad: Slot, *, table: str, **common: Unpack[Common]) -> None:
    """Pushes the rows of a sparse table's gradient to the servers, repeated keys added up."""

def pushed_rows(X: Slot, *, Out: Output = ..., width: int, **common: Unpack[Common]) -> Variable:
    """On a server: the gradient of this update for a sparse table's rows that are here, as the trainers have pushed it, each row once."""

def py_func(X: Slot | None = None, Like: Slot | None = None, *, Out: Output = ..., forward_callable_id: int = 0,
            backward_callable_id: int = -1, backward_skip_vars: Sequence[str] = (), **common: Unpack[Common]) -> Any:
    """Calls a function of Python: Out = function(X)."""

def random_crop(X: Slot, Seed: Slot | None = None, *, Out: Output = ..., SeedOut: Output = ..., shape: Sequence[int],
                startup_seed: int = 0, **common: Unpack[Common]) -> Variable:
    """Boxes of X at places that are drawn, another one for each item of the dimensions in front."""

def range(Start: Slot, End: Slot, Step: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = Start, Start + Step, ..., as long as that is before End."""

def rank_loss(Label: Slot, Left: Slot, Right: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """With o = Left - Right: Out = log(1 + exp(o)) - Label o, the cross entropy of sigmoid(o) and Label."""

rank_loss_grad: Callable[..., Any]
def read_from_array(X: Slot, I: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X[I]."""

read_from_array_grad: Callable[..., Any]
def reciprocal(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False,
               **common: Unpack[Common]) -> Variable:
    """Out = 1 / X."""

reciprocal_grad: Callable[..., Any]
def recurrent(inputs: Slot, initial_states: Slot | None = None, parameters: Slot | None = None, *,
              outputs: Output = ..., step_scopes: Output = ..., has_states: bool = False, ex_states: Sequence[str],
              states: Sequence[str], sub_block: Block | int, reverse: bool = False, is_train: bool = True,
              **common: Unpack[Common]) -> Any:
    """Runs sub_block for each step along dimension 0 of the inputs; states go from step to step."""

recurrent_grad: Callable[..., Any]
def recv(X: Slot | None = None, *args: Variable | str, Out: Output = ..., recv_varnames: Sequence[str] = (),
         with_barrier: bool = True, do_not_run: bool = False, varnames: Sequence[str] = (), epmap: Sequence[str] = (),
         sync_mode: int = 0, trainer_id: int = 0, **common: Unpack[Common]) -> list[Variable]:
    """Fetches parameters from the servers into Out, as they are after the last step."""

def recv_wait(X: Slot, *args: Variable | str, recv_varnames: Sequence[str] = (), **common: Unpack[Common]) -> None:
    """Returns when these parameters, which recv has asked for in the run before, are here."""

def reduce_all(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
               reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = whether all of X over the dimensions dim are true; X is bool."""

def reduce_any(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
               reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = whether any of X over the dimensions dim is true; X is bool."""

def reduce_max(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
               reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the largest of X over the dimensions dim."""

reduce_max_grad: Callable[..., Any]
def reduce_mean(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
                reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the mean of X over the dimensions dim."""

reduce_mean_grad: Callable[..., Any]
def reduce_min(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
               reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the smallest of X over the dimensions dim."""

reduce_min_grad: Callable[..., Any]
def reduce_prod(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
                reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the product of X over the dimensions dim."""

reduce_prod_grad: Callable[..., Any]
def reduce_sum(X: Slot, *, Out: Output = ..., dim: Sequence[int] = (0,), keep_dim: bool = False,
               reduce_all: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the sum of X over the dimensions dim."""

reduce_sum_grad: Callable[..., Any]
def relu(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = max(X, 0)."""

def relu6(X: Slot, *, Out: Output = ..., threshold: float = 6.0, **common: Unpack[Common]) -> Variable:
    """Out = min(max(X, 0), threshold)."""

relu6_grad: Callable[..., Any]
relu_grad: Callable[..., Any]
def reorder_lod_tensor_by_rank(X: Slot, RankTable: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the sequences of X (or its rows, if it has none) in the order of the table."""

reorder_lod_tensor_by_rank_grad: Callable[..., Any]
def reshape(X: Slot, Shape: Slot | None = None, *, Out: Output = ..., shape: Sequence[int], **common: Unpack[Common]) -> Variable:
    """The elements of X, in their order, in another shape."""

def reshape2(X: Slot, Shape: Slot | None = None, *, Out: Output = ..., XShape: Output = ..., shape: Sequence[int],
             **common: Unpack[Common]) -> Variable:
    """The elements of X, in their order, in another shape."""

reshape2_grad: Callable[..., Any]
reshape_grad: Callable[..., Any]
def reverse(X: Slot, *, Out: Output = ..., axis: Sequence[int], **common: Unpack[Common]) -> Variable:
    """Turns the order of the elements round, along each dimension of `axis`."""

def rmsprop(Param: Slot, MeanSquare: Slot, MeanGrad: Slot | None = None, LearningRate: Slot = ..., Grad: Slot = ...,
            Moment: Slot = ..., *, ParamOut: Output = ..., MomentOut: Output = ..., MeanSquareOut: Output = ...,
            MeanGradOut: Output = ..., epsilon: float = 1e-10, decay: float = 0.9, momentum: float = 0.0,
            centered: bool = False, **common: Unpack[Common]) -> Any:
    """MeanSquare = decay * MeanSquare + (1 - decay) * Grad^2; Moment = momentum * Moment + LearningRate * Grad / sqrt(MeanSquare + epsilon); ParamOut = Param - Moment."""

def rnn_memory_helper(X: Slot, *, Out: Output = ..., dtype: DTypeLike = 5, **common: Unpack[Common]) -> Variable:
    """Out = X: marks what a step of a recurrent net hands on."""

def round(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the whole number next to X, halves away from 0; the gradient is 0."""

round_grad: Callable[..., Any]
def row_conv(X: Slot, Filter: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Mixes each row with those that follow it: Out[t] = sum over i of X[t + i] * Filter[i]."""

row_conv_grad: Callable[..., Any]
def rsqrt(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = 1 / sqrt(X)."""

rsqrt_grad: Callable[..., Any]
def sample_logits(Logits: Slot, Labels: Slot, CustomizedSamples: Slot | None = None,
                  CustomizedProbabilities: Slot | None = None, *, Samples: Output = ..., Probabilities: Output = ...,
                  LogitsDim: Output = ..., LabelsDim: Output = ..., SampledLogits: Output = ...,
                  SampledLabels: Output = ..., use_customized_samples: bool = False, uniq: bool = True,
                  remove_accidental_hits: bool = True, num_samples: int, seed: int = 0, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """The scores of each row's true classes and of num_samples drawn ones: SampledLogits[i][j] = Logits[i][Samples[i][j]] - log(Probabilities[i][j])."""

sample_logits_grad: Callable[..., Any]
def sampling_id(X: Slot, *, Out: Output = ..., min: float = 0.0, max: float = 1.0, seed: int = 0,
                **common: Unpack[Common]) -> Variable:
    """Draws a column of each row, with the probabilities that the row gives."""

def save(X: Slot, *, kLookupTablePath: Output = ..., overwrite: bool = True, save_as_fp16: bool = False, file_path: str,
         **common: Unpack[Common]) -> Any:
    """Writes X, a tensor or selected rows, to the file file_path."""

def save_combine(X: Slot, *args: Variable | str, overwrite: bool = True, save_as_fp16: bool = False, file_path: str,
                 **common: Unpack[Common]) -> None:
    """Writes all of X to one file, one after the other."""

def scale(X: Slot, *, Out: Output = ..., scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True,
          **common: Unpack[Common]) -> Variable:
    """Out = scale * X + bias, or scale * (X + bias) when bias_after_scale is false."""

def scatter(X: Slot, Ids: Slot, Updates: Slot, *, Out: Output = ..., overwrite: bool = True, **common: Unpack[Common]) -> Variable:
    """X with some rows replaced: Out[Ids[i]] = Updates[i]."""

scatter_grad: Callable[..., Any]
def scatter_nd_add(X: Slot, Index: Slot, Updates: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """X with elements or slices added: Out[Index[i...]] = X[Index[i...]] + Updates[i...]."""

def selu(X: Slot, *, Out: Output = ..., scale: float = 1.050701, alpha: float = 1.6732632, **common: Unpack[Common]) -> Variable:
    """Out = scale * (X where X > 0, else alpha * (e^X - 1))."""

selu_grad: Callable[..., Any]
def send(X: Slot, *args: Variable | str, Out: Output = ..., send_varnames: Sequence[str] = (),
         sections: Sequence[int] = (), zero_copy: bool = False, epmap: Sequence[str] = (), sync_mode: int = 0,
         trainer_id: int = 0, num: int = 0, **common: Unpack[Common]) -> Any:
    """Pushes gradients to the servers, each under its block's name."""

def send_barrier(X: Slot | None = None, *args: Variable | str, Out: Output = ..., waits: bool = True,
                 trainer_id: int = 0, endpoints: Sequence[str] = (), **common: Unpack[Common]) -> Any:
    """Ends the step: all gradients were pushed."""

def send_sets(**common: Unpack[Common]) -> None:
    """Begins a step: sends the servers what the script has set since the step before, such as a learning rate or a parameter."""

def sequence_concat(X: Slot, *args: Variable | str, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Joins sequences: sequence i of Out is sequence i of each X, in order."""

sequence_concat_grad: Callable[..., Any]
def sequence_conv(X: Slot, PaddingData: Slot | None = None, Filter: Slot = ..., *, Out: Output = ...,
                  paddingTrainable: bool = False, contextLength: int, contextStart: int = 0, contextStride: int = 1,
                  **common: Unpack[Common]) -> Variable:
    """Out[t] = [X[t + contextStart], ..., X[t + contextStart + contextLength - 1]] Filter, within each sequence."""

sequence_conv_grad: Callable[..., Any]
def sequence_enumerate(X: Slot, *, Out: Output = ..., win_size: int, pad_value: int = 0, **common: Unpack[Common]) -> Variable:
    """Row t of Out is X[t] and those that follow it in the sequence, and pad_value beyond its end."""

def sequence_erase(X: Slot, *, Out: Output = ..., tokens: Sequence[int], **common: Unpack[Common]) -> Variable:
    """Leaves out the rows of X that hold one of `tokens`."""

def sequence_expand(X: Slot, Y: Slot, *, Out: Output = ..., ref_level: int = -1, **common: Unpack[Common]) -> Variable:
    """Repeats each sequence of X, or each row where X has none, as often as a sequence of Y has parts."""

def sequence_expand_as(X: Slot, Y: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Repeats row i of X as often as sequence i of Y has rows."""

sequence_expand_as_grad: Callable[..., Any]
sequence_expand_grad: Callable[..., Any]
def sequence_mask(X: Slot, *, Y: Output = ..., maxlen: int = -1, out_dtype: int, **common: Unpack[Common]) -> Variable:
    """Y[..., j] = 1 if j < X[...], else 0."""

def sequence_pad(X: Slot, PadValue: Slot, *, Out: Output = ..., Length: Output = ..., padded_length: int = -1,
                 **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """Out[i] is sequence i of X, and PadValue after its end."""

sequence_pad_grad: Callable[..., Any]
def sequence_pool(X: Slot, *, Out: Output = ..., MaxIndex: Output = ..., is_test: bool = False,
                  pooltype: str = 'AVERAGE', pad_value: float = 0.0, **common: Unpack[Common]) -> Variable:
    """Makes one row of each sequence of X."""

sequence_pool_grad: Callable[..., Any]
def sequence_reshape(X: Slot, *, Out: Output = ..., new_dim: int, **common: Unpack[Common]) -> Variable:
    """Writes the numbers of each sequence in rows of new_dim."""

sequence_reshape_grad: Callable[..., Any]
def sequence_reverse(X: Slot, *, Y: Output = ..., **common: Unpack[Common]) -> Variable:
    """Reverses the order of the rows within each sequence."""

sequence_reverse_grad: Callable[..., Any]
def sequence_scatter(X: Slot, Ids: Slot, Updates: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Adds each number of sequence i of Updates to row i of X, where sequence i of Ids says."""

sequence_scatter_grad: Callable[..., Any]
def sequence_slice(X: Slot, Offset: Slot, Length: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Sequence i of Out is the rows Offset[i] ."""

sequence_slice_grad: Callable[..., Any]
def sequence_softmax(X: Slot, *, Out: Output = ..., use_cudnn: bool = False, data_format: str = 'AnyLayout',
                     **common: Unpack[Common]) -> Variable:
    """Makes the numbers of each sequence positive with the sum 1."""

sequence_softmax_grad: Callable[..., Any]
def sequence_unpad(X: Slot, Length: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """The first Length[i] rows of each X[i], one after the other, as sequences."""

sequence_unpad_grad: Callable[..., Any]
def sgd(Param: Slot, LearningRate: Slot, Grad: Slot, *, ParamOut: Output = ..., **common: Unpack[Common]) -> Variable:
    """ParamOut = Param - LearningRate * Grad."""

def shape(Input: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the dimensions of Input."""

def shrink_rnn_memory(X: Slot, RankTable: Slot, I: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = what X has of the sequences that are longer than I: its first rows, or sequences."""

shrink_rnn_memory_grad: Callable[..., Any]
def shuffle_channel(X: Slot, *, Out: Output = ..., group: int = 1, **common: Unpack[Common]) -> Variable:
    """Mixes the groups of channels: Out[n, i groups + j] = X[n, j c / groups + i]."""

shuffle_channel_grad: Callable[..., Any]
def sigmoid(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = 1 / (1 + e^-X)."""

def sigmoid_cross_entropy_with_logits(X: Slot, Label: Slot, *, Out: Output = ..., normalize: bool = False,
                                      ignore_index: int = -100, **common: Unpack[Common]) -> Variable:
    """Out = max(X, 0) - X * Label + log(1 + exp(-|X|)): independent yes-or-no questions, with X as log odds."""

sigmoid_cross_entropy_with_logits_grad: Callable[..., Any]
sigmoid_grad: Callable[..., Any]
def sign(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = -1, 0 or 1 as X is negative, zero or positive; the gradient is 0."""

sign_grad: Callable[..., Any]
def silu(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X sigmoid(X)."""

silu_grad: Callable[..., Any]
def similarity_focus(X: Slot, *, Out: Output = ..., axis: int, indexes: Sequence[int], **common: Unpack[Common]) -> Variable:
    """A mask with 1 at the largest elements of the matrices X[n, indexes], no two of which share a row or a column."""

def sin(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = sin(X)."""

sin_grad: Callable[..., Any]
def slice(Input: Slot, *, Out: Output = ..., axes: Sequence[int], starts: Sequence[int], ends: Sequence[int],
          decrease_axis: Sequence[int] = (), infer_flags: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """The part of Input from `starts` up to but without `ends`, along `axes`; whole along the others."""

slice_grad: Callable[..., Any]
def smooth_l1_loss(X: Slot, Y: Slot, InsideWeight: Slot | None = None, OutsideWeight: Slot | None = None, *,
                   Diff: Output = ..., Out: Output = ..., sigma: float = 1.0, **common: Unpack[Common]) -> Variable:
    """With d = InsideWeight (X - Y) and s = sigma^2: Out[i] = sum_j OutsideWeight * (s d^2 / 2 where |d| < 1/s, else |d| - 1/(2 s))."""

smooth_l1_loss_grad: Callable[..., Any]
def soft_relu(X: Slot, *, Out: Output = ..., threshold: float = 40.0, **common: Unpack[Common]) -> Variable:
    """Out = log(1 + e^min(max(X, -threshold), threshold))."""

soft_relu_grad: Callable[..., Any]
def softmax(X: Slot, *, Out: Output = ..., axis: int = -1, use_cudnn: bool = False, data_format: str = 'AnyLayout',
            use_mkldnn: bool = False, is_test: bool = False, **common: Unpack[Common]) -> Variable:
    """Makes the numbers along `axis` positive with the sum 1: Out = exp(X) / sum(exp(X))."""

softmax_grad: Callable[..., Any]
def softmax_with_cross_entropy(Logits: Slot, Label: Slot, *, Softmax: Output = ..., Loss: Output = ...,
                               soft_label: bool = False, numeric_stable_mode: bool = True, ignore_index: int = -100,
                               **common: Unpack[Common]) -> Variable:
    """Softmax of the rows of Logits and its cross entropy with Label; exact also where a probability is 0."""

softmax_with_cross_entropy_grad: Callable[..., Any]
def softplus(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = log(1 + e^X)."""

softplus_grad: Callable[..., Any]
def softshrink(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = X - lambda where X > lambda, X + lambda where X < -lambda, else 0."""

softshrink_grad: Callable[..., Any]
def softsign(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = X / (1 + |X|)."""

softsign_grad: Callable[..., Any]
def space_to_depth(X: Slot, *, Out: Output = ..., blocksize: int = 2, **common: Unpack[Common]) -> Variable:
    """Makes channels of blocks of b x b pixels, in the order of Darknet's reorganization."""

space_to_depth_grad: Callable[..., Any]
def spectral_norm(Weight: Slot, U: Slot, V: Slot, *, Out: Output = ..., dim: int = 0, power_iters: int = 1,
                  eps: float = 1e-12, **common: Unpack[Common]) -> Variable:
    """A weight divided by its largest singular value, which is found by power iterations."""

spectral_norm_grad: Callable[..., Any]
def split(X: Slot, *, Out: Output = ..., sections: Sequence[int] = (), num: int = 0, axis: int = 0,
          **common: Unpack[Common]) -> list[Variable]:
    """Cuts X along `axis` into parts of the extents `sections`, or into `num` equal ones."""

def split_byref(X: Slot, *, Out: Output = ..., sections: Sequence[int] = (), num: int = 0, **common: Unpack[Common]) -> list[Variable]:
    """Cuts X along its first dimension."""

split_byref_grad: Callable[..., Any]
split_grad: Callable[..., Any]
def split_ids(Ids: Slot, *args: Variable | str, Out: Output = ..., **common: Unpack[Common]) -> list[Variable]:
    """Shares numbers out: Out[k] has those whose remainder by the number of outputs is k."""

split_ids_grad: Callable[..., Any]
def split_lod_tensor(X: Slot, Mask: Slot, *, OutTrue: Output = ..., OutFalse: Output = ..., level: int = 0,
                     **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """OutTrue = the rows (or sequences) of X where Mask is true, OutFalse = the others."""

split_lod_tensor_grad: Callable[..., Any]
def split_selected_rows(X: Slot, *, Out: Output = ..., height_sections: Sequence[int] = (), **common: Unpack[Common]) -> list[Variable]:
    """Cuts selected rows into sections of their height: Out[k] has the rows of section k, counted from where it begins."""

split_selected_rows_grad: Callable[..., Any]
def spp(X: Slot, *, Out: Output = ..., pyramid_height: int, pooling_type: str, **common: Unpack[Common]) -> Variable:
    """The maxima or averages of 1, 4, 16, ."""

spp_grad: Callable[..., Any]
def spp_take(X: Slot, Out: Slot, From: Slot, *, Taken: Output = ..., pyramid_height: int, pooling_type: str,
             **common: Unpack[Common]) -> Variable:
    """Takes from From what spp has taken from X: the elements at the places of the largest ones, or averages."""

spp_take_grad: Callable[..., Any]
def sqrt(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = sqrt(X)."""

sqrt_grad: Callable[..., Any]
def square(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = X^2."""

square_grad: Callable[..., Any]
def squared_l2_distance(X: Slot, Y: Slot, *, sub_result: Output = ..., Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """The squared distances of rows: Out = the sum over each row of (X - Y)^2."""

squared_l2_distance_grad: Callable[..., Any]
def squared_l2_norm(X: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the sum of X^2."""

squared_l2_norm_grad: Callable[..., Any]
def squeeze(X: Slot, *, Out: Output = ..., axes: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """X without its dimensions of 1."""

def squeeze2(X: Slot, *, Out: Output = ..., XShape: Output = ..., axes: Sequence[int] = (), **common: Unpack[Common]) -> Variable:
    """X without its dimensions of 1."""

squeeze2_grad: Callable[..., Any]
squeeze_grad: Callable[..., Any]
def stack(X: Slot, *args: Variable | str, Y: Output = ..., axis: int = 0, **common: Unpack[Common]) -> Variable:
    """Lays tensors of one shape along a new axis."""

stack_grad: Callable[..., Any]
def stanh(X: Slot, *, Out: Output = ..., scale_a: float = 0.6666667, scale_b: float = 1.7159, **common: Unpack[Common]) -> Variable:
    """Out = scale_b * tanh(scale_a * X)."""

stanh_grad: Callable[..., Any]
def strided_slice(Input: Slot, *, Out: Output = ..., axes: Sequence[int], starts: Sequence[int], ends: Sequence[int],
                  decrease_axis: Sequence[int] = (), infer_flags: Sequence[int] = (), strides: Sequence[int],
                  **common: Unpack[Common]) -> Variable:
    """Every strides[i]-th element of Input from `starts` up to but without `ends`, along `axes`; whole along the others."""

strided_slice_grad: Callable[..., Any]
def sum(X: Slot, *args: Variable | str, Out: Output = ..., use_mkldnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = the sum of all X."""

def sum_of_squares(X: Slot, *args: Variable | str, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out = the sum of the squares of all elements of all X, computed exactly and rounded once."""

def swish(X: Slot, *, Out: Output = ..., beta: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = X / (1 + e^(-beta * X))."""

swish_grad: Callable[..., Any]
def sync_batch_norm(X: Slot, Scale: Slot, Bias: Slot, Mean: Slot, Variance: Slot, *, Y: Output = ...,
                    MeanOut: Output = ..., VarianceOut: Output = ..., SavedMean: Output = ...,
                    SavedVariance: Output = ..., is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-05,
                    data_layout: str = 'NCHW', use_mkldnn: bool = False, fuse_with_relu: bool = False,
                    use_global_stats: bool = False, **common: Unpack[Common]) -> tuple[Variable, Variable, Variable]:
    """Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias for each channel."""

sync_batch_norm_grad: Callable[..., Any]
def take_places(X: Slot, Places: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Takes elements of each plane of X by their places: Out[n, c, i] = X[n, c, Places[n, c, i]]."""

take_places_grad: Callable[..., Any]
def tanh(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """Out = (e^X - e^-X) / (e^X + e^-X)."""

tanh_grad: Callable[..., Any]
def tanh_shrink(X: Slot, *, Out: Output = ..., use_mkldnn: bool = False, use_cudnn: bool = False,
                **common: Unpack[Common]) -> Variable:
    """Out = X - tanh(X)."""

tanh_shrink_grad: Callable[..., Any]
def teacher_student_sigmoid_loss(X: Slot, Label: Slot, *, Y: Output = ..., soft_max_up_bound: float = 15.0,
                                 soft_max_lower_bound: float = -15.0, **common: Unpack[Common]) -> Variable:
    """The cross entropy of sigmoid(X) and clicks, and of sigmoid(X) and a teacher's z where there is one."""

teacher_student_sigmoid_loss_grad: Callable[..., Any]
def temporal_shift(X: Slot, *, Out: Output = ..., seg_num: int, shift_ratio: float = 0.25, **common: Unpack[Common]) -> Variable:
    """Takes a share of the channels from the frame before, another one from the frame behind; zeros at the ends."""

temporal_shift_grad: Callable[..., Any]
def tensor_array_to_tensor(X: Slot, *, Out: Output = ..., OutIndex: Output = ..., axis: int = 0,
                           **common: Unpack[Common]) -> Any:
    """Joins the elements of X along `axis`."""

tensor_array_to_tensor_grad: Callable[..., Any]
def thresholded_relu(X: Slot, *, Out: Output = ..., threshold: float = 1.0, **common: Unpack[Common]) -> Variable:
    """Out = X where X > threshold, else 0."""

thresholded_relu_grad: Callable[..., Any]
def tile(X: Slot, *, Out: Output = ..., repeat_times: Sequence[int], **common: Unpack[Common]) -> Variable:
    """Repeats X along its dimensions, as tiles."""

tile_grad: Callable[..., Any]
def top_k(X: Slot, K: Slot | None = None, *, Out: Output = ..., Indices: Output = ..., k: int = 1,
          **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """The k largest numbers of each row of X, and where they stand."""

def top_k_v2(X: Slot, *, Out: Output = ..., Indices: Output = ..., k: int = 1, axis: int = -1, largest: bool = True,
             sorted: bool = True, **common: Unpack[Common]) -> tuple[Variable, Variable]:
    """The k largest or smallest elements along an axis, in order, and where they stand."""

def transpose(X: Slot, *, Out: Output = ..., axis: Sequence[int], use_mkldnn: bool = False,
              data_format: str = 'AnyLayout', **common: Unpack[Common]) -> Variable:
    """X with its dimensions in another order."""

def transpose2(X: Slot, *, Out: Output = ..., XShape: Output = ..., axis: Sequence[int], use_mkldnn: bool = False,
               data_format: str = 'AnyLayout', **common: Unpack[Common]) -> Variable:
    """X with its dimensions in another order."""

transpose2_grad: Callable[..., Any]
transpose_grad: Callable[..., Any]
def tree_conv(NodesVector: Slot, EdgeSet: Slot, Filter: Slot, *, Out: Output = ..., max_depth: int = 2,
              **common: Unpack[Common]) -> Variable:
    """A tree-based convolution: each node's window is its descendants down to max_depth."""

tree_conv_grad: Callable[..., Any]
def trilinear_interp(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None, *,
                     Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0, scale: float = 0.0,
                     interp_method: str = 'bilinear', data_layout: str = 'NCHW', align_corners: bool = True,
                     align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Volumes in another size: each element is mixed of the eight nearest ones of X."""

trilinear_interp_grad: Callable[..., Any]
def trilinear_interp_v2(X: Slot, OutSize: Slot | None = None, SizeTensor: Slot | None = None, Scale: Slot | None = None,
                        *, Out: Output = ..., out_d: int = 0, out_h: int = 0, out_w: int = 0,
                        scale: Sequence[float] = (), interp_method: str = 'trilinear', data_layout: str = 'NCHW',
                        align_corners: bool = True, align_mode: int = 1, **common: Unpack[Common]) -> Variable:
    """Volumes in another size: each element is mixed of the eight nearest ones of X."""

trilinear_interp_v2_grad: Callable[..., Any]
def truncated_gaussian_random(*, Out: Output = ..., shape: Sequence[int], mean: float = 0.0, std: float = 1.0,
                              seed: int = 0, dtype: DTypeLike = 5, **common: Unpack[Common]) -> Variable:
    """Out = normally distributed numbers, none more than 2 std from the mean."""

def uniform_random(*, Out: Output = ..., shape: Sequence[int], min: float = -1.0, max: float = 1.0, seed: int = 0,
                   dtype: DTypeLike = 5, **common: Unpack[Common]) -> Variable:
    """Out = numbers spread evenly over [min, max)."""

def uniform_random_batch_size_like(Input: Slot, *, Out: Output = ..., shape: Sequence[int], input_dim_idx: int = 0,
                                   output_dim_idx: int = 0, dtype: DTypeLike = 5, min: float = -1.0, max: float = 1.0,
                                   seed: int = 0, **common: Unpack[Common]) -> Variable:
    """Out = numbers spread evenly over [min, max), with one dimension of Input's."""

def unpool(X: Slot, Indices: Slot, *, Out: Output = ..., ksize: Sequence[int], strides: Sequence[int] = (1, 1),
           paddings: Sequence[int] = (0, 0), unpooling_type: str, **common: Unpack[Common]) -> Variable:
    """Puts each element of X at its place in a larger plane of zeros."""

unpool_grad: Callable[..., Any]
def unsqueeze(X: Slot, *, Out: Output = ..., axes: Sequence[int], **common: Unpack[Common]) -> Variable:
    """X with new dimensions of 1."""

def unsqueeze2(X: Slot, *, Out: Output = ..., XShape: Output = ..., axes: Sequence[int], **common: Unpack[Common]) -> Variable:
    """X with new dimensions of 1."""

unsqueeze2_grad: Callable[..., Any]
unsqueeze_grad: Callable[..., Any]
def unstack(X: Slot, *, Y: Output = ..., axis: int = 0, num: int, **common: Unpack[Common]) -> list[Variable]:
    """Cuts X along `axis` into slices without that axis."""

unstack_grad: Callable[..., Any]
def update_loss_scaling(X: Slot, FoundInfinite: Slot, PrevLossScaling: Slot, InGoodSteps: Slot, InBadSteps: Slot, *,
                        Out: Output = ..., LossScaling: Output = ..., OutGoodSteps: Output = ...,
                        OutBadSteps: Output = ..., incr_every_n_steps: int = 1000, decr_every_n_nan_or_inf: int = 2,
                        incr_ratio: float = 2.0, decr_ratio: float = 0.8, stop_update: bool = False,
                        **common: Unpack[Common]) -> tuple[list[Variable], Variable, Variable, Variable]:
    """Out = X, or zeros where FoundInfinite."""

def warpctc(Logits: Slot, Label: Slot, *, WarpCTCGrad: Output = ..., Loss: Output = ..., blank: int = 0,
            norm_by_times: bool = False, use_cudnn: bool = False, **common: Unpack[Common]) -> Variable:
    """The cost of labels whose alignment with a longer sequence is not known (connectionist temporal classification)."""

warpctc_grad: Callable[..., Any]
def where(Condition: Slot, X: Slot | None = None, Y: Slot | None = None, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """With X and Y, Out is X where Condition is true, and Y elsewhere."""

where_grad: Callable[..., Any]
def where_index(Condition: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Row i of Out holds the indices of the i-th element of Condition that is true, in the order of the elements."""

while_grad: Callable[..., Any]
def write_to_array(X: Slot, I: Slot, *, Out: Output = ..., **common: Unpack[Common]) -> Variable:
    """Out[I] = X."""

write_to_array_grad: Callable[..., Any]
add = elementwise_add
sub = elementwise_sub
div = elementwise_div
