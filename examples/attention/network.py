"""An encoder, and a decoder that looks at what it needs of the encoded text (Bahdanau et al., 2015).

Parameters are named: the program that trains and the one that generates have them in common.
"""

import trireme as fluid
from tasks import COUNT, END

layers = fluid.layers


def encode(given, width):
    """Return what attention finds, what it searches by, both with a row for each letter, and the decoder's first states."""
    sides = [layers.dynamic_gru(layers.embedding(given, [COUNT, 3 * width], param_attr=f"{side}.table"), width,
                                param_attr=f"{side}.w", bias_attr=f"{side}.b", is_reverse=side == "backwards")
             for side in ("forwards", "backwards")]
    found = layers.concat(sides, axis=1)
    keys = layers.fc(found, width, param_attr="key.w", bias_attr="key.b")
    whole = layers.concat([layers.sequence_last_step(sides[0]), layers.sequence_first_step(sides[1])], axis=1)
    return found, keys, layers.fc(whole, width, act="tanh", param_attr="first.w", bias_attr="first.b")


def step(letters, state, found, keys, width):
    """Return the next states, and what scores the next letters: states and what attention found."""
    query = layers.sequence_expand_as(layers.fc(state, width, param_attr="query.w", bias_attr=False), keys)
    match = layers.fc(layers.tanh(query + keys), 1, param_attr="match.w", bias_attr=False)
    weights = layers.reshape(layers.sequence_softmax(match), [-1])
    context = layers.sequence_pool(layers.elementwise_mul(found, weights, axis=0), "sum")
    gates = letters + layers.fc(context, 3 * width, param_attr="context.w", bias_attr="context.b")
    state, _, _ = layers.gru_unit(gates, state, 3 * width, param_attr="decoder.w", bias_attr="decoder.b")
    return state, layers.concat([state, context], axis=1)


def letters_of(ids, width):
    """What letters add to the gates of the decoder."""
    return layers.embedding(ids, [COUNT, 3 * width], param_attr="letters")


def scores_of(seen):
    return layers.fc(seen, COUNT, param_attr="out.w", bias_attr="out.b")


def cost(given, before, answer, width):
    """Minus the log of each answer's probability; the decoder is told the right letters so far (`before`)."""
    found, keys, first = encode(given, width)
    told = letters_of(before, width)
    rnn = layers.DynamicRNN()
    with rnn.block():
        letters = rnn.step_input(told)
        state = rnn.memory(init=first, need_reorder=True)
        after, seen = step(letters, state, rnn.static_input(found), rnn.static_input(keys), width)
        rnn.update_memory(state, after)
        rnn.output(seen)
    losses = layers.softmax_with_cross_entropy(scores_of(rnn()), answer)
    return layers.sequence_pool(losses, "sum")


def of_each_prefix(x, prefixes):
    """Repeat each text's rows for each of its prefixes, which are sequences of two levels: text, prefix before, prefix."""
    return layers.sequence_expand(layers.sequence_expand(x, prefixes, ref_level=0), prefixes, ref_level=1)


def search(given, begin, nothing, width, beam, longest):
    """Return the `beam` likeliest answers to each text, the best first, and the logs of their probabilities.

    `begin` and `nothing` are the first letter of each text, BEGIN, and its score, 0, as sequences of two levels. A prefix goes on
    as its `beam` likeliest next letters; the `beam` best of all of a text's are the next prefixes.
    """
    found, keys, first = encode(given, width)
    i, limit = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", longest)
    ids, scores, states = (layers.array_write(x, i) for x in (begin, nothing, first))
    goes_on = layers.less_than(i, limit)
    loop = layers.While(goes_on)
    with loop.block():
        last, sums = layers.array_read(ids, i), layers.array_read(scores, i)
        state = layers.sequence_expand(layers.array_read(states, i), sums)             # a row for each prefix
        found_now, keys_now = (of_each_prefix(x, sums) for x in (found, keys))
        after, seen = step(letters_of(last, width), state, found_now, keys_now, width)
        chances, letters = layers.topk(layers.softmax(scores_of(seen)), k=beam)
        totals = layers.elementwise_add(layers.log(chances), layers.reshape(sums, [-1]), axis=0)
        picked, picked_sums = layers.beam_search(last, sums, letters, layers.lod_reset(totals, sums), beam, END)
        layers.increment(i, 1, in_place=True)
        for x, array in ((picked, ids), (picked_sums, scores), (after, states)):
            layers.array_write(x, i, array)
        layers.logical_and(layers.less_than(i, limit), layers.logical_not(layers.is_empty(picked)), out=goes_on)
    return layers.beam_search_decode(ids, scores, beam, END)
