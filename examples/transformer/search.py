"""A beam search: the best answers so far are gone on with, letter by letter."""

import numpy as np

import network
import trireme as fluid
from tasks import BEGIN, COUNT, END, decode, encode

layers = fluid.layers


def padded(texts, length):
    """Return letters [texts, length, 1], and the bias [texts, 1, 1, length] that hides what is after their ends."""
    ids = np.full((len(texts), length, 1), END, "int64")
    bias = np.full((len(texts), 1, 1, length), network.FAR, "float32")
    for i, text in enumerate(texts):
        ids[i, :len(text), 0], bias[i, ..., :len(text)] = text, 0
    return ids, bias


class Writer:
    """Rewrites texts with the parameters that the scope has: one program encodes them, another one scores the next letters."""

    def __init__(self, sizes, given, answer, beam):
        self.given, self.answer, self.beam = given, answer, beam
        self.encoder, self.decoder, self.exe = fluid.Program(), fluid.Program(), fluid.Executor(fluid.CPUPlace())
        with fluid.program_guard(self.encoder, fluid.Program()):
            bias = layers.data("bias", [1, 1, given])
            self.memory = network.encoder(layers.data("given", [given, 1], dtype="int64"), bias, given, sizes)
        with fluid.program_guard(self.decoder, fluid.Program()):
            memory, bias = layers.data("memory", [given, sizes[0]]), layers.data("bias", [1, 1, given])
            scores = network.decoder(layers.data("before", [answer, 1], dtype="int64"), memory, bias, answer, sizes)
            self.scores = layers.log(layers.softmax(scores))

    def best(self, texts):
        """Return the best answer to each text."""
        count, beam = len(texts), self.beam
        ids, bias = padded([encode(text) for text in texts], self.given)
        memory, = self.exe.run(self.encoder, feed={"given": ids, "bias": bias}, fetch_list=[self.memory])
        memory, bias = np.repeat(memory, beam, 0), np.repeat(bias, beam, 0)
        before = np.full((count * beam, self.answer, 1), BEGIN, "int64")
        total = np.tile([0.0] + [-np.inf] * (beam - 1), (count, 1))        # at first all answers of a text are the same
        ended = np.zeros((count, beam), bool)
        for place in range(self.answer):
            scores, = self.exe.run(self.decoder, feed={"before": before, "memory": memory, "bias": bias}, fetch_list=[self.scores])
            step = scores[:, place].reshape(count, beam, COUNT)
            step = np.where(ended[:, :, None], np.where(np.arange(COUNT) == END, 0.0, -np.inf), step)
            sums = (total[:, :, None] + step).reshape(count, -1)
            chosen = np.argsort(-sums, axis=1, kind="stable")[:, :beam]
            total = np.take_along_axis(sums, chosen, 1)
            origin, letter = chosen // COUNT, chosen % COUNT
            before = before[(np.arange(count)[:, None] * beam + origin).ravel()]
            if place + 1 < self.answer:
                before[:, place + 1, 0] = letter.ravel()
            ended = np.take_along_axis(ended, origin, 1) | (letter == END)
            if ended.all():
                break
        return [decode(row[1:, 0]) for row in before[::beam]]
