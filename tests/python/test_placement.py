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
    "odd rows": [Item("a", 7, 100_000), Item("b", 100_003, 52), Item("c", 50_001, 12)],
}


@pytest.mark.parametrize("servers", [1, 2, 3, 5])
@pytest.mark.parametrize("model", SKEWED)
def test_servers_hold_the_same_number_of_bytes(model, servers):
    items = SKEWED[model]
    got = loads(items, place(items, servers), servers)
    assert sum(got) == sum(item.bytes for item in items)
    assert max(got) <= 1.05 * sum(got) / servers


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
