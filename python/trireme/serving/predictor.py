"""A model that is loaded and run from many threads: the C API of serving/trireme_serving.h for Python."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..feeding.slots import Slot
from ..native.checks import path_text
from ..native.dtypes import FROM_NUMPY, NUMPY_DTYPES, array_of
from ..native.errors import DTypeError, FileError, InvalidArgumentError, NotFoundError, ShapeError, TriremeError, check, user_line
from ..native.handles import Handle, Native, new_lock_of
from ..native.names import path_chars
from ..native.suggest import did_you_mean
from ..native.tensor import LoDTensor, view_of_owned, with_batch_sizes
from ..stores.copies import Mirror, has_files, is_model
from ..stores.names import is_uri
from . import raw_rows


class End:
    """What the program says of a feed or a fetch. ``code`` is the data type as saved programs number it; -1 in ``shape`` is any size."""

    def __init__(self, read_type: Callable[..., int], name: str, predictor: Any, index: int) -> None:
        dtype, rank, lod_level, dims = ffi.new("tr_dtype *"), ffi.new("int *"), ffi.new("int *"), ffi.new("int64_t[9]")
        check(read_type(predictor, index, dtype, rank, dims, lod_level))
        self.name, self.code, self.lod_level = name, int(dtype[0]), int(lod_level[0])
        self.dtype = NUMPY_DTYPES.get(self.code)
        self.shape: list[int] = ffi.unpack(dims, rank[0])


class _Feed(End):
    """What one feed of the model must be."""

    def __init__(self, predictor: Any, index: int) -> None:
        super().__init__(lib.tr_predictor_feed_type, ffi.string(lib.tr_predictor_feed(predictor, index)).decode(), predictor, index)

    def fill(self, native: Any, value: Any, keep: list[Any]) -> None:
        """Let the tr_feed look at the value; what must stay alive goes to ``keep``."""
        lod: Sequence[Sequence[int]] = ()
        if isinstance(value, LoDTensor):
            value, lod = value._read(f"feed {self.name!r}"), value.lod()
        array = np.ascontiguousarray(value if isinstance(value, np.ndarray) else array_of(value, self.dtype, self.name))
        self._check(array)
        dims = ffi.new("int64_t[]", list(np.shape(value)))
        keep += [array, dims]
        native.dtype, native.rank, native.dims = FROM_NUMPY[array.dtype], len(dims), dims
        native.data = ffi.from_buffer(array)
        if lod:
            levels = [ffi.new("int64_t[]", list(level)) for level in lod]
            counts, pointers = ffi.new("int64_t[]", [len(level) for level in lod]), ffi.new("int64_t *[]", levels)
            keep += [levels, counts, pointers]
            native.lod_levels, native.lod_counts, native.lod_offsets = len(lod), counts, pointers

    def _check(self, array: np.ndarray) -> None:
        if self.dtype is not None and array.dtype != self.dtype:
            raise DTypeError(f"feed {self.name!r} is {array.dtype}, the model wants {self.dtype}: give "
                             f"{self.name}.astype({str(self.dtype)!r})\n  your line: {user_line()}")
        if self.lod_level == 0 and (array.ndim != len(self.shape) or any(a >= 0 and a != b for a, b in zip(self.shape, array.shape))):
            want = ", ".join("?" if dim < 0 else str(dim) for dim in self.shape)
            raise ShapeError(f"feed {self.name!r} has the shape {list(array.shape)}, the model wants [{want}]\n  your line: {user_line()}")


def _await_model(folder: str, model_file: str, seconds: float) -> None:
    """Return when a folder has a model. NotFoundError, FileError: there is no folder, or no model in it, after so many seconds."""
    end = time.monotonic() + seconds
    while not is_model(folder, model_file):
        if time.monotonic() >= end:
            kind: type[NotFoundError | FileError] = NotFoundError
            what = f"there is no folder {folder!r}"
            if has_files(folder):
                kind = FileError
                what = f"cannot open a model in {folder!r}: there is neither an export (a file 'current') nor a saved one ({model_file!r})"
            after = f" after {seconds:g} s" if seconds else ""
            raise kind(f"Predictor: {what}{after}. Where a training is about to export to it, wait for that: Predictor({folder!r}, "
                       f"wait=600)\n  your line: {user_line()}")
        time.sleep(min(0.2, max(0.0, end - time.monotonic())))


class Predictor(Handle):
    """A model for serving. Any number of threads may call ``run`` at the same time.

    ``folder``: of ``save_inference_model``, or one that an ``Exporter`` writes to. ``model_filename``, ``params_filename``: as
    ``save_inference_model`` was given them. ``wait``: so many seconds for a model to appear in the folder, such as the first export of a
    training (default 0).

    Parameters are in memory once; rows of sparse tables stay in their files, which are mapped. Runs of the core allocate nothing when as
    many threads have run before as run at a time.

    >>> import tempfile
    >>> x = fluid.layers.data("x", [2])
    >>> y = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> folder = tempfile.mkdtemp()
    >>> _ = fluid.io.save_inference_model(folder, ["x"], [y], exe)
    >>> predictor = fluid.serving.Predictor(folder)
    >>> predictor.feeds
    ['x']
    >>> predictor.run({"x": np.array([[1, 2], [3, 4]], "float32")})[0].tolist()
    [[3.0], [7.0]]

    Raises:
        NotFoundError, FileError: There is no model in the folder.
        FormatError: The model is damaged.
        UnsupportedError: The program reaches files or other processes, or a sparse table was not exported for serving.
    """

    _instead = "Load its folder again: Predictor(folder). Threads share one Predictor"

    def __init__(self, folder: str | os.PathLike[str], model_filename: str | None = None, params_filename: str | None = None, *,
                 wait: float = 0.0) -> None:
        if not isinstance(wait, (int, float)) or not 0 <= wait < 1e9:
            raise InvalidArgumentError(f"Predictor: wait={wait!r}; seconds from 0 on are possible")
        _await_model(path_text(folder), model_filename or "__model__", wait)
        self._mirror = Mirror(path_text(folder)) if is_uri(path_text(folder)) else None
        out = ffi.new("tr_predictor **")
        names = [path_chars(name) if name is not None else ffi.NULL for name in (model_filename, params_filename)]
        local = path_chars(self._mirror.path if self._mirror else path_text(folder))
        _newest(self._mirror, lambda: check(lib.tr_predictor_load_files(out, local, *names)))
        self._native = Native(out[0], lib.tr_predictor_free, owner="Predictor")
        if lib.tr_predictor_version(out[0]) > 0 and not lib.tr_predictor_has_checksums(out[0]):
            print(f"trireme: {os.fspath(folder)}: an older version has written this export, without checksums: damage to its files would "
                  "go unnoticed. Export the model again", file=sys.stderr, flush=True)
        self._follower: _Follower | None = None
        self._lock = new_lock_of(self)                # held while _follower changes
        self.folder = path_text(folder)
        self._feeds = [_Feed(out[0], i) for i in range(lib.tr_predictor_feed_count(out[0]))]
        self._slots = raw_rows.slots_of(out[0])        # those of newer exports are the same
        self.feeds = [feed.name for feed in self._feeds]
        self.fetches = [ffi.string(lib.tr_predictor_fetch(out[0], i)).decode() for i in range(lib.tr_predictor_fetch_count(out[0]))]

    def _let_go(self) -> bool:
        follower, self._follower = self.__dict__.get("_follower"), None
        is_first = super()._let_go()
        if follower is not None:
            follower.end()
        return is_first

    def close(self) -> None:
        """Stop following, and free the model when the last run has ended. Other threads may run it, or close it, too: what they begin from
        now on raises InvalidArgumentError.
        """
        with self._own_lock():
            self._let_go()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The number of the export that runs use, from 1; 0 for a saved model."""
        with self._native as predictor:
            return int(lib.tr_predictor_version(predictor))

    @property
    def step(self) -> int:
        """The training's step at that export."""
        with self._native as predictor:
            return int(lib.tr_predictor_step(predictor))

    def shape_of(self, feed: str) -> tuple[str, list[int]]:
        """Return the data type and the shape of a feed; -1 is any size."""
        found = next((one for one in self._feeds if one.name == feed), None)
        if found is None:
            raise NotFoundError(f"the model has no feed {feed!r}{did_you_mean(feed, self.feeds)}")
        return str(found.dtype), list(found.shape)

    def run(self, feed: Mapping[str, Any], return_numpy: bool = True) -> list[Any]:
        """Run the model once; return the fetched arrays in the order of ``fetches``.

        ``feed``: arrays, or LoDTensors, by name. Types must be those of the model: a wrong one raises DTypeError with the conversion to
        write. ``return_numpy`` False returns LoDTensors, which have the offsets of sequences.
        """
        return self.run_version(feed, return_numpy)[0]

    def run_version(self, feed: Mapping[str, Any], return_numpy: bool = True) -> tuple[list[Any], int]:
        """Run the model as ``run`` does; return the arrays, and the number of the export that this run used (0: a saved model).

        ``feed``, ``return_numpy``: as for ``run``. While the predictor follows a folder, ``version`` may tell a newer one already.
        """
        native = self._native
        for name in feed:
            if name not in self.feeds:
                raise NotFoundError(f"feed {name!r} is no variable of the model, which is fed {', '.join(self.feeds)}"
                                    f"{did_you_mean(name, self.feeds)}\n  your line: {user_line()}")
        feeds = ffi.new("tr_feed[]", len(self._feeds))
        keep: list[Any] = []
        for i, one in enumerate(self._feeds):
            if one.name not in feed:
                raise NotFoundError(f"the feed lacks {one.name!r}; the model is fed {', '.join(self.feeds)}\n  your line: {user_line()}")
            one.fill(feeds[i], feed[one.name], keep)
        with native as predictor:                      # a thread may close it meanwhile
            try:
                return self._run(predictor, feeds, return_numpy)
            except ShapeError as error:
                raise with_batch_sizes(error, feed) from None

    def _run(self, predictor: Any, feeds: Any, return_numpy: bool) -> tuple[list[Any], int]:
        """Run the native predictor with native feeds; return the results and the export's number."""
        version = ffi.new("int64_t *")
        results = ffi.new("tr_tensor *[]", [lib.tr_tensor_new() for _ in self.fetches])
        status = lib.tr_predictor_run_version(predictor, feeds, results, version)
        if status:
            for result in results:
                lib.tr_tensor_free(result)
            check(status)
        return [view_of_owned(result) if return_numpy else LoDTensor._adopt(result) for result in results], int(version[0])

    @property
    def slots(self) -> list[Slot]:
        """What a row of raw values has for each feed, as the model was saved with it; empty where it was saved without slots."""
        return [slot.public() for slot in self._slots]

    def feed_of(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the feed for ``run`` that rows of raw values make. ``rows``: as for ``run_rows``."""
        with self._native as predictor:
            return raw_rows.feed_of(predictor, self._slots, rows)

    def run_rows(self, rows: Sequence[Mapping[str, Any]], return_numpy: bool = True) -> list[Any]:
        """Run the model for rows of raw values, such as ``[{"user": "u7", "genres": [8]}]``; return what ``run`` does.

        The model was saved with ``slots=``: then texts become ids, and missing values are filled in, as the reader of the training's data
        did it. ``rows`` is a list of dicts, each with a value for each slot. A value is a number, or a text or an integer where the slot
        hashes; a list where the slot is a sequence or a row of several numbers; None or NaN where it is missing. ``return_numpy``: as for
        ``run``.

        Raises:
            UnsupportedError: The model was saved without slots.
            InvalidArgumentError, NotFoundError: A row does not fit. The text names the row, the slot, what is expected and what was found.
        """
        with self._native as predictor, raw_rows.feeds_of(predictor, self._slots, rows) as feeds:
            return self._run(predictor, feeds, return_numpy)[0]

    def ends(self) -> tuple[list[End], list[End]]:
        """Return what the program says of the feeds and of the fetches."""
        with self._native as predictor:
            return list(self._feeds), [End(lib.tr_predictor_fetch_type, name, predictor, i) for i, name in enumerate(self.fetches)]

    def refresh(self) -> bool:
        """Take the newest export, if it is newer; return whether it was. Runs in other threads go on meanwhile."""
        is_new = ffi.new("bool *")
        with self._native as predictor:
            _newest(self._mirror, lambda: check(lib.tr_predictor_refresh(predictor, is_new)))
        return bool(is_new[0])

    def follow(self, seconds: float = 1.0) -> None:
        """Look for a newer export every so many seconds, in a thread of its own, until ``close``.

        An export that cannot be read leaves the model as it is: a line on standard error says so, once for each reason.
        """
        if not 0 < seconds < 1e6:
            raise InvalidArgumentError(f"follow: seconds={seconds!r}; a number above 0 is possible")
        with self._lock:
            native = self._native
            if self._follower is None or not self._follower.is_alive():
                self._follower = _Follower(native, self.folder, self._mirror, float(seconds))

    def __repr__(self) -> str:
        return f"Predictor({self.folder!r}: {', '.join(self.feeds)} -> {', '.join(self.fetches)})"


def _newest(mirror: Mirror | None, load: Callable[[], None]) -> None:
    """Load the newest files: of the folder itself, or of a fresh copy of a store's."""
    if mirror is None:
        load()
    else:
        mirror.read(load)


class _Follower:
    """A thread that refreshes a predictor. It knows the native predictor alone, so that the Python one may go."""

    def __init__(self, native: Native, folder: str, mirror: Mirror | None, seconds: float) -> None:
        self._native, self._folder, self._mirror, self._seconds = native.retain(), folder, mirror, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trireme-follow", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            self._native.release()

    def _follow(self) -> None:
        is_new, said = ffi.new("bool *"), ""
        while not self._over.wait(self._seconds):
            try:
                _newest(self._mirror, lambda: check(lib.tr_predictor_refresh(self._native.ptr, is_new)))
                said = ""
            except TriremeError as error:
                if str(error) != said:
                    said = str(error)
                    print(f"trireme: {self._folder}: the newest export cannot be served: {said}", file=sys.stderr, flush=True)

    def is_alive(self) -> bool:
        """Whether it follows: not in a process that was forked since, where the thread does not exist."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Let the thread end by itself, after the look at the folder that it may be in."""
        if self.is_alive():                            # in a forked child a thread that is not there may hold the event's lock
            self._over.set()
