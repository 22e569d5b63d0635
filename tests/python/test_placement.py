"""Where the rows of parameters lie."""

import random

import pytest

from trireme.distributed.placement import Item, place


def loads(items, parts, servers):
    sizes = {item.name: item.row_bytes for item in items}
    result = [0] * servers
    for name, blocks in parts.items():
        for block in blocks:
            result[block.server] += block.rows * sizes[name]
    return result


SKEWED = {
    "one table beside small ones": [Item("table", 100_000, 64)] + [Item(f"w{i}", 64, 256) for i in range(9)],
    "vgg": [Item("fc6", 25088, 16384), Item("fc7", 4096, 16384), Item("fc8", 4096, 4000)]
           + [Item(f"conv{i}", 64 << i // 3, 576 << i // 2) for i in range(13)],
    "all small": [Item(f"b{i}", 100, 4) for i in range(400)],
    "a whole one beside large ones": [Item("norm", 1000, 1000, True), Item("a", 5000, 400), Item("b", 9000, 400)],
    "one giant and many tiny": [Item("giant", 1_000_000, 256)] + [Item(f"b{i}", 64, 4) for i in range(300)],
    "embedding and convolutions": [Item("table", 50_000, 512), Item("fc", 2048, 4000)]
           + [Item(f"c{i}", 64 * (1 + i // 4), 2304 * (1 + i // 4)) for i in range(20)] + [Item(f"b{i}", 256, 4) for i in range(40)],
    "odd rows": [Item("a", 7, 100_000), Item("b", 100_003, 52), Item("c", 50_001, 12)],
}


@pytest.mark.parametrize("servers", [1, 2, 3, 5])
@pytest.mark.parametrize("model", SKEWED)
def test_servers_hold_the_same_number_of_bytes(model, servers):
    items = SKEWED[model]
    got = loads(items, place(items, servers), servers)
    assert sum(got) == sum(item.bytes for item in items)
    assert max(got) <= 1.05 * sum(got) / servers


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 13, 16])
@pytest.mark.parametrize("model", ["vgg", "one giant and many tiny", "embedding and convolutions"])
def test_large_models_are_even_on_many_servers(model, servers):
    got = loads(SKEWED[model], place(SKEWED[model], servers), servers)
    assert max(got) <= 1.05 * sum(got) / servers and min(got) >= 0.95 * sum(got) / servers


def busiest(items, servers):
    """Return the share of the fullest server in bytes, and of the busiest in work, beside the mean."""
    by_name, parts = {item.name: item for item in items}, place(items, servers)
    work = [0] * servers
    for name, blocks in parts.items():
        for block in blocks:
            work[block.server] += by_name[name].work(block.rows)
    sizes = loads(items, parts, servers)
    return max(sizes) * servers / sum(sizes), max(work) * servers / sum(work)


UNEQUAL = {
    "one huge, 5,000 tiny": [Item("huge", 1_000_000, 256)] + [Item(f"b{i}", 64, 4) for i in range(5000)],
    "one whole, 4,000 tiny, one to be cut": [Item("norm", 1000, 1000, True), Item("fc", 50_000, 400)]
                                            + [Item(f"b{i}", 64, 4) for i in range(4000)],
    "a huge one of Adam, others of SGD": [Item("table", 100_000, 400, arrays=7), Item("fc", 50_000, 400)]
                                         + [Item(f"b{i}", 64, 4) for i in range(1000)],
    "tiny ones of Adam, others of SGD": [Item("fc", 50_000, 400)] + [Item(f"b{i}", 1 + i % 97, 4, arrays=7) for i in range(4000)],
    "narrow and deep": [Item("table", 200_000, 400)] + [Item(f"w{i}", 32, 128) for i in range(2000)],
    "wholes of seven sizes": [Item("table", 100_000, 256)] + [Item(f"w{i}", 1000, 400 * (1 + i % 7), True) for i in range(40)],
    "a language model": [Item("table", 50_000, 1024)]
                        + [Item(f"{layer}.{name}", rows, row) for layer in range(24)
                           for name, rows, row in [("qkv", 256, 3072), ("out", 256, 1024), ("up", 256, 4096), ("down", 1024, 1024),
                                                   *[(f"norm{i}", 256, 4) for i in range(8)]]],
    "vgg": SKEWED["vgg"] + [Item(f"b{i}", 64 << i // 3, 4) for i in range(13)],
}


@pytest.mark.parametrize("model", UNEQUAL)
def test_no_server_has_a_tenth_more_bytes_or_work(model):
    for servers in (2, 3, 4, 5, 7, 8, 11, 16):
        sizes, work = busiest(UNEQUAL[model], servers)
        assert sizes <= 1.10 and work <= 1.10, (servers, sizes, work)


def drawn(rng):
    """A model of anything: biases, kernels, tables, few huge rows, what must not be cut."""
    makers = [lambda name: Item(name, rng.randint(1, 4000), 4),
              lambda name: Item(name, rng.choice([64, 128, 512]), 4 * rng.choice([27, 576, 4608])),
              lambda name: Item(name, rng.randint(1000, 200_000), 4 * rng.choice([8, 64, 300])),
              lambda name: Item(name, rng.randint(1, 9), rng.randint(10**5, 10**7)),
              lambda name: Item(name, rng.randint(1, 3000), 4 * rng.randint(1, 500), True)]
    return [rng.choice(makers)(f"p{i}") for i in range(rng.randint(1, 40))]


@pytest.mark.parametrize("seed", range(300))
def test_loads_of_servers_differ_by_one_piece_at_most(seed):
    rng = random.Random(seed)
    items, servers, min_bytes = drawn(rng), rng.randint(1, 16), rng.choice([4096, 32768])
    got = loads(items, place(items, servers, min_bytes), servers)
    piece = max(2 * min_bytes, *(item.bytes if item.is_whole else item.row_bytes for item in items))
    mean = sum(got) / servers
    assert max(got) <= max(1.05 * mean, mean + piece)


def test_a_few_huge_rows_lie_on_as_many_servers():
    parts = place([Item("w", 3, 10_000_000)] + [Item(f"b{i}", 10, 100) for i in range(10)], 4)
    assert sorted(part.rows for part in parts["w"]) == [1, 1, 1]


@pytest.mark.parametrize("seed", range(30))
def test_every_row_lies_somewhere_once(seed):
    rng = random.Random(seed)
    items = [Item(f"p{i}", rng.randint(1, 3000), 4 * rng.randint(1, 500), rng.random() < 0.2)
             for i in range(rng.randint(1, 20))]
    servers = rng.randint(1, 7)
    parts = place(items, servers, min_bytes=4096)
    for item in items:
        blocks = parts[item.name]
        assert [block.begin for block in blocks] == [0, *[block.end for block in blocks[:-1]]]
        assert blocks[-1].end == item.rows
        assert all(block.rows > 0 for block in blocks)
        assert len({block.server for block in blocks}) == len(blocks)
        assert [(block.index, block.count) for block in blocks] == [(i, len(blocks)) for i in range(len(blocks))]
        if item.is_whole or item.bytes < 2 * 4096:
            assert len(blocks) == 1
        else:
            assert all(block.rows * item.row_bytes >= min(4096, item.bytes) - item.row_bytes for block in blocks)
    assert parts == place(items, servers, min_bytes=4096)


def test_a_job_without_servers_is_refused():
    with pytest.raises(ValueError, match="at least one server, got 0"):
        place([Item("w", 1, 4)], 0)
