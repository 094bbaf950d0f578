"""The exercises of the TensorFlow chapter: right answers, each usual wrong one with its own hint,
nonsense. And the one about four situations, which all three frameworks share."""

import re

import pytest
from chapter_kernel import ChapterKernel
from exercise_answers import said_by

from helpers.exercises import splits
from helpers.exercises.exercise import verdict

MAIN, IN_PRACTICE = "02_tensorflow", "02_tensorflow_in_practice"
NEEDED = ["require", "devices-of-this-run", "s1-detect", "s2-data", "s2-model-define"]
NEEDED += ["s3-strategy-make", "s3-ex-two-devices-answer"]


@pytest.mark.parametrize("name", ["two-devices", "wrong-mean"])
def test_a_function_that_is_not_written_yet(name):
    assert verdict(f"tensorflow/{name}", lambda *_: ...).startswith("Not answered yet")


# --- two-devices: in a kernel, because it needs the chapter's strategy ---

LOOP = '''
def looped(make, x, y, divide_by=128):
    """The right answer as a loop of one's own."""
    with strategy.scope():
        net, optimizer = make(), keras.optimizers.SGD(0.1)
    cross_entropy = keras.losses.sparse_categorical_crossentropy

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(cross_entropy(y, net(x), from_logits=True)) / divide_by
        weights = net.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    step = tf.function(lambda x, y: strategy.run(replica_step, (x, y)))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(128).repeat(3)
    batches = strategy.experimental_distribute_dataset(batches)
    losses = [strategy.reduce("SUM", step(*batch), axis=None) for batch in batches]
    return net, [float(loss) for loss in losses]
'''
ALONE = '''
def in_the_scope_only(make, x, y):
    """Both devices have a copy, but nothing runs on the replicas."""
    with strategy.scope():
        net = make()
    for _ in range(3):
        net(x)
    return net, [0.0] * 3
'''
TWICE = "fit(tf.concat([x, x], 0), tf.concat([y, y], 0), batch_size=256"
APART = "net.weights[0].value.values[1].assign_add(tf.ones([784, 128]))\n    return"
# What becomes of a line of the worked answer, and the beginning of the hint.
WRONG = [
    ("with strategy.scope()", "if True", "All weights lie on one device"),
    ("fit(x, y, batch_size=128", TWICE, "In each step every device took all"),
    ("batch_size=128", "batch_size=64", "These are 6 passes, not 3"),
    ("fit(x, y", "fit(x[:96], y[:96]", "The rows of each step should be halved"),
    ("SGD(0.1)", "SGD(0.2)", "Each step is twice as long"),
    ("SGD(0.1)", "SGD(0.05)", "Each step is half as long"),
    ("SGD(0.1)", "SGD(0.1, momentum=0.9)", "Both devices work, but the weights are not"),
    ("return", APART, "The copies have become different networks"),
    (
        'history.history["loss"]',
        "[2 * each for each in history.history['loss']]",
        "The weights are",
    ),
    ("make()", "start()", "No row went through the network"),
]


# Not the network and three losses.
FORMS = ["3", "start()", "(start(), [])", "(start(), ['?'] * 3)", "(3, [1.0] * 3)", "([], [], [])"]


def test_two_devices():
    name = "tensorflow/two-devices"
    with ChapterKernel(MAIN) as chapter:
        chapter.run(*NEEDED)
        check, worked = (chapter.sources[f"s3-ex-two-devices-{c}"] for c in ("check", "worked"))
        assert chapter.execute(check).startswith("Not answered yet")
        assert chapter.execute(worked).startswith("Right. ")
        chapter.execute(LOOP + ALONE)
        assert chapter.execute(f"exercises.check('{name}', looped)").startswith("Right. ")
        own_rows = f"exercises.check('{name}', lambda *given: looped(*given, divide_by=64))"
        assert chapter.execute(own_rows).startswith("Not yet. Each step is twice as long")
        same = f"exercises.check('{name}', one_device_training)"
        assert chapter.execute(same).startswith("Not yet. All weights lie on one device")
        only = f"exercises.check('{name}', in_the_scope_only)"
        said = {chapter.execute(only)}
        assert next(iter(said)).startswith(
            "Not yet. Both devices have the weights, but one replica"
        )
        for old, new, hint in WRONG:
            assert old in worked
            sentence = chapter.execute(worked.replace(old, new))
            assert sentence.startswith(f"Not yet. {hint}"), (new, sentence)
            said.add(sentence)
        assert len(said) == 1 + len(WRONG)
        for form in FORMS:
            sentence = chapter.execute(f"exercises.check('{name}', lambda *_: {form})")
            assert sentence.startswith("Not yet. The answer should be a function that returns two")
        # The strategy is unharmed by all that.
        assert chapter.execute(worked).startswith("Right. ")


# --- the others need no TensorFlow ---


def test_idle_device_lines():
    sources = ChapterKernel(IN_PRACTICE).sources
    lines = re.findall(r"# (\d)$", sources["s8-ex-idle-device-script"], flags=re.MULTILINE)
    assert lines == list("123456789")
    names = {}
    exec(sources["s8-ex-idle-device-worked"].split("exercises.check")[0], names)
    worked = names["worked_idle_device"]
    said = {line: verdict("tensorflow/idle-device", line) for line in range(1, 10)}
    assert said.pop(worked).startswith("Right. ")
    assert all(sentence.startswith("Not yet. ") for sentence in said.values())
    assert len(set(said.values())) == len(said) == 8
    for line in (0, 10, 2.5, float("inf")):
        assert "a line, from 1 to 9" in verdict("tensorflow/idle-device", line)


def test_pick_a_split_worked():
    unanswered, *sums, right = said_by(IN_PRACTICE, "s8-ex-pick-a-split")
    assert unanswered.startswith("Not answered yet") and right.startswith("Right. ")
    assert len(sums) == 4


def test_pick_a_split_takes_words_as_they_are_typed():
    said = verdict("tensorflow/pick-a-split", ("One device", " batch", "MODEL", "jobs"))
    assert said.startswith("Right. ")


def test_each_wrong_split_has_its_own_hint():
    said = set()
    for place, right in enumerate(splits.RIGHT):
        for word in splits.WORDS:
            answer = [*splits.RIGHT]
            answer[place] = word
            sentence = verdict("tensorflow/pick-a-split", answer)
            assert sentence.startswith("Right. ") == (word == right)
            if word != right:
                assert sentence.startswith(f"Not yet. Situation {'ABCD'[place]}: ")
                said.add(sentence)
    assert len(said) == 12


@pytest.mark.parametrize(
    "answer", [["batch"] * 3, ["batch"] * 5, ["rows"] * 4, [1, 2, 3, 4], "jobs", [["jobs"]] * 4]
)
def test_no_four_words(answer):
    said = verdict("tensorflow/pick-a-split", answer)
    assert said.startswith("Not yet. The answer should be a list of four words")


def test_the_numbers_of_the_situations():
    said = splits.PICK.because
    work, messages = 6 * 101_770 * 128 / 1e13, 4 * 101_770 / 1e10
    assert f"A: {1e6 * work:.0f} microseconds of work, {1e6 * messages:.0f} of messages" in said
    assert work < messages
    work, message = 256 * 24e9 / 1e13, 4 * 25e6 / 1e10
    assert f"B: {work:.2f} s of work, and {message:.2f} s of messages" in said
    assert message < work / 2 and 12 * 25e6 + 256 * 20e6 < 24e9
    assert f"C: {16 * 2e9 / 1e9:.0f} GB for a card of 24 GB" in said
    assert 16 * 1e9 < 24e9 < 16 * 2e9
    assert f"{20 * 10} minutes become {20 * 10 // 2}" in said
