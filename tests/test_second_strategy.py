"""What chapter 2 says of a second MirroredStrategy object, tried with ``fit``."""

import subprocess
import sys

import pytest

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
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, objects, width], capture_output=True, text=True, timeout=100
    )
    assert ran.stdout.split() == told, ran.stderr
