"""What chapters 2 and 5 say of a second MirroredStrategy object, and of an optimizer made outside
the scope, tried with ``fit``."""

import subprocess
import sys

import pytest
from needs import skip_without

SCRIPT = """
import os, sys
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
from helpers import devices
pair = devices.pair("tensorflow")
import tensorflow as tf
from tensorflow import keras

first = tf.distribute.MirroredStrategy(pair.devices)
second = first if sys.argv[1] == "one object" else tf.distribute.MirroredStrategy(pair.devices)
for strategy, width in ((first, 4), (second, int(sys.argv[2]))):
    with strategy.scope():
        net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(width)])
        net.compile("sgd", "mse")
    try:
        net.fit(tf.ones([8, 3]), tf.ones([8, width]), batch_size=4, shuffle=False, verbose=0)
    except tf.errors.InvalidArgumentError as error:
        print("Shape mismatch in the collective instance" in error.message)
    else:
        print("trained")
"""


@pytest.mark.parametrize(
    ("objects", "width", "told"),
    [
        ("one object", "5", ["trained", "trained"]),
        ("two objects", "4", ["trained", "trained"]),
        ("two objects", "5", ["trained", "True"]),
    ],
)
def test_another_size_needs_the_same_object(objects, width, told):
    skip_without("tensorflow")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, objects, width], capture_output=True, text=True, timeout=100
    )
    assert ran.stdout.split() == told, ran.stderr


OUTSIDE = """
import os
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
from helpers import devices
pair = devices.pair("tensorflow")
import tensorflow as tf
from tensorflow import keras

strategy = tf.distribute.MirroredStrategy(pair.devices)
for kind in (keras.optimizers.SGD, keras.optimizers.Adam):
    outside = kind()
    with strategy.scope():
        inside = kind()
    for optimizer in (inside, outside):
        with strategy.scope():
            net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
            net.compile(optimizer, "mse")
        try:
            net.fit(tf.ones([8, 3]), tf.ones([8, 4]), batch_size=4, shuffle=False, verbose=0)
            print(int(optimizer.iterations.numpy()))
        except RuntimeError as error:
            print("Mixing different tf.distribute.Strategy objects" in str(error))
"""


def test_an_optimizer_made_outside_the_scope():
    """Two steps: what chapter 5 says in its table of traps."""
    skip_without("tensorflow")
    ran = subprocess.run([sys.executable, "-c", OUTSIDE], capture_output=True, text=True)
    assert ran.stdout.split() == ["2", "4", "2", "True"], ran.stderr
