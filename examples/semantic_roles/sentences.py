"""Sentences with several verbs, made up as they are needed, and who does what to whom: the roles of the words for one of the verbs.

Active and passive sentences, relative clauses and inversions keep the order of the words from telling the roles.
"""

import random

PEOPLE = ("the baker|the old sailor|anna|the teacher|two children|a tired doctor|the mayor|peter|the neighbours|a young singer|the "
          "cook|maria").split("|")
THINGS = "a letter|the red boat|bread|the broken window|some apples|the old piano|a long book|the garden|three chairs|the map".split("|")
PLACES = "in the harbour|at the station|after the house|in town|near the river|on the hill".split("|")
TIMES = "yesterday|in the morning|last summer|on monday|after the storm|every week".split("|")
VERBS = {"saw": "seen", "found": "found", "painted": "painted", "sold": "sold", "repaired": "repaired", "carried": "carried",
         "praised": "praised",
         "brought": "brought", "forgot": "forgotten", "drew": "drawn"}
ROLES = ("A0", "A1", "LOC", "TMP", "V")          # who does it, what it is done to, where, when, the verb
TAGS = [f"{part}-{role}" for role in ROLES for part in "BI"] + ["O"]      # begins a role, goes on, is none


def _part(text, role=None):
    """Words with their tags."""
    words = text.split()
    return [(word, "O" if role is None else f"{'I' if i else 'B'}-{role}") for i, word in enumerate(words)]


def _clause(rng, who, what, verb):
    """A clause of a verb: words with tags."""
    place = _part(rng.choice(PLACES), "LOC") if rng.random() < 0.5 else []
    time = _part(rng.choice(TIMES), "TMP") if rng.random() < 0.5 else []
    if rng.random() < 0.5:
        middle = [*_part(who, "A0"), *_part(verb, "V"), *_part(what, "A1")]
    else:
        middle = [*_part(what, "A1"), *_part("was" if rng.random() < 0.7 else "has been"), *_part(VERBS[verb], "V"), *_part("by"),
                  *_part(who, "A0")]
    return [*time, *middle, *place] if rng.random() < 0.3 else [*middle, *place, *time]


def _about(rng, who, verb):
    """A relative clause after a noun: words with tags for its own verb."""
    if rng.random() < 0.5:
        return [*_part("who"), *_part(verb, "V"), *_part(rng.choice(THINGS), "A1")]
    return [*_part("whom"), *_part(rng.choice(PEOPLE), "A0"), *_part(verb, "V")]


def sentence(rng):
    """Return (words, place of the verb that is asked for, tags). The other verb's words are O or belong to an argument."""
    who, what = rng.choice(PEOPLE), rng.choice(THINGS)
    first, second = rng.sample(sorted(VERBS), 2)
    outer = _clause(rng, who, what, first)
    at = next(i for i, (_, tag) in enumerate(outer) if tag == "B-A0") + len(who.split())
    inner = _about(rng, who, second)
    noun = [(word, "A0" if inner[0][0] == "who" else "A1") for word in who.split()]
    asks_inner = rng.random() < 0.5
    if asks_inner:
        head = [(word, "O") for word, _ in outer[:at - len(noun)]]
        named = [(word, f"{'I' if i else 'B'}-{role}") for i, (word, role) in enumerate(noun)]
        whole = [*head, *named, *inner, *((word, "O") for word, _ in outer[at:])]
    else:
        whole = [*outer[:at], *((word, "I-A0") for word, _ in inner), *outer[at:]]
    words, tags = zip(*whole)
    return list(words), tags.index("B-V"), list(tags)


WORDS = sorted({word for text in (*PEOPLE, *THINGS, *PLACES, *TIMES, *VERBS, *VERBS.values(), "was has been by who whom")
                for word in text.split()})
IDS = {word: i for i, word in enumerate(WORDS)}
PLACE = {tag: i for i, tag in enumerate(TAGS)}


def encoded(words, verb, tags):
    """Return a sample: words, the verb for each word, the words around the verb, whether a word is near it, tags; ids all of them."""
    ids = [IDS[word] for word in words]
    around = [ids[min(max(verb + i, 0), len(ids) - 1)] for i in (-1, 0, 1)]
    near = [int(abs(i - verb) <= 1) for i in range(len(ids))]
    return ids, *([one] * len(ids) for one in around), near, [PLACE[tag] for tag in tags]


def reader(count, seed):
    """A reader of `count` samples."""
    def samples():
        rng = random.Random(seed)
        for _ in range(count):
            yield encoded(*sentence(rng))
    return samples
