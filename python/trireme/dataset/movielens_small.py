"""100,004 ratings of 9,066 films by 671 viewers (Harper and Konstan, "The MovieLens Datasets", 2015): ml-latest-small of October 2016.

A sample is (viewer, film, genres, words of the title, rating from 0.5 to 5). Films are numbered in the order of the file of films, genres
as in ``GENRES``, words by how often titles have them. A tenth of the ratings, chosen by a checksum, is for tests.
"""

from __future__ import annotations

import csv
import functools
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator

from . import common

FOLDER = "movielens_small"
URL = "https://files.grouplens.org/datasets/movielens/ml-latest-small.zip"
SHA256 = {"ratings.csv": "821795331fd974bbe7a8416f2a7eec2b548a485dedb47a073580b0a9a8a0a8d2",
          "movies.csv": "a87480009b75ecd8d1e8f70700c534b6aefd57eed31b087ce8268ef6061a166c"}
GENRES = ("(no genres listed)", "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
          "Film-Noir", "Horror", "IMAX", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western")
USERS, FILMS = 671, 9125               # numbers of viewers begin with 1, those of films with 0
WORDS = 2000                           # of titles; number 0 stands for all others
MEAN = 3.5                             # of the ratings, about

Sample = tuple[int, int, list[int], list[int], float]


def _rows(name: str) -> Iterator[list[str]]:
    text = common.read(FOLDER, name, URL, SHA256[name]).decode()
    rows = csv.reader(io.StringIO(text))
    next(rows)
    return rows


def words_of(title: str) -> list[str]:
    """Return the words of a title, without its year.

    >>> fluid.dataset.movielens_small.words_of("Grumpier Old Men (1995)")
    ['grumpier', 'old', 'men']
    """
    return re.findall(r"[a-z0-9']+", re.sub(r"\(\d{4}\)\s*$", "", title).lower())


@functools.lru_cache(maxsize=1)
def films() -> dict[int, tuple[int, list[int], list[int]]]:
    """Return what is known of each film, by its number in the files: (number, genres, words).

    >>> number, genres, words = fluid.dataset.movielens_small.films()[1]
    >>> number, [fluid.dataset.movielens_small.GENRES[genre] for genre in genres]
    (0, ['Adventure', 'Animation', 'Children', 'Comedy', 'Fantasy'])
    """
    rows = list(_rows("movies.csv"))
    counts = Counter(word for _, title, _ in rows for word in words_of(title))
    known = {word: i for i, (word, _) in enumerate(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS - 1], 1)}
    places = {genre: i for i, genre in enumerate(GENRES)}
    return {int(number): (i, [places[genre] for genre in genres.split("|")], [known.get(word, 0) for word in words_of(title)] or [0])
            for i, (number, title, genres) in enumerate(rows)}


def _is_test(viewer: str, film: str) -> bool:
    return zlib.crc32(f"{viewer},{film}".encode()) % 10 == 0


def _reader(test: bool) -> Callable[[], Iterator[Sample]]:
    def reader() -> Iterator[Sample]:
        known = films()
        for viewer, film, rating, _ in _rows("ratings.csv"):
            if _is_test(viewer, film) == test:
                number, genres, words = known[int(film)]
                yield int(viewer), number, genres, words, float(rating)

    return reader


def train() -> Callable[[], Iterator[Sample]]:
    """Return a reader of nine tenths of the ratings, in the order of the viewers.

    >>> viewer, film, genres, words, rating = next(fluid.dataset.movielens_small.train()())
    >>> viewer, rating
    (1, 2.5)
    """
    return _reader(False)


def test() -> Callable[[], Iterator[Sample]]:
    """Return a reader of the others.

    >>> ratings = [sample[-1] for sample in fluid.dataset.movielens_small.test()()]
    >>> len(ratings), max(ratings)
    (9855, 5.0)
    """
    return _reader(True)


__all__ = ["train", "test", "films", "words_of", "GENRES", "USERS", "FILMS", "WORDS", "MEAN"]
