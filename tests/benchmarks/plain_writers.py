"""Writers of a text for the tests of kills, light enough for a child process: one atomic, one not."""

import time


def hold(number):
    return str(number) * 100_000


def write_aside(text, path):
    aside = path.with_suffix(".part")
    write_in_place(text, aside)
    aside.replace(path)


def write_in_place(text, path):
    with path.open("w") as file:
        file.write(text[1:])
        file.flush()
        time.sleep(0.02)
        file.write(text[:1])


def read(path):
    return path.read_text()


def digest(text):
    return text
