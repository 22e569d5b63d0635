"""The command that fleet_click.py sends its files through: "CLICK<tab>WORD WORD ..." becomes a line of slots."""

from trireme.incubate.data_generator import MultiSlotDataGenerator


class Clicks(MultiSlotDataGenerator):
    def generate_sample(self, line):
        def samples():
            click, words, weight = line.rstrip("\n").split("\t")
            yield [("words", [hash_of(word) for word in words.split()] or [0]), ("weight", [float(weight)]), ("click", [int(click)])]
        return samples


def hash_of(word):
    return int(word[1:]) + 1


if __name__ == "__main__":
    Clicks().run_from_stdin()
