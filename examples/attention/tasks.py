"""What is to be learnt: pairs of texts, made up as they are needed, and letters as numbers."""

import calendar
import datetime
import random
import string
import zlib

BEGIN, END = 0, 1                                # of a text that is written
LETTERS = string.ascii_lowercase + string.digits + " ,.-/"
IDS = {letter: i + 2 for i, letter in enumerate(LETTERS)}
COUNT = len(LETTERS) + 2

MONTHS = [name.lower() for name in calendar.month_name]
DAYS = [name.lower() for name in calendar.day_name]
FIRST_YEAR = 1950                                # years of two digits are from 1950 to 2049
SUFFIX = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def reverse(rng):
    """A word of 3 to 20 letters, and the same from its end on."""
    word = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 20)))
    return word, word[::-1]


def dates(rng):
    """A date as somebody may write it, and as ISO 8601 has it."""
    date = datetime.date(FIRST_YEAR, 1, 1) + datetime.timedelta(days=rng.randrange(36525))
    day, month, year = date.day, MONTHS[date.month], date.year
    short, weekday, suffix = month[:3], DAYS[date.weekday()], SUFFIX.get(day, "th")
    written = rng.choice([
        f"{day} {month} {year}", f"{short} {day}, {year % 100:02d}", f"{date}", f"{day:02d}/{date.month:02d}/{year}",
        f"{day}.{date.month}.{year % 100:02d}", f"{month} {day}{suffix}, {year}", f"{weekday}, {day} {short} {year}",
        f"{day}{suffix} of {month} {year}", f"{weekday[:3]} {short} {day} {year}", f"{year}/{date.month}/{day}"])
    return written, f"{date}"


TASKS = {"reverse": reverse, "dates": dates}


def is_unseen(answer):
    """Whether a pair is for tests; a tenth of all answers are."""
    return zlib.crc32(answer.encode()) % 10 == 0


def pairs(task, seed, unseen=False):
    """Go on giving pairs to learn from, or to be tested on."""
    rng = random.Random(seed)
    while True:
        given, answer = TASKS[task](rng)
        if is_unseen(answer) == unseen:
            yield given, answer


def encode(text):
    return [IDS[letter] for letter in text]


def decode(ids):
    return "".join(LETTERS[i - 2] for i in ids if i > END)
