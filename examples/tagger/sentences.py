"""Sentences with names in them, made up by a grammar, and their tags.

A phrase is an opener, one or two names of up to twenty words, and a closer. What the names are (persons, places or firms)
follows from the opener and the closer together: either alone leaves two of the three. Without an opener or without a
closer, words of names are no names at all. So a tag depends on words that may stand far away, on both sides. One word
in a hundred cannot be read.
"""

import itertools
import random

KINDS = ["person", "place", "firm"]
TAGS = [f"{mark}-{kind}" for kind in KINDS for mark in "BI"] + ["O"]     # begins a name, goes on, is none
OUTSIDE = len(TAGS) - 1

SYLLABLES = ["ka", "ro", "mi", "lu", "ven", "tas", "bor", "shi", "del", "mar"]
PARTS = ["".join(pair) for pair in itertools.product(SYLLABLES, repeat=2)]        # of names, after the first word
HEADS = [part.capitalize() for part in PARTS[::3]]                      # first words of names
FILLERS = ("a the old new small of that this was is one many then often never again slowly here there rain snow "
           "house road letter song book door river cloud hill day night year word story light wind field").split()
OPENERS = [["for", "to", "against"], ["with", "beside", "behind"], ["by", "from", "through"]]
CLOSERS = [["said", "told", "wrote"], ["grew", "fell", "stood"], ["sold", "bought", "paid"]]
KIND_OF = [[0, 0, 1], [0, 2, 2], [1, 2, 1]]                             # by opener and closer
SMUDGED = "?"
WORDS = [SMUDGED, *PARTS, *HEADS, *FILLERS, *itertools.chain(*OPENERS, *CLOSERS)]
IDS = {word: i for i, word in enumerate(WORDS)}


def _names(rng):
    """The words of one or two names, and for each whether it begins one."""
    words, begins = [], []
    for _ in range(rng.randint(1, 2)):
        rest = rng.randint(0, 19)
        words += [rng.choice(HEADS), *rng.choices(PARTS, k=rest)]
        begins += [True] + [False] * rest
    return words, begins


def _phrase(rng):
    words, begins = _names(rng)
    opener, closer = rng.randrange(3), rng.randrange(3)
    before = [rng.choice(OPENERS[opener])] if rng.random() < 0.8 else []
    behind = [rng.choice(CLOSERS[closer])] if rng.random() < 0.8 else []
    kind = KIND_OF[opener][closer]
    tags = [2 * kind + (not begin) if before and behind else OUTSIDE for begin in begins]
    return before + words + behind, [OUTSIDE] * len(before) + tags + [OUTSIDE] * len(behind)


def sentence(rng):
    """Return the words of a sentence and their tags; `rng` is a `random.Random`."""
    words, tags = [], []
    for _ in range(rng.randint(1, 3)):
        filler = rng.choices(FILLERS, k=rng.randint(1, 4))
        more, more_tags = _phrase(rng)
        words += filler + more
        tags += [OUTSIDE] * len(filler) + more_tags
    return [SMUDGED if rng.random() < 0.01 else word for word in words], tags


def reader(count, seed):
    """A reader of `count` sentences as (ids of words, tags), the same ones every time."""
    def read():
        rng = random.Random(seed)
        for _ in range(count):
            words, tags = sentence(rng)
            yield [IDS[word] for word in words], tags
    return read
