"""Which split for whom? One exercise, shared by the three frameworks.

Two cards: 24 GB and 10^13 operations a second each, 10^10 bytes a second between them. All numbers
are float32. Training one row takes 6 operations for each parameter of a dense network (2 forward,
4 backward); an all-reduce over two cards sends each byte of the gradients once.

A  the article's network: 101,770 parameters, Adam, a global batch of 128 rows;
   wish: this one training, sooner
B  a convolutional network: 25 million parameters, SGD with momentum, a global batch of 256 rows,
   each with 24 * 10^9 operations and 20 MB of activations; wish: this one training, sooner
C  a chain of 48 equal blocks: 2 * 10^9 parameters, Adam, a batch of 8 rows;
   wish: that it trains at all
D  20 learning rates for a network of 1 million parameters, Adam, a batch of 64 rows, 10 minutes
   each on one card; wish: all 20 results, soon

The words: "batch" (each card has a whole copy and a part of the rows), "model" (each card keeps a
part of the weights), "jobs" (each card has trainings of its own), "one device" (one card works).
"""

from typing import Any

from helpers.exercises.exercise import Exercise, MalformedError, answered

WORDS = ("batch", "model", "jobs", "one device")
RIGHT = ("one device", "batch", "model", "jobs")

# The hint for each wrong word, situation by situation.
HINTS = (
    {
        "batch": "6 operations for each parameter and row: how many microseconds of work is a "
        "step? And how many does the all-reduce of all gradients take?",
        "model": "compare the bytes of the network with the card. And while the first half of so "
        "short a step runs, what does the second card do?",
        "jobs": "count the trainings in the wish. What would the other card train?",
    },
    {
        "model": "it fits, with its activations: do the sum. Halves of a network wait for each "
        "other; which split lets both cards begin at once?",
        "jobs": "a second training beside it makes this one no sooner.",
        "one device": "how long does one card work on 256 rows? Compare half of that with the "
        "time to send all gradients once.",
    },
    {
        "batch": "there each card has a whole copy: weights, gradients and Adam's two numbers. "
        "How many bytes is that for each parameter, and for all of them?",
        "jobs": "each job needs the whole network on its card. Multiply the parameters by what "
        "Adam needs for each, and look at the 24 GB.",
        "one device": "count the bytes that one card would hold before the first row comes.",
    },
    {
        "batch": "at best it halves each of the 20 trainings, and it sends gradients in every "
        "step. Is there a way to the same end that sends nothing?",
        "model": "this network is far from filling a card, and halves wait for each other. Must "
        "anything be cut at all?",
        "one device": "one after the other, how long do they take? Nothing in one of them waits "
        "for another.",
    },
)


def judge(answer: Any) -> str | None:
    """The hint for the first situation with a wrong word; None when all four are right.

    Raises MalformedError unless the answer is four of WORDS; capitals and spaces around a word
    do not matter."""
    form = f"a list of four words, for A, B, C and D, each one of {', '.join(map(repr, WORDS))}"
    if not isinstance(answer, (list, tuple)) or len(answer) != len(RIGHT):
        raise MalformedError(form)
    words = [word.strip().lower() if isinstance(word, str) else word for word in answered(answer)]
    if not all(isinstance(word, str) and word in WORDS for word in words):
        raise MalformedError(form)
    for name, word, right, hints in zip("ABCD", words, RIGHT, HINTS, strict=True):
        if word != right:
            return f"Situation {name}: {hints[word]}"
    return None


PICK = Exercise(
    judge,
    "A: 8 microseconds of work, 41 of messages. B: 0.61 s of work, and 0.01 s of messages to halve "
    "it. C: 32 GB for a card of 24 GB, 16 GB for each half. D: nothing is sent, and 200 minutes "
    "become 100.",
)
