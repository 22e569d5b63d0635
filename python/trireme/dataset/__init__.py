"""Well-known data sets as readers. See ``dataset.common`` for where their files are looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["adult", "common", "digits", "flowers", "imdb", "imikolov", "mnist", "movielens_small", "sentence_polarity", "tinyshakespeare",
           "uci_housing", "wmt14"]


_FILES = ("DatasetFactory", "InMemoryDataset", "QueueDataset")      # text files; Fluid has them in a module of this name


if TYPE_CHECKING:
    from ..feeding.feeds import DatasetFactory, InMemoryDataset, QueueDataset
    from . import (adult, common, digits, flowers, imdb, imikolov, mnist, movielens_small, sentence_polarity, tinyshakespeare,
                   uci_housing, wmt14)
else:
    def __getattr__(name: str) -> Any:
        if name in _FILES:
            from ..feeding import feeds
            return getattr(feeds, name)
        if name in __all__:
            import importlib
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"there is no data set {name!r}; there are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
