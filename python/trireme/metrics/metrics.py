"""Metrics over many batches, computed in Python from fetched values.

In a job a metric is of its trainer's own batches; ``distributed.merge_metric`` makes one of all trainers' batches of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class MetricBase:
    """Base: ``update`` with each batch, ``eval`` at the end, ``reset`` to begin anew.

    ``name`` (None: that of the class) is what ``str`` returns. A metric of your own counts in public attributes, which
    ``distributed.merge_metric`` adds up over trainers:

    >>> class Share(fluid.metrics.MetricBase):
    ...     def reset(self):
    ...         self.right, self.seen = 0, 0
    ...     def update(self, preds, labels):
    ...         self.right, self.seen = self.right + int((preds == labels).sum()), self.seen + len(labels)
    ...     def eval(self):
    ...         return self.right / self.seen
    >>> share = Share()
    >>> share.update(np.array([1, 0]), np.array([1, 1]))
    >>> share.eval()
    0.5
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__
        self.reset()

    def __str__(self) -> str:
        return self._name

    def reset(self) -> None:
        """Forget all batches."""
        raise NotImplementedError

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch: ``preds``, the predictions, and ``labels``, arrays of as many rows."""
        raise NotImplementedError

    def eval(self) -> Any:
        """Return the metric over all batches since ``reset``."""
        raise NotImplementedError

    def counts(self) -> Any:
        """Return what ``update`` has counted, all of which adds up over batches, and so over trainers: public attributes that are numbers,
        and arrays."""
        return {name: value for name, value in self.__dict__.items()
                if isinstance(value, np.ndarray) or (not name.startswith("_") and isinstance(value, (int, float, np.number)))}

    def set_counts(self, counts: Any) -> None:
        """Take these in the place of its own: the sums of ``counts()`` of several metrics of its kind."""
        self.__dict__.update(counts)

    def get_config(self) -> dict[str, Any]:
        """Return the metric's name and public attributes by name."""
        return {"name": self._name, **{k: v for k, v in self.__dict__.items() if not k.startswith("_")}}


def _first(value: Any) -> Any:
    """The one number of a fetched value, or a number as it is."""
    return np.asarray(value).reshape(-1)[0]


def _yes_or_no(name: str, labels: Any) -> np.ndarray:
    """Labels as bools; each must be 0 or 1."""
    labels = np.asarray(labels).reshape(-1)
    bad = np.flatnonzero((labels != 0) & (labels != 1))
    if bad.size:
        raise ValueError(f"{name}: the label of row {bad[0]} is {labels[bad[0]]}; it must be 0 or 1")
    return np.asarray(labels, bool)


def _probabilities(name: str, preds: np.ndarray) -> np.ndarray:
    bad = np.flatnonzero(~((preds >= 0) & (preds <= 1)))
    if bad.size:
        raise ValueError(f"{name}: the prediction of row {bad[0]} is {preds[bad[0]]}; it must be from 0 to 1")
    return preds


class Accuracy(MetricBase):
    """The mean of batches' accuracies, weighted by their sizes.

    >>> metric = fluid.metrics.Accuracy()
    >>> metric.update(value=0.5, weight=10)
    >>> metric.update(value=1.0, weight=30)
    >>> metric.eval()
    0.875
    """

    def reset(self) -> None:
        """Forget all batches."""
        self.value = self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Add a batch: ``value`` is its accuracy from 0 to 1, ``weight`` its number of samples. Each is a number or an array of one
        element."""
        value, weight = (float(_first(x)) for x in (value, weight))
        if not 0 <= weight < float("inf"):
            raise ValueError(f"Accuracy: weight must be a finite number of at least 0, got {weight!r}")
        if not 0 <= value <= 1:
            raise ValueError(f"Accuracy: value must be from 0 to 1, got {value!r}")
        self.value += value * weight
        self.weight += weight

    def eval(self) -> float:
        """Return the mean accuracy, a float. Without a batch it raises ValueError."""
        if self.weight == 0:
            raise ValueError("Accuracy: there was no data: call update first")
        return self.value / self.weight


class _Counts(MetricBase):
    """Counts of right and wrong yes and no; a prediction of at least 0.5 is a yes."""

    def reset(self) -> None:
        """Set the counts to 0."""
        self.tp = self.fp = self.fn = 0

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch: ``preds``, probabilities from 0 to 1, and ``labels``, as many zeros and ones."""
        yes = np.rint(_probabilities(self._name, np.asarray(preds).reshape(-1))).astype(bool)
        true = _yes_or_no(self._name, labels)
        if yes.shape != true.shape:
            raise ValueError(f"{self._name}: {yes.size} predictions, but {true.size} labels")
        self.tp += int((yes & true).sum())
        self.fp += int((yes & ~true).sum())
        self.fn += int((~yes & true).sum())


class Precision(_Counts):
    """The share of right ones among what was predicted as 1.

    >>> metric = fluid.metrics.Precision()
    >>> metric.update(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]))
    >>> metric.eval()
    0.5
    """

    def eval(self) -> float:
        """Return the precision, a float; 0 where nothing was predicted as 1."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(_Counts):
    """The share of the ones that were predicted as 1.

    >>> recall = fluid.metrics.Recall()
    >>> recall.update([0.9, 0.2, 0.7], [1, 1, 0])
    >>> recall.eval()
    0.5
    """

    def eval(self) -> float:
        """Return the recall, a float; 0 where no label is 1."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Auc(MetricBase):
    """The area under the curve of true over false positives, from counts in equal steps of the prediction.

    ``num_thresholds`` is the number of these steps. More make the area more exact.

    >>> metric = fluid.metrics.Auc("auc")
    >>> metric.update(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([[0], [1], [1]]))
    >>> metric.eval()
    1.0
    """

    def __init__(self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        if curve != "ROC":
            raise ValueError(f"Auc: curve must be 'ROC', got {curve!r}")
        self._num_thresholds = num_thresholds
        super().__init__(name)

    def reset(self) -> None:
        """Set the counts to 0."""
        self._positives = np.zeros(self._num_thresholds + 1, np.int64)
        self._negatives = np.zeros(self._num_thresholds + 1, np.int64)

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch: ``preds``, the probabilities [n, 2] of both classes, or [n] or [n, 1] of a 1, and ``labels``, n zeros and ones."""
        preds, labels = np.asarray(preds), _yes_or_no(self._name, labels)
        values = preds[:, 1] if preds.ndim == 2 and preds.shape[1] == 2 else preds.reshape(-1)
        if values.shape != labels.shape:
            raise ValueError(f"{self._name}: {values.size} predictions, but {labels.size} labels")
        bins = (_probabilities(self._name, values) * self._num_thresholds).astype(np.int64)
        np.add.at(self._positives, bins[labels], 1)
        np.add.at(self._negatives, bins[~labels], 1)

    def eval(self) -> float:
        """Return the area by trapezoids; 0 where all labels are of one kind."""
        true = np.concatenate([[0], np.cumsum(self._positives[::-1])]).astype(np.float64)
        false = np.concatenate([[0], np.cumsum(self._negatives[::-1])]).astype(np.float64)
        if true[-1] == 0 or false[-1] == 0:
            return 0.0
        area = np.sum((false[1:] - false[:-1]) * (true[1:] + true[:-1]) / 2)
        return float(area / (true[-1] * false[-1]))


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 score of chunks over many batches, from the counts that ``layers.chunk_eval`` gives.

    >>> metric = fluid.metrics.ChunkEvaluator()
    >>> metric.update(num_infer_chunks=8, num_label_chunks=4, num_correct_chunks=3)
    >>> metric.update(num_infer_chunks=0, num_label_chunks=2, num_correct_chunks=0)
    >>> metric.eval()
    (0.375, 0.5, 0.42857142857142855)
    """

    def reset(self) -> None:
        """Set the counts to 0."""
        self.num_infer_chunks = self.num_label_chunks = self.num_correct_chunks = 0

    # the arguments are Fluid's
    def update(self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any) -> None:    # type: ignore[override]
        """Add a batch: ``num_infer_chunks`` chunks were found, ``num_label_chunks`` are there, ``num_correct_chunks`` were found and are
        right."""
        found, real, right = (int(_first(x)) for x in (num_infer_chunks, num_label_chunks, num_correct_chunks))
        if not 0 <= right <= min(found, real):
            raise ValueError(f"{self._name}: {right} correct chunks of {found} found, with {real} in the labels")
        self.num_infer_chunks += found
        self.num_label_chunks += real
        self.num_correct_chunks += right

    def eval(self) -> tuple[float, float, float]:
        """Return precision, recall and F1 score; 0 where nothing was to be found, or nothing found."""
        right, both = self.num_correct_chunks, self.num_infer_chunks + self.num_label_chunks
        return (right / self.num_infer_chunks if self.num_infer_chunks else 0.0,
                right / self.num_label_chunks if self.num_label_chunks else 0.0, 2 * right / both if both else 0.0)


class EditDistance(MetricBase):
    """The mean edit distance over many batches, and the share of sequences that are not right, from ``layers.edit_distance``.

    >>> metric = fluid.metrics.EditDistance()
    >>> metric.update(np.array([[0.0], [2.0]]), seq_num=2)
    >>> metric.update(np.array([[0.0], [1.0]]), seq_num=2)
    >>> metric.eval()
    (0.75, 0.5)
    """

    def reset(self) -> None:
        """Forget all batches."""
        self.total_distance = 0.0
        self.seq_num = self.instance_error = 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """Add a batch: ``distances``, an array with one distance for each sequence, and ``seq_num``, the number of sequences."""
        distances, count = np.asarray(distances), int(_first(seq_num))
        if distances.size != count:
            raise ValueError(f"{self._name}: {distances.size} distances, but seq_num is {count}")
        self.total_distance += float(distances.sum())
        self.seq_num += count
        self.instance_error += int(np.count_nonzero(distances))

    def eval(self) -> tuple[float, float]:
        """Return the mean distance and the share of wrong sequences, two floats. Without a sequence it raises ValueError."""
        if self.seq_num == 0:
            raise ValueError(f"{self._name}: there was no data: call update first")
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class CompositeMetric(MetricBase):
    """Several metrics of the same predictions and labels.

    >>> both = fluid.metrics.CompositeMetric()
    >>> for metric in (fluid.metrics.Precision(), fluid.metrics.Recall()):
    ...     both.add_metric(metric)
    >>> both.update([0.9, 0.2, 0.7], [1, 1, 0])
    >>> both.eval()
    [0.5, 0.5]
    """

    def __init__(self, name: str | None = None) -> None:
        self._metrics: list[MetricBase] = []
        super().__init__(name)

    def add_metric(self, metric: MetricBase) -> None:
        """Add a metric: ``metric`` is a MetricBase, anything else raises TypeError."""
        if not isinstance(metric, MetricBase):
            raise TypeError(f"add_metric takes a metric, got {metric!r}")
        self._metrics.append(metric)

    def reset(self) -> None:
        """Reset every metric."""
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch to every metric: ``preds`` and ``labels`` are as each of them takes them."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """Return the values of all metrics, in the order in which they were added."""
        return [metric.eval() for metric in self._metrics]

    def counts(self) -> Any:
        return [metric.counts() for metric in self._metrics]

    def set_counts(self, counts: Any) -> None:
        for metric, mine in zip(self._metrics, counts):
            metric.set_counts(mine)


__all__ = ["MetricBase", "Accuracy", "Precision", "Recall", "Auc", "ChunkEvaluator", "EditDistance", "CompositeMetric"]
